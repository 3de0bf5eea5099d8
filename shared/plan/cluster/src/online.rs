//! Scheduling without knowing the future: arrivals and durations are known only when they happen.
//!
//! [`Live`] holds what is known at a given time and decides what starts now. After each arrival and
//! each completed round it searches priorities again for everything that has not started; running
//! tasks stay. [`play`] feeds it a problem as time passes, which shows the price of not knowing the
//! future.

mod outlook;
mod played;
mod queue;
mod replan;

use crate::merged::rest;
use crate::state::{Priorities, Standing, State, Underway, retime};
use crate::{Class, CoRates, Problem, TrainingJob};
use units::UnitError;

pub use outlook::{Deviations, JobStanding, Names, Outlook};
pub use played::{Played, play};
pub use queue::{Queue, Refused, Taken};

/// Progress of a live job.
#[derive(Debug, Clone)]
struct LiveJob {
    round: usize,
    ready: f64,
    /// Tasks of the present round that have not been started, the next last.
    left: Vec<usize>,
    /// Tasks of it that have been started and are not synchronised.
    running: usize,
    /// When it was complete.
    completed: Option<f64>,
    /// Rounds that were complete when it was abandoned.
    abandoned: Option<usize>,
}

/// A task to start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Number of the job, in order of arrival at this [`Live`].
    pub job: usize,
    /// Round.
    pub round: usize,
    /// Task of the round.
    pub task: usize,
    /// GPU.
    pub gpu: usize,
}

/// The cluster as known now.
#[derive(Debug)]
pub struct Live {
    problem: Problem,
    jobs: Vec<LiveJob>,
    running: Vec<Underway>,
    /// GPUs that may be used: one that failed may not.
    usable: Vec<bool>,
    /// For the event-driven placement.
    priorities: Priorities,
    /// For the placement job by job, which fills holes.
    filling: Priorities,
    settings: OnlineSettings,
    deviations: Deviations,
}

/// How to schedule online.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnlineSettings {
    /// Starts of tasks to simulate in each search; `None`: according to the number of waiting jobs and the
    /// time until the next event.
    pub effort: Option<u64>,
    /// A job that has waited this many times its shortest duration goes before all others, the oldest first and on a
    /// quarter of the GPUs, so that a stream of short jobs cannot starve it; infinity: never.
    pub aging: f64,
    /// Seed of the searches.
    pub seed: u64,
}

/// Invalid settings of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// With all of a duration as noise a task could end before it starts.
    #[error("--noise: give a part from 0 to below 1")]
    Noise,
    /// No multiple of a duration.
    #[error("--aging: give a number, 0 or more")]
    Aging,
}

impl OnlineSettings {
    /// Checks them, and how far durations may deviate.
    ///
    /// # Errors
    /// [`SettingsError`] for the first that is invalid.
    pub fn check(&self, noise: f64) -> Result<(), SettingsError> {
        if !(0.0..1.0).contains(&noise) {
            return Err(SettingsError::Noise);
        }
        if self.aging.is_nan() || self.aging < 0.0 {
            return Err(SettingsError::Aging);
        }
        Ok(())
    }
}

impl Default for OnlineSettings {
    fn default() -> Self {
        Self {
            effort: None,
            aging: 10.0,
            seed: 1,
        }
    }
}

impl Live {
    /// A cluster without jobs, with the class and the node of every GPU.
    pub fn new(
        classes: Vec<Class>,
        gpus: Vec<usize>,
        nodes: Vec<usize>,
        settings: OnlineSettings,
    ) -> Self {
        Self {
            usable: vec![true; gpus.len()],
            problem: Problem::on_nodes(classes, gpus, nodes, Vec::new()),
            jobs: Vec::new(),
            running: Vec::new(),
            priorities: Priorities::new(Vec::new()),
            filling: Priorities::new(Vec::new()),
            settings,
            deviations: Deviations::default(),
        }
    }

    /// The part of the problem that is known.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Jobs that arrive with a row may share GPUs at these rates.
    #[must_use]
    pub fn sharing(mut self, rates: CoRates) -> Self {
        self.problem.may_share(rates);
        self
    }

