use doc::{ConstraintKind, Infeasibility, Model};
use units::Batch;

/// Leaves a model the batch sizes of at most `most`, as if its workload listed no others: what is
/// alone at its best batch size, and what was measured, then obeys too.
///
/// Gives what stands in the way where a task has none so small; the model is then as it was.
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
