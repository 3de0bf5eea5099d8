use crate::dataset::MAX_TASKS;
use crate::{Active, Anchor};

/// Most tasks for which each of the others has features of its own; beyond, only sums.
const MOST_NAMED: usize = 8;

/// Most features of a layout.
pub(crate) const MAX_FEATURES: usize = SUMS + 2 * (MOST_NAMED - 1);

/// Features that do not name another task.
const SUMS: usize = 8;

/// What the features of a co-run are made of, once for all its tasks.
pub(crate) struct Scene {
    len: usize,
    task: [usize; MAX_TASKS],
    share: [f64; MAX_TASKS],
    step: [f64; MAX_TASKS],
    ln_step: [f64; MAX_TASKS],
    ln_batch: [f64; MAX_TASKS],
}

impl Scene {
    /// Of a co-run.
    pub fn new(anchors: &[Anchor], active: &[Active]) -> Self {
        let zero = [0.0; MAX_TASKS];
        let mut s = Self {
            len: active.len(),
            task: [0; MAX_TASKS],
            share: zero,
            step: zero,
            ln_step: zero,
            ln_batch: zero,
        };
        for (k, a) in active.iter().enumerate() {
            s.task[k] = a.task;
            s.share[k] = a.share.fraction();
            s.step[k] = anchors[a.task].step_seconds(a.batch);
            s.ln_step[k] = s.step[k].ln();
            s.ln_batch[k] = a.batch.as_f64().ln();
        }
        s
    }

    /// Solo step time of the task at position `at`, seconds.
    pub fn step(&self, at: usize) -> f64 {
        self.step[at]
    }

    /// `(task, share)` of the others.
    pub fn others(&self, at: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        (0..self.len)
            .filter(move |k| *k != at)
            .map(|k| (self.task[k], self.share[k]))
    }
}

/// Which features describe a task's place in a co-run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Tasks of the workload.
    pub tasks: usize,
}

impl Layout {
    /// Features of a row.
    pub fn len(self) -> usize {
        SUMS + self.named() * 2
    }

    fn named(self) -> usize {
        if self.tasks <= MOST_NAMED {
            self.tasks - 1
        } else {
            0
        }
    }

    /// Names of the features of task `task`, for people; `name` gives a task's.
    pub fn names(self, task: usize, name: &dyn Fn(usize) -> String) -> Vec<String> {
        let mut v: Vec<String> = [
            "ln batch",
            "ln share",
            "sum of other shares",
            "work of others",
            "share x work of others",
            "ln total share",
            "overlap of shares",
            "number of others",
        ]
        .map(String::from)
        .to_vec();
        if self.named() > 0 {
            for j in (0..self.tasks).filter(|j| *j != task) {
                v.push(format!("share of {}", name(j)));
                v.push(format!("batch of {}", name(j)));
            }
        }
        v
    }

    /// Writes the features of the task at position `at` to the front of `x`.
    pub fn fill(self, s: &Scene, at: usize, x: &mut [f64; MAX_FEATURES]) {
        let own = s.share[at];
        let (mut share, mut work, mut both, mut excess) = (0.0, 0.0, 0.0, 0.0);
        let named = self.named();
        x[SUMS..SUMS + 2 * named].fill(0.0);
        for j in (0..s.len).filter(|j| *j != at) {
            let r = s.share[j];
            let w = s.step[j] / (s.step[at] + s.step[j]);
            share += r;
            work += w;
            both += r * w;
            excess += (own + r - 1.0).max(0.0);
            if named > 0 {
                // Position of task j among the others of this task.
                let place = s.task[j] - usize::from(s.task[j] > s.task[at]);
                x[SUMS + 2 * place] = r;
                x[SUMS + 2 * place + 1] = r * (s.ln_batch[j] - 4.0);
            }
        }
        x[0] = s.ln_batch[at];
        x[1] = own.ln();
        x[2] = share;
        x[3] = work;
        x[4] = both;
        x[5] = (own + share).ln();
        x[6] = excess;
        x[7] = (s.len - 1) as f64;
    }
}
