//! Jobs on one GPU at a time that move between GPUs at the ends of their rounds.
//!
//! For jobs of one weight that are all there and stay where they begin, AlloX' matching is the
//! optimum. Where a job may move, there is more to gain: a GPU that no sequence needs (a slow one,
//! towards the end) trains a job that waits for a faster one, and a faster one that has come to its
//! end takes over from a slower one.

mod values;

use crate::baselines::sequences;
use crate::{Assignment, Problem, Schedule};
use values::{Values, round};

/// Who decides which jobs a GPU is for.
enum Plan {
    /// AlloX' matching of the rest of all jobs.
    Sequences,
    /// The matching that is worth most now.
    Worth(Values),
}

/// A schedule in progress.
struct Moving<'p> {
    problem: &'p Problem,
    plan: Plan,
    /// Rounds left of every job.
    left: Vec<usize>,
    /// When the present round may start: the arrival at first.
    ready: Vec<f64>,
    free: Vec<f64>,
    /// The jobs that are meant for every GPU, the first to run first.
    sequences: Vec<Vec<usize>>,
    out: Vec<Assignment>,
}

/// The better of two schedules, which decide anew at every arrival and completion who is meant for which
/// GPU, and let a GPU that has nothing to do help out, round by round.
pub fn migrating(problem: &Problem, seed: u64) -> Schedule {
    let plans = [Plan::Sequences, Plan::Worth(Values::search(problem, seed))];
    let made = plans.map(|plan| Moving::new(problem, plan).play());
    let better = made
        .into_iter()
        .min_by(|a, b| a.cost(problem).total_cmp(&b.cost(problem)));
    better.unwrap_or_default()
}

impl<'p> Moving<'p> {
    fn new(problem: &'p Problem, plan: Plan) -> Self {
        Self {
            problem,
            plan,
            left: problem.jobs.iter().map(|j| j.rounds).collect(),
            ready: problem.jobs.iter().map(|j| j.arrival).collect(),
            free: vec![0.0; problem.gpus.len()],
            sequences: Vec::new(),
            out: Vec::with_capacity(problem.volume()),
        }
    }

    fn play(mut self) -> Schedule {
        let mut now = 0.0_f64;
        // Jobs that had arrived, and jobs that were not complete, when GPUs were given last.
        let mut given = None;
        loop {
            let arrived = self.problem.jobs.iter().filter(|j| j.arrival <= now);
            let arrived = arrived.count();
            let open = self.left.iter().filter(|&&l| l > 0).count();
            if open == 0 {
                return Schedule::new(self.problem.jobs.len(), self.out);
            }
            if given != Some((arrived, open)) {
                given = Some((arrived, open));
                self.give(now);
            }
            self.start_own(now);
            self.help(now);
            let open = (0..self.left.len()).filter(|&n| self.left[n] > 0);
            let moments = open.map(|n| self.ready[n]);
            let moments = moments.chain(self.free.iter().copied());
            // Every job fits some GPU, so that there is always something to wait for.
            now = moments.filter(|&t| t > now).fold(f64::INFINITY, f64::min);
            debug_assert!(now.is_finite(), "a job is left that nothing takes");
        }
    }

    /// Decides which jobs each GPU is for.
    fn give(&mut self, now: f64) {
        let open: Vec<usize> = (0..self.left.len())
            .filter(|&n| self.left[n] > 0 && self.problem.jobs[n].arrival <= now)
            .collect();
        self.sequences = match &self.plan {
            Plan::Sequences => {
                let cost = |row: usize, gpu: usize| {
                    let n = open[row];
                    let whole = self.left[n] as f64 * round(self.problem, n, gpu);
                    (whole, (self.free[gpu].max(self.ready[n]) - now).max(0.0))
                };
                let rows = sequences(open.len(), self.free.len(), cost);
                let named = |own: Vec<usize>| own.into_iter().map(|row| open[row]).collect();
                rows.into_iter().map(named).collect()
            }
            Plan::Worth(values) => {
                let left: Vec<f64> = self.left.iter().map(|&l| l as f64).collect();
                let assigned = values.assigned(self.problem, &open, &left);
                let mut own: Vec<Vec<usize>> = assigned
                    .iter()
                    .map(|n| n.iter().copied().collect())
                    .collect();
                // Whoever has no GPU is next on the one where its rest is shortest.
                for &n in open.iter().filter(|&&n| !assigned.contains(&Some(n))) {
                    let gpus = 0..own.len();
                    let seconds = |gpu: &usize| round(self.problem, n, *gpu);
                    let best = gpus.min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
                    own[best.unwrap_or(0)].push(n);
                }
                own
            }
        };
    }

    fn can_start(&self, n: usize, now: f64) -> bool {
        self.left[n] > 0 && self.ready[n] <= now
    }

    /// Every idle GPU takes the first of its jobs that can start.
    fn start_own(&mut self, now: f64) {
        for gpu in 0..self.free.len() {
            if self.free[gpu] > now {
                continue;
            }
            let mut own = self.sequences[gpu].iter().copied();
            if let Some(n) = own.find(|&n| self.can_start(n, now)) {
                self.start(n, gpu, now);
            }
        }
    }

    /// GPUs that are idle still take a round of a job that waits for another GPU, if it ends no later
    /// there than on its own; the job that gets on fastest compared with its own GPU first.
    fn help(&mut self, now: f64) {
        let mut waiting: Vec<(usize, usize, f64)> = Vec::new();
        for (gpu, own) in self.sequences.iter().enumerate() {
            let mut until = self.free[gpu].max(now);
            for &n in own.iter().filter(|&&n| self.left[n] > 0) {
                let once = round(self.problem, n, gpu);
                if self.can_start(n, now) {
                    waiting.push((n, gpu, until + once));
                }
                until += self.left[n] as f64 * once;
            }
        }
        for gpu in 0..self.free.len() {
            if self.free[gpu] > now {
                continue;
            }
            let gain = |&(n, own, end): &(usize, usize, f64)| {
                let here = round(self.problem, n, gpu);
                (now + here <= end).then(|| round(self.problem, n, own) / here)
            };
            let all = waiting.iter().enumerate();
            let best = all.filter_map(|(i, w)| Some((i, gain(w)?)));
            let Some((i, _)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) else {
                continue;
            };
            let (n, ..) = waiting.swap_remove(i);
            self.start(n, gpu, now);
        }
    }

    /// A whole round of a job on a GPU.
    fn start(&mut self, n: usize, gpu: usize, now: f64) {
        let job = &self.problem.jobs[n];
        let class = self.problem.gpus[gpu];
        let round = job.rounds - self.left[n];
        let mut at = now;
        for task in 0..job.tasks {
            let trained = at + job.train[class];
            self.out.push(Assignment {
                job: n,
                round,
                task,
                gpu,
                switch: 0.0,
                start: at,
                trained,
                synced: trained + job.sync[class],
            });
            at = trained;
        }
        self.free[gpu] = at;
        self.ready[n] = at + job.sync[class];
        self.left[n] -= 1;
    }
}
