use crate::dataset::MAX_TASKS;
use crate::structured::{Law, company};
use crate::{Active, Anchor};

/// Most tasks for which each of the others has features of its own; beyond, only sums.
const MOST_NAMED: usize = 8;

/// Most features of a layout.
pub(crate) const MAX_FEATURES: usize = SUMS + 2 * (MOST_NAMED - 1);

/// Features that do not name another task.
const SUMS: usize = 8;

/// What predictions of a co-run are made of, once for all its tasks.
pub(crate) struct Scene {
    len: usize,
    /// `x_m` of the law.
    company: f64,
    task: [usize; MAX_TASKS],
    share: [f64; MAX_TASKS],
    /// Solo step seconds by the anchor.
    step: [f64; MAX_TASKS],
    batch: [f64; MAX_TASKS],
    /// `u_j` of the law: part of its step in which the task uses the device.
    busy: [f64; MAX_TASKS],
    /// `u_j sqrt(R_j)`.
    pressure: [f64; MAX_TASKS],
}

impl Scene {
    /// Of a co-run.
    pub fn new(anchors: &[Anchor], laws: &[Law], active: &[Active]) -> Self {
        let zero = [0.0; MAX_TASKS];
        let mut s = Self {
            len: active.len(),
            company: company(active.len()),
            task: [0; MAX_TASKS],
            share: zero,
            step: zero,
            batch: zero,
            busy: zero,
            pressure: zero,
        };
        for (k, a) in active.iter().enumerate() {
            s.task[k] = a.task;
            s.share[k] = a.share.fraction();
            s.step[k] = anchors[a.task].step_seconds(a.batch);
            s.batch[k] = a.batch.as_f64();
            s.busy[k] = laws[a.task].pace.busy(s.batch[k], s.share[k], s.company);
            s.pressure[k] = s.busy[k] * s.share[k].sqrt();
        }
        s
    }

    /// Solo step time of the task at position `at`, seconds.
    pub fn step(&self, at: usize) -> f64 {
        self.step[at]
    }

    /// Step time of the task at position `at` by its law, seconds.
    pub fn by_law(&self, at: usize, law: &Law) -> f64 {
        let others = (0..self.len).filter(|k| *k != at);
        let pressure = others.map(|k| (self.task[k], self.pressure[k]));
        law.step(self.batch[at], self.share[at], self.company, pressure)
    }
}

/// Something that throughput depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// What it is.
    pub what: &'static str,
    /// Of which other task; `None`: of the task itself, or of all others.
    pub of: Option<usize>,
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

    /// What the features of task `task` are.
    pub fn drivers(self, task: usize) -> Vec<Driver> {
        let mut v: Vec<Driver> = [
            "batch size",
            "share",
            "sum of the others' shares",
            "device time of the others",
            "pressure of the others",
            "total share",
            "overlap of shares",
            "number of others",
        ]
        .map(|what| Driver { what, of: None })
        .to_vec();
        if self.named() > 0 {
            for j in (0..self.tasks).filter(|j| *j != task) {
                for what in ["share", "device time"] {
                    let of = Some(j);
                    v.push(Driver { what, of });
                }
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
            share += r;
            work += s.busy[j];
            both += s.pressure[j];
            excess += (own + r - 1.0).max(0.0);
            if named > 0 {
                // Position of task j among the others of this task.
                let place = s.task[j] - usize::from(s.task[j] > s.task[at]);
                x[SUMS + 2 * place] = r;
                x[SUMS + 2 * place + 1] = s.busy[j];
            }
        }
        x[0] = s.batch[at].ln();
        x[1] = own.ln();
        x[2] = share;
        x[3] = work;
        x[4] = both;
        x[5] = (own + share).ln();
        x[6] = excess;
        x[7] = (s.len - 1) as f64;
    }
}
