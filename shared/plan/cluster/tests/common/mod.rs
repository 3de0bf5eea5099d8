//! Random problems, and the slow twin of every search.

pub mod plain;

use cluster::{Class, Problem, TrainingJob};
use doc::Gang;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Size of random problems.
pub struct Size {
    pub gpus: Vec<usize>,
    pub jobs: usize,
    pub rounds: usize,
    pub tasks: usize,
    /// Mean seconds between arrivals.
    pub spacing: f64,
}

/// A random problem: classes that differ in speed by up to 7, jobs that differ by 8.
pub fn random(seed: u64, size: &Size) -> Problem {
    let mut rng = SmallRng::seed_from_u64(seed);
    let class = |count| Class {
        count,
        memory: f64::INFINITY,
        bus: f64::INFINITY,
    };
    let classes: Vec<Class> = size.gpus.iter().map(|&n| class(n)).collect();
    let gpus = size
        .gpus
        .iter()
        .enumerate()
        .flat_map(|(g, &n)| vec![g; n])
        .collect();
    let mut arrival = 0.0;
    let jobs = (0..size.jobs)
        .map(|_| {
            let base: f64 = rng.random_range(1.0..8.0);
            let train: Vec<f64> = (0..classes.len())
                .map(|g| {
                    if g == 0 {
                        base
                    } else {
                        base * rng.random_range(1.0..7.0)
                    }
                })
                .collect();
            let sync = train.iter().map(|_| rng.random_range(0.0..1.0)).collect();
            let job = TrainingJob {
                weight: f64::from(rng.random_range(1..=5)),
                arrival,
                rounds: rng.random_range(1..=size.rounds),
                tasks: rng.random_range(1..=size.tasks),
                train,
                sync,
                shortest_round: 0.0,
                deadline: f64::INFINITY,
                gang: None,
            };
            arrival += size.spacing * rng.random_range(0.0..2.0);
            job
        })
        .collect();
    Problem::new(classes, gpus, jobs)
}

/// Least cost over every order in which tasks can be appended to every GPU.
pub fn brute_force(problem: &Problem) -> f64 {
    let state = Brute {
        free: vec![0.0; problem.gpus.len()],
        jobs: problem
            .jobs
            .iter()
            .map(|j| (0, 0, j.arrival, 0.0))
            .collect(),
    };
    let mut best = f64::INFINITY;
    state.descend(problem, &mut best);
    best
}

#[derive(Clone)]
struct Brute {
    free: Vec<f64>,
    /// Round, tasks started, ready, latest synchronisation.
    jobs: Vec<(usize, usize, f64, f64)>,
}

impl Brute {
    fn descend(&self, problem: &Problem, best: &mut f64) {
        let mut whole = 0.0;
        let mut open = false;
        for (job, s) in problem.jobs.iter().zip(&self.jobs) {
            open |= s.0 < job.rounds;
            whole += job.weight * s.2.max(s.3);
        }
        // What has been placed already costs as much as the best: nothing else is pruned.
        if whole >= *best {
            return;
        }
        if !open {
            *best = whole;
            return;
        }
        for (n, job) in problem.jobs.iter().enumerate() {
            if self.jobs[n].0 >= job.rounds {
                continue;
            }
            if let Some(gang) = job.gang {
                self.descend_gang(problem, (n, gang), best);
                continue;
            }
            for gpu in 0..self.free.len() {
                let class = problem.gpus[gpu];
                let mut next = self.clone();
                let trained = next.free[gpu].max(next.jobs[n].2) + job.train[class];
                next.free[gpu] = trained;
                let s = &mut next.jobs[n];
                s.1 += 1;
                s.3 = s.3.max(trained + job.sync[class]);
                if s.1 == job.tasks {
                    *s = (s.0 + 1, 0, s.3, 0.0);
                }
                next.descend(problem, best);
            }
        }
    }

    /// A round of a gang behind what any set of GPUs has.
    fn descend_gang(&self, problem: &Problem, (n, gang): (usize, Gang), best: &mut f64) {
        let job = &problem.jobs[n];
        for bits in 0_u32..1 << self.free.len() {
            let set: Vec<usize> = (0..self.free.len())
                .filter(|m| bits >> m & 1 == 1)
                .collect();
            let apart = set
                .iter()
                .any(|&m| problem.nodes[m] != problem.nodes[set[0]]);
            if set.len() != job.tasks || (gang == Gang::SameNode && apart) {
                continue;
            }
            let (mut start, mut train, mut sync) = (self.jobs[n].2, 0.0_f64, 0.0_f64);
            for &m in &set {
                start = start.max(self.free[m]);
                train = train.max(job.train[problem.gpus[m]]);
                sync = sync.max(job.sync[problem.gpus[m]]);
            }
            let mut next = self.clone();
            for &m in &set {
                next.free[m] = start + train;
            }
            let (round, ..) = self.jobs[n];
            next.jobs[n] = (round + 1, 0, start + train + sync, 0.0);
            next.descend(problem, best);
        }
    }
}
