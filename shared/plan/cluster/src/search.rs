//! Local search over priorities of jobs and the classes that each may use.

use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::dispatch::Player;
use crate::list::{Choice, Fill, List};
use crate::problem::total;
use crate::state::{ClusterState, Priorities};
use crate::{Assignment, Problem, Schedule, merged};

/// Limits of the search.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Task starts to simulate; this limit keeps results reproducible. Each counts once more for
    /// every 60 jobs, or with [`Decoder::Holes`] for every two GPUs.
    pub starts: u64,
    /// Stop at this time, whatever remains; results may then differ from run to run.
    pub deadline: Option<Instant>,
}

impl Budget {
    pub(crate) fn over(&self, used: u64) -> bool {
        used >= self.starts || self.deadline.is_some_and(|d| Instant::now() >= d)
    }
}

/// How priorities become a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoder {
    /// Event-driven placement, by [`Player`].
    Events,
    /// Placement job by job, by [`List`], which fills holes; ignores the allowed classes.
    Holes,
    /// Placement of many rounds at once, by [`Player::in_blocks`].
    Blocks,
}

impl Decoder {
    /// [`Decoder::Blocks`] if more tasks are left than a schedule can list one by one, else
    /// [`Decoder::Events`].
    pub fn of(problem: &Problem, state: &ClusterState) -> Self {
        let jobs = problem.jobs.iter().zip(&state.jobs);
        let left = jobs.map(|(job, p)| job.rounds.saturating_sub(p.round) * job.tasks);
        match left.sum::<usize>() as u64 > doc::Schedule::MOST_TASKS {
            true => Self::Blocks,
            false => Self::Events,
        }
    }
}

/// Jobs by Smith's ratio `R D min Tc / w`, the order WSPT.
pub fn smith(problem: &Problem) -> Vec<usize> {
    problem.jobs_by(|n| problem.jobs[n].smith_ratio())
}

/// Jobs by the length of their chain divided by their weight.
pub fn shortest_chain(problem: &Problem) -> Vec<usize> {
    problem.jobs_by(|n| {
        let job = &problem.jobs[n];
        job.rounds as f64 * job.shortest_round / job.weight
    })
}

/// The player of a decoder, from a state on.
pub fn player<'p>(problem: &'p Problem, state: &ClusterState, decoder: Decoder) -> Player<'p> {
    match decoder {
        Decoder::Blocks => Player::in_blocks(problem, state),
        Decoder::Events | Decoder::Holes => Player::new(problem),
    }
}

/// The schedule that a decoder makes of priorities, from time 0 on.
pub fn decode(problem: &Problem, priorities: &Priorities, decoder: Decoder) -> Schedule {
    let mut out = Vec::new();
    let state = ClusterState::new(problem);
    match decoder {
        Decoder::Events | Decoder::Blocks => {
            player(problem, &state, decoder).record(&state, 0.0, priorities, &mut out);
        }
        Decoder::Holes => {
            let note = |a| out.push(a);
            fill_holes(problem, &state, 0.0, &priorities.order, f64::INFINITY, note);
        }
    }
    Schedule::new(problem.jobs.len(), out)
}

/// [`Decoder::Holes`] from a state on; returns the same as [`List::play`].
pub fn fill_holes(
    problem: &Problem,
    state: &ClusterState,
    now: f64,
    order: &[usize],
    cutoff: f64,
    note: impl FnMut(Assignment),
) -> f64 {
    let list = List {
        problem,
        state,
        now,
        fill: Fill::Holes,
        choice: Choice::EarliestCompletion,
    };
    list.play(list.job_by_job(order), cutoff, note)
}

/// A search for priorities.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// The problem to schedule.
    pub problem: &'a Problem,
    /// Progress of its jobs and GPUs.
    pub state: &'a ClusterState,
    /// Tasks start at this moment or later.
    pub now: f64,
    /// How priorities become a schedule.
    pub decoder: Decoder,
    /// Limits of the search.
    pub budget: Budget,
    /// Seed.
    pub seed: u64,
    /// The number of jobs at the front of the order that keep their places.
    pub fixed: usize,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The best priorities.
    pub priorities: Priorities,
    /// Their cost.
    pub cost: f64,
    /// Schedules tried.
    pub tries: u64,
}

