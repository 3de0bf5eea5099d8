//! A running cluster: its known state, and how events change it.
//!
//! It starts no process and reads no clock: its user runs the tasks, and reports what has happened
//! and when. Priorities ([`crate::Online`]) or a schedule ([`crate::Agenda`]) decide what starts
//! next.

use std::fmt::Debug;

use crate::state::{ClusterState, Standing, Underway, retime, share};
use crate::{Problem, TaskPlace, TrainingJob};

/// Progress of a live job.
#[derive(Debug, Clone)]
pub(crate) struct LiveJob {
    /// Present round; the number of its rounds once it is complete or abandoned.
    pub round: usize,
    /// When that round became ready; for the first round, the job's arrival.
    pub ready: f64,
    /// Tasks of the present round that have not been started; the next one is last.
    pub left: Vec<usize>,
    /// Tasks of the present round that have been started, with their GPUs.
    pub seats: Vec<(usize, usize)>,
    /// When it was complete.
    pub completed: Option<f64>,
    /// Rounds that were complete when it was abandoned.
    pub abandoned: Option<usize>,
}

impl LiveJob {
    /// A job of which no task has started.
    pub fn new(job: &TrainingJob) -> Self {
        Self {
            round: 0,
            ready: job.arrival,
            left: (0..job.tasks).rev().collect(),
            seats: Vec::new(),
            completed: None,
            abandoned: None,
        }
    }
}

/// How far durations of tasks have deviated from expectations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deviations {
    tasks: f64,
    /// Sum of squared logarithms of measured over expected.
    squares: f64,
}

/// Prior standard deviation of the logarithm of durations, and the number of tasks that it counts
/// for: the error of an estimate from a profile is seldom below a tenth and seldom above a third.
/// Chosen by hand.
const ASSUMED: f64 = 0.2;
const ASSUMED_TASKS: f64 = 4.0;

/// A normal variable is below this many standard deviations in 95 of 100 cases.
const NINETEEN_OF_TWENTY: f64 = 1.645;

impl Deviations {
    /// Records that a task's training ended at `now`, compared with its expected end.
    fn note(&mut self, task: &Underway, now: f64) {
        let expected = task.trained - task.started;
        let measured = now - task.started;
        if expected > 0.0 && measured > 0.0 {
            self.tasks += 1.0;
            self.squares += (measured / expected).ln().powi(2);
        }
    }

    /// The rest of a job takes at most this factor times the expected time in 19 of 20 cases, and
    /// at least the expected time divided by this factor in 19 of 20 cases.
    ///
    /// Assumes that all its tasks deviate alike. That is right where the estimate is wrong for a
    /// whole job; where tasks deviate independently by chance, the range is too wide.
    pub fn factor(&self) -> f64 {
        let squares = ASSUMED_TASKS * ASSUMED * ASSUMED + self.squares;
        let spread = (squares / (ASSUMED_TASKS + self.tasks)).sqrt();
        (NINETEEN_OF_TWENTY * spread).exp()
    }
}

/// The cluster as known now, and the rule `next` that decides which task starts next. Times are
/// seconds since the start.
#[derive(Debug, Clone)]
pub struct Live<N> {
    pub(crate) problem: Problem,
    pub(crate) jobs: Vec<LiveJob>,
    pub(crate) running: Vec<Underway>,
    /// GPUs that may be used: one that failed may not.
    pub(crate) usable: Vec<bool>,
    pub(crate) deviations: Deviations,
    pub(crate) next: N,
}

impl<N> Live<N> {
    /// A cluster on which nothing has started.
    pub(crate) fn idle(problem: Problem, next: N) -> Self {
        Self {
            jobs: problem.jobs.iter().map(LiveJob::new).collect(),
            running: Vec::new(),
            usable: vec![true; problem.gpus.len()],
            problem,
            deviations: Deviations::default(),
            next,
        }
    }

