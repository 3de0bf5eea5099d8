//! Scheduling without knowing the future: jobs arrive, tasks end when they end.
//!
//! [`Live`] holds what is known at a moment and decides what starts now. After each arrival and
//! each completed round it searches priorities anew over what has not started; what runs stands.
//! [`play`] feeds it a problem as time passes, which gives the price of not knowing.

mod played;

use crate::dispatch::{Player, Priorities, Progress, Start, State};
use crate::search::{Budget, Decoder, improve};
use crate::{Class, Job, Problem};

pub use played::{Played, play};

/// A task that runs or synchronises.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Running {
    job: usize,
    task: usize,
    gpu: usize,
    /// Expected end of training and of synchronisation.
    trained: f64,
    synced: f64,
    /// Whether the GPU is free again.
    synchronising: bool,
}

/// How far a live job is.
#[derive(Debug, Clone)]
struct LiveJob {
    round: usize,
    ready: f64,
    /// Tasks of the present round that have not been started, the next last.
    left: Vec<usize>,
    running: usize,
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
    running: Vec<Running>,
    /// GPUs that may be used: one that failed may not.
    usable: Vec<bool>,
    priorities: Priorities,
    settings: Settings,
}

/// How to schedule online.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Starts of tasks to simulate in each search.
    pub effort: u64,
    /// A job that has waited this many times its shortest duration goes before all others, so
    /// that a stream of short jobs cannot hold it back for ever; infinity: never.
    pub aging: f64,
    /// Seed of the searches.
    pub seed: u64,
}

/// What of the settings of a play makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// With all of a duration as noise a task could end before it starts.
    #[error("--noise: give a part from 0 to below 1")]
    Noise,
    /// No multiple of a duration.
    #[error("--aging: give a number, 0 or more")]
    Aging,
}

impl Settings {
    /// Checks them, and how far durations may deviate.
    ///
    /// # Errors
    /// [`SettingsError`] for the first that makes no sense.
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            effort: 50_000,
            aging: 10.0,
            seed: 1,
        }
    }
}

/// A task whose end is overdue is expected after this part of its training time more. With 0 the
/// plan would expect it at every moment anew and hold others back for it.
const OVERDUE: f64 = 0.05;

impl Live {
    /// A cluster without jobs.
    pub fn new(classes: Vec<Class>, gpus: Vec<usize>, settings: Settings) -> Self {
        Self {
            usable: vec![true; gpus.len()],
            problem: Problem::new(classes, gpus, Vec::new()),
            jobs: Vec::new(),
            running: Vec::new(),
            priorities: Priorities::new(Vec::new()),
            settings,
        }
    }

    /// What is known of the problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// A job is announced, which arrives now or later; answers its number.
    pub fn arrive(&mut self, mut job: Job, now: f64) -> usize {
        let n = self.jobs.len();
        job.arrival = job.arrival.max(now);
        self.jobs.push(LiveJob {
            round: 0,
            ready: job.arrival,
            left: (0..job.tasks).rev().collect(),
            running: 0,
        });
        self.problem.push(job);
        let ratio = self.problem.jobs[n].smith_ratio();
        let urgent = |&m: &usize| self.remaining_ratio(m) < ratio;
        let at = self.priorities.order.iter().position(|m| !urgent(m));
        let at = at.unwrap_or(self.priorities.order.len());
        self.priorities.order.insert(at, n);
        self.priorities.allowed.push(u64::MAX);
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
        self.running
            .iter()
            .position(|r| r.job == n && r.task == task)
    }

    /// Training of a task has ended: its GPU is free. Does nothing for a task that does not run.
    pub fn trained(&mut self, n: usize, task: usize, now: f64) {
        if let Some(i) = self.find(n, task) {
            self.running[i].synchronising = true;
            self.running[i].trained = now;
        }
    }

    /// A task has been synchronised; answers whether its round is complete.
    pub fn finished(&mut self, n: usize, task: usize, now: f64) -> bool {
        let Some(i) = self.find(n, task) else {
            return false;
        };
        self.running.swap_remove(i);
        let job = &mut self.jobs[n];
        job.running -= 1;
        let complete = job.running == 0 && job.left.is_empty();
        if complete {
            job.round += 1;
            job.ready = now;
            if job.round < self.problem.jobs[n].rounds {
                job.left = (0..self.problem.jobs[n].tasks).rev().collect();
            }
        }
        complete
    }

