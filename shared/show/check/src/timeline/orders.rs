//! Tries every order of transfers of a small round: none may be faster than the lower bound, or than a makespan
//! that is claimed to be optimal.

use doc::{Duplex, ScheduleClass, Timeline};

use super::compute;
use crate::judge::Judge;
use crate::rates::{Rates, Set, everyone, members};
use crate::round_task::RoundTask;

/// Up to this many tasks every order is tried: `n!` orders of downloads times `n!` of uploads.
const FULL_TASKS: usize = 5;
/// Up to this many tasks every sequence of transfers on a half-duplex link is tried.
const HALF_TASKS: usize = 4;

/// Judges `lower_bound_s` and `proven` by trying all orders of the search's class, at the batch sizes of the
/// timeline.
pub fn judge(timeline: &Timeline, jobs: &[RoundTask], rates: &mut Rates, j: &mut Judge) {
    let link = timeline.plan.known_link();
    let duplex = link.map_or(Duplex::Full, |l| l.duplex);
    let best = match duplex {
        Duplex::Full if jobs.len() <= FULL_TASKS => {
            let best = best_full(timeline, jobs, rates);
            // From this class on, schedules may also run the transfers of both directions one at a time.
            let apart = timeline.proven_among >= Some(ScheduleClass::Alternating);
            match best {
                Ok(best) if apart && jobs.len() <= HALF_TASKS => {
                    best_half(timeline, jobs, rates).map(|half| best.min(half))
                }
                best => best,
            }
        }
        Duplex::Half if jobs.len() <= HALF_TASKS => best_half(timeline, jobs, rates),
        Duplex::Shared => return,
        _ => return j.unjudged("proven", "too many tasks to try every order"),
    };
    match best {
        Err(why) => j.unjudged("proven", why),
        Ok(best) => {
            let room = 1e-9 * best;
            if timeline.lower_bound.get() > best + room {
                let truth = format!("at most {best}, which an order reaches");
                j.contradiction("lower_bound_s", timeline.lower_bound.get(), truth);
            }
            if timeline.proven && timeline.makespan.get() > best + room {
                j.contradiction("proven", "true", format!("an order ends at {best}"));
            }
        }
    }
}

/// Every order of `0..n`.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..n {
        all = all
            .into_iter()
            .flat_map(|order: Vec<usize>| {
                (0..n)
                    .filter(|i| !order.contains(i))
                    .map(|i| [&order[..], &[i]].concat())
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    all
}

fn best_full(timeline: &Timeline, jobs: &[RoundTask], rates: &mut Rates) -> Result<f64, String> {
    let n = jobs.len();
    let orders = permutations(n);
    let mut best = f64::INFINITY;
    for downloads in &orders {
        let mut starts = vec![0.0; n];
        let mut clock = 0.0;
        for &i in downloads {
            clock += jobs[i].download;
            starts[i] = clock;
        }
        let ends = compute::ends(jobs, &starts, everyone(n), rates)?;
        for uploads in orders
            .iter()
            .filter(|u| !timeline.single_order || *u == downloads)
        {
            let up = |free: f64, &i: &usize| free.max(ends[i]) + jobs[i].upload;
            best = best.min(uploads.iter().fold(0.0, up));
        }
    }
    Ok(best)
}

/// A state of the enumeration: the transfers that a half-duplex link has made so far.
#[derive(Clone)]
struct Half {
    clock: f64,
    started: Set,
    starts: Vec<f64>,
    sent: Set,
}

impl Half {
    /// Whether a task that was downloaded before task `i` has not uploaded yet.
    fn waits_for_earlier(&self, i: usize) -> bool {
        members(self.started & !self.sent).any(|k| self.starts[k] < self.starts[i])
    }
}

fn best_half(timeline: &Timeline, jobs: &[RoundTask], rates: &mut Rates) -> Result<f64, String> {
    let mut open = vec![Half {
        clock: 0.0,
        started: 0,
        starts: vec![0.0; jobs.len()],
        sent: 0,
    }];
    let mut best = f64::INFINITY;
    while let Some(state) = open.pop() {
        if state.sent == everyone(jobs.len()) {
            best = best.min(state.clock);
            continue;
        }
        let ends = compute::ends(jobs, &state.starts, state.started, rates)?;
        for (i, job) in jobs.iter().enumerate() {
            let bit = 1 << i;
            if state.started & bit == 0 {
                let mut next = state.clone();
                next.clock += job.download;
                next.starts[i] = next.clock;
                next.started |= bit;
                open.push(next);
            } else if state.sent & bit == 0
                && !(timeline.single_order && state.waits_for_earlier(i))
            {
                let mut next = state.clone();
                next.clock = next.clock.max(ends[i]) + job.upload;
                next.sent |= bit;
                open.push(next);
            }
        }
    }
    Ok(best)
}
