//! A schedule that is followed: what is next on every GPU.

mod merged;

use std::collections::{BTreeMap, BTreeSet};

use doc::JobStatus;
use units::UnitError;

use crate::lane::Lane;
use crate::live::Live;
use crate::outlook::{Names, Outlook};
use crate::search::{Budget, Decoder, Search, player};
use crate::state::{Priorities, State, share};
use crate::{Assignment, Place, Problem, Schedule};

pub use merged::followed;

/// A live cluster on which every GPU has its tasks in the order of a schedule.
pub type Agenda = Live<Lanes>;

/// The order of tasks on every GPU.
#[derive(Debug, Clone)]
pub struct Lanes {
    /// Planned order of what has not started.
    queues: Vec<Lane>,
    /// The task that is planned to train on the GPU when another joins it there.
    beside: BTreeMap<Place, Place>,
    seed: u64,
    /// Starts of tasks that a new plan may simulate.
    effort: u64,
}

/// About 50 ms for a new plan: short against a task that is worth scheduling.
const REPLAN_EFFORT: u64 = 100_000;

impl Agenda {
    /// The agenda of a feasible schedule of `problem`.
    #[must_use]
    pub fn new(problem: Problem, schedule: &Schedule, seed: u64) -> Self {
        let lanes = Lanes {
            queues: vec![Lane::default(); problem.gpus.len()],
            beside: BTreeMap::new(),
            seed,
            effort: REPLAN_EFFORT,
        };
        let mut agenda = Self::idle(problem, lanes);
        agenda.fill(schedule.assignments.iter().map(|a| (*a, a.task)));
        agenda
    }

    /// Goes on after tasks that were done before, each with the second of its end: whole rounds of a job, and
    /// single tasks of the round after them.
    pub fn resume(&mut self, done: &BTreeMap<Place, f64>, now: f64) {
        if done.is_empty() {
            return;
        }
        for queue in &mut self.next.queues {
            queue.remove_done(|place| done.contains_key(place));
        }
        let mut ends: Vec<(Place, f64)> = done.iter().map(|(p, at)| (*p, *at)).collect();
        // A round is ready when the last task of the previous one has ended.
        ends.sort_by(|(p, a), (q, b)| (p.job, p.round).cmp(&(q.job, q.round)).then(a.total_cmp(b)));
        for (place, at) in ends {
            self.jobs[place.job].left.retain(|&t| t != place.task);
            self.end_round(place.job, at);
        }
        self.replan(now);
    }

    /// Puts tasks into the queues, in order of their starts.
    fn fill(&mut self, tasks: impl Iterator<Item = (Assignment, usize)>) {
        for queue in &mut self.next.queues {
            queue.clear();
        }
        self.next.beside.clear();
        // What trains on each GPU, and until when.
        let mut there: Vec<Vec<(Place, f64)>> = vec![Vec::new(); self.next.queues.len()];
        for r in self.running.iter().filter(|r| r.training) {
            there[r.gpu].push((self.place(r), r.trained));
        }
        for (a, task) in tasks {
            let place = Place { task, ..a.place() };
            self.next.queues[a.gpu].push(&a, task);
            if self.problem.shares() {
                let there = &mut there[a.gpu];
                // An end that exceeds the start only by rounding does not overlap it.
                there.retain(|&(_, end)| end > a.start * (1.0 + 1e-9));
                if let [(other, _)] = there[..] {
                    self.next.beside.insert(place, other);
                }
                there.push((place, a.trained));
            }
        }
    }

    /// Whether a GPU is open to the task at the head of its queue: idle, or with the one task beside which it
    /// is planned to start.
    fn open_to(&self, gpu: usize, place: Place) -> bool {
        let mut there = self.training_on(gpu);
        match (there.next(), there.next()) {
            (None, _) => true,
            (Some(one), None) => self.next.beside.get(&place) == Some(&self.place(one)),
            _ => false,
        }
    }

    /// Tasks that may start now, with their GPUs: the next of each GPU that is open to it, if its round is ready.
    #[must_use]
    pub fn startable(&self, now: f64) -> Vec<(Place, usize)> {
        let usable = (0..self.next.queues.len()).filter(|&gpu| self.usable[gpu]);
        let next = usable.filter_map(|gpu| {
            let place = self.next.queues[gpu].front()?;
            let job = &self.jobs[place.job];
            let ready = job.round == place.round && job.ready <= now;
            (ready && self.open_to(gpu, place)).then_some((place, gpu))
        });
        let next: Vec<(Place, usize)> = next.collect();
        // A gang starts when all its tasks can.
        let whole = |place: Place| {
            let beside = next.iter().filter(|(p, _)| p.job == place.job).count();
            beside == self.problem.jobs[place.job].tasks
        };
        let gang = |place: Place| self.problem.jobs[place.job].gang.is_some();
        let all = next.iter().copied();
        all.filter(|&(p, _)| !gang(p) || whole(p)).collect()
    }

