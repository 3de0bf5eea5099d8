//! Decisions of a live cluster: searches priorities, and decides what starts now.

use super::{Decision, Online};
use crate::dispatch::Player;
use crate::merged::{Rest, rest};
use crate::plan::{MATCHING_WORK, fills_holes};
use crate::search::{Budget, Decoder, Search, fill_holes, suggested};
use crate::state::{ClusterState, Priorities, Start, share};
use crate::{Assignment, Problem, TaskPlace, baselines};

/// Limits of the task starts that a search may simulate if the settings do not give a number. The
/// least takes about 0.1 s with 40 jobs: in eight draws of 300 jobs on 15 GPUs, a quarter of it took
/// 1.14 instead of 1.12 times the weighted flow time of a plan, with 95th percentiles that were 2 %
/// longer. The most is an eighth of a plan's budget, some tenths of a second.
const LEAST_EFFORT: u64 = 200_000;
const MOST_EFFORT: u64 = 500_000;
/// Schedules to try for each pair of open jobs, since a move changes one job or two. Chosen by
/// hand.
const TRIES_OF_A_PAIR: u64 = 16;
/// Simulated starts per second: a start takes 0.5 us with 40 jobs and 3 us with 300. A search may
/// take the fraction [`PART_OF_QUIET`] of the time until the next expected event, so its delay is
/// short compared with the time for which its decision holds.
const STARTS_PER_SECOND: f64 = 1e6;
const PART_OF_QUIET: f64 = 0.05;

/// Fraction of the GPUs for overdue jobs that go first. If all overdue jobs went first in a long
/// backlog, all jobs would run in order of arrival. A quarter of the GPUs suffices: with 300 jobs
/// on 15 GPUs, twice the load that these can handle, a third increased the weighted flow time by a
/// tenth.
const PART_OF_AGED: f64 = 0.25;

/// The weight of a job grows while it waits: the job that has waited longest gains this many times
/// its weight. Among jobs of similar urgency the oldest then goes first, which shortens the longest
/// waits. In eight draws of 300 jobs on 15 GPUs (seeds 640001 to 640008) the weighted flow time was
/// 1.10 times that of a plan, with a mean 95th percentile of 10,000 s; with a growth of 2 it was 1.12
/// times, with the same percentile. With fewer simulated starts, a growth of 1 took 1.11 times
/// (10,700 s), 2 took 1.14 times (10,200 s), and none, with `--aging 10`, 1.26 times (10,200 s).
/// A boost by the square of the wait, or in proportion to the remaining work, gave a longer flow
/// time at the same percentile.
const GROWTH: f64 = 1.5;
/// A job that has waited for less than this many times its shortest duration gains less weight,
/// however short the waits of the others are: without a backlog no job needs a boost.
const LONG_WAIT: f64 = 10.0;

impl Online {
    /// Number of starts that a search may simulate. It grows with the number of open jobs, since
    /// there are more orders, but is limited by the time until the next event: a decision holds
    /// only until then.
    fn effort(&self, state: &ClusterState, now: f64) -> u64 {
        if let Some(given) = self.next.settings.effort {
            return given;
        }
        let jobs = self.problem.jobs.iter().zip(&state.jobs);
        let open = jobs.filter(|(job, p)| p.round < job.rounds && p.ready.is_finite());
        let mut count = 0_u64;
        let mut left = 0_u64;
        let mut shortest = f64::INFINITY;
        for (job, p) in open {
            count += 1;
            left += ((job.rounds - p.round) * job.tasks) as u64;
            shortest = shortest.min(job.fastest());
        }
        let ends = self
            .running
            .iter()
            .filter(|r| r.training)
            .map(|r| r.trained);
        let next = ends.filter(|&t| t > now).fold(f64::INFINITY, f64::min) - now;
        let quiet = if next.is_finite() { next } else { shortest };
        let wanted = TRIES_OF_A_PAIR
            .saturating_mul(count * count)
            .saturating_mul(left);
        let affordable = (PART_OF_QUIET * STARTS_PER_SECOND * quiet) as u64;
        wanted.min(affordable).clamp(LEAST_EFFORT, MOST_EFFORT)
    }