impl Search<'_> {
    fn cost(&self, player: &mut Player<'_>, priorities: &Priorities, cutoff: f64) -> f64 {
        match self.decoder {
            Decoder::Events | Decoder::Blocks => {
                player.cost(self.state, self.now, priorities, cutoff)
            }
            Decoder::Holes => {
                let order = &priorities.order;
                fill_holes(self.problem, self.state, self.now, order, cutoff, |_| {})
            }
        }
    }

    /// Cost of a try in the budget: the remaining tasks, each at the decoder's price.
    fn price(&self) -> u64 {
        let strides = match self.decoder {
            Decoder::Blocks => merged::strides(self.problem, self.state),
            _ => vec![1; self.problem.jobs.len()],
        };
        let jobs = self.problem.jobs.iter().zip(&self.state.jobs).zip(strides);
        let left = |((job, p), stride): ((&crate::TrainingJob, &crate::JobProgress), usize)| {
            let rounds = job.rounds.saturating_sub(p.round).div_ceil(stride);
            (rounds * job.tasks).saturating_sub(p.started)
        };
        let left: usize = jobs.map(left).sum();
        left.max(1) as u64 * price(self.problem, self.decoder)
    }

    /// Places in the order whose jobs may move: jobs with rounds left to start that can be started.
    fn movable(&self, order: &[usize]) -> Vec<usize> {
        let open = |&at: &usize| {
            let n = order[at];
            let p = &self.state.jobs[n];
            p.round < self.problem.jobs[n].rounds && p.ready.is_finite()
        };
        (self.fixed..order.len()).filter(open).collect()
    }

    /// Searches the best priorities, beginning with `start`; `cost` is its cost, if known.
    ///
    /// Moves: shift a job in the order, swap two, change the classes that a job may use, or which
    /// jobs share GPUs. Simulated annealing accepts worse schedules: its temperature falls from 1.2
    /// % of the flow cost, divided by the number of movable jobs, to zero at the end of the budget
    /// (a first choice, not tuned).
    pub fn improve(&self, start: Priorities, cost: Option<f64>) -> Found {
        let problem = self.problem;
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let mut player = player(problem, self.state, self.decoder);
        let mut current = start;
        let mut cost = cost.unwrap_or_else(|| self.cost(&mut player, &current, f64::INFINITY));
        let mut best = Found {
            priorities: current.clone(),
            cost,
            tries: 1,
        };
        let price = self.price();
        let mut used = price;
        let movable = self.movable(&current.order);
        if movable.len() < 2 && problem.classes.len() < 2 || movable.is_empty() {
            return best;
        }
        // No schedule completes a job before it arrives, so only the cost above that can be reduced; the
        // temperature follows this excess, and not the clock time at which a trace happens to begin.
        let floor = problem.weighted_arrivals();
        let mut candidate = current.clone();
        while !self.budget.over(used) {
            let left = 1.0 - used as f64 / self.budget.starts as f64;
            let heat = 0.003 * left * left * (cost - floor).max(0.0) / movable.len() as f64 * 4.0;
            // Metropolis's rule in reverse: the random number is drawn first, so the simulation can stop as
            // soon as its bound reaches the largest cost that would be accepted.
            let threshold = cost - heat * rng.random::<f64>().max(1e-300).ln();
            candidate.clone_from(&current);
            mutate(problem, &mut candidate, &movable, &mut rng);
            let found = self.cost(&mut player, &candidate, threshold);
            used += price;
            best.tries += 1;
            if found < threshold {
                std::mem::swap(&mut current, &mut candidate);
                cost = found;
                if cost < best.cost {
                    best.priorities.clone_from(&current);
                    best.cost = cost;
                }
            }
        }
        best
    }
}

/// Cost of a start in a budget. Holes are searched for on every GPU. An event looks at every waiting
/// job: measured, a start costs 0.5 us at 40 jobs and 3 us at 300.
fn price(problem: &Problem, decoder: Decoder) -> u64 {
    match decoder {
        Decoder::Events | Decoder::Blocks => 1 + problem.jobs.len() as u64 / 60,
        Decoder::Holes => 1 + problem.gpus.len() as u64 / 2,
    }
}

/// One random move among the positions `movable`.
fn mutate(problem: &Problem, p: &mut Priorities, movable: &[usize], rng: &mut SmallRng) {
    let pick = |rng: &mut SmallRng| rng.random_range(0..movable.len());
    let from = pick(rng);
    // Near moves more often than far ones: a good order needs few changes. An eighth of the jobs, one far move
    // in four, and six shifts for two swaps and two changes of classes were chosen by hand, not tuned.
    let near = (movable.len() / 8).max(2);
    let reach = rng.random_range(1..=near) as isize * if rng.random() { 1 } else { -1 };
    let to = if rng.random_range(0..4) == 0 {
        pick(rng)
    } else {
        (from as isize + reach).clamp(0, movable.len() as isize - 1) as usize
    };
    let (a, b) = (movable[from], movable[to]);
    // Sharing is part of the search only if jobs may share.
    let kinds = if problem.shares() { 13 } else { 10 };
    match rng.random_range(0..kinds) {
        0..=5 => {
            let n = p.order.remove(a);
            p.order.insert(b, n);
        }
        6..=7 => p.order.swap(a, b),
        10..=11 => p.alone[p.order[a]] ^= true,
        12.. => p.weighed ^= true,
        _ => restrict(problem, p, p.order[a], rng),
    }
}

/// Changes the classes that a job may use: without its slowest, without one at random (scarce fast
/// GPUs are left to jobs that gain more by them), one class alone, or all again.
fn restrict(problem: &Problem, p: &mut Priorities, n: usize, rng: &mut SmallRng) {
    let train = &problem.jobs[n].train;
    let usable: Vec<usize> = (0..train.len()).filter(|&g| train[g].is_finite()).collect();
    let open: Vec<usize> = usable
        .iter()
        .copied()
        .filter(|g| p.allowed[n] >> g & 1 == 1)
        .collect();
    let slowest = open
        .iter()
        .copied()
        .max_by(|&a, &b| total(train[a], train[b]));
    p.allowed[n] = match (rng.random_range(0..4), slowest) {
        (0, Some(g)) if open.len() > 1 => p.allowed[n] & !(1 << g),
        (1, _) if open.len() > 1 => p.allowed[n] & !(1 << open[rng.random_range(0..open.len())]),
        (2, _) if !usable.is_empty() => 1 << usable[rng.random_range(0..usable.len())],
        _ => u64::MAX,
    };
}

/// The priorities that a schedule suggests: jobs by their first start, on the classes that they used.
pub fn suggested(problem: &Problem, schedule: &Schedule) -> Priorities {
    let mut starts = vec![f64::INFINITY; problem.jobs.len()];
    let mut allowed = vec![0; problem.jobs.len()];
    for a in &schedule.assignments {
        starts[a.job] = starts[a.job].min(a.start);
        allowed[a.job] |= 1 << problem.gpus[a.gpu];
    }
    Priorities {
        allowed,
        ..Priorities::new(problem.jobs_by(|n| starts[n]))
    }
}
