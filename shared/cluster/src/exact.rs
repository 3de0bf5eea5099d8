//! Branch and bound over the order in which tasks start.
//!
//! The objective never falls when a task ends later, so some optimal schedule is *active*: no task
//! can start earlier in a gap of its GPU without delaying another. All active schedules are met by
//! starting, in order of time, a task of a ready round on a GPU as soon as both are free. Tasks of
//! a round are alike, and so are idle GPUs of a class.

use std::collections::HashMap;
use std::time::Instant;

use crate::problem::total;
use crate::state::Progress;
use crate::{Assignment, Problem, Schedule};

/// What the search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Exact {
    /// A schedule better than the incumbent given, if there is one.
    pub schedule: Option<Schedule>,
    /// Whether nothing is better than that, or than the incumbent; `false` if nodes or time ran out.
    pub proven: bool,
    /// Nodes looked at.
    pub nodes: u64,
}

/// Improvement that counts, relative to the cost: sums in another order differ by less.
const ROUNDING: f64 = 1e-10;
/// States kept to compare with, to bound memory.
const MOST_STATES: usize = 200_000;

/// Nodes between two looks at the clock: about a millisecond.
const LOOK: u64 = 512;

/// Searches for a schedule cheaper than `incumbent`, in at most `most_nodes` nodes and until the
/// deadline, if there is one.
pub fn exact(
    problem: &Problem,
    incumbent: f64,
    most_nodes: u64,
    deadline: Option<Instant>,
) -> Exact {
    let mut smith: Vec<usize> = (0..problem.jobs.len()).collect();
    smith.sort_by(|&a, &b| total(problem.jobs[a].smith_ratio(), problem.jobs[b].smith_ratio()));
    let mut search = Search {
        problem,
        smith,
        free: vec![0.0; problem.gpus.len()],
        jobs: crate::state::State::new(problem).jobs,
        path: Vec::new(),
        best: incumbent,
        found: None,
        nodes: 0,
        most_nodes,
        deadline,
        seen: HashMap::new(),
        kept: 0,
    };
    search.descend(0.0);
    Exact {
        proven: search.nodes < search.most_nodes,
        nodes: search.nodes,
        schedule: search
            .found
            .map(|path| Schedule::new(problem.jobs.len(), path)),
    }
}

struct Search<'p> {
    problem: &'p Problem,
    smith: Vec<usize>,
    free: Vec<f64>,
    jobs: Vec<Progress>,
    path: Vec<Assignment>,
    best: f64,
    found: Option<Vec<Assignment>>,
    nodes: u64,
    most_nodes: u64,
    deadline: Option<Instant>,
    /// For what has been started: the times of states met, none of which is better in everything.
    seen: HashMap<Vec<u32>, Vec<Vec<f64>>>,
    kept: usize,
}

#[derive(Clone, Copy)]
struct Branch {
    job: usize,
    gpu: usize,
    start: f64,
    synced: f64,
}

