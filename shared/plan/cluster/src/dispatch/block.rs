//! Places many rounds of a job at once, on GPUs that it keeps from the first round to the last.
//!
//! Every round has the same tasks on the same GPUs at the same moments, one *period* after the
//! round before. A GPU may have several tasks of a round, one after another, so a job uses the
//! number of GPUs with which it ends first: many if it is alone on the cluster, only the free ones
//! if other jobs wait. GPUs that are idle while the tasks of a round wait for each other stay idle;
//! this is the price of a short plan.

use crate::Problem;
use crate::problem::shortest_round;

/// The GPUs and times of a job's tasks, the same in each of its rounds.
#[derive(Debug)]
pub(super) struct Block {
    /// When the first round begins.
    pub start: f64,
    /// Seconds between the starts of two successive rounds.
    pub period: f64,
    /// For each GPU: its number, its tasks per round, and the seconds of training and of
    /// synchronisation of one task.
    pub seats: Vec<(usize, usize, f64, f64)>,
}

impl Block {
    /// The tasks of the first round: GPU, start, end of training and of synchronisation.
    pub fn tasks(&self) -> impl Iterator<Item = (usize, f64, f64, f64)> {
        self.seats.iter().flat_map(|&(gpu, tasks, train, sync)| {
            let mut free = self.start;
            (0..tasks).map(move |_| {
                let start = free;
                free += train;
                (gpu, start, free, free + sync)
            })
        })
    }

    /// When the GPU of a seat has trained its last task of `rounds` rounds.
    pub fn until(&self, &(_, tasks, train, _): &(usize, usize, f64, f64), rounds: usize) -> f64 {
        self.start + (rounds - 1) as f64 * self.period + tasks as f64 * train
    }

    /// When `rounds` rounds are synchronised.
    pub fn end(&self, rounds: usize) -> f64 {
        self.start + rounds as f64 * self.period
    }
}

/// The block of `rounds` rounds of `tasks` tasks that ends first, on GPUs of the allowed classes,
/// if GPU m is available from `available[m]` on; `None` if there are too few GPUs.
///
/// Tries each moment at which a GPU becomes available, with all GPUs that are available then: for a
/// given set of GPUs the shortest round is known, as for a whole cluster. Then fills the fastest of
/// these GPUs first, each with all the tasks that fit into that round, which leaves the most GPUs
/// to other jobs.
pub(super) fn earliest(
    problem: &Problem,
    n: usize,
    allowed: u64,
    tasks: usize,
    rounds: usize,
    available: &[f64],
) -> Option<Block> {
    let job = &problem.jobs[n];
    if job.gang.is_some() {
        return gang(problem, n, allowed, rounds, available);
    }
    let may = |&m: &usize| {
        let g = problem.gpus[m];
        allowed >> g & 1 == 1 && job.train[g].is_finite() && available[m].is_finite()
    };
    let mut gpus: Vec<usize> = (0..available.len()).filter(may).collect();
    gpus.sort_by(|&a, &b| available[a].total_cmp(&available[b]).then(a.cmp(&b)));
    // No round of all tasks is shorter.
    let least = if tasks == job.tasks {
        job.shortest_round
    } else {
        0.0
    };
    let mut counts = vec![0; problem.classes.len()];
    let mut best: Option<(f64, f64, f64)> = None;
    for (i, &m) in gpus.iter().enumerate() {
        let start = available[m];
        counts[problem.gpus[m]] += 1;
        if best.is_some_and(|b| start + rounds as f64 * least >= b.0) {
            break;
        }
        if gpus
            .get(i + 1)
            .is_some_and(|&next| available[next] == start)
        {
            continue;
        }
        let period = shortest_round(&counts, job, tasks);
        let end = start + rounds as f64 * period;
        if best.is_none_or(|b| end < b.0) {
            best = Some((end, start, period));
        }
    }
    let (_, start, period) = best?;
    gpus.retain(|&m| available[m] <= start);
    gpus.sort_by(|&a, &b| {
        let train = |m: usize| job.train[problem.gpus[m]];
        train(a).total_cmp(&train(b)).then(a.cmp(&b))
    });
    let mut left = tasks;
    let mut seats = Vec::new();
    let mut longest = 0.0_f64;
    for gpu in gpus {
        let train = job.train[problem.gpus[gpu]];
        let sync = job.sync[problem.gpus[gpu]];
        // A task that ends late only by rounding still fits.
        let fit = ((period - sync) / train + 1e-9).floor();
        // A task that takes no time fits any number of times.
        let own = if fit < left as f64 {
            fit.max(0.0) as usize
        } else {
            left
        };
        if own > 0 {
            left -= own;
            longest = longest.max(own as f64 * train + sync);
            seats.push((gpu, own, train, sync));
        }
    }
    (left == 0).then_some(Block {
        start,
        period: longest,
        seats,
    })
}

/// A gang has each task on a GPU of its own, all at the pace of the slowest.
fn gang(
    problem: &Problem,
    n: usize,
    allowed: u64,
    rounds: usize,
    available: &[f64],
) -> Option<Block> {
    let found = problem.together_for(n, allowed, rounds, available)?;
    let (train, sync) = problem.pace(n, &found.gpus);
    let seats = found.gpus.into_iter().map(|gpu| (gpu, 1, train, sync));
    Some(Block {
        start: found.start,
        period: train + sync,
        seats: seats.collect(),
    })
}
