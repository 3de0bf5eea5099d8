//! What is known of a cluster at a given time.

use crate::{Problem, TaskPlace, TrainingJob};

/// Priority among ready tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Priorities {
    /// Jobs, the most urgent first.
    pub order: Vec<usize>,
    /// Classes that each job may use, as a bit mask. It may also use a faster class that would stay
    /// idle.
    pub allowed: Vec<u64>,
    /// For each job, whether it runs alone although it may share GPUs.
    pub alone: Vec<bool>,
    /// Whether a task joins another only if its gain exceeds the other's loss, both multiplied by
    /// the weights of the jobs. If not, it joins wherever both are done sooner than one after the
    /// other.
    pub weighed: bool,
}

impl Priorities {
    /// An order, with every class allowed.
    pub fn new(order: Vec<usize>) -> Self {
        let allowed = vec![u64::MAX; order.len()];
        let alone = vec![false; order.len()];
        Self {
            order,
            allowed,
            alone,
            weighed: true,
        }
    }
}

/// Progress of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobProgress {
    /// Present round.
    pub round: usize,
    /// Tasks of the present round that have been started.
    pub started: usize,
    /// When the present round may start.
    pub ready: f64,
    /// Latest synchronisation of the tasks of the present round started so far.
    pub synced: f64,
}

impl JobProgress {
    /// The next task of the present round.
    #[must_use]
    pub const fn next_task(&self, job: usize) -> TaskPlace {
        TaskPlace {
            job,
            round: self.round,
            task: self.started,
        }
    }

    /// Starts the next task, which will be synchronised at `synced`; the last task of a round makes
    /// the next round ready.
    pub fn start(&mut self, job: &TrainingJob, synced: f64) {
        self.started += 1;
        self.synced = self.synced.max(synced);
        if self.started == job.tasks {
            *self = Self {
                round: self.round + 1,
                started: 0,
                ready: self.synced,
                synced: 0.0,
            };
        }
    }

    /// Earliest end of a job that continues at full speed from the start of its present round.
    #[must_use]
    pub const fn chain_end(&self, job: &TrainingJob) -> f64 {
        self.ready + (job.rounds - self.round) as f64 * job.shortest_round
    }
}

/// A started task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Number of the job.
    pub job: usize,
    /// Number of the GPU.
    pub gpu: usize,
}

/// The cluster at one moment.
#[derive(Debug, Clone)]
pub struct ClusterState {
    /// When each GPU is expected to be free.
    pub free: Vec<f64>,
    /// Progress of each job.
    pub jobs: Vec<JobProgress>,
    /// Tasks in training, if jobs may share GPUs: their ends depend on what starts beside them.
    pub residents: Vec<Resident>,
}

/// A task in training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resident {
    /// Number of the job.
    pub job: usize,
    /// Number of the GPU.
    pub gpu: usize,
    /// Seconds of training that are left, with the GPU to itself.
    pub left: f64,
    /// Seconds of synchronisation after it.
    pub sync: f64,
}

impl ClusterState {
    /// The state before anything has started.
    pub fn new(problem: &Problem) -> Self {
        let fresh = |arrival| JobProgress {
            round: 0,
            started: 0,
            ready: arrival,
            synced: 0.0,
        };
        Self {
            free: vec![0.0; problem.gpus.len()],
            jobs: problem.jobs.iter().map(|j| fresh(j.arrival)).collect(),
            residents: Vec::new(),
        }
    }
}

/// A task under way in a cluster that runs for real.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Underway {
    /// Number of the job.
    pub job: usize,
    /// Which task of the job's present round it is.
    pub task: usize,
    /// Number of the GPU.
    pub gpu: usize,
    /// When it was started.
    pub started: f64,
    /// Expected end of training, or when it ended.
    pub trained: f64,
    /// Expected end of synchronisation.
    pub synced: f64,
    /// Whether it trains; if not, its GPU is free.
    pub training: bool,
    /// Its rate relative to that alone: 1 unless it trains beside another task.
    rate: f64,
    /// When it got this rate, and the seconds of training that it had done by then.
    since: f64,
    done: f64,
    /// Seconds of training that it takes alone.
    train: f64,
}

impl Underway {
    /// A task that is started now.
    pub fn new(problem: &Problem, job: usize, task: usize, gpu: usize, now: f64) -> Self {
        let class = problem.gpus[gpu];
        let trained = now + problem.jobs[job].train[class];
        Self {
            job,
            task,
            gpu,
            started: now,
            trained,
            synced: trained + problem.jobs[job].sync[class],
            training: true,
            rate: 1.0,
            since: now,
            done: 0.0,
            train: problem.jobs[job].train[class],
        }
    }

