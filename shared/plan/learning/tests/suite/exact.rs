//! The slow twin of the search: every allocation of every phase.

use learning::{Active, Problem};

/// The minimum of the objective over all allocations that change only when a job completes, and an allocation of the
/// first phase that reaches it. Time grows as the product over phases of `C(gpus + n - 1, n - 1)`: for four jobs on
/// eight GPUs 70,000 phases.
#[must_use]
pub fn optimum(problem: &Problem) -> (f64, Vec<u32>) {
    let left: Vec<f64> = problem.jobs().iter().map(|j| j.work).collect();
    let mut search = Exact {
        problem,
        completions: vec![0.0; problem.len()],
        best: f64::INFINITY,
        first: vec![0; problem.len()],
        chosen: vec![0; problem.len()],
    };
    search.phase(Active::of(problem), &left, 0.0, true);
    (search.best, search.first)
}

struct Exact<'a> {
    problem: &'a Problem,
    completions: Vec<f64>,
    best: f64,
    first: Vec<u32>,
    /// The first phase of the current attempt.
    chosen: Vec<u32>,
}

impl Exact<'_> {
    fn phase(&mut self, active: Active, left: &[f64], now: f64, is_first: bool) {
        if active.is_empty() {
            let value = self.problem.value(&self.completions);
            if value < self.best {
                self.best = value;
                self.first.clone_from(&self.chosen);
            }
            return;
        }
        let jobs: Vec<usize> = active.iter().collect();
        let mut gpus = vec![0; left.len()];
        self.divide(&jobs, self.problem.gpus, &mut gpus, &mut |exact, gpus| {
            if is_first {
                exact.chosen.copy_from_slice(gpus);
            }
            exact.play(active, left, gpus, now);
        });
    }

    /// Calls `then` with every division of `free` GPUs among `jobs`. Idle GPUs need no division of their own: a job
    /// does not use those that slow it down.
    fn divide(
        &mut self,
        jobs: &[usize],
        free: u32,
        gpus: &mut Vec<u32>,
        then: &mut dyn FnMut(&mut Self, &[u32]),
    ) {
        match jobs {
            [] => {}
            [last] => {
                gpus[*last] = free;
                then(self, gpus);
            }
            [first, rest @ ..] => {
                for g in 0..=free {
                    gpus[*first] = g;
                    self.divide(rest, free - g, gpus, then);
                }
            }
        }
    }

    fn play(&mut self, active: Active, left: &[f64], gpus: &[u32], now: f64) {
        let rate = |i: usize| self.problem.rate(i, gpus[i]);
        let ends = active.iter().map(|i| left[i] / rate(i));
        let phase = ends.fold(f64::INFINITY, f64::min);
        if !phase.is_finite() {
            return;
        }
        let mut after = left.to_vec();
        let mut rest = active;
        for i in active.iter() {
            after[i] = left[i] - phase * rate(i);
            if after[i] <= 1e-12 * left[i] {
                self.completions[i] = now + phase;
                rest = rest.without(i);
            }
        }
        self.phase(rest, &after, now + phase, false);
    }
}