    /// A job is announced, which arrives now or later, with its row in the rates of sharing if it has one;
    /// answers its number.
    pub fn arrive(&mut self, mut job: TrainingJob, row: Option<usize>, now: f64) -> usize {
        let n = self.jobs.len();
        job.arrival = job.arrival.max(now);
        self.jobs.push(LiveJob {
            round: 0,
            ready: job.arrival,
            left: (0..job.tasks).rev().collect(),
            running: 0,
            completed: None,
            abandoned: None,
        });
        self.problem.push_row(job, row);
        let ratio = self.problem.jobs[n].smith_ratio();
        let urgent = |&m: &usize| self.remaining_ratio(m) < ratio;
        let place = |order: &[usize]| order.iter().position(|m| !urgent(m)).unwrap_or(order.len());
        let places = [place(&self.priorities.order), place(&self.filling.order)];
        for (known, at) in [&mut self.priorities, &mut self.filling]
            .into_iter()
            .zip(places)
        {
            known.order.insert(at, n);
            known.allowed.push(u64::MAX);
            known.alone.push(false);
        }
        n
    }

    fn remaining_ratio(&self, n: usize) -> f64 {
        let job = &self.problem.jobs[n];
        let left = job.rounds - self.jobs[n].round.min(job.rounds);
        job.smith_ratio() * left as f64 / job.rounds as f64
    }

    fn overdue(&self, n: usize, now: f64) -> bool {
        let job = &self.problem.jobs[n];
        let alone = job.rounds as f64 * job.shortest_round;
        now - job.arrival > self.settings.aging * alone
    }

    fn find(&self, n: usize, task: usize) -> Option<usize> {
        let own = |r: &Underway| r.job == n && r.task == task;
        self.running.iter().position(own)
    }