impl Search<'_> {
    fn descend(&mut self, now: f64) {
        if self.nodes >= self.most_nodes {
            return;
        }
        self.nodes += 1;
        let late = |d: Instant| Instant::now() >= d;
        if self.nodes.is_multiple_of(LOOK) && self.deadline.is_some_and(late) {
            // As if they had run out.
            self.most_nodes = self.nodes;
            return;
        }
        if self.bound(now) >= self.best * (1.0 - ROUNDING) {
            return;
        }
        if self.unfinished().next().is_none() {
            self.best = self
                .jobs
                .iter()
                .zip(&self.problem.jobs)
                .map(|(p, j)| j.weight * p.ready)
                .sum();
            self.found = Some(self.path.clone());
            return;
        }
        if self.dominated(now) {
            return;
        }
        for branch in self.branches(now) {
            let before = (self.jobs[branch.job], self.free[branch.gpu]);
            self.start(branch);
            self.descend(branch.start);
            self.path.pop();
            (self.jobs[branch.job], self.free[branch.gpu]) = before;
        }
    }

    fn unfinished(&self) -> impl Iterator<Item = usize> + '_ {
        let open = |&n: &usize| self.jobs[n].round < self.problem.jobs[n].rounds;
        (0..self.jobs.len()).filter(open)
    }

    fn start(&mut self, branch: Branch) {
        let job = &self.problem.jobs[branch.job];
        let p = &mut self.jobs[branch.job];
        let trained = branch.start + job.train[self.problem.gpus[branch.gpu]];
        self.path.push(Assignment {
            job: branch.job,
            round: p.round,
            task: p.started,
            gpu: branch.gpu,
            switch: 0.0,
            start: branch.start,
            trained,
            synced: branch.synced,
        });
        self.free[branch.gpu] = trained;
        p.started += 1;
        p.synced = p.synced.max(branch.synced);
        if p.started == job.tasks {
            *p = Progress {
                round: p.round + 1,
                started: 0,
                ready: p.synced,
                synced: 0.0,
            };
        }
    }

    /// Starts that keep the order of time and leave no gap for a ready task; promising first.
    fn branches(&self, now: f64) -> Vec<Branch> {
        let mut all = Vec::new();
        for n in self.unfinished() {
            let job = &self.problem.jobs[n];
            for (gpu, &free) in self.free.iter().enumerate() {
                let class = self.problem.gpus[gpu];
                let twin = (0..gpu).any(|m| self.problem.gpus[m] == class && self.free[m] == free);
                if job.train[class].is_finite() && !twin {
                    let start = free.max(self.jobs[n].ready);
                    let synced = start + job.train[class] + job.sync[class];
                    all.push((
                        Branch {
                            job: n,
                            gpu,
                            start,
                            synced,
                        },
                        start + job.train[class],
                    ));
                }
            }
        }
        // A gap before a start that a ready task would fit into: that schedule is not active. The
        // start must not lie before what has started already either.
        let mut open: Vec<Branch> = all
            .iter()
            .filter(|(b, _)| b.start >= now)
            .filter(|(b, _)| {
                let fits = |(other, end): &(Branch, f64)| {
                    other.gpu == b.gpu && *end <= b.start && other.start >= now
                };
                !all.iter().any(fits)
            })
            .map(|(b, _)| *b)
            .collect();
        let urgency = |b: &Branch| b.synced + 1e-3 * self.problem.jobs[b.job].smith_ratio();
        open.sort_by(|a, b| total(urgency(a), urgency(b)).then(a.job.cmp(&b.job)));
        open
    }

    /// The larger of two bounds: every job along its chain, and all work as a fluid on one machine
    /// as fast as all GPUs together, in Smith's order (least volume over weight first).
    fn bound(&self, now: f64) -> f64 {
        let mut chain = 0.0;
        let mut fluid = 0.0;
        let idle = self
            .free
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min)
            .max(now);
        let mut ends: Vec<f64> = Vec::with_capacity(self.jobs.len());
        for (job, p) in self.problem.jobs.iter().zip(&self.jobs) {
            ends.push(self.chain_end(job, p, now));
        }
        // Gaps of waiting GPUs cannot be used up: capacity counts from the first free GPU on.
        let mut volume = 0.0;
        let mut open: Vec<(f64, f64, usize)> = Vec::with_capacity(self.jobs.len());
        for &n in &self.smith {
            let (job, p) = (&self.problem.jobs[n], &self.jobs[n]);
            chain += job.weight * ends[n];
            let left = (job.rounds - p.round) * job.tasks - p.started;
            if left == 0 {
                fluid += job.weight * ends[n];
                continue;
            }
            let work = left as f64 * job.fastest();
            open.push((work / job.weight, work, n));
        }
        open.sort_by(|a, b| total(a.0, b.0));
        for (_, work, n) in open {
            volume += work;
            let job = &self.problem.jobs[n];
            fluid += job.weight * (idle + volume / self.free.len() as f64);
        }
        chain.max(fluid)
    }

    /// Earliest end of a job: the rest of its round on the GPUs as they are, then its chain.
    fn chain_end(&self, job: &crate::Job, p: &Progress, now: f64) -> f64 {
        let left = (job.rounds - p.round) as f64;
        if left == 0.0 {
            return p.ready;
        }
        let task = (0..self.free.len()).map(|m| {
            let class = self.problem.gpus[m];
            self.free[m].max(p.ready).max(now) + job.train[class] + job.sync[class]
        });
        let task = task.fold(f64::INFINITY, f64::min);
        let whole = if p.started == 0 {
            now.max(p.ready) + job.shortest_round
        } else {
            0.0
        };
        task.max(p.synced).max(whole) + (left - 1.0) * job.shortest_round
    }

    /// Whether a state with the same tasks started was met that is no later in anything.
    fn dominated(&mut self, now: f64) -> bool {
        let key: Vec<u32> = self
            .jobs
            .iter()
            .zip(&self.problem.jobs)
            .map(|(p, j)| (p.round * j.tasks + p.started) as u32)
            .collect();
        let mut times: Vec<f64> = vec![now];
        for p in &self.jobs {
            times.extend([p.ready, p.synced]);
        }
        // GPUs of a class are alike: their times are compared in order of size.
        for g in 0..self.problem.classes.len() {
            let own = (0..self.free.len()).filter(|&m| self.problem.gpus[m] == g);
            let mut free: Vec<f64> = own.map(|m| self.free[m].max(now)).collect();
            free.sort_by(f64::total_cmp);
            times.extend(free);
        }
        let states = self.seen.entry(key).or_default();
        let no_later = |a: &Vec<f64>, b: &Vec<f64>| a.iter().zip(b).all(|(x, y)| x <= y);
        if states.iter().any(|s| no_later(s, &times)) {
            return true;
        }
        if self.kept < MOST_STATES {
            let before = states.len();
            states.retain(|s| !no_later(&times, s));
            states.push(times);
            self.kept = self.kept + states.len() - before;
        }
        false
    }
}
