use std::cmp::Ordering;

use doc::Gang;

use crate::gang::{Together, Wants};
use crate::sharing::CoRates;

/// GPUs that no job can tell apart: same type, memory and bus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Class {
    /// GPUs of the class, 1 or more.
    pub count: usize,
    /// Device memory in bytes; infinite where it is not given.
    pub memory: f64,
    /// Bytes per second between host and device; infinite where it is not given.
    pub bus: f64,
}

/// A job: `rounds` rounds of `tasks` parallel tasks each.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingJob {
    /// Weight `w` of its completion time, 0 or more.
    pub weight: f64,
    /// Arrival `a` in seconds.
    pub arrival: f64,
    /// Rounds `R`, one after another, 1 or more.
    pub rounds: usize,
    /// Tasks `D` of a round, 1 or more.
    pub tasks: usize,
    /// Whether the tasks of a round run at the same time, each on a GPU of its own, and on which
    /// nodes. A gang trains at the pace of its slowest GPU: every task takes the largest `Tc`, and
    /// then the largest `Ts`, of its GPUs.
    pub gang: Option<Gang>,
    /// Seconds of training `Tc` on each class; infinite where the class cannot run it.
    pub train: Vec<f64>,
    /// Seconds of synchronisation `Ts` on each class; the GPU is free meanwhile.
    pub sync: Vec<f64>,
    /// Least seconds `l` of a round with the whole cluster to itself; [`Problem::new`] computes it.
    pub shortest_round: f64,
    /// Deadline in seconds; infinite if there is none.
    pub deadline: f64,
}

/// Each second after the deadline costs this many times the usual cost of a second, in addition to
/// it. A deadline is soft: with a factor of ten, a late job goes before jobs of up to eleven times
/// its ratio of weight to remaining time, and a deadline that cannot be met does not hold up a
/// whole cluster for ever. Chosen by hand.
const LATE: f64 = 10.0;

impl TrainingJob {
    /// Least training time of a task.
    pub fn fastest(&self) -> f64 {
        self.train.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Least `Tc + Ts` of a task.
    pub fn fastest_synchronised(&self) -> f64 {
        self.spans().fold(f64::INFINITY, f64::min)
    }

    /// `Tc + Ts` on each class.
    pub fn spans(&self) -> impl Iterator<Item = f64> + '_ {
        self.train.iter().zip(&self.sync).map(|(t, s)| t + s)
    }

    /// `a + R l`: no schedule completes the job earlier.
    pub fn earliest_completion(&self) -> f64 {
        self.arrival + self.rounds as f64 * self.shortest_round
    }

    /// Cost of completing it at a given time: its weight for each second, and more for each second
    /// after its deadline.
    pub fn cost_at(&self, completion: f64) -> f64 {
        self.weight * (completion + LATE * (completion - self.deadline).max(0.0))
    }

    /// Replaces the seconds of training on classes that can run it, where new ones are given.
    pub fn learn(&mut self, train: &[Option<f64>]) {
        let known = self.train.iter_mut().zip(train);
        for (own, new) in known.filter(|(own, _)| own.is_finite()) {
            *own = new.unwrap_or(*own);
        }
    }

    /// Tasks of all rounds.
    pub fn volume(&self) -> usize {
        self.rounds * self.tasks
    }

    /// `R D min Tc / w`, the key of Smith's rule; infinite for weight 0.
    pub fn smith_ratio(&self) -> f64 {
        self.volume() as f64 * self.fastest() / self.weight
    }
}

/// Many jobs on GPUs of several classes; minimise the weighted sum of completion times.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The classes.
    pub classes: Vec<Class>,
    /// Class of every GPU.
    pub gpus: Vec<usize>,
    /// Node of every GPU, by a number.
    pub nodes: Vec<usize>,
    /// The jobs.
    pub jobs: Vec<TrainingJob>,
    /// Which jobs may share a GPU.
    rates: CoRates,
    /// The row of every job in `rates`.
    rows: Vec<Option<usize>>,
}

