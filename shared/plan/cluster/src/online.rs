//! Scheduling without knowing the future: arrivals and durations are known only when they happen.
//!
//! [`Online`] decides what starts now on a [`Live`] cluster. After each arrival and each completed
//! job it searches priorities again for everything that has not started; running tasks stay.
//! [`play`] simulates it on a known problem, which shows the price of not knowing the future.

mod played;
mod queue;
mod replan;

use units::UnitError;

use crate::live::{Live, LiveJob};
use crate::merged::rest;
use crate::outlook::{Names, Outlook};
use crate::state::Priorities;
use crate::{Class, CoRates, Problem, TaskPlace, TrainingJob};

pub use played::{Played, play};
pub use queue::{Queue, Refused, Taken};

/// A task to start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The task; jobs are numbered in order of their arrival.
    pub place: TaskPlace,
    /// GPU.
    pub gpu: usize,
}

/// A live cluster that starts the most urgent of the jobs that can start.
pub type Online = Live<ByPriority>;

/// The order in which jobs start.
#[derive(Debug, Clone)]
pub struct ByPriority {
    /// For the event-driven placement.
    priorities: Priorities,
    /// For the placement job by job, which fills holes.
    filling: Priorities,
    settings: OnlineSettings,
}

/// How to schedule online.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnlineSettings {
    /// Task starts to simulate in each search; `None`: chosen by the number of open jobs and the
    /// time until the next event.
    pub effort: Option<u64>,
    /// A job that has waited this many times its shortest duration goes before all others, so that
    /// a stream of short jobs cannot starve it; the oldest go first, on a quarter of the GPUs. The
    /// weight of a job also grows while it waits. Infinity turns both off.
    pub aging: f64,
    /// Seed of the searches.
    pub seed: u64,
}

/// Invalid settings of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The noise is not from 0 to below 1; with more, a task could end before it starts.
    #[error("--noise: give a part from 0 to below 1")]
    Noise,
    /// The aging is negative or not a number.
    #[error("--aging: give a number, 0 or more")]
    Aging,
}

impl OnlineSettings {
    /// Checks the settings, and `noise`, the largest relative deviation of durations.
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
            // Seldom reached in a backlog that drains, where every job waits for many times its
            // duration. With 300 jobs on 15 GPUs and the least remaining work first, a value of 20
            // increased the weighted flow time by 3 %, and 10 by over 10 %.
            aging: 50.0,
            seed: 1,
        }
    }
}

impl Online {
    /// A cluster without jobs, with the class and the node of every GPU.
    pub fn new(
        classes: Vec<Class>,
        gpus: Vec<usize>,
        nodes: Vec<usize>,
        settings: OnlineSettings,
    ) -> Self {
        let none = Priorities::new(Vec::new());
        let next = ByPriority {
            priorities: none.clone(),
            filling: none,
            settings,
        };
        Self::idle(Problem::on_nodes(classes, gpus, nodes, Vec::new()), next)
    }

    /// Jobs that arrive with a row may share GPUs at these rates.
    #[must_use]
    pub fn sharing(mut self, rates: CoRates) -> Self {
        self.problem.may_share(rates);
        self
    }

    /// Adds a job that arrives now or later, with its row in the rates of sharing if it has one;
    /// returns its number.
    pub fn arrive(&mut self, mut job: TrainingJob, row: Option<usize>, now: f64) -> usize {
        let n = self.jobs.len();
        job.arrival = job.arrival.max(now);
        self.jobs.push(LiveJob::new(&job));
        self.problem.push_row(job, row);
        let ratio = self.problem.jobs[n].smith_ratio();
        let urgent = |&m: &usize| self.remaining_ratio(m) < ratio;
        let place = |order: &[usize]| order.iter().position(|m| !urgent(m)).unwrap_or(order.len());
        let next = &self.next;
        let places = [place(&next.priorities.order), place(&next.filling.order)];
        for (known, at) in [&mut self.next.priorities, &mut self.next.filling]
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
        now - job.arrival > self.next.settings.aging * alone
    }

    /// Records that a task has failed and must be started again; for a gang, the whole round.
    pub fn failed(&mut self, place: TaskPlace) {
        self.take_back(place);
    }

    /// Records that a task was really started on this GPU; its times count from now. The task may
    /// have been decided for this GPU or another one, or not by this scheduler at all. Returns
    /// whether it could be started.
    pub fn started(&mut self, place: TaskPlace, gpu: usize, now: f64) -> bool {
        let own = (place.job, place.task);
        if let Some(i) = self.running.iter().position(|r| (r.job, r.task) == own) {
            self.running.swap_remove(i);
            let job = &mut self.jobs[place.job];
            job.seats.retain(|s| s.0 != place.task);
            job.left.push(place.task);
        }
        self.begin(place, gpu, now)
    }

    /// Removes a job with its running tasks, for example because its tasks fail for good.
    pub fn cancel(&mut self, n: usize) {
        self.abandon(n);
        self.running.retain(|r| r.job != n);
    }

    /// Takes a GPU out of use; its running tasks must start again elsewhere, because a dead node
    /// reports no end. Returns the tasks that must start again, with those of their gangs.
    pub fn lose(&mut self, gpu: usize) -> Vec<TaskPlace> {
        self.use_gpu(gpu, false);
        let lost: Vec<TaskPlace> = self.training_on(gpu).map(|r| self.place(r)).collect();
        let again = lost.into_iter().flat_map(|place| self.take_back(place));
        again.map(|(place, _)| place).collect()
    }

    /// Status of every job: what it runs, why it waits if it does, and when it is expected to be
    /// complete.
    ///
    /// # Errors
    /// [`UnitError`] if an expected time is out of range for a document.
    pub fn outlook(&self, now: f64, names: &Names<'_>) -> Result<Vec<doc::JobStatus>, UnitError> {
        let rest = rest(&self.problem, self.expected(now));
        let future = self.forecast(&rest, now);
        let outlook = Outlook {
            live: self,
            state: &rest.state,
            planned: &rest.problem,
            future: &future,
            now,
        };
        outlook.statuses(names)
    }
}
