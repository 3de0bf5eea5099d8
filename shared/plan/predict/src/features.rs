//! Features of a task in a co-run: the columns of its row, and the quantities behind them.

use units::corun::MAX_TASKS;

use crate::structured::Law;

/// Maximum number of tasks for which each other task has features of its own; beyond it, only sums are used.
const MOST_NAMED: usize = 8;

/// Maximum numbers of features: in the layout of one task's model, and in that of the process of all tasks.
pub(crate) const MAX_FEATURES: usize = if OF_TASK > OF_ALL { OF_TASK } else { OF_ALL };
const OF_TASK: usize = SUMS + EACH * MOST_NAMED;
const OF_ALL: usize = OWN + OTHER + 2 * MAX_TASKS;

/// Features that do not refer to another task.
pub(crate) const SUMS: usize = 12;

/// Numbers of features of [`Layout::fill_groups`] that do not identify a task: in the group of the task itself, and in
/// that of the others.
pub(crate) const OWN: usize = 3;
const OTHER: usize = 4;

/// The feature that counts the others.
pub(crate) const OTHERS: usize = 7;

/// Logarithm of a small batch size, which is subtracted from that of a batch: an absent task has feature 0, like a task
/// with a tiny batch.
const SMALL: f64 = 3.0;

/// Features of each other task.
const EACH: usize = 5;

/// Inputs for predictions of a co-run, computed once for all its tasks
/// ([`crate::base::Base::inputs`]).
pub(crate) struct CorunInputs {
    /// Running tasks.
    pub len: usize,
    /// Whether measured co-runs covered its share levels and its number of tasks; `true` if the model does not say.
    pub has_levels: bool,
    pub task: [usize; MAX_TASKS],
    pub kind: [usize; MAX_TASKS],
    pub share: [f64; MAX_TASKS],
    /// Logarithm of the solo step seconds by the anchor, on the whole device.
    pub ln_step: [f64; MAX_TASKS],
    /// Logarithm of the solo step seconds at its share; in models without that, on the whole device.
    pub ln_alone: [f64; MAX_TASKS],
    pub batch: [f64; MAX_TASKS],
    pub ln_batch: [f64; MAX_TASKS],
    /// Host part of its step in seconds, by the law; `device`: device part without contention. Both are scaled so that
    /// together they give the solo step.
    pub host: [f64; MAX_TASKS],
    pub device: [f64; MAX_TASKS],
    /// `u_j` of the law: the fraction of its step in which the task uses the device.
    pub busy: [f64; MAX_TASKS],
    /// `w_j = u_j R_j^e`.
    pub contention: [f64; MAX_TASKS],
}

impl CorunInputs {
    /// For `len` tasks, without data yet.
    pub fn empty(len: usize, has_levels: bool) -> Self {
        let zero = [0.0; MAX_TASKS];
        Self {
            len,
            has_levels,
            task: [0; MAX_TASKS],
            kind: [0; MAX_TASKS],
            share: zero,
            ln_step: zero,
            ln_alone: zero,
            batch: zero,
            ln_batch: zero,
            host: zero,
            device: zero,
            busy: zero,
            contention: zero,
        }
    }

    /// The inputs of the first group of [`Layout::fill_groups`], as bits: a key for [`crate::pool::OwnHalves`].
    pub fn own(&self, at: usize) -> [u64; 4] {
        let numbers = [self.ln_step[at], self.ln_batch[at], self.share[at]];
        let [step, batch, share] = numbers.map(f64::to_bits);
        [self.kind[at] as u64, step, batch, share]
    }

    /// Step time of the task at position `at` by its law, in seconds: [`Law::step`], computed from these inputs.
    pub fn by_law(&self, at: usize, law: &Law) -> f64 {
        let others = (0..self.len).filter(|k| *k != at);
        let contention = others.map(|k| law.slowdown[self.task[k]] * self.contention[k]);
        let device = self.device[at] * (1.0 + contention.sum::<f64>());
        law.pace.join(self.host[at], device)
    }
}

/// A quantity on which throughput depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Its name for people.
    pub what: &'static str,
    /// The other task that it refers to; `None` if it refers to the task itself, or to all others.
    pub of: Option<usize>,
}

/// Defines the features that describe a task in a co-run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Kinds of tasks of the workload.
    pub tasks: usize,
    /// Whether a kind may run together with itself.
    pub copies: bool,
}

impl Layout {
    /// Features of a row.
    pub fn len(self) -> usize {
        SUMS + self.named() * EACH
    }

    fn named(self) -> usize {
        match self.tasks {
            n if n > MOST_NAMED => 0,
            n => n - usize::from(!self.copies),
        }
    }

