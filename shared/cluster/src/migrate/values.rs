//! Which job runs where until the next one completes: the matching of jobs and GPUs that is worth most.
//!
//! A job n on GPU m is worth `v_n / (p_nm x_n)`, with `p_nm x_n` the seconds that the rest of it takes
//! there: with `v = w` that is the weighted shortest remaining time first, on GPUs that every job finds
//! differently fast. What a job is worth is then searched: time is fluid meanwhile (a job may move at
//! any moment), so that a trial costs as many matchings as there are jobs.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::Problem;
use crate::baselines::matching::assign;

/// Operations that the trials may take, about a second. A trial takes, for each completion, a matching
/// of jobs and GPUs.
const WORK: usize = 1_000_000_000;
/// Trials at most.
const TRIALS: usize = 500;

/// What every job is worth.
#[derive(Debug, Clone)]
pub struct Values(Vec<f64>);

impl Values {
    /// The weights, improved by trials where jobs and GPUs are few enough.
    pub fn search(problem: &Problem, seed: u64) -> Self {
        let mut best = Self(problem.jobs.iter().map(|j| j.weight).collect());
        let jobs = problem.jobs.len();
        let smaller = jobs.min(problem.gpus.len());
        let trial = jobs * smaller * smaller * jobs.max(problem.gpus.len());
        let trials = (WORK / trial.max(1)).min(TRIALS);
        let mut cost = best.fluid(problem);
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..trials {
            let mut other = best.clone();
            let n = rng.random_range(0..jobs);
            // By up to a factor of e either way: neighbours in a queue often differ by less.
            other.0[n] *= rng.random_range(-1.0..1.0_f64).exp();
            let found = other.fluid(problem);
            if found < cost {
                (best, cost) = (other, found);
            }
        }
        best
    }

    /// The job of every GPU. `left` has the rounds that are left of each job, `open` who may run.
    pub fn assigned(&self, problem: &Problem, open: &[usize], left: &[f64]) -> Vec<Option<usize>> {
        let gpus = problem.gpus.len();
        let seconds = |n: usize, gpu: usize| left[n] * round(problem, n, gpu);
        let worth = |n: usize, gpu: usize| self.0[n] / seconds(n, gpu);
        let all = open.iter().flat_map(|&n| (0..gpus).map(move |m| (n, m)));
        let most = all.map(|(n, m)| worth(n, m)).fold(0.0, f64::max);
        // The matching wants at least as many columns as rows.
        let pairs: Vec<(usize, usize)> = if open.len() >= gpus {
            let columns = assign(gpus, open.len(), |gpu, i| most - worth(open[i], gpu));
            let pairs = columns.iter().enumerate();
            pairs
                .filter_map(|(gpu, i)| i.map(|i| (gpu, open[i])))
                .collect()
        } else {
            let columns = assign(open.len(), gpus, |i, gpu| most - worth(open[i], gpu));
            let pairs = columns.iter().enumerate();
            pairs
                .filter_map(|(i, gpu)| gpu.map(|gpu| (gpu, open[i])))
                .collect()
        };
        let mut out = vec![None; gpus];
        for (gpu, n) in pairs {
            if seconds(n, gpu).is_finite() {
                out[gpu] = Some(n);
            }
        }
        out
    }

    /// `sum w C` where jobs move at any moment.
    fn fluid(&self, problem: &Problem) -> f64 {
        let mut left: Vec<f64> = problem.jobs.iter().map(|j| j.rounds as f64).collect();
        let (mut now, mut cost) = (0.0_f64, 0.0);
        loop {
            let arrivals = problem.jobs.iter().map(|j| j.arrival);
            let next = arrivals.filter(|&a| a > now).fold(f64::INFINITY, f64::min);
            let here = |n: &usize| left[*n] > 0.0 && problem.jobs[*n].arrival <= now;
            let open: Vec<usize> = (0..left.len()).filter(here).collect();
            if open.is_empty() {
                if next.is_infinite() {
                    return cost;
                }
                now = next;
                continue;
            }
            let assigned = self.assigned(problem, &open, &left);
            let pairs = assigned.iter().enumerate();
            let running: Vec<(usize, f64)> = pairs
                .filter_map(|(gpu, n)| n.map(|n| (n, round(problem, n, gpu))))
                .collect();
            let ends = running.iter().map(|&(n, round)| left[n] * round);
            let span = ends.fold(next - now, f64::min);
            if span.is_infinite() {
                return f64::INFINITY;
            }
            now += span;
            for (n, round) in running {
                left[n] -= span / round;
                // What is left of the job whose end this is is rounding.
                if left[n] <= 1e-9 {
                    left[n] = 0.0;
                    cost += problem.jobs[n].weight * now;
                }
            }
        }
    }
}

/// Seconds of a round of a job on a GPU: its tasks one after another, then the last synchronisation.
pub fn round(problem: &Problem, n: usize, gpu: usize) -> f64 {
    let job = &problem.jobs[n];
    let class = problem.gpus[gpu];
    job.tasks as f64 * job.train[class] + job.sync[class]
}