    /// The GPUs of a gang that is being started, by the number of the task; none of another job.
    #[must_use]
    pub fn peers(&self, place: Place) -> Option<Vec<usize>> {
        let job = &self.jobs[place.job];
        let planned = (0..self.next.queues.len()).filter_map(|gpu| {
            let p = self.next.queues[gpu].front()?;
            let own = (p.job, p.round) == (place.job, place.round);
            own.then_some((p.task, gpu))
        });
        let mut all: Vec<(usize, usize)> = job.seats.iter().copied().chain(planned).collect();
        all.sort_unstable();
        let gpus = all.into_iter().map(|s| s.1);
        self.is_gang(place.job).then(|| gpus.collect())
    }

    /// How many tasks the GPU runs before the next one of a job; `None`: it has none of it.
    #[must_use]
    pub fn next_use(&self, gpu: usize, job: usize) -> Option<usize> {
        let mut queue = self.next.queues[gpu].iter();
        queue.position(|(place, _)| place.job == job)
    }

    /// The task at the head of the GPU's queue has been started.
    pub fn start(&mut self, gpu: usize, now: f64) {
        let Some(place) = self.next.queues[gpu].pop() else {
            return;
        };
        self.begin(place, gpu, now);
    }

    /// A task has failed: it is next on its GPU again, or on another if its GPU is out. For a gang the
    /// whole round is, whichever of its tasks have ended.
    pub fn failed(&mut self, place: Place, now: f64) {
        let trained = self.underway(place).is_some_and(|r| !r.training);
        let again = self.take_back(place);
        // Whoever trained beside it has the GPU to itself.
        share(&self.problem, &mut self.running, now);
        for &(place, gpu) in &again {
            self.next.queues[gpu].push_front(place, now);
        }
        let lost = again.iter().any(|&(_, gpu)| !self.usable[gpu]);
        if self.is_gang(place.job) {
            // Another GPU alone would not help: it has to be free at the same time as the others.
            if lost {
                self.replan(now);
            }
            return;
        }
        let Some(&(_, gpu)) = again.first() else {
            return;
        };
        let other = self.training_on(gpu).next().map(|r| self.place(r));
        if lost {
            self.elsewhere(place, gpu, now);
        } else if let Some(other) = other.filter(|_| !trained) {
            // It starts again beside the task that it left.
            self.next.beside.insert(place, other);
        }
    }

    /// Moves a task that waits for a GPU to the head of another that can run it, the one that is expected
    /// to complete it first; returns whether there is one. A gang's task is not moved: it has to start
    /// with the others.
    pub fn elsewhere(&mut self, place: Place, gpu: usize, now: f64) -> bool {
        if self.is_gang(place.job) {
            return false;
        }
        let free = self.expected(now).free;
        let job = &self.problem.jobs[place.job];
        let end = |m: &usize| {
            let class = self.problem.gpus[*m];
            free[*m] + job.train[class] + job.sync[class]
        };
        let others = (0..free.len()).filter(|&m| m != gpu && end(&m).is_finite());
        let Some(other) = others.min_by(|a, b| end(a).total_cmp(&end(b))) else {
            return false;
        };
        for queue in &mut self.next.queues {
            queue.remove(place);
        }
        self.next.beside.remove(&place);
        self.next.queues[other].push_front(place, now);
        true
    }

    /// Removes a job: its tasks that have not started never will.
    pub fn give_up(&mut self, job: usize) {
        self.abandon(job);
        for queue in &mut self.next.queues {
            queue.remove_job(job);
        }
    }

    /// What runs, what waits and why, and when each job is expected to be complete.
    ///
    /// # Errors
    /// A moment that cannot be written.
    pub fn outlook(&self, now: f64, names: &Names<'_>) -> Result<Vec<JobStatus>, UnitError> {
        let state = self.expected(now);
        let future = self.ahead(&state, now);
        let outlook = Outlook {
            live: self,
            state: &state,
            planned: &self.problem,
            future: &future,
            now,
        };
        outlook.statuses(names)
    }

    /// Forecast of the queues with the times known now.
    fn ahead(&self, state: &State, now: f64) -> Vec<Assignment> {
        let decoder = Decoder::of(&self.problem, state);
        if self.problem.shares() || decoder == Decoder::Blocks {
            let mut out = Vec::new();
            let mut player = player(&self.problem, state, decoder);
            player.record(state, now, &self.order(), &mut out);
            return out;
        }
        self.in_order(state, now).0
    }

