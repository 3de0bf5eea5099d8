//! Branch and bound over the order in which tasks start.
//!
//! Ending a task later never lowers the objective, so some optimal schedule is *active*: no task
//! can start earlier in a gap of its GPU without delaying another. Starting, in order of time, a
//! task of a ready round on a GPU as soon as both are free generates all active schedules. Tasks of
//! one round are interchangeable, and so are idle GPUs of a class. A gang starts as one, on a set
//! of GPUs.

use std::collections::HashMap;
use std::time::Instant;

use doc::Gang;

use crate::problem::total;
use crate::state::JobProgress;
use crate::{Assignment, Problem, Schedule};

/// Result of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct Exact {
    /// A schedule better than the given incumbent, if one was found.
    pub schedule: Option<Schedule>,
    /// Whether this schedule, or else the incumbent, is proven optimal; `false` if nodes or time
    /// ran out.
    pub proven: bool,
    /// Nodes of the search tree that were visited.
    pub nodes: u64,
}

/// Least relative improvement that counts: summing in another order changes the cost by less.
const ROUNDING: f64 = 1e-10;
/// Most states kept for the dominance test, to bound memory.
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
    let nodes = problem.jobs.iter().any(|j| j.gang == Some(Gang::SameNode));
    let alike = |a: usize, b: usize| {
        problem.gpus[a] == problem.gpus[b] && (!nodes || problem.nodes[a] == problem.nodes[b])
    };
    let first = |m: usize| (0..m).find(|&k| alike(k, m)).unwrap_or(m);
    let mut search = Search {
        problem,
        kinds: (0..problem.gpus.len()).map(first).collect(),
        smith,
        free: vec![0.0; problem.gpus.len()],
        jobs: crate::state::ClusterState::new(problem).jobs,
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
    /// For each GPU, the first GPU that is identical to it: of the same class, and on the same node
    /// if some gang must be on one node.
    kinds: Vec<usize>,
    smith: Vec<usize>,
    free: Vec<f64>,
    jobs: Vec<JobProgress>,
    path: Vec<Assignment>,
    best: f64,
    found: Option<Vec<Assignment>>,
    nodes: u64,
    most_nodes: u64,
    deadline: Option<Instant>,
    /// For each set of started tasks: the non-dominated times of the states seen.
    seen: HashMap<Vec<u32>, Vec<Vec<f64>>>,
    kept: usize,
}