impl Problem {
    /// Jobs in ascending order of a key.
    pub fn jobs_by(&self, key: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.jobs.len()).collect();
        order.sort_by(|&a, &b| total(key(a), key(b)).then(a.cmp(&b)));
        order
    }

    /// A problem in which GPU m has class `gpus[m]`. Counts the GPUs of each class, and computes
    /// the shortest round of every job. Every job must be able to run on some class.
    pub fn new(classes: Vec<Class>, gpus: Vec<usize>, jobs: Vec<TrainingJob>) -> Self {
        let nodes = (0..gpus.len()).collect();
        Self::on_nodes(classes, gpus, nodes, jobs)
    }

    /// Like [`Problem::new`], with the node of every GPU; there, each GPU is on a node of its own.
    pub fn on_nodes(
        mut classes: Vec<Class>,
        gpus: Vec<usize>,
        nodes: Vec<usize>,
        jobs: Vec<TrainingJob>,
    ) -> Self {
        for (g, class) in classes.iter_mut().enumerate() {
            class.count = gpus.iter().filter(|&&c| c == g).count();
        }
        let mut problem = Self {
            classes,
            gpus,
            nodes,
            rows: Vec::with_capacity(jobs.len()),
            jobs: Vec::with_capacity(jobs.len()),
            rates: CoRates::default(),
        };
        for job in jobs {
            problem.push(job);
        }
        problem
    }

    /// Lets jobs share GPUs at these rates; job n has row n.
    #[must_use]
    pub fn sharing(mut self, rates: CoRates) -> Self {
        self.rows = (0..self.jobs.len()).map(Some).collect();
        self.rates = rates;
        self
    }

    /// Lets jobs that are pushed later with a row share GPUs at these rates.
    pub fn may_share(&mut self, rates: CoRates) {
        self.rates = rates;
    }

    /// The same problem without sharing: every GPU runs one task at a time.
    pub fn apart(&self) -> Self {
        Self {
            rates: CoRates::default(),
            ..self.clone()
        }
    }

    /// Whether some jobs may share a GPU.
    pub fn shares(&self) -> bool {
        !self.rates.is_empty()
    }

    /// Rates of tasks of jobs a and b together on one GPU of a class, relative to their rates
    /// alone; `None`: they may not share it.
    pub fn beside(&self, class: usize, a: usize, b: usize) -> Option<(f64, f64)> {
        let (a, b) = self.rows[a].zip(self.rows[b])?;
        self.rates.of(class, a, b)
    }

    /// Rates of jobs that share GPUs.
    pub fn rates(&self) -> &CoRates {
        &self.rates
    }

    /// The row of job n in the rates; `None`: it runs alone.
    pub fn row(&self, n: usize) -> Option<usize> {
        self.rows[n]
    }

    /// A problem without sharing whose least cost is no higher: every GPU that two tasks may share
    /// is replaced by two. A task never trains faster beside another than alone, so two tasks do on
    /// two GPUs whatever they can do on one.
    pub fn relaxed(&self) -> Self {
        let mut gpus = Vec::with_capacity(2 * self.gpus.len());
        let mut nodes = Vec::with_capacity(2 * self.gpus.len());
        for (&class, &node) in self.gpus.iter().zip(&self.nodes) {
            let copies = 1 + usize::from(self.rates.on(class));
            gpus.extend(std::iter::repeat_n(class, copies));
            nodes.extend(std::iter::repeat_n(node, copies));
        }
        let jobs = self.jobs.clone();
        let mut relaxed = Self::on_nodes(self.classes.clone(), gpus, nodes, jobs);
        // Tasks of one job do not share a GPU, so a round is no shorter than on the real GPUs.
        for (job, own) in relaxed.jobs.iter_mut().zip(&self.jobs) {
            job.shortest_round = own.shortest_round;
        }
        relaxed
    }

    /// Whether some job is a gang.
    pub fn has_gangs(&self) -> bool {
        self.jobs.iter().any(|j| j.gang.is_some())
    }

    /// The GPUs of the allowed classes on which a round of gang n is synchronised first, if GPU m
    /// is available from `available[m]` on; `None` if there are too few.
    pub fn together(&self, n: usize, allowed: u64, available: &[f64]) -> Option<Together> {
        let wants = wants(&self.jobs[n], allowed);
        wants.earliest(&self.gpus, &self.nodes, available)
    }

    /// Like [`Problem::together`], where the gang keeps its GPUs for `rounds` rounds.
    pub(crate) fn together_for(
        &self,
        n: usize,
        allowed: u64,
        rounds: usize,
        available: &[f64],
    ) -> Option<Together> {
        let job = &self.jobs[n];
        let before = (rounds - 1) as f64;
        let all: Vec<f64> = job
            .train
            .iter()
            .zip(&job.sync)
            .map(|(t, s)| t + before * (t + s))
            .collect();
        let wants = Wants {
            train: &all,
            ..wants(job, allowed)
        };
        wants.earliest(&self.gpus, &self.nodes, available)
    }

    /// Training and synchronisation time of a task of job n on `gpus`, in seconds; the slowest GPU
    /// decides each. `gpus` is a single GPU, or all GPUs of a gang.
    pub fn pace(&self, n: usize, gpus: &[usize]) -> (f64, f64) {
        wants(&self.jobs[n], u64::MAX).pace(&self.gpus, gpus)
    }

    /// The job with its `shortest_round`; a gang's is that on the best GPUs that it can have at
    /// once.
    fn measured(&self, mut job: TrainingJob) -> TrainingJob {
        job.shortest_round = match job.gang {
            None => {
                let counts: Vec<usize> = self.classes.iter().map(|c| c.count).collect();
                shortest_round(&counts, &job, job.tasks)
            }
            Some(_) => {
                let free = vec![0.0; self.gpus.len()];
                let best = wants(&job, u64::MAX).earliest(&self.gpus, &self.nodes, &free);
                best.map_or(f64::INFINITY, |g| g.synced)
            }
        };
        job
    }

    /// `sum w (a + R l)`, the chain bound.
    pub fn chain_bound(&self) -> f64 {
        let each = self.jobs.iter();
        each.map(|j| j.weight * j.earliest_completion()).sum()
    }

    /// `sum w a`: the flow cost is the cost minus this.
    pub fn weighted_arrivals(&self) -> f64 {
        self.jobs.iter().map(|j| j.weight * j.arrival).sum()
    }

    /// Tasks of all jobs.
    pub fn volume(&self) -> usize {
        self.jobs.iter().map(TrainingJob::volume).sum()
    }

    /// Adds a job that shares no GPU.
    pub fn push(&mut self, job: TrainingJob) {
        self.push_row(job, None);
    }

    /// Adds a job, with its row in the rates.
    pub fn push_row(&mut self, job: TrainingJob, row: Option<usize>) {
        let job = self.measured(job);
        self.jobs.push(job);
        self.rows.push(row);
    }

    /// Replaces job n, and computes the shortest round of the new one.
    pub fn replace(&mut self, n: usize, job: TrainingJob) {
        self.jobs[n] = self.measured(job);
    }

    /// Multiplies the training and synchronisation times of job n by `factor`.
    pub fn drifted(&mut self, n: usize, factor: f64) {
        let mut job = self.jobs[n].clone();
        for seconds in job.train.iter_mut().chain(&mut job.sync) {
            *seconds *= factor;
        }
        self.replace(n, job);
    }
}

