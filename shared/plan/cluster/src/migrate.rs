//! Jobs that use one GPU at a time and may move between GPUs between rounds.
//!
//! For jobs of equal weight that are all present and never move, AlloX's matching is optimal.
//! Moving gains more: a GPU that no sequence needs (a slow one, towards the end) trains a job that
//! waits for a faster one, and a faster one that has finished its jobs takes over from a slower
//! one.

use crate::baselines::{sequences, train_round};
use crate::{Assignment, Problem, Schedule};

/// A schedule in progress.
struct Moving<'p> {
    problem: &'p Problem,
    /// Rounds left of every job.
    left: Vec<usize>,
    /// When the present round may start: the arrival at first.
    ready: Vec<f64>,
    free: Vec<f64>,
    /// The matched jobs of every GPU, the first to run first.
    sequences: Vec<Vec<usize>>,
    out: Vec<Assignment>,
}

/// Matches the remaining work of all jobs to the GPUs again at every arrival and completion, and
/// lets idle GPUs help out, round by round. Ignores weights.
///
/// An alternative to the matching was tried: each GPU takes the job with the highest value per
/// remaining work, with values searched in 6,000 trials. On Gavel's trace (71 jobs, moves at any
/// moment) its mean was 25,420 s, above AlloX's 25,402 s without any move. With tasks of 360 s,
/// matching again at 200 more moments of the trace gave 25,364 s; without these, the mean is 25,337
/// s.
pub fn migrating(problem: &Problem) -> Schedule {
    Moving::new(problem).play()
}

impl<'p> Moving<'p> {
    fn new(problem: &'p Problem) -> Self {
        Self {
            problem,
            left: problem.jobs.iter().map(|j| j.rounds).collect(),
            ready: problem.jobs.iter().map(|j| j.arrival).collect(),
            free: vec![0.0; problem.gpus.len()],
            sequences: Vec::new(),
            out: Vec::with_capacity(problem.volume()),
        }
    }

    fn play(mut self) -> Schedule {
        let mut now = 0.0_f64;
        // Numbers of arrived jobs and of incomplete jobs at the last matching.
        let mut matched = None;
        loop {
            let arrived = self
                .problem
                .jobs
                .iter()
                .filter(|j| j.arrival <= now)
                .count();
            let open = self.left.iter().filter(|&&l| l > 0).count();
            if open == 0 {
                return Schedule::new(self.problem.jobs.len(), self.out);
            }
            if matched.replace((arrived, open)) != Some((arrived, open)) {
                self.match_again(now);
            }
            self.start_own(now);
            self.help(now);
            let open = (0..self.left.len()).filter(|&n| self.left[n] > 0);
            let moments = open.map(|n| self.ready[n]).chain(self.free.iter().copied());
            // Every job fits some GPU, so that there is always something to wait for.
            now = moments.filter(|&t| t > now).fold(f64::INFINITY, f64::min);
            debug_assert!(now.is_finite(), "a job is left that nothing takes");
        }
    }

    /// Seconds of a round on a GPU: its tasks one after another, then the last synchronisation.
    fn round(&self, n: usize, gpu: usize) -> f64 {
        let job = &self.problem.jobs[n];
        let class = self.problem.gpus[gpu];
        job.tasks as f64 * job.train[class] + job.sync[class]
    }

    fn match_again(&mut self, now: f64) {
        let open: Vec<usize> = (0..self.left.len())
            .filter(|&n| self.left[n] > 0 && self.problem.jobs[n].arrival <= now)
            .collect();
        let cost = |row: usize, gpu: usize| {
            let n = open[row];
            let whole = self.left[n] as f64 * self.round(n, gpu);
            (whole, (self.free[gpu].max(self.ready[n]) - now).max(0.0))
        };
        let rows = sequences(open.len(), self.free.len(), cost);
        let named = |own: Vec<usize>| own.into_iter().map(|row| open[row]).collect();
        self.sequences = rows.into_iter().map(named).collect();
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

    /// GPUs that are still idle take a round of a job that waits for another GPU, if the round ends
    /// here no later than there. The job with the highest speed relative to its own GPU is first.
    fn help(&mut self, now: f64) {
        let mut waiting: Vec<(usize, usize, f64)> = Vec::new();
        for (gpu, own) in self.sequences.iter().enumerate() {
            let mut until = self.free[gpu].max(now);
            for &n in own.iter().filter(|&&n| self.left[n] > 0) {
                let once = self.round(n, gpu);
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
                let here = self.round(n, gpu);
                (now + here <= end).then(|| self.round(n, own) / here)
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

    /// Runs a whole round of a job on a GPU.
    fn start(&mut self, n: usize, gpu: usize, now: f64) {
        let job = &self.problem.jobs[n];
        let class = self.problem.gpus[gpu];
        let round = job.rounds - self.left[n];
        let at = train_round(self.problem, n, round, gpu, now, &mut self.out);
        self.free[gpu] = at;
        self.ready[n] = at + job.sync[class];
        self.left[n] -= 1;
    }
}