struct Branch {
    job: usize,
    /// One GPU, or all GPUs of a gang.
    gpus: Vec<usize>,
    start: f64,
    trained: f64,
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
            // Treat it as if the nodes had run out.
            self.most_nodes = self.nodes;
            return;
        }
        // The bound comes from relaxations, so no completion of this node beats the incumbent.
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
            let before = self.jobs[branch.job];
            let free: Vec<f64> = branch.gpus.iter().map(|&m| self.free[m]).collect();
            self.start(&branch);
            self.descend(branch.start);
            self.path.truncate(self.path.len() - branch.gpus.len());
            self.jobs[branch.job] = before;
            for (&m, free) in branch.gpus.iter().zip(free) {
                self.free[m] = free;
            }
        }
    }

    fn unfinished(&self) -> impl Iterator<Item = usize> + '_ {
        let open = |&n: &usize| self.jobs[n].round < self.problem.jobs[n].rounds;
        (0..self.jobs.len()).filter(open)
    }

    fn start(&mut self, branch: &Branch) {
        let job = &self.problem.jobs[branch.job];
        let p = &mut self.jobs[branch.job];
        for &gpu in &branch.gpus {
            let place = p.next_task(branch.job);
            self.path.push(Assignment::new(
                place,
                gpu,
                branch.start,
                branch.trained,
                branch.synced,
            ));
            self.free[gpu] = branch.trained;
            p.start(job, branch.synced);
        }
    }

    /// Starts in order of time that leave no gap for a ready task, the most promising first.
    fn branches(&self, now: f64) -> Vec<Branch> {
        let mut all: Vec<Branch> = Vec::new();
        for n in self.unfinished() {
            for gpus in self.sets(n) {
                let free = gpus.iter().map(|&m| self.free[m]).fold(0.0, f64::max);
                let start = free.max(self.jobs[n].ready);
                let (train, sync) = self.problem.pace(n, &gpus);
                if start >= now && train.is_finite() {
                    all.push(Branch {
                        job: n,
                        gpus,
                        start,
                        trained: start + train,
                        synced: start + train + sync,
                    });
                }
            }
        }
        // Drop a start if another ready task fits into the gap before it: the schedule would not be
        // active, since no later start is earlier than this one. The gap counts only if the task is
        // synchronised in it no later than on any GPU after it; a GPU with a slow synchronisation
        // has no usable gap.
        let soonest = |n: usize| self.problem.jobs[n].fastest_synchronised();
        let keeps = |b: &Branch| {
            let fits = |o: &Branch| o.trained <= b.start && o.synced <= b.start + soonest(o.job);
            !all.iter().any(fits)
        };
        let keep: Vec<bool> = all.iter().map(keeps).collect();
        let mut kept = keep.into_iter();
        all.retain(|_| kept.next().unwrap_or(true));
        // The order of the branches affects how soon a good incumbent prunes, never what is proven.
        // The earliest end comes first, as in a list placement; Smith's ratio, with a weight of a
        // thousandth, decides near-ties. The weight was chosen by hand.
        let urgency = |b: &Branch| b.synced + 1e-3 * self.problem.jobs[b.job].smith_ratio();
        all.sort_by(|a, b| total(urgency(a), urgency(b)).then(a.job.cmp(&b.job)));
        all
    }

    /// GPUs that the next task of a job, or its gang, may take. Among identical GPUs that are free at
    /// the same time, the first are used first.
    fn sets(&self, n: usize) -> Vec<Vec<usize>> {
        let job = &self.problem.jobs[n];
        let gpus = self.free.len();
        let twin =
            |a: usize, b: usize| self.kinds[a] == self.kinds[b] && self.free[a] == self.free[b];
        let Some(gang) = job.gang else {
            let first = |&m: &usize| !(0..m).any(|k| twin(k, m));
            return (0..gpus).filter(first).map(|m| vec![m]).collect();
        };
        let mut sets = Vec::new();
        for bits in 0_u32..1 << gpus {
            if bits.count_ones() as usize != job.tasks {
                continue;
            }
            let set: Vec<usize> = (0..gpus).filter(|m| bits >> m & 1 == 1).collect();
            let first = |&m: &usize| (0..m).all(|k| bits >> k & 1 == 1 || !twin(k, m));
            let nodes = |m: &usize| self.problem.nodes[*m] == self.problem.nodes[set[0]];
            if set.iter().all(first) && (gang == Gang::Anywhere || set.iter().all(nodes)) {
                sets.push(set);
            }
        }
        sets
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
        // Capacity counts from the moment at which the first GPU is free: no task can start
        // earlier.
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
    fn chain_end(&self, job: &crate::TrainingJob, p: &JobProgress, now: f64) -> f64 {
        let left = (job.rounds - p.round) as f64;
        if left == 0.0 {
            return p.ready;
        }
        let task = (0..self.free.len()).map(|m| {
            let class = self.problem.gpus[m];
            self.free[m].max(p.ready).max(now) + job.train[class] + job.sync[class]
        });
        let task = task.fold(f64::INFINITY, f64::min);
        // A round that has started is bounded by what it still needs; the least length of a whole
        // round would count work that is already done.
        let whole = if p.started == 0 {
            now.max(p.ready) + job.shortest_round
        } else {
            0.0
        };
        task.max(p.synced).max(whole) + (left - 1.0) * job.shortest_round
    }

    /// Whether the search has met a state with the same tasks started and no time later than here.
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
        // GPUs of a kind are interchangeable, so their times are compared in sorted order.
        for g in 0..self.free.len() {
            let own = (0..self.free.len()).filter(|&m| self.kinds[m] == g);
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
