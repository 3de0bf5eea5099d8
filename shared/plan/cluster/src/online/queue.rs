//! A live system whose jobs and GPUs have names: takes events, and returns the tasks to start.

use std::collections::{BTreeMap, BTreeSet};

use doc::{
    Cluster, ClusterJob, ClusterStatus, QueueEstimate, QueueEvent, QueueNews, QueueStart, QueueTask,
};
use units::{Seconds, UnitError};

use super::{Decision, Online, OnlineSettings};
use crate::TaskPlace;
use crate::document;
use crate::outlook::Names;
use crate::state::Underway;

/// Why an event is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refused {
    /// No such job is known.
    #[error("no job {0:?} has arrived; send its arrival first")]
    Unknown(String),
    /// The cluster has no such job.
    #[error("the cluster has no job {0:?}; give the whole job as `spec`")]
    NotListed(String),
    /// A job of this name has arrived already.
    #[error("job {0:?} has arrived already; give each job its own name")]
    ArrivedTwice(String),
    /// With this job, the unfinished jobs would have too many tasks.
    #[error(
        "with job {job:?} the unfinished jobs would have {tasks} tasks; merge its rounds so that they have at most {}",
        Cluster::MOST_TASKS
    )]
    TooMany {
        /// The job.
        job: String,
        /// Tasks, including this job's.
        tasks: u64,
    },
    /// With this job, one round of every unfinished job would have too many tasks in all.
    #[error(
        "with job {job:?} a round of every unfinished job would have {tasks} tasks in all; give it fewer, so that there \
         are at most {}",
        Cluster::MOST_AT_ONCE
    )]
    TooManyAtOnce {
        /// The job.
        job: String,
        /// Tasks, including this job's.
        tasks: u64,
    },
    /// No GPU can run the job.
    #[error(
        "no GPU of the cluster can run job {0:?}; give its training time on one of their types"
    )]
    NoGpu(String),
    /// The job's gang needs more GPUs at once than it can have.
    #[error(
        "job {job:?} runs {tasks} tasks at once, and there are {most} GPUs for them, or on one node with \
         `same_node`; give fewer tasks and more rounds"
    )]
    TooWide {
        /// The job.
        job: String,
        /// Tasks of its gang.
        tasks: usize,
        /// The most GPUs that it can have at once.
        most: u64,
    },
    /// The cluster has no such GPU.
    #[error("the cluster has no GPU {0:?}")]
    UnknownGpu(String),
    /// The GPU cannot run the job.
    #[error(
        "{gpu:?} cannot run {task}: the job has no training time on its type, or needs more memory"
    )]
    Unsuitable {
        /// The task.
        task: String,
        /// The GPU.
        gpu: String,
    },
    /// Another task trains on the GPU.
    #[error("{gpu:?} still trains {other}; send that it is trained, finished or failed first")]
    Busy {
        /// The GPU.
        gpu: String,
        /// The task that trains there.
        other: String,
    },
    /// The task has been started already.
    #[error("{0} has been started already")]
    StartedTwice(String),
    /// The task does not run.
    #[error("{0} does not run: it was not started, or has ended")]
    NotRunning(String),
    /// The job is in another round, or has fewer tasks.
    #[error("{task} is not a task of round {present}, the job's current round")]
    OtherRound {
        /// The task.
        task: String,
        /// The present round of its job.
        present: usize,
    },
    /// The job has ended.
    #[error("job {0:?} has ended")]
    Ended(String),
    /// No GPU is of this type.
    #[error("no GPU of the cluster is of type {0:?}")]
    UnknownType(String),
    /// A time is out of range for a document.
    #[error(transparent)]
    Unit(#[from] UnitError),
}

/// Consequences of an event.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Taken {
    /// Tasks to start now.
    pub starts: Vec<QueueStart>,
    /// The event was earlier than a previous one by this many seconds, and counts as if it came
    /// now.
    pub late: Option<f64>,
    /// Status of the jobs, if the event asked for it.
    pub status: Option<ClusterStatus>,
}

/// A live system.
#[derive(Debug)]
pub struct Queue {
    cluster: Cluster,
    representatives: Vec<usize>,
    gpus: Vec<String>,
    nodes: Vec<Option<String>>,
    live: Online,
    /// Names of the jobs that have arrived, by their numbers.
    names: Vec<units::TaskId>,
    numbers: BTreeMap<String, usize>,
    /// Tasks of present rounds whose start was reported.
    confirmed: BTreeSet<TaskPlace>,
    now: f64,
}

impl Queue {
    /// A queue for the GPUs of a cluster, without jobs; the jobs of the cluster arrive by name.
    #[must_use]
    pub fn new(cluster: Cluster, settings: OnlineSettings) -> Self {
        let (classes, gpus, representatives) = document::fleet(&cluster);
        let groups = cluster.gpu_groups();
        Self {
            gpus: cluster.gpu_names(),
            nodes: groups
                .iter()
                .map(|&g| cluster.groups[g].node.clone())
                .collect(),
            live: Online::new(classes, gpus, document::nodes(&cluster), settings)
                .sharing(document::co_rates(&cluster, &representatives)),
            representatives,
            names: Vec::new(),
            numbers: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            now: 0.0,
            cluster,
        }
    }