    /// A task of a job's present round that has been started and is not synchronised.
    pub fn underway(&self, n: usize, task: usize) -> Option<&Underway> {
        self.find(n, task).map(|i| &self.running[i])
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

    /// Training of a task has ended: its GPU is free. Does nothing for a task that does not run.
    pub fn trained(&mut self, n: usize, task: usize, now: f64) {
        if let Some(i) = self.find(n, task) {
            self.deviations.note(&self.running[i], now);
            self.running[i].end_training(now);
        }
    }

    /// A task has been synchronised; returns whether its round is complete.
    pub fn finished(&mut self, n: usize, task: usize, now: f64) -> bool {
        let Some(i) = self.find(n, task) else {
            return false;
        };
        let task = self.running.swap_remove(i);
        // Where nobody told that it had trained.
        if task.training {
            let sync = task.synced - task.trained;
            self.deviations.note(&task, now - sync);
        }
        let job = &mut self.jobs[n];
        job.running -= 1;
        let complete = job.running == 0 && job.left.is_empty();
        if complete {
            job.round += 1;
            job.ready = now;
            if job.round == self.problem.jobs[n].rounds {
                job.completed = Some(now);
            } else {
                job.left = (0..self.problem.jobs[n].tasks).rev().collect();
            }
        }
        complete
    }

    /// A task has failed and must be started again; for a gang the whole round, because the others
    /// cannot continue without it.
    pub fn failed(&mut self, n: usize, task: usize) {
        let Some(i) = self.find(n, task) else {
            return;
        };
        if self.problem.jobs[n].gang.is_some() {
            self.running.retain(|r| r.job != n);
            self.jobs[n].running = 0;
            self.jobs[n].left = (0..self.problem.jobs[n].tasks).rev().collect();
            return;
        }
        self.running.swap_remove(i);
        self.jobs[n].running -= 1;
        self.jobs[n].left.push(task);
    }

    /// A task has been started for real, on this GPU: its times count from now. It is one that was
    /// decided, there or elsewhere, or one that somebody else decided; returns whether it could be.
    pub fn started(&mut self, n: usize, task: usize, gpu: usize, now: f64) -> bool {
        match self.find(n, task) {
            Some(i) => {
                self.running.swap_remove(i);
            }
            None => {
                let left = &mut self.jobs[n].left;
                let Some(at) = left.iter().position(|&t| t == task) else {
                    return false;
                };
                left.remove(at);
                self.jobs[n].running += 1;
            }
        }
        let task = Underway::new(&self.problem, (n, task), gpu, now);
        self.running.push(task);
        true
    }

    /// Takes a job out, for example because its tasks fail for good.
    pub fn abandon(&mut self, n: usize) {
        let done = self.jobs[n].round;
        if done == self.problem.jobs[n].rounds {
            return;
        }
        self.running.retain(|r| r.job != n);
        self.jobs[n].running = 0;
        self.jobs[n].round = self.problem.jobs[n].rounds;
        self.jobs[n].left.clear();
        self.jobs[n].abandoned = Some(done);
    }

    /// A job has another weight.
    pub fn reweigh(&mut self, n: usize, weight: f64) {
        self.problem.jobs[n].weight = weight;
    }

    /// A job should be complete by a moment; infinity: by none.
    pub fn due(&mut self, n: usize, deadline: f64) {
        self.problem.jobs[n].deadline = deadline;
    }

    /// More is known of how long an open job takes: rounds with the present one, and seconds of training on
    /// classes that can run it. Running tasks are expected to take the new time, too.
    pub fn estimate(&mut self, n: usize, rounds_left: Option<usize>, train: &[Option<f64>]) {
        let mut job = self.problem.jobs[n].clone();
        job.rounds = rounds_left.map_or(job.rounds, |left| self.jobs[n].round + left);
        job.learn(train);
        self.problem.replace(n, job);
        retime(&self.problem, n, &mut self.running);
    }

    /// What runs, what waits and why, and when each job is expected to be complete.
    ///
    /// # Errors
    /// A moment that cannot be written.
    pub fn outlook(&self, now: f64, names: &Names<'_>) -> Result<Vec<doc::JobStatus>, UnitError> {
        let rest = rest(&self.problem, self.expected(now));
        let future = self.forecast(&rest, now);
        let jobs = self.jobs.iter().map(|j| JobStanding {
            round: j.abandoned.unwrap_or(j.round),
            completed: j.completed,
            abandoned: j.abandoned.is_some(),
        });
        let outlook = Outlook {
            problem: &self.problem,
            usable: &self.usable,
            running: &self.running,
            jobs: &jobs.collect::<Vec<_>>(),
            planned: &rest.problem,
            state: &rest.state,
            future: &future,
            deviations: &self.deviations,
            now,
        };
        outlook.statuses(names)
    }

    /// GPUs that are not to be used.
    pub fn lost(&self) -> impl Iterator<Item = usize> {
        (0..self.usable.len()).filter(|&m| !self.usable[m])
    }

    /// Takes a GPU out, or back in: nothing more starts on one that is out, and its running task
    /// starts again elsewhere, because a dead node reports no end. Returns the tasks that must start
    /// again, with those of their gangs.
    pub fn use_gpu(&mut self, gpu: usize, usable: bool) -> Vec<(usize, usize)> {
        self.usable[gpu] = usable;
        let lost = |r: &&Underway| r.gpu == gpu && r.training && !usable;
        let lost: Vec<(usize, usize)> = self
            .running
            .iter()
            .filter(lost)
            .map(|r| (r.job, r.task))
            .collect();
        let mut again = Vec::new();
        for (n, task) in lost {
            let before: Vec<usize> = self.jobs[n].left.clone();
            self.failed(n, task);
            let left = self.jobs[n].left.iter().filter(|t| !before.contains(t));
            again.extend(left.map(|&t| (n, t)));
        }
        again
    }

    /// Tasks of rounds that are not complete.
    pub fn open_tasks(&self) -> usize {
        let jobs = self.jobs.iter().zip(&self.problem.jobs);
        jobs.map(|(live, job)| (job.rounds - live.round.min(job.rounds)) * job.tasks)
            .sum()
    }

    /// Tasks of a round of every job that is not complete.
    pub fn open_at_once(&self) -> usize {
        let jobs = self.jobs.iter().zip(&self.problem.jobs);
        let open = jobs.filter(|(live, job)| live.round < job.rounds);
        open.map(|(_, job)| job.tasks).sum()
    }

    /// Whether every job is complete and nothing runs.
    pub fn done(&self) -> bool {
        let complete = |(n, j): (usize, &LiveJob)| j.round >= self.problem.jobs[n].rounds;
        self.running.is_empty() && self.jobs.iter().enumerate().all(complete)
    }

    /// Times of the job's tasks from now on are `factor` times what was thought.
    pub fn drifted(&mut self, n: usize, factor: f64) {
        self.problem.drifted(n, factor);
    }

    /// The state that is expected.
    fn expected(&self, now: f64) -> State {
        let standing = self.jobs.iter().zip(&self.problem.jobs);
        let standing = standing.map(|(live, job)| Standing {
            round: live.round,
            started: job.tasks.saturating_sub(live.left.len()),
            ready: live.ready,
        });
        State::expected(&self.problem, &self.usable, &self.running, standing, now)
    }
}