    /// The part of the problem that is known.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    fn find(&self, place: TaskPlace) -> Option<usize> {
        // Only the present round of a job is under way.
        let own = |r: &Underway| (r.job, r.task) == (place.job, place.task);
        self.running.iter().position(own)
    }

    /// A task of a job's present round that has been started and is not synchronised.
    pub fn underway(&self, place: TaskPlace) -> Option<&Underway> {
        self.find(place).map(|i| &self.running[i])
    }

    /// All tasks under way: in training or synchronising.
    pub fn running(&self) -> &[Underway] {
        &self.running
    }

    /// The tasks that train on a GPU.
    pub fn training_on(&self, gpu: usize) -> impl Iterator<Item = &Underway> {
        let here = move |r: &&Underway| r.gpu == gpu && r.training;
        self.running.iter().filter(here)
    }

    /// Current round of a job; the number of its rounds once it is complete or abandoned.
    pub fn round(&self, n: usize) -> usize {
        self.jobs[n].round
    }

    /// Whether a job is neither complete nor abandoned.
    pub fn is_open(&self, n: usize) -> bool {
        self.jobs[n].round < self.problem.jobs[n].rounds
    }

    /// Whether the tasks of a job's round run at the same time.
    pub fn is_gang(&self, n: usize) -> bool {
        self.problem.jobs[n].gang.is_some()
    }

    /// Job, round and task number of a task under way.
    pub fn place(&self, task: &Underway) -> TaskPlace {
        TaskPlace {
            job: task.job,
            round: self.jobs[task.job].round,
            task: task.task,
        }
    }

    /// Starts a task of its job's present round on a GPU; returns `false` if it has been started
    /// already.
    pub(crate) fn begin(&mut self, place: TaskPlace, gpu: usize, now: f64) -> bool {
        let job = &mut self.jobs[place.job];
        let Some(at) = job.left.iter().rposition(|&t| t == place.task) else {
            return false;
        };
        job.left.remove(at);
        job.seats.push((place.task, gpu));
        let mut own = Underway::new(&self.problem, place.job, place.task, gpu, now);
        if self.problem.jobs[place.job].gang.is_some() {
            let gpus: Vec<usize> = job.seats.iter().map(|s| s.1).collect();
            let (train, sync) = self.problem.pace(place.job, &gpus);
            own.keep_pace(train, sync);
            let others = self.running.iter_mut().filter(|r| r.job == place.job);
            others.for_each(|r| r.keep_pace(train, sync));
        }
        self.running.push(own);
        share(&self.problem, &mut self.running, now);
        true
    }

    /// Records that the training of a task has ended, so its GPU is free. Returns its duration
    /// divided by the planned one; `None` if the task is not in training.
    pub fn trained(&mut self, place: TaskPlace, now: f64) -> Option<f64> {
        let at = self.find(place).filter(|&i| self.running[i].training)?;
        let r = &mut self.running[at];
        self.deviations.note(r, now);
        // Beside another task it is expected to take longer than its planned time alone.
        let expected = r.trained - r.started;
        r.end_training(now);
        let (gpu, took) = (r.gpu, now - r.started);
        if self.problem.shares() {
            share(&self.problem, &mut self.running, now);
            return Some(took / expected);
        }
        let gang = self.is_gang(place.job);
        let beside = |s: &&(usize, usize)| gang || s.1 == gpu;
        let seats = self.jobs[place.job].seats.iter().filter(beside);
        let gpus: Vec<usize> = seats.map(|s| s.1).collect();
        Some(took / self.problem.pace(place.job, &gpus).0)
    }

    /// Records that a task has been synchronised; returns whether its job is complete.
    pub fn synced(&mut self, place: TaskPlace, now: f64) -> bool {
        let Some(i) = self.find(place) else {
            return false;
        };
        let task = self.running.swap_remove(i);
        // The end of its training was not reported.
        if task.training {
            let sync = task.synced - task.trained;
            self.deviations.note(&task, now - sync);
        }
        self.end_round(place.job, now)
    }

    /// Makes the next round ready if every task of the present one has ended; returns whether the
    /// job is complete.
    pub(crate) fn end_round(&mut self, n: usize, now: f64) -> bool {
        let problem = &self.problem.jobs[n];
        let job = &mut self.jobs[n];
        let running = self.running.iter().any(|r| r.job == n);
        if running || !job.left.is_empty() || job.abandoned.is_some() {
            return false;
        }
        job.round += 1;
        job.ready = now;
        job.seats.clear();
        match job.round == problem.rounds {
            true => job.completed = Some(now),
            false => job.left = (0..problem.tasks).rev().collect(),
        }
        job.completed.is_some()
    }

    /// Takes back a failed task, which is then no longer under way. Of a gang it takes back all
    /// tasks, because the others cannot continue without the failed one. Returns the tasks that
    /// must start again, with the GPUs on which they were.
    pub(crate) fn take_back(&mut self, place: TaskPlace) -> Vec<(TaskPlace, usize)> {
        let Some(i) = self.find(place) else {
            return Vec::new();
        };
        let job = &mut self.jobs[place.job];
        let again = if self.problem.jobs[place.job].gang.is_some() {
            self.running.retain(|r| r.job != place.job);
            std::mem::take(&mut job.seats)
        } else {
            let r = self.running.swap_remove(i);
            job.seats.retain(|s| s.0 != place.task);
            vec![(place.task, r.gpu)]
        };
        if job.abandoned.is_some() {
            return Vec::new();
        }
        job.left.extend(again.iter().map(|s| s.0));
        let named = |(task, gpu)| (TaskPlace { task, ..place }, gpu);
        again.into_iter().map(named).collect()
    }

    /// Gives up a job: none of its tasks starts any more. Its running tasks keep their GPUs until
    /// their ends are reported.
    pub(crate) fn abandon(&mut self, n: usize) {
        if self.is_open(n) {
            let job = &mut self.jobs[n];
            job.abandoned = Some(job.round);
            job.round = self.problem.jobs[n].rounds;
            job.left.clear();
        }
    }

    /// Changes the weight of a job.
    pub fn reweigh(&mut self, n: usize, weight: f64) {
        self.problem.jobs[n].weight = weight;
    }

    /// Sets the deadline of a job; infinity: none.
    pub fn due(&mut self, n: usize, deadline: f64) {
        self.problem.jobs[n].deadline = deadline;
    }

    /// Takes a new estimate for an open job: its remaining rounds, including the present one, and
    /// the seconds of training on the classes that can run it. The new times apply to running
    /// tasks, too.
    pub fn estimate(&mut self, n: usize, rounds_left: Option<usize>, train: &[Option<f64>]) {
        let mut job = self.problem.jobs[n].clone();
        job.rounds = rounds_left.map_or(job.rounds, |left| self.jobs[n].round + left);
        job.learn(train);
        self.problem.replace(n, job);
        retime(&self.problem, n, &mut self.running);
    }

    /// Multiplies the expected times of the job's future tasks by `factor`.
    pub fn drifted(&mut self, n: usize, factor: f64) {
        self.problem.drifted(n, factor);
    }

    /// Takes a GPU out of use or back in; nothing more starts on a GPU that is out of use.
    pub fn use_gpu(&mut self, gpu: usize, usable: bool) {
        self.usable[gpu] = usable;
    }

    /// GPUs that are out of use.
    pub fn lost(&self) -> impl Iterator<Item = usize> {
        (0..self.usable.len()).filter(|&m| !self.usable[m])
    }

    /// Open jobs that the usable GPUs cannot run.
    pub fn stuck(&self) -> Vec<usize> {
        let free_from = |&usable: &bool| if usable { 0.0 } else { f64::INFINITY };
        let free: Vec<f64> = self.usable.iter().map(free_from).collect();
        let can = |n: usize| {
            if self.is_gang(n) {
                return self.problem.together(n, u64::MAX, &free).is_some();
            }
            let mut usable = (0..self.usable.len()).filter(|&m| self.usable[m]);
            usable.any(|m| self.problem.jobs[n].train[self.problem.gpus[m]].is_finite())
        };
        let open = (0..self.jobs.len()).filter(|&n| self.is_open(n));
        open.filter(|&n| !can(n)).collect()
    }

    /// When the next job arrives.
    pub fn next_arrival(&self, now: f64) -> Option<f64> {
        let arriving = (0..self.jobs.len()).filter(|&n| self.jobs[n].round == 0 && self.is_open(n));
        let moments = arriving.map(|n| self.jobs[n].ready);
        moments.filter(|&t| t > now).reduce(f64::min)
    }

    /// Tasks of all rounds that are not complete, summed over the jobs.
    pub fn open_tasks(&self) -> usize {
        let jobs = self.jobs.iter().zip(&self.problem.jobs);
        jobs.map(|(live, job)| (job.rounds - live.round.min(job.rounds)) * job.tasks)
            .sum()
    }

    /// Tasks of one round, summed over the open jobs.
    pub fn open_at_once(&self) -> usize {
        let open = (0..self.jobs.len()).filter(|&n| self.is_open(n));
        open.map(|n| self.problem.jobs[n].tasks).sum()
    }

    /// Whether nothing runs and nothing is left to start.
    pub fn done(&self) -> bool {
        self.running.is_empty() && (0..self.jobs.len()).all(|n| !self.is_open(n))
    }

    /// When each job was completed.
    pub fn completions(&self) -> Vec<Option<f64>> {
        self.jobs.iter().map(|j| j.completed).collect()
    }

    /// The expected state, from which plans start.
    pub(crate) fn expected(&self, now: f64) -> ClusterState {
        let standing = self
            .jobs
            .iter()
            .zip(&self.problem.jobs)
            .map(|(live, job)| Standing {
                round: live.round,
                started: job.tasks.saturating_sub(live.left.len()),
                ready: live.ready,
            });
        ClusterState::expected(&self.problem, &self.usable, &self.running, standing, now)
    }
}
