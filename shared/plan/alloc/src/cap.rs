use doc::{ConstraintKind, Infeasibility, Model};
use units::Batch;

/// Restricts a model to batch sizes of at most `most`, as if its workload listed no others; solo baselines and
/// measured co-runs are restricted, too.
///
/// Returns the reason if some task has no batch size that small; the model is then unchanged.
pub(crate) fn cap(model: &mut Model, most: Batch) -> Option<Infeasibility> {
    let tasks = &mut model.workload.tasks;
    let least = |t: &doc::Task| t.batch_sizes.iter().min().copied();
    let needed = tasks.iter().filter_map(least).max()?;
    if needed > most {
        return Some(Infeasibility {
            constraint: ConstraintKind::Batch,
            limit: most.as_f64(),
            best: needed.as_f64(),
            advice: format!(
                "a batch size of at least {needed} must be allowed (--max-batch): some task has no smaller one"
            ),
        });
    }
    for task in tasks {
        task.batch_sizes.retain(|b| *b <= most);
    }
    let within = |c: &doc::Corun| c.tasks.iter().all(|t| t.batch <= most);
    model.measured.retain(within);
    None
}
