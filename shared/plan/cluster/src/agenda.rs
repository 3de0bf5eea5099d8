//! Follows a schedule: keeps the queue of tasks of every GPU.

mod merged;

use std::collections::{BTreeMap, BTreeSet};

use doc::JobStatus;
use units::UnitError;

use crate::lane::Lane;
use crate::live::Live;
use crate::outlook::{Names, Outlook};
use crate::search::{Budget, Decoder, Search, player};
use crate::state::{ClusterState, Priorities, share};
use crate::{Assignment, Problem, Schedule, TaskPlace};

pub use merged::followed;

/// A live cluster in which every GPU runs its tasks in the order of a schedule.
pub type Agenda = Live<Lanes>;

/// The order of tasks on every GPU.
#[derive(Debug, Clone)]
pub struct Lanes {
    /// Tasks that have not started, in planned order, by GPU.
    queues: Vec<Lane>,
    /// For a task that is planned to join another on its GPU: the task that it joins.
    beside: BTreeMap<TaskPlace, TaskPlace>,
    seed: u64,
    /// Task starts that a replan may simulate: its search budget.
    effort: u64,
}

/// A replan takes about 50 ms with this budget, which is short compared with any task that is worth
/// scheduling.
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

    /// Resumes an interrupted schedule. `done` has the end, in seconds, of every task that was
    /// completed before: all tasks of a job's complete rounds, and possibly some tasks of the round
    /// after them.
    pub fn resume(&mut self, done: &BTreeMap<TaskPlace, f64>, now: f64) {
        if done.is_empty() {
            return;
        }
        for queue in &mut self.next.queues {
            queue.remove_done(|place| done.contains_key(place));
        }
        let mut ends: Vec<(TaskPlace, f64)> = done.iter().map(|(p, at)| (*p, *at)).collect();
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
        // Tasks in training on each GPU, with the ends of their training.
        let mut there: Vec<Vec<(TaskPlace, f64)>> = vec![Vec::new(); self.next.queues.len()];
        for r in self.running.iter().filter(|r| r.training) {
            there[r.gpu].push((self.place(r), r.trained));
        }
        for (a, task) in tasks {
            let place = TaskPlace { task, ..a.place() };
            self.next.queues[a.gpu].push(&a, task);
            if self.problem.shares() {
                let there = &mut there[a.gpu];
                // An end that exceeds the start only by rounding is no overlap.
                there.retain(|&(_, end)| end > a.start * (1.0 + 1e-9));
                if let [(other, _)] = there[..] {
                    self.next.beside.insert(place, other);
                }
                there.push((place, a.trained));
            }
        }
    }

    /// Whether the task at the head of a GPU's queue may start there: the GPU is idle, or trains
    /// only the task that this one is planned to join.
    fn open_to(&self, gpu: usize, place: TaskPlace) -> bool {
        let mut there = self.training_on(gpu);
        match (there.next(), there.next()) {
            (None, _) => true,
            (Some(one), None) => self.next.beside.get(&place) == Some(&self.place(one)),
            _ => false,
        }
    }

    /// Tasks that may start now, with their GPUs. The head of a queue may start if its round is
    /// ready and its GPU is idle or trains only the task that it is planned to join.
    #[must_use]
    pub fn startable(&self, now: f64) -> Vec<(TaskPlace, usize)> {
        let usable = (0..self.next.queues.len()).filter(|&gpu| self.usable[gpu]);
        let next = usable.filter_map(|gpu| {
            let place = self.next.queues[gpu].front()?;
            let job = &self.jobs[place.job];
            let ready = job.round == place.round && job.ready <= now;
            (ready && self.open_to(gpu, place)).then_some((place, gpu))
        });
        let next: Vec<(TaskPlace, usize)> = next.collect();
        // A gang starts when all its tasks can.
        let whole = |place: TaskPlace| {
            let beside = next.iter().filter(|(p, _)| p.job == place.job).count();
            beside == self.problem.jobs[place.job].tasks
        };
        let gang = |place: TaskPlace| self.problem.jobs[place.job].gang.is_some();
        let all = next.iter().copied();
        all.filter(|&(p, _)| !gang(p) || whole(p)).collect()
    }

    /// The GPUs of a gang that is being started, in order of its task numbers; `None` if the job is
    /// not a gang.
    #[must_use]
    pub fn peers(&self, place: TaskPlace) -> Option<Vec<usize>> {
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

    /// Number of entries in the GPU's queue before the first one of a job; `None` if the queue has
    /// no entry of that job.
    #[must_use]
    pub fn next_use(&self, gpu: usize, job: usize) -> Option<usize> {
        let mut queue = self.next.queues[gpu].iter();
        queue.position(|(place, _)| place.job == job)
    }

    /// Records that the task at the head of the GPU's queue has been started.
    pub fn start(&mut self, gpu: usize, now: f64) {
        let Some(place) = self.next.queues[gpu].pop() else {
            return;
        };
        self.begin(place, gpu, now);
    }

    /// Records that a task has failed. It becomes the next task on its GPU again, or on another GPU
    /// if its own is out of use. A gang repeats the whole round, even the tasks that have ended.
    pub fn failed(&mut self, place: TaskPlace, now: f64) {
        let trained = self.underway(place).is_some_and(|r| !r.training);
        let again = self.take_back(place);
        // A task that trained beside it now has the GPU to itself.
        share(&self.problem, &mut self.running, now);
        for &(place, gpu) in &again {
            self.next.queues[gpu].push_front(place, now);
        }
        let lost = again.iter().any(|&(_, gpu)| !self.usable[gpu]);
        if self.is_gang(place.job) {
            // Moving one task to another GPU would not help: the GPUs of a gang must be free at the
            // same time.
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

    /// Moves a task that waits for a GPU to the head of another GPU's queue: of the GPUs that can
    /// run it, the one that is expected to complete it first. Returns whether there is such a GPU.
    /// Does not move a task of a gang, which has to start together with the others.
    pub fn elsewhere(&mut self, place: TaskPlace, gpu: usize, now: f64) -> bool {
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

    /// Gives up a job: removes its tasks that have not started from the queues.
    pub fn give_up(&mut self, job: usize) {
        self.abandon(job);
        for queue in &mut self.next.queues {
            queue.remove_job(job);
        }
    }

    /// Status of every job: what it runs, why it waits if it does, and when it is expected to be
    /// complete.
    ///
    /// # Errors
    /// [`UnitError`] if an expected time is out of range for a document.
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

    /// Forecast of the remaining schedule from the task times that are known now.
    fn ahead(&self, state: &ClusterState, now: f64) -> Vec<Assignment> {
        let decoder = Decoder::of(&self.problem, state);
        if self.problem.shares() || decoder == Decoder::Blocks {
            let mut out = Vec::new();
            let mut player = player(&self.problem, state, decoder);
            player.record(state, now, &self.order(), &mut out);
            return out;
        }
        self.in_order(state, now).0
    }

    /// Plays the queues from a state on, one task at a time on each GPU. Returns the assignments,
    /// and for each GPU the place in its queue at which the play stopped because nothing more could
    /// start.
    fn in_order(&self, state: &ClusterState, now: f64) -> (Vec<Assignment>, Vec<usize>) {
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
            let next: Vec<(f64, TaskPlace, usize)> = next.collect();
            // A gang can start only if all its tasks are at the heads of their queues; it starts
            // when the last of its GPUs is free.
            let seats = |n: usize| next.iter().filter(move |s| s.1.job == n);
            let whole = |s: &&(f64, TaskPlace, usize)| {
                !self.is_gang(s.1.job) || seats(s.1.job).count() == self.problem.jobs[s.1.job].tasks
            };
            let start = |s: &(f64, TaskPlace, usize)| match self.is_gang(s.1.job) {
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
            let begun: Vec<(TaskPlace, usize)> = match self.is_gang(n) {
                true => seats(n).map(|s| (s.1, s.2)).collect(),
                false => vec![(first.1, first.2)],
            };
            let gpus: Vec<usize> = begun.iter().map(|b| b.1).collect();
            let (train, sync) = self.problem.pace(n, &gpus);
            for (place, gpu) in begun {
                heads[gpu] += 1;
                free[gpu] = start + train;
                let trained = start + train;
                let synced = start + train + sync;
                out.push(Assignment::new(place, gpu, start, trained, synced));
                jobs[n].start(&self.problem.jobs[n], synced);
            }
        }
    }

    /// The jobs in the order of their next planned starts.
    fn order(&self) -> Priorities {
        let first = |n: usize| {
            let own = self
                .next
                .queues
                .iter()
                .flat_map(Lane::iter)
                .filter(|(p, _)| p.job == n);
            own.map(|(_, start)| start).fold(f64::INFINITY, f64::min)
        };
        Priorities::new(self.problem.jobs_by(first))
    }

    /// Replans the tasks that have not started; the search begins with their present order.
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
        // The tasks of a round are interchangeable: the plan gives the lowest numbers to those that
        // have started.
        let numbered: Vec<(Assignment, usize)> = planned
            .into_iter()
            .map(|a| (a, self.unstarted(&a).unwrap_or(a.task)))
            .collect();
        self.fill(numbered.into_iter());
    }

    /// The task that an assignment of a new plan stands for, if its round is under way; `None` for
    /// later rounds.
    fn unstarted(&self, a: &Assignment) -> Option<usize> {
        let job = &self.jobs[a.job];
        let problem = &self.problem.jobs[a.job];
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
    /// Names the task at which the simulation gets stuck.
    pub fn plays_out(&self) -> Result<(), String> {
        let (played, heads) = self.in_order(&ClusterState::new(&self.problem), 0.0);
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