fn wants(job: &TrainingJob, allowed: u64) -> Wants<'_> {
    Wants {
        tasks: job.tasks,
        same_node: job.gang == Some(Gang::SameNode),
        train: &job.train,
        sync: &job.sync,
        allowed,
    }
}

/// `l` = least `t` with `sum_m floor((t - Ts_m) / Tc_m)^+ >= D`, for D tasks on `M_g` GPUs of class g.
///
/// Class g finishes `M_g` more tasks at `Ts + k Tc` for every k; the classes are merged in order
/// of these moments until all `D` tasks are done.
pub(crate) fn shortest_round(counts: &[usize], job: &TrainingJob, tasks: usize) -> f64 {
    let mut waves = vec![1.0; counts.len()];
    let mut left = tasks;
    loop {
        let moment = |g: usize| job.sync[g] + waves[g] * job.train[g];
        let next = (0..counts.len())
            .filter(|&g| counts[g] > 0)
            .min_by(|&a, &b| total(moment(a), moment(b)));
        let Some(g) = next else { return f64::INFINITY };
        let at = moment(g);
        if left <= counts[g] || at.is_infinite() {
            return at;
        }
        left -= counts[g];
        waves[g] += 1.0;
    }
}

/// Orders floating-point numbers.
pub(crate) fn total(a: f64, b: f64) -> Ordering {
    a.total_cmp(&b)
}