    /// Sets the seconds that its training and synchronisation take alone, for example at the pace
    /// of its gang.
    pub fn keep_pace(&mut self, train: f64, sync: f64) {
        self.train = train;
        self.trained = self.since + (train - self.done).max(0.0) / self.rate;
        self.synced = self.trained + sync;
    }

    /// Changes its rate from `now` on; returns whether the rate is a new one.
    fn change_rate(&mut self, rate: f64, now: f64) -> bool {
        let changes = rate != self.rate;
        if changes {
            let sync = self.synced - self.trained;
            self.done += (now - self.since) * self.rate;
            (self.since, self.rate) = (now, rate);
            self.keep_pace(self.train, sync);
        }
        changes
    }

    /// Ends its training now; the end of its synchronisation moves by the same time.
    pub fn end_training(&mut self, now: f64) {
        self.training = false;
        self.synced += now - self.trained;
        self.trained = now;
    }
}

/// Updates the rates of all tasks in training to the tasks that are now beside them; returns the
/// places of the tasks whose rates have changed.
pub fn share(problem: &Problem, running: &mut [Underway], now: f64) -> Vec<usize> {
    if !problem.shares() {
        return Vec::new();
    }
    let mut changed = Vec::new();
    for i in 0..running.len() {
        let own = running[i];
        let mut others = running.iter().enumerate();
        let other = others.find(|(k, r)| *k != i && r.training && r.gpu == own.gpu);
        let beside = other.and_then(|(_, r)| problem.beside(problem.gpus[own.gpu], own.job, r.job));
        let rate = beside.map_or(1.0, |rates| rates.0);
        if own.training && running[i].change_rate(rate, now) {
            changed.push(i);
        }
    }
    changed
}

/// Sets the expected times of job n's tasks in training to the present times of the problem.
pub fn retime(problem: &Problem, n: usize, running: &mut [Underway]) {
    let own = running.iter().filter(|r| r.job == n);
    let all: Vec<usize> = own.map(|r| r.gpu).collect();
    for task in running.iter_mut().filter(|r| r.job == n && r.training) {
        let (train, sync) = match problem.jobs[n].gang {
            Some(_) => problem.pace(n, &all),
            None => problem.pace(n, &[task.gpu]),
        };
        task.keep_pace(train, sync);
    }
}

/// Progress of a job of a cluster that runs for real.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Present round; the number of rounds if nothing will be started any more.
    pub round: usize,
    /// Tasks of the present round that have been started.
    pub started: usize,
    /// When the present round became or becomes ready.
    pub ready: f64,
}

/// A task whose end is overdue is expected to need this fraction of its training time from now on.
/// With 0 the plan would expect its GPU to be free at any moment, and keep holding back other tasks
/// for it.
const OVERDUE: f64 = 0.05;

impl ClusterState {
    /// Forecast of a live cluster, in which nothing ends before `now`; a GPU that is not `usable`
    /// never becomes free, although its running task may still end.
    pub fn expected(
        problem: &Problem,
        usable: &[bool],
        underway: &[Underway],
        standing: impl Iterator<Item = Standing>,
        now: f64,
    ) -> Self {
        let mut residents = Vec::new();
        let shares = problem.shares();
        let free_from = |&usable: &bool| if usable { now } else { f64::INFINITY };
        let mut free: Vec<f64> = usable.iter().map(free_from).collect();
        let mut synced = vec![0.0_f64; problem.jobs.len()];
        let mut training = vec![false; problem.jobs.len()];
        for task in underway {
            let train = problem.jobs[task.job].train[problem.gpus[task.gpu]];
            let later = |t: f64| if t <= now { now + OVERDUE * train } else { t };
            if task.training {
                free[task.gpu] = free[task.gpu].max(later(task.trained));
            }
            if task.training && shares {
                training[task.job] = true;
                residents.push(Resident {
                    job: task.job,
                    gpu: task.gpu,
                    left: (later(task.trained) - now) * task.rate,
                    sync: task.synced - task.trained,
                });
                continue;
            }
            synced[task.job] = synced[task.job].max(later(task.synced));
        }
        let jobs = standing
            .zip(&problem.jobs)
            .zip(synced.into_iter().zip(training));
        let jobs = jobs.map(|((standing, job), (synced, training))| {
            let Standing {
                round,
                started,
                ready,
            } = standing;
            let open = round < job.rounds;
            // With sharing, the ends of tasks in training are not known yet.
            let whole = open && started == job.tasks && !training;
            JobProgress {
                // If the whole round has started, the next event is the next round.
                round: round + usize::from(whole),
                started: if open && !whole { started } else { 0 },
                ready: if whole { synced } else { ready },
                synced: if whole { 0.0 } else { synced },
            }
        });
        Self {
            free,
            jobs: jobs.collect(),
            residents,
        }
    }
}

#[cfg(test)]
mod tests;