    /// Applies an event; returns the tasks to start now.
    ///
    /// # Errors
    /// [`Refused`] if the event is invalid; it then changes nothing.
    pub fn take(&mut self, event: &QueueEvent) -> Result<Taken, Refused> {
        let told = event.time.get();
        let now = told.max(self.now);
        let replan = self.happened(&event.what, now)?;
        self.now = now;
        if replan {
            self.live.replan(now);
        }
        let decisions = self.live.decide(now);
        let starts = decisions
            .iter()
            .map(|d| self.start(d))
            .collect::<Result<_, _>>()?;
        let asked = event.what == QueueNews::Status;
        Ok(Taken {
            starts,
            late: Some(now - told).filter(|&late| late > 0.0),
            status: asked.then(|| self.status()).transpose()?,
        })
    }

    /// Whether every job that has arrived has ended, and how many jobs have arrived.
    #[must_use]
    pub fn done(&self) -> (bool, usize) {
        (self.live.done(), self.names.len())
    }

    /// Status of the GPUs and of every job at the present moment.
    fn status(&self) -> Result<ClusterStatus, UnitError> {
        let names = Names {
            jobs: &self.names,
            gpus: &self.gpus,
        };
        Ok(ClusterStatus {
            time: Seconds::new(self.now)?,
            lost: self.live.lost().map(|m| self.gpus[m].clone()).collect(),
            jobs: self.live.outlook(self.now, &names)?,
        })
    }

    fn start(&self, d: &Decision) -> Result<QueueStart, Refused> {
        let task = QueueTask {
            job: self.names[d.place.job].clone(),
            round: d.place.round as u32,
            task: d.place.task as u32,
        };
        let gpu = self.gpus[d.gpu].clone();
        let node = self.nodes[d.gpu].clone();
        Ok(QueueStart::new(Seconds::new(self.now)?, task, gpu, node))
    }

    /// Applies an event; returns whether to search priorities again: the end of a round needs no
    /// new search, the end or arrival of a job does.
    fn happened(&mut self, what: &QueueNews, now: f64) -> Result<bool, Refused> {
        match what {
            QueueNews::Arrival(arrival) => {
                if let Some(job) = arrival.spec() {
                    // The rates of a new job beside others are unknown, so it runs alone.
                    self.arrive(&job, None, now)?;
                }
                if let Some(name) = &arrival.job {
                    let mut listed = self.cluster.jobs.iter();
                    let row = listed
                        .position(|j| j.id == *name)
                        .ok_or_else(|| Refused::NotListed(name.to_string()))?;
                    self.arrive(&self.cluster.jobs[row].clone(), Some(row), now)?;
                }
            }
            QueueNews::Started { task, gpu } => {
                self.started(task, gpu, now)?;
                return Ok(false);
            }
            QueueNews::Trained(task) => {
                self.live.trained(self.running(task)?, now);
                return Ok(false);
            }
            QueueNews::Finished(task) => {
                let place = self.running(task)?;
                self.confirmed.remove(&place);
                return Ok(self.live.synced(place, now));
            }
            QueueNews::Failed(task) => {
                self.live.failed(self.running(task)?);
                // For a gang, the others start again with it.
                let live = &self.live;
                self.confirmed
                    .retain(|&place| live.underway(place).is_some());
            }
            QueueNews::Cancelled { job } => {
                let n = self.number(job.as_str())?;
                self.confirmed.retain(|c| c.job != n);
                self.live.cancel(n);
            }
            QueueNews::Lost { gpu } => {
                for task in self.live.lose(self.gpu(gpu)?) {
                    self.confirmed.remove(&task);
                }
            }
            QueueNews::Found { gpu } => {
                self.live.use_gpu(self.gpu(gpu)?, true);
            }
            QueueNews::Weight { job, weight } => {
                let n = self.open(job.as_str())?;
                self.live.reweigh(n, weight.get());
            }
            QueueNews::Estimate { job, estimate } => self.estimate(job.as_str(), estimate)?,
            QueueNews::Deadline { job, at } => {
                let n = self.open(job.as_str())?;
                self.live.due(n, at.map_or(f64::INFINITY, Seconds::get));
            }
            QueueNews::Time | QueueNews::Status => return Ok(false),
        }
        Ok(true)
    }