    /// The queues from a state on, each task one after another, and which task of each GPU is next when none can start.
    fn in_order(&self, state: &State, now: f64) -> (Vec<Assignment>, Vec<usize>) {
        let mut free: Vec<f64> = state.free.iter().map(|f| f.max(now)).collect();
        let mut jobs = state.jobs.clone();
        let mut heads = vec![0; self.next.queues.len()];
        let mut out = Vec::new();
        loop {
            let next = (0..heads.len()).filter_map(|gpu| {
                let place = self.next.queues[gpu].get(heads[gpu])?;
                let job = &jobs[place.job];
                let start = free[gpu].max(job.ready);
                let can = job.round == place.round && start.is_finite();
                can.then_some((start, place, gpu))
            });
            let next: Vec<(f64, Place, usize)> = next.collect();
            // For a gang all tasks have to be next, and it starts when the last of its GPUs is
            // free.
            let seats = |n: usize| next.iter().filter(move |s| s.1.job == n);
            let whole = |s: &&(f64, Place, usize)| {
                !self.is_gang(s.1.job) || seats(s.1.job).count() == self.problem.jobs[s.1.job].tasks
            };
            let start = |s: &(f64, Place, usize)| match self.is_gang(s.1.job) {
                true => seats(s.1.job).map(|s| s.0).fold(0.0, f64::max),
                false => s.0,
            };
            let first = next
                .iter()
                .filter(whole)
                .min_by(|a, b| start(a).total_cmp(&start(b)));
            let Some(first) = first else {
                return (out, heads);
            };
            let (start, n) = (start(first), first.1.job);
            let begun: Vec<(Place, usize)> = match self.is_gang(n) {
                true => seats(n).map(|s| (s.1, s.2)).collect(),
                false => vec![(first.1, first.2)],
            };
            let gpus: Vec<usize> = begun.iter().map(|b| b.1).collect();
            let (train, sync) = self.problem.pace(n, &gpus);
            for (place, gpu) in begun {
                heads[gpu] += 1;
                free[gpu] = start + train;
                let (trained, synced) = (start + train, start + train + sync);
                out.push(Assignment::new(place, gpu, (start, trained, synced)));
                jobs[n].start(&self.problem.jobs[n], synced);
            }
        }
    }

    /// The jobs in the order in which they are planned to go on.
    fn order(&self) -> Priorities {
        let first = |n: usize| {
            let own = self.next.queues.iter().flat_map(Lane::iter);
            let own = own.filter(|(p, _)| p.job == n);
            own.map(|(_, start)| start).fold(f64::INFINITY, f64::min)
        };
        Priorities::new(self.problem.jobs_by(first))
    }

    /// Plans again what has not started, from the order that it has now.
    pub fn replan(&mut self, now: f64) {
        share(&self.problem, &mut self.running, now);
        let state = self.expected(now);
        let priorities = self.order();
        self.next.seed = self.next.seed.wrapping_add(1);
        let budget = Budget {
            starts: self.next.effort,
            deadline: None,
        };
        let search = Search {
            problem: &self.problem,
            state: &state,
            now,
            decoder: Decoder::of(&self.problem, &state),
            budget,
            seed: self.next.seed,
            fixed: 0,
        };
        let better = search.improve(priorities, None).priorities;
        let mut planned = Vec::new();
        player(&self.problem, &state, search.decoder).record(&state, now, &better, &mut planned);
        // The tasks of a round are alike: the plan counts those that have started first.
        let numbered: Vec<(Assignment, usize)> = planned
            .into_iter()
            .map(|a| (a, self.unstarted(&a).unwrap_or(a.task)))
            .collect();
        self.fill(numbered.into_iter());
    }

    /// The task of a round under way that an assignment of a new plan stands for.
    fn unstarted(&self, a: &Assignment) -> Option<usize> {
        let (job, problem) = (&self.jobs[a.job], &self.problem.jobs[a.job]);
        if a.round != job.round {
            return None;
        }
        let before = problem.tasks - job.left.len();
        let mut open = (0..problem.tasks).filter(|t| job.left.contains(t));
        open.nth(a.task.checked_sub(before)?)
    }

    /// Simulates the queues with the planned times, so that a document whose order cannot be
    /// followed (a task twice, a round before its predecessor) is refused before anything starts.
    ///
    /// # Errors
    /// The task at which it gets stuck.
    pub fn plays_out(&self) -> Result<(), String> {
        let (played, heads) = self.in_order(&State::new(&self.problem), 0.0);
        let mut done = BTreeSet::new();
        let twice = |a: &&Assignment| !done.insert((a.job, a.round, a.task));
        if let Some(a) = played.iter().find(twice) {
            return Err(format!("a task of job {} is there twice", a.job));
        }
        if played.len() == self.problem.volume() {
            return Ok(());
        }
        let mut left = self.next.queues.iter().zip(heads);
        Err(match left.find_map(|(queue, at)| queue.get(at)) {
            Some(p) => format!("round {} of job {} never becomes ready", p.round, p.job),
            None => "tasks are missing".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
