//! Annealing over the order of single tasks and the GPU of each, for problems of a few dozen tasks.
//!
//! Priorities of jobs cannot express every schedule: a round may be best split between a fast GPU
//! and a slow one that is idle, or a task best held back for a task of another job. A sequence of
//! tasks with their GPUs can: any schedule in which no task starts later than it could is such a
//! sequence, sorted by start.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::search::Budget;
use crate::{Assignment, Problem, Schedule, TaskPlace};

/// Puts the next task of a job on a GPU; "next" means the first that the sequence has not named
/// yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    job: usize,
    gpu: usize,
}

/// Progress of a job while a sequence is played.
#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    round: usize,
    started: usize,
    ready: f64,
    synced: f64,
}

/// Plays sequences.
struct Player<'p> {
    problem: &'p Problem,
    /// Cost of each job if it ends at the earliest end of its chain, and the sum of these costs:
    /// the lower bound from which a play rises to the real cost.
    chains: Vec<f64>,
    floor: f64,
    free: Vec<f64>,
    jobs: Vec<Standing>,
}

impl<'p> Player<'p> {
    fn new(problem: &'p Problem) -> Self {
        let chain = |job: &crate::TrainingJob| {
            job.cost_at(job.arrival + job.rounds as f64 * job.shortest_round)
        };
        let chains: Vec<f64> = problem.jobs.iter().map(chain).collect();
        Self {
            floor: chains.iter().sum(),
            chains,
            free: vec![0.0; problem.gpus.len()],
            jobs: vec![Standing::default(); problem.jobs.len()],
            problem,
        }
    }

    /// Cost of a sequence, or infinity once it is certain to reach `cutoff`; `note` gets every
    /// assignment.
    fn play(&mut self, steps: &[Step], cutoff: f64, mut note: impl FnMut(Assignment)) -> f64 {
        let problem = self.problem;
        self.free.fill(0.0);
        for (own, job) in self.jobs.iter_mut().zip(&problem.jobs) {
            *own = Standing {
                ready: job.arrival,
                ..Standing::default()
            };
        }
        let mut bound = self.floor;
        for &Step { job: n, gpu } in steps {
            let (job, own) = (&problem.jobs[n], &mut self.jobs[n]);
            let class = problem.gpus[gpu];
            let start = self.free[gpu].max(own.ready);
            let trained = start + job.train[class];
            let synced = trained + job.sync[class];
            self.free[gpu] = trained;
            let place = TaskPlace {
                job: n,
                round: own.round,
                task: own.started,
            };
            note(Assignment::new(place, gpu, start, trained, synced));
            own.synced = own.synced.max(synced);
            own.started += 1;
            if own.started == job.tasks {
                *own = Standing {
                    round: own.round + 1,
                    started: 0,
                    ready: own.synced,
                    synced: 0.0,
                };
                if own.round == job.rounds {
                    bound += job.cost_at(own.ready) - self.chains[n];
                    if bound >= cutoff {
                        return f64::INFINITY;
                    }
                }
            }
        }
        bound
    }
}

/// Tries of the first annealing run. Each run is half again as long as the one before, so that more
/// time finds better schedules, whenever the search ends.
const FIRST_TRIES: u64 = 100_000;
/// First and last temperature as fractions of the cost. Every second run starts from the best
/// schedule at a fifth of the first temperature, so that it stays near.
const HOT: f64 = 0.01;
const COLD: f64 = 1e-5;

/// A better schedule than `start`, if one is found within the budget of task starts, and the number
/// of tries. The problem must have no gangs and no sharing.
pub fn improve(
    problem: &Problem,
    start: &Schedule,
    budget: Budget,
    seed: u64,
) -> (Option<Schedule>, u64) {
    let mut assignments: Vec<&Assignment> = start.assignments.iter().collect();
    assignments.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.round.cmp(&b.round)));
    let step = |a: &&Assignment| Step {
        job: a.job,
        gpu: a.gpu,
    };
    let first: Vec<Step> = assignments.iter().map(step).collect();
    if first.len() < 2 {
        return (None, 0);
    }
    let mut player = Player::new(problem);
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut best_cost = start.cost(problem) * (1.0 - 1e-12);
    let mut best: Option<Vec<Step>> = None;
    let price = first.len() as u64;
    let (mut tries, mut length) = (0_u64, FIRST_TRIES);
    let mut trial = first.clone();
    for run in 0_u32.. {
        let (mut here, part) = match &best {
            Some(best) if run % 2 == 1 => (best.clone(), 0.2),
            _ => (first.clone(), 1.0),
        };
        let mut cost = player.play(&here, f64::INFINITY, |_| {});
        let (hot, cold) = (HOT * part * cost, COLD * cost);
        for k in 0..length {
            if tries.is_multiple_of(LOOK) && budget.over(tries.saturating_mul(price)) {
                return (best.map(|b| schedule(problem, &mut player, &b)), tries);
            }
            tries += 1;
            let heat = hot * (cold / hot).powf(k as f64 / length as f64);
            trial.copy_from_slice(&here);
            change(problem, &mut trial, &mut rng);
            // Metropolis's rule, with the random number drawn before the try, so that the try can
            // stop as soon as it is certain to be refused.
            let threshold = cost - heat * (1.0 - rng.random::<f64>()).ln();
            let found = player.play(&trial, threshold, |_| {});
            if found < threshold {
                std::mem::swap(&mut here, &mut trial);
                cost = found;
                if cost < best_cost * (1.0 - 1e-12) {
                    best_cost = cost;
                    best = Some(here.clone());
                }
            }
        }
        length += length / 2;
    }
    (None, tries)
}