    /// Priorities by AlloX's matching of the remaining work of the present jobs: if rounds have one
    /// task, it finds at once which jobs gain most from which GPUs, while a search finds that late.
    /// `None` if gangs or lost GPUs are involved, which it cannot model, if no job waits, or if the
    /// matching would take seconds.
    fn matched(&self, rest: &Problem, now: f64) -> Option<Priorities> {
        let there = |n: &usize| {
            let job = &self.problem.jobs[*n];
            job.arrival <= now && self.jobs[*n].round < job.rounds
        };
        let open: Vec<usize> = (0..self.jobs.len()).filter(there).collect();
        let gpus = self.usable.len();
        let foreign = self.problem.has_gangs() || self.usable.contains(&false);
        let waits = open.len() > gpus / 2 && open.len() > 1;
        if foreign || !waits || open.len().pow(3) * gpus > MATCHING_WORK {
            return None;
        }
        let left = open.iter().map(|&n| {
            let mut job = rest.jobs[n].clone();
            job.rounds -= self.jobs[n].round;
            job.arrival = 0.0;
            job
        });
        let problem = Problem::new(
            self.problem.classes.clone(),
            self.problem.gpus.clone(),
            left.collect(),
        );
        let found = suggested(&problem, &baselines::allox(&problem));
        let mut out = self.next.priorities.clone();
        let others = out.order.iter().copied().filter(|n| !there(n));
        let order = found.order.iter().map(|&i| open[i]).chain(others);
        out.order = order.collect();
        for (&n, allowed) in open.iter().zip(found.allowed) {
            out.allowed[n] = allowed;
        }
        Some(out)
    }

    /// The oldest overdue jobs that fit on the fraction [`PART_OF_AGED`] of the GPUs: they go
    /// before all others.
    fn first(&self, open: impl Fn(&usize) -> bool, now: f64) -> Vec<usize> {
        let overdue = |n: &usize| self.overdue(*n, now) && open(n);
        let mut first: Vec<usize> = (0..self.jobs.len()).filter(overdue).collect();
        let jobs = &self.problem.jobs;
        first.sort_by(|&a, &b| jobs[a].arrival.total_cmp(&jobs[b].arrival));
        let usable = self.usable.iter().filter(|usable| **usable).count();
        let mut left = (usable as f64 * PART_OF_AGED).ceil() as usize;
        let fits = |n: &usize| {
            let fits = left > 0;
            left = left.saturating_sub(jobs[*n].tasks);
            fits
        };
        first.into_iter().take_while(fits).collect()
    }

    /// The factor by which the weight of each job has grown while it waited.
    fn growth(&self, open: impl Fn(&usize) -> bool, now: f64) -> Vec<f64> {
        let jobs = &self.problem.jobs;
        if self.next.settings.aging.is_infinite() {
            return vec![1.0; jobs.len()];
        }
        let age = |n: usize| (now - jobs[n].arrival).max(0.0);
        let waiting = (0..jobs.len()).filter(open);
        let oldest = waiting.map(age).fold(0.0, f64::max);
        let factor = |n: usize| {
            let alone = jobs[n].rounds as f64 * jobs[n].shortest_round;
            let long = oldest.max(LONG_WAIT * alone);
            // A job without length needs no extra weight.
            let part = if long > 0.0 {
                (age(n) / long).min(1.0)
            } else {
                0.0
            };
            1.0 + GROWTH * part
        };
        (0..jobs.len()).map(factor).collect()
    }