    /// A task has failed and is to be started again.
    pub fn failed(&mut self, n: usize, task: usize) {
        if let Some(i) = self.find(n, task) {
            self.running.swap_remove(i);
            self.jobs[n].running -= 1;
            self.jobs[n].left.push(task);
        }
    }

    /// Takes a job out, for example because its tasks fail for good.
    pub fn abandon(&mut self, n: usize) {
        self.jobs[n].round = self.problem.jobs[n].rounds;
        self.jobs[n].left.clear();
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

    /// The state that is expected, in which nothing that runs ends before `now`.
    fn expected(&self, now: f64) -> State {
        let mut free: Vec<f64> = self
            .usable
            .iter()
            .map(|&u| if u { now } else { f64::INFINITY })
            .collect();
        let mut synced = vec![0.0_f64; self.jobs.len()];
        for r in &self.running {
            let train = self.problem.jobs[r.job].train[self.problem.gpus[r.gpu]];
            let overdue = now + OVERDUE * train;
            let later = |t: f64| if t <= now { overdue } else { t };
            if !r.synchronising {
                free[r.gpu] = later(r.trained);
            }
            synced[r.job] = synced[r.job].max(later(r.synced));
        }
        let jobs = self.jobs.iter().zip(&self.problem.jobs).zip(synced);
        let progress = jobs.map(|((live, job), synced)| {
            if live.running > 0 && live.left.is_empty() {
                // The whole round runs: the next begins when it ends.
                return Progress {
                    round: live.round + 1,
                    started: 0,
                    ready: synced,
                    synced: 0.0,
                };
            }
            let started = if live.round < job.rounds {
                job.tasks - live.left.len()
            } else {
                0
            };
            Progress {
                round: live.round,
                started,
                ready: live.ready,
                synced,
            }
        });
        State {
            free,
            jobs: progress.collect(),
        }
    }

    /// Searches priorities for what has not started.
    pub fn replan(&mut self, now: f64) {
        let state = self.expected(now);
        let open = |&n: &usize| state.jobs[n].round < self.problem.jobs[n].rounds;
        let mut by_ratio: Vec<usize> = self.priorities.order.clone();
        by_ratio.sort_by(|&a, &b| {
            let key = |n| match self.overdue(n, now) && open(&n) {
                true => (0, self.problem.jobs[n].arrival),
                false => (1 + u8::from(!open(&n)), self.remaining_ratio(n)),
            };
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        let aged = by_ratio
            .iter()
            .filter(|n| self.overdue(**n, now) && open(n))
            .count();
        let fresh = Priorities {
            order: by_ratio,
            allowed: self.priorities.allowed.clone(),
        };
        let mut player = Player::new(&self.problem);
        let kept = player.cost(&state, now, &self.priorities, f64::INFINITY);
        let start = if aged > 0 || player.cost(&state, now, &fresh, kept).is_finite() {
            fresh
        } else {
            self.priorities.clone()
        };
        self.settings.seed = self.settings.seed.wrapping_add(1);
        let budget = Budget {
            starts: self.settings.effort,
            deadline: None,
        };
        self.priorities = improve(
            &self.problem,
            &state,
            now,
            start,
            Decoder::Events,
            budget,
            self.settings.seed,
            aged,
        )
        .0;
    }

    /// What starts now; it counts as started.
    pub fn decide(&mut self, now: f64) -> Vec<Decision> {
        let state = self.expected(now);
        let starts: Vec<Start> = Player::new(&self.problem)
            .decide(&state, now, &self.priorities)
            .to_vec();
        let mut out = Vec::with_capacity(starts.len());
        for Start { job: n, gpu } in starts {
            let Some(task) = self.jobs[n].left.pop() else {
                continue;
            };
            self.jobs[n].running += 1;
            let class = self.problem.gpus[gpu];
            let trained = now + self.problem.jobs[n].train[class];
            self.running.push(Running {
                job: n,
                task,
                gpu,
                trained,
                synced: trained + self.problem.jobs[n].sync[class],
                synchronising: false,
            });
            out.push(Decision {
                job: n,
                round: self.jobs[n].round,
                task,
                gpu,
            });
        }
        out
    }
}
