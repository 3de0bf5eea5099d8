use std::cmp::Ordering;

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
pub struct Job {
    /// Weight `w` of its completion time, 0 or more.
    pub weight: f64,
    /// Arrival `a` in seconds.
    pub arrival: f64,
    /// Rounds `R`, one after another, 1 or more.
    pub rounds: usize,
    /// Tasks `D` of a round, 1 or more.
    pub tasks: usize,
    /// Seconds of training `Tc` on each class; infinite where the class cannot run it.
    pub train: Vec<f64>,
    /// Seconds of synchronisation `Ts` on each class; the GPU is free meanwhile.
    pub sync: Vec<f64>,
    /// Least seconds `l` of a round with the whole cluster to itself; [`Problem::new`] computes it.
    pub shortest_round: f64,
}

impl Job {
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

    /// Tasks of all rounds.
    pub fn volume(&self) -> usize {
        self.rounds * self.tasks
    }

    /// `R D min Tc / w`: what Smith's rule sorts by; infinite for weight 0.
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
    /// The jobs.
    pub jobs: Vec<Job>,
}

impl Problem {
    /// Numbers the GPUs class by class (as `gpus` lists their classes) and computes the least
    /// round of every job. Every job must be able to run on some class.
    pub fn new(mut classes: Vec<Class>, gpus: Vec<usize>, mut jobs: Vec<Job>) -> Self {
        for (g, class) in classes.iter_mut().enumerate() {
            class.count = gpus.iter().filter(|&&c| c == g).count();
        }
        for job in &mut jobs {
            job.shortest_round = shortest_round(&classes, job);
        }
        Self {
            classes,
            gpus,
            jobs,
        }
    }

    /// `sum w (a + R l)`, the chain bound.
    pub fn chain_bound(&self) -> f64 {
        let each = self.jobs.iter();
        each.map(|j| j.weight * j.earliest_completion()).sum()
    }

    /// `sum w a`: flow cost is cost less this.
    pub fn weighted_arrivals(&self) -> f64 {
        self.jobs.iter().map(|j| j.weight * j.arrival).sum()
    }

    /// Tasks of all jobs.
    pub fn volume(&self) -> usize {
        self.jobs.iter().map(Job::volume).sum()
    }

    /// Adds a job.
    pub fn push(&mut self, mut job: Job) {
        job.shortest_round = shortest_round(&self.classes, &job);
        self.jobs.push(job);
    }

    /// Puts another in the place of job n.
    pub fn replace(&mut self, n: usize, mut job: Job) {
        job.shortest_round = shortest_round(&self.classes, &job);
        self.jobs[n] = job;
    }

    /// Job n takes `factor` times as long to train and to synchronise as was thought.
    pub fn drifted(&mut self, n: usize, factor: f64) {
        let mut job = self.jobs[n].clone();
        for seconds in job.train.iter_mut().chain(&mut job.sync) {
            *seconds *= factor;
        }
        self.replace(n, job);
    }
}

/// `l` = least `t` with `sum_m floor((t - Ts_m) / Tc_m)^+ >= D`.
///
/// Class g finishes `M_g` more tasks at `Ts + k Tc` for every k; the classes are merged in order
/// of these moments until all `D` tasks are done.
fn shortest_round(classes: &[Class], job: &Job) -> f64 {
    let mut waves = vec![1.0; classes.len()];
    let mut left = job.tasks;
    loop {
        let moment = |g: usize| job.sync[g] + waves[g] * job.train[g];
        let next = (0..classes.len())
            .filter(|&g| classes[g].count > 0)
            .min_by(|&a, &b| total(moment(a), moment(b)));
        let Some(g) = next else { return f64::INFINITY };
        let at = moment(g);
        if left <= classes[g].count || at.is_infinite() {
            return at;
        }
        left -= classes[g].count;
        waves[g] += 1.0;
    }
}

/// Orders floating-point numbers.
pub(crate) fn total(a: f64, b: f64) -> Ordering {
    a.total_cmp(&b)
}