    /// Searches priorities for the tasks that have not started.
    pub fn replan(&mut self, now: f64) {
        share(&self.problem, &mut self.running, now);
        let Rest { problem, state } = rest(&self.problem, self.expected(now));
        let open = |&n: &usize| state.jobs[n].round < self.problem.jobs[n].rounds;
        let aged = self.first(open, now);
        let growth = self.growth(open, now);
        let mut rest = problem.into_owned();
        for (job, factor) in rest.jobs.iter_mut().zip(&growth) {
            job.weight *= factor;
        }
        let mut player = Player::new(&rest);
        let mut best = (self.next.priorities.clone(), f64::INFINITY);
        promote(&mut best.0, &aged);
        best.1 = player.cost(&state, now, &best.0, f64::INFINITY);
        let mut consider = |mut other: Priorities| {
            promote(&mut other, &aged);
            let cost = player.cost(&state, now, &other, best.1);
            if cost < best.1 {
                best = (other, cost);
            }
            best.0.clone()
        };
        let mut by_ratio = self.next.priorities.clone();
        by_ratio.order.sort_by(|a, b| {
            let key = |n: &usize| (!open(n), self.remaining_ratio(*n) / growth[*n]);
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let mut start = consider(by_ratio);
        // A given effort measures the search alone: without a matching to start from, efforts can
        // be compared.
        let seeded = self.next.settings.effort.is_none();
        if let Some(matched) = seeded.then(|| self.matched(&rest, now)).flatten() {
            start = consider(matched);
        }
        if self.problem.shares() {
            // More starting points of the search: all jobs share, regardless of the weights or by
            // them, or none does.
            for (alone, weighed) in [(false, false), (false, true), (true, true)] {
                start.alone.fill(alone);
                start.weighed = weighed;
                start = consider(start);
            }
        }
        let cost = best.1;
        self.next.settings.seed = self.next.settings.seed.wrapping_add(1);
        let search = Search {
            problem: &rest,
            state: &state,
            now,
            decoder: Decoder::Events,
            budget: Budget {
                starts: self.effort(&state, now),
                deadline: None,
            },
            seed: self.next.settings.seed,
            fixed: aged.len(),
        };
        let found = search.improve(start, Some(cost)).priorities;
        if self.fills_holes() {
            let mut kept = self.next.filling.clone();
            promote(&mut kept, &aged);
            self.next.filling = improve_filling(search, [kept, found.clone()]);
        }
        self.next.priorities = found;
    }

    /// Whether to search the placement job by job as well.
    fn fills_holes(&self) -> bool {
        !self.problem.shares() && fills_holes(self.open_tasks(), self.usable.len())
    }

    /// The placement job by job; `None` unless it costs less than the event-driven one.
    ///
    /// The event-driven placement keeps a GPU idle only for a task that is already waiting for it,
    /// so a short job of low priority may delay the next round of an urgent one. The placement job
    /// by job keeps the GPU for that round, and starts the short job only where it ends before.
    fn filled(&self, state: &ClusterState, now: f64) -> Option<Vec<Assignment>> {
        if !self.fills_holes() {
            return None;
        }
        let by_events =
            Player::new(&self.problem).cost(state, now, &self.next.priorities, f64::INFINITY);
        let mut out = Vec::new();
        let order = &self.next.filling.order;
        let cost = fill_holes(&self.problem, state, now, order, by_events, |a| out.push(a));
        (cost < by_events).then_some(out)
    }

    /// The assignments expected from now on, if no other job arrives.
    pub(super) fn forecast(&self, rest: &Rest<'_>, now: f64) -> Vec<Assignment> {
        self.filled(&rest.state, now).unwrap_or_else(|| {
            let mut out = Vec::new();
            Player::new(&rest.problem).record(&rest.state, now, &self.next.priorities, &mut out);
            out
        })
    }

    /// Decides which tasks start now; they then count as started.
    pub fn decide(&mut self, now: f64) -> Vec<Decision> {
        // A task whose neighbour has ended now has the GPU to itself.
        share(&self.problem, &mut self.running, now);
        let state = self.expected(now);
        let starts: Vec<Start> = match self.filled(&state, now) {
            Some(placed) => {
                let due = placed.into_iter().filter(|a| a.start <= now);
                due.map(|a| Start {
                    job: a.job,
                    gpu: a.gpu,
                })
                .collect()
            }
            None => Player::new(&self.problem)
                .decide(&state, now, &self.next.priorities)
                .to_vec(),
        };
        let mut out = Vec::with_capacity(starts.len());
        for &Start { job: n, gpu } in &starts {
            let job = &self.jobs[n];
            let Some(&task) = job.left.last() else {
                continue;
            };
            let round = job.round;
            let place = TaskPlace {
                job: n,
                round,
                task,
            };
            self.begin(place, gpu, now);
            out.push(Decision { place, gpu });
        }
        out
    }
}

/// Moves the jobs `first`, in this order, before all others.
fn promote(priorities: &mut Priorities, first: &[usize]) {
    let others = priorities.order.iter().filter(|n| !first.contains(n));
    priorities.order = first.iter().chain(others).copied().collect();
}

/// Searches priorities for the placement job by job, starting from the better of two.
fn improve_filling(search: Search<'_>, starts: [Priorities; 2]) -> Priorities {
    let search = Search {
        decoder: Decoder::Holes,
        ..search
    };
    let problem = search.problem;
    let state = search.state;
    let now = search.now;
    let cost = |p: &Priorities| fill_holes(problem, state, now, &p.order, f64::INFINITY, |_| {});
    let [kept, new] = starts;
    let (old, other) = (cost(&kept), cost(&new));
    let start = if other < old { new } else { kept };
    search.improve(start, Some(old.min(other))).priorities
}
