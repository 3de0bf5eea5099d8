//! Lower bounds on the makespan that need no search.

use doc::{Duplex, RatesKind, Timeline};

use crate::judge::Judge;
use crate::rates::{Rates, Set, everyone, members};
use crate::round_task::RoundTask;

/// Up to this many tasks, the highest rate of a task is searched over every set of tasks.
const ENUMERATE_TASKS: usize = 10;

/// Judges the lower bound and the gap: a lower bound below an obvious one makes the gap wrong.
pub fn judge(timeline: &Timeline, jobs: &[RoundTask], rates: &mut Rates, j: &mut Judge) {
    let fastest = if timeline.rates == RatesKind::Model {
        j.unjudged(
            "lower_bound_s",
            "batch sizes may have been varied: only the bound of the transfers is recomputed",
        );
        Ok(vec![f64::INFINITY; jobs.len()])
    } else {
        fastest(jobs.len(), rates)
    };
    let fastest = match fastest {
        Ok(fastest) => fastest,
        Err(why) => return j.unjudged("lower_bound_s", why),
    };
    let link = timeline.plan.known_link();
    let duplex = link.map_or(Duplex::Full, |l| l.duplex);
    let simple = simple(jobs, &fastest, duplex);
    let claimed = timeline.lower_bound.get();
    if claimed < simple * (1.0 - 1e-9) {
        j.contradiction("lower_bound_s", claimed, format!("at least {simple}"));
    }
}

/// Highest rate of every task over all sets of tasks. With many tasks, only the task alone and all tasks together are
/// considered, since co-runners rarely speed a task up.
fn fastest(n: usize, rates: &mut Rates) -> Result<Vec<f64>, String> {
    let all = everyone(n);
    let sets: Vec<Set> = if n <= ENUMERATE_TASKS {
        (1..=all).collect()
    } else {
        (0..n).map(|i| 1 << i).chain([all]).collect()
    };
    let mut best = vec![0.0_f64; n];
    for set in sets {
        let row = rates.row(set)?;
        for i in members(set) {
            best[i] = best[i].max(row[i]);
        }
    }
    Ok(best)
}

/// Lower bound: the largest of `max(d + c + u)`, `max_S (sum_S d + min_S (c + u))` and `max_S (min_S (d + c) + sum_S
/// u)` with `c = W / max rate`. On a half-duplex link the transfers run one by one.
///
/// For a given minimum tail the largest set gives the best bound, so only prefixes of the tasks sorted by tail are
/// tried.
fn simple(jobs: &[RoundTask], fastest: &[f64], duplex: Duplex) -> f64 {
    let c: Vec<f64> = jobs
        .iter()
        .zip(fastest)
        .map(|(job, r)| job.work / r)
        .collect();
    let longest = jobs
        .iter()
        .zip(&c)
        .map(|(job, c)| job.download + c + job.upload)
        .fold(0.0, f64::max);
    let tail = |i: usize| c[i] + jobs[i].upload;
    let head = |i: usize| c[i] + jobs[i].download;
    let prefix = |rest: &dyn Fn(usize) -> f64, sum: &dyn Fn(usize) -> f64| {
        let thresholds = (0..jobs.len()).map(rest);
        thresholds
            .map(|least| {
                let inside = (0..jobs.len()).filter(|&i| rest(i) >= least);
                least + inside.map(sum).sum::<f64>()
            })
            .fold(0.0, f64::max)
    };
    let down = prefix(&tail, &|i| jobs[i].download);
    let up = prefix(&head, &|i| jobs[i].upload);
    let all: f64 = jobs.iter().map(|job| job.download + job.upload).sum();
    let one_link = if duplex == Duplex::Half { all } else { 0.0 };
    longest.max(down).max(up).max(one_link)
}