    fn arrive(&mut self, job: &ClusterJob, row: Option<usize>, now: f64) -> Result<(), Refused> {
        let name = job.id.as_str();
        if self.numbers.contains_key(name) {
            return Err(Refused::ArrivedTwice(name.to_owned()));
        }
        let open = self.live.open_tasks() as u64;
        let tasks = open.saturating_add(job.volume());
        if tasks > Cluster::MOST_TASKS {
            let job = name.to_owned();
            return Err(Refused::TooMany { job, tasks });
        }
        let tasks = self.live.open_at_once() as u64 + u64::from(job.tasks);
        if tasks > Cluster::MOST_AT_ONCE {
            let job = name.to_owned();
            return Err(Refused::TooManyAtOnce { job, tasks });
        }
        let known = document::of_job(&self.cluster, job, &self.representatives);
        if known.fastest().is_infinite() {
            return Err(Refused::NoGpu(name.to_owned()));
        }
        let most = self.cluster.most_at_once(job);
        if known.gang.is_some() && (known.tasks as u64) > most {
            let (job, tasks) = (name.to_owned(), known.tasks);
            return Err(Refused::TooWide { job, tasks, most });
        }
        let n = self.live.arrive(known, row, now);
        self.names.push(job.id.clone());
        self.numbers.insert(name.to_owned(), n);
        Ok(())
    }

    fn started(&mut self, task: &QueueTask, gpu: &str, now: f64) -> Result<(), Refused> {
        let place = self.present(task)?;
        let (n, m) = (place.job, self.gpu(gpu)?);
        if self.confirmed.contains(&place) {
            return Err(Refused::StartedTwice(shown(task)));
        }
        let problem = self.live.problem();
        if problem.jobs[n].train[problem.gpus[m]].is_infinite() {
            let (task, gpu) = (shown(task), gpu.to_owned());
            return Err(Refused::Unsuitable { task, gpu });
        }
        let confirmed = |r: &&Underway| self.confirmed.contains(&self.live.place(r));
        let others: Vec<&Underway> = self.live.training_on(m).filter(confirmed).collect();
        let beside = |r: &Underway| problem.beside(problem.gpus[m], n, r.job).is_some();
        let joins = others.len() == 1 && others.iter().all(|r| beside(r));
        if let Some(other) = others.first().filter(|_| !joins) {
            let other = format!("task {} of {}", other.task, self.names[other.job]);
            let gpu = gpu.to_owned();
            return Err(Refused::Busy { gpu, other });
        }
        if !self.live.started(place, m, now) {
            return Err(Refused::NotRunning(shown(task)));
        }
        self.confirmed.insert(place);
        Ok(())
    }

    fn estimate(&mut self, job: &str, estimate: &QueueEstimate) -> Result<(), Refused> {
        let n = self.open(job)?;
        let train = document::times_by_class(&self.cluster, &self.representatives, &estimate.train)
            .map_err(Refused::UnknownType)?;
        let known = &self.live.problem().jobs[n];
        // Rounds are numbered in 32 bits.
        let most = u32::MAX as usize - self.live.round(n);
        let left = estimate.rounds_left.map(|left| (left as usize).min(most));
        if let Some(left) = left {
            let others = self.live.open_tasks() - (known.rounds - self.live.round(n)) * known.tasks;
            let tasks = (others as u64).saturating_add(left.saturating_mul(known.tasks) as u64);
            if tasks > Cluster::MOST_TASKS {
                let job = job.to_owned();
                return Err(Refused::TooMany { job, tasks });
            }
        }
        self.live.estimate(n, left, &train);
        Ok(())
    }

    /// The number of a job that has not ended.
    fn open(&self, job: &str) -> Result<usize, Refused> {
        let n = self.number(job)?;
        match self.live.is_open(n) {
            true => Ok(n),
            false => Err(Refused::Ended(job.to_owned())),
        }
    }

    fn number(&self, job: &str) -> Result<usize, Refused> {
        let n = self.numbers.get(job).copied();
        n.ok_or_else(|| Refused::Unknown(job.to_owned()))
    }

    fn gpu(&self, name: &str) -> Result<usize, Refused> {
        let at = self.gpus.iter().position(|g| g == name);
        at.ok_or_else(|| Refused::UnknownGpu(name.to_owned()))
    }

    /// The place of a task of its job's present round.
    fn present(&self, task: &QueueTask) -> Result<TaskPlace, Refused> {
        let n = self.open(task.job.as_str())?;
        let present = self.live.round(n);
        let tasks = self.live.problem().jobs[n].tasks;
        if task.round as usize != present || task.task as usize >= tasks {
            let task = shown(task);
            return Err(Refused::OtherRound { task, present });
        }
        Ok(TaskPlace {
            job: n,
            round: present,
            task: task.task as usize,
        })
    }

    /// The place of a task that trains or synchronises.
    fn running(&self, task: &QueueTask) -> Result<TaskPlace, Refused> {
        let place = self.present(task)?;
        match self.live.underway(place) {
            Some(_) => Ok(place),
            None => Err(Refused::NotRunning(shown(task))),
        }
    }
}

fn shown(task: &QueueTask) -> String {
    format!("task {} of round {} of {}", task.task, task.round, task.job)
}
