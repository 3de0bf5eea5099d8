//! When the tasks of a plan reach their targets, and when one after another would.

use corun::{Setting, Throughput};
use doc::{Baseline, Choice, FastestSamples, Target, TaskTarget, Workload};

use super::baseline::Scheme;
use crate::error::AllocError;
use crate::part::Part;
use crate::problem::Problem;
use crate::quantities::seconds;
use crate::rates::Subset;
use crate::tolerance::INTERVAL;

/// The times to target of a plan made of `parts`, one for each GPU; `fastest` is the choice of the shortest
/// round. `None` where the objective is none of them, or a task does not advance.
pub(crate) fn target<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    problem: &Problem,
    parts: &[Part],
    baselines: &[Baseline],
    fastest: Option<Vec<Setting>>,
) -> Result<Option<Target>, AllocError> {
    if !(problem.is_progress() && problem.is_timed()) {
        return Ok(None);
    }
    let serial = baselines
        .iter()
        .find(|b| b.name == Scheme::Temporal.in_document());
    let (Some(times), Some(serial)) = (each_time(rates, problem, parts, 0.0), serial) else {
        return Ok(None);
    };
    let together = problem.joined_times(&times);
    let at = |deviations: f64| {
        let times = each_time(rates, problem, parts, deviations)?;
        Some(problem.joined_times(&times))
    };
    let mut tasks: Vec<(usize, TaskTarget)> = Vec::new();
    for part in parts {
        for (&i, setting) in part.members.iter().zip(&part.solution.settings) {
            let own = &problem.tasks[i].progress;
            let one = TaskTarget {
                id: workload.tasks[i].id.clone(),
                efficiency: own.efficiency(setting.batch),
                rounds: own.rounds_at(setting.batch),
                seconds: seconds(times[i])?,
                alone_batch: serial.tasks[i].batch,
            };
            tasks.push((i, one));
        }
    }
    tasks.sort_by_key(|(i, _)| *i);
    let fastest = fastest.and_then(|settings| {
        let length = |places: &[usize], s: &[Setting]| problem.round_of(rates, places, s, 0.0);
        let time = problem.seconds_to_target(&settings, length)?;
        Some((time, settings))
    });
    let choice = |s: &Setting| Choice {
        id: workload.tasks[s.task].id.clone(),
        batch: s.batch,
        share: s.share,
    };
    let alone = -serial.objective;
    if !alone.is_finite() {
        return Ok(None);
    }
    Ok(Some(Target {
        share: together < alone,
        together: seconds(together)?,
        // Holds may make a round longer where rates rise.
        together_low: seconds(at(INTERVAL).unwrap_or(together).min(together))?,
        together_high: at(-INTERVAL)
            .map(|high| seconds(high.max(together)))
            .transpose()?,
        one_after_another: seconds(alone)?,
        fastest_samples: fastest
            .map(|(time, settings)| {
                seconds(time).map(|seconds| FastestSamples {
                    seconds,
                    tasks: settings.iter().map(choice).collect(),
                })
            })
            .transpose()?,
        tasks: tasks.into_iter().map(|(_, one)| one).collect(),
    }))
}

/// Seconds until each task has reached its target, with rates so many standard deviations above their
/// means.
fn each_time<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    parts: &[Part],
    deviations: f64,
) -> Option<Vec<f64>> {
    let mut times = vec![0.0; problem.tasks.len()];
    for part in parts {
        let subset = Subset::new(rates, &part.members);
        let own = &part.problem;
        let mut length =
            |places: &[usize], s: &[Setting]| own.round_of(&subset, places, s, deviations);
        let each = own.times_to_target(&part.solution.settings, &mut length)?;
        for (&i, time) in part.members.iter().zip(each) {
            times[i] = time;
        }
    }
    Some(times)
}
