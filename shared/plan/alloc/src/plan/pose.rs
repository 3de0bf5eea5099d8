//! The problem that a request poses for a workload.

use doc::{ConstraintKind, Infeasibility, Model, Plan, Workload};
use units::corun::{Setting, Throughput};
use units::{Batch, Samples};

use crate::plan::request::Request;
use crate::problem::Problem;

pub(crate) fn pose<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    request: &Request,
) -> Problem {
    Problem::of_workload(rates, workload, request.objective, request.limits.clone())
}

/// Replaces the data volumes by damped ones ([`damped_load`]) and returns them.
pub(crate) fn damp(
    workload: &Workload,
    problem: &mut Problem,
    previous: Option<&Plan>,
    lambda: f64,
) -> Vec<Option<Samples>> {
    let before = |i: usize| {
        let plan = previous?;
        let task = &plan.tasks[plan.task_index(&workload.tasks[i].id)?];
        task.load.or(task.samples)
    };
    for (i, task) in problem.tasks.iter_mut().enumerate() {
        task.samples = task.samples.map(|now| damped_load(before(i), now, lambda));
    }
    problem.tasks.iter().map(|t| t.samples).collect()
}

/// The load used for the mismatch, damped over rounds so that a spike of data does not make the batch sizes
/// oscillate: `lambda L_before + (1 - lambda) D_now`, rounded to whole samples. `lambda` is in `[0, 1)`; 0 means
/// no memory. Without a previous load, the current one is returned.
fn damped_load(before: Option<Samples>, now: Samples, lambda: f64) -> Samples {
    let Some(before) = before else {
        return now;
    };
    let mean = lambda * before.as_f64() + (1.0 - lambda) * now.as_f64();
    // The mean of two valid counts is valid; the fallback is never used.
    Samples::new(mean.round().max(1.0) as u64).unwrap_or(now)
}

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

/// Seconds until the targets of a workload are reached, as the objective of the request combines them. `settings` has
/// a choice for every task, in the order of the workload. `None` if that objective is not a time to target, a task
/// makes no progress, or there are several GPUs (a choice does not say which task is on which).
pub fn time_to_target<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    request: &Request,
    settings: &[Setting],
) -> Option<f64> {
    let problem = pose(rates, workload, request);
    if !(problem.is_progress() && problem.is_timed()) || workload.device.gpus != 1 {
        return None;
    }
    problem.seconds_to_target(settings, |places, s| {
        problem.round_of(rates, places, s, 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(v: u64) -> Samples {
        Samples::new(v).unwrap()
    }

    #[test]
    fn a_spike_is_halved_each_round() {
        assert_eq!(damped_load(None, s(100), 0.5), s(100));
        assert_eq!(damped_load(Some(s(100)), s(900), 0.5), s(500));
        assert_eq!(damped_load(Some(s(500)), s(100), 0.5), s(300));
    }

    #[test]
    fn a_steady_load_is_reached() {
        let mut load = s(1000);
        for _ in 0..60 {
            load = damped_load(Some(load), s(200), 0.8);
        }
        assert!(load.get() <= 203, "{load:?}");
        assert_eq!(damped_load(Some(s(7)), s(3), 0.0), s(3));
    }
}