    /// Indices of the features that do not use the law: own batch size and share, and those of each other task.
    pub fn plain(self) -> Vec<usize> {
        if self.named() == 0 {
            return (0..SUMS).collect();
        }
        let each = (0..self.named()).flat_map(|k| [SUMS + EACH * k, SUMS + EACH * k + 2]);
        [0, 10].into_iter().chain(each).collect()
    }

    /// Names of the features of task `task`.
    pub fn drivers(self, task: usize) -> Vec<Driver> {
        let mut v: Vec<Driver> = [
            "batch size",
            "share",
            "sum of the others' shares",
            "device time of the others",
            "contention by the others",
            "total share",
            "overlap of shares",
            "number of others",
            "batch sizes of the others",
            "device time",
            "share (linear)",
            "solo step time",
        ]
        .map(|what| Driver { what, of: None })
        .to_vec();
        if self.named() > 0 {
            for j in (0..self.tasks).filter(|j| self.copies || *j != task) {
                for what in [
                    "share",
                    "device time",
                    "batch size",
                    "contention",
                    "share x batch size",
                ] {
                    let of = Some(j);
                    v.push(Driver { what, of });
                }
            }
        }
        v
    }

    /// Numbers of features of [`Layout::fill_groups`]: in the task's own group, and in both.
    pub fn groups(self) -> (usize, usize) {
        let own = OWN + self.tasks;
        (own, own + OTHER + self.tasks)
    }

    /// The features that identify the task, or the presence of a task among the others.
    pub fn identity(self) -> Vec<bool> {
        let (own, all) = self.groups();
        let names = |k: usize| (OWN..own).contains(&k) || k >= own + OTHER;
        (0..all).map(names).collect()
    }

    /// Writes the features for the process of all tasks to the front of `x`, in two groups: the task itself (kind,
    /// batch size, share), and the others (number, size, kinds with their shares). They do not use the law, so that a
    /// law from ten co-runs cannot mislead the process. Features that identify each kind reduced the error with 52 jobs
    /// and 500 pairs from 18 to 15 %.
    pub fn fill_groups(self, s: &CorunInputs, at: usize, x: &mut [f64; MAX_FEATURES]) {
        let (own, all) = self.groups();
        x[..all].fill(0.0);
        x[..OWN].copy_from_slice(&[s.ln_step[at], s.ln_batch[at], s.share[at].ln()]);
        x[OWN + s.kind[at]] = 1.0;
        let others = (s.len - 1) as f64;
        let sums = &mut x[own..all];
        for j in (0..s.len).filter(|j| *j != at) {
            sums[1] += s.share[j];
            sums[2] += s.ln_step[j] / others;
            sums[3] += s.ln_batch[j] / others;
            sums[OTHER + s.kind[j]] += s.share[j];
        }
        sums[0] = others;
    }

    /// The features that [`Layout::fill_groups`] writes.
    pub fn groups_of(self, s: &CorunInputs, at: usize) -> Vec<f64> {
        let mut x = [0.0; MAX_FEATURES];
        self.fill_groups(s, at, &mut x);
        x[..self.groups().1].to_vec()
    }

    /// Writes the features of the task at position `at` to the front of `x`.
    pub fn fill(self, s: &CorunInputs, at: usize, x: &mut [f64; MAX_FEATURES]) {
        let own = s.share[at];
        let (mut share, mut work, mut contention, mut excess, mut batches) =
            (0.0, 0.0, 0.0, 0.0, 0.0);
        let named = self.named();
        x[SUMS..SUMS + EACH * named].fill(0.0);
        for j in (0..s.len).filter(|j| *j != at) {
            let (r, ln_batch) = (s.share[j], s.ln_batch[j]);
            share += r;
            work += s.busy[j];
            contention += s.contention[j];
            batches += ln_batch;
            excess += (own + r - 1.0).max(0.0);
            if named > 0 {
                // Position of kind j among the features of other kinds; without copies, the task's own kind is skipped.
                let skipped = !self.copies && s.kind[j] > s.kind[at];
                let place = SUMS + EACH * (s.kind[j] - usize::from(skipped));
                let each = [
                    r,
                    s.busy[j],
                    ln_batch - SMALL,
                    s.contention[j],
                    r * (ln_batch - SMALL),
                ];
                for (x, one) in x[place..place + EACH].iter_mut().zip(each) {
                    *x += one;
                }
            }
        }
        let sums = [
            s.ln_batch[at],
            own.ln(),
            share,
            work,
            contention,
            (own + share).ln(),
            excess,
            (s.len - 1) as f64,
            batches,
            s.busy[at],
            own,
            s.ln_step[at],
        ];
        x[..SUMS].copy_from_slice(&sums);
    }
}