/// Tries between two looks at the budget: far less than a millisecond.
const LOOK: u64 = 256;

fn schedule(problem: &Problem, player: &mut Player<'_>, steps: &[Step]) -> Schedule {
    let mut out = Vec::with_capacity(steps.len());
    player.play(steps, f64::INFINITY, |a| out.push(a));
    Schedule::new(problem.jobs.len(), out)
}

/// One random change: a step moves, two swap places or GPUs, or one takes another GPU.
fn change(problem: &Problem, steps: &mut [Step], rng: &mut SmallRng) {
    let i = rng.random_range(0..steps.len());
    let j = rng.random_range(0..steps.len());
    let suits =
        |step: Step, gpu: usize| problem.jobs[step.job].train[problem.gpus[gpu]].is_finite();
    match rng.random_range(0..6) {
        0..2 if i < j => steps[i..=j].rotate_left(1),
        0..2 => steps[j..=i].rotate_right(1),
        2 => steps.swap(i, j),
        3 => {
            let (a, b) = (steps[i].gpu, steps[j].gpu);
            if suits(steps[i], b) && suits(steps[j], a) {
                (steps[i].gpu, steps[j].gpu) = (b, a);
            }
        }
        _ => {
            let gpu = rng.random_range(0..problem.gpus.len());
            if suits(steps[i], gpu) {
                steps[i].gpu = gpu;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Decoder, decode, smith};
    use crate::state::Priorities;
    use crate::{Class, TrainingJob, exact};

    fn drawn(rng: &mut SmallRng) -> Problem {
        let gpus = rng.random_range(2..=3);
        let class = Class {
            count: 1,
            memory: f64::INFINITY,
            bus: f64::INFINITY,
        };
        let times = |rng: &mut SmallRng, least: i32, most: i32| {
            let each = (0..gpus).map(|_| f64::from(rng.random_range(least..=most)));
            each.collect::<Vec<f64>>()
        };
        let job = |_| TrainingJob {
            weight: f64::from(rng.random_range(1..=5)),
            arrival: f64::from(rng.random_range(0..=9)),
            rounds: rng.random_range(1..=2),
            tasks: rng.random_range(1..=2),
            train: times(rng, 1, 12),
            sync: times(rng, 0, 4),
            shortest_round: 0.0,
            deadline: f64::INFINITY,
            gang: None,
        };
        let jobs = (0..3).map(job).collect();
        Problem::new(vec![class; gpus], (0..gpus).collect(), jobs)
    }

    /// Compares with branch and bound: starting from a schedule of priorities, sequences find the
    /// optimum that it proves.
    #[test]
    fn sequences_find_the_optimum_of_few_tasks() {
        let mut improved = 0;
        for case in 0..40 {
            let problem = drawn(&mut SmallRng::seed_from_u64(case));
            let start = decode(&problem, &Priorities::new(smith(&problem)), Decoder::Events);
            let budget = Budget {
                starts: 2_000_000,
                deadline: None,
            };
            let (found, _) = improve(&problem, &start, budget, case);
            improved += usize::from(found.is_some());
            let found = found.unwrap_or(start);
            found.verify(&problem).unwrap();
            let best = exact(&problem, f64::INFINITY, 5_000_000, None);
            assert!(best.proven, "{case}");
            let least = best.schedule.unwrap().cost(&problem);
            let cost = found.cost(&problem);
            assert!(
                (cost - least).abs() <= 1e-9 * least,
                "{case}: {cost} not {least}"
            );
        }
        assert!(improved > 5, "{improved}");
    }
}
