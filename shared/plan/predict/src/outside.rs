//! Configurations far from any measurement.

use units::corun::Setting;
use units::{Batch, Share};

use crate::domain::Ranges;
use crate::predictor::Predictor;

/// A configuration that is far from the measurements, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// The batch size lies outside the measured ones of the task.
    Batch {
        /// The task.
        task: usize,
        /// The requested batch size.
        batch: Batch,
        /// Smallest and largest measured value.
        measured: (Batch, Batch),
    },
    /// The share lies outside the range at which the task ran or, for a co-run, ran with others.
    Share {
        /// The task.
        task: usize,
        /// The requested share.
        share: Share,
        /// Smallest and largest measured value.
        measured: (Share, Share),
    },
    /// The task never ran with others when it was profiled.
    NeverTogether {
        /// The task.
        task: usize,
    },
    /// More tasks than were ever measured together.
    Crowd {
        /// Number of tasks in the co-run.
        tasks: usize,
        /// Maximum number measured together.
        most: usize,
    },
}

impl Outside {
    /// Whether it concerns the task `of`; a number of tasks concerns all.
    #[must_use]
    pub fn concerns(&self, of: usize) -> bool {
        match *self {
            Outside::Batch { task, .. }
            | Outside::Share { task, .. }
            | Outside::NeverTogether { task } => task == of,
            Outside::Crowd { .. } => true,
        }
    }

    /// Message with the reason; `name` returns the name of a task, given its position in the workload.
    #[must_use]
    pub fn reason(&self, name: impl Fn(usize) -> String) -> String {
        match *self {
            Outside::Batch {
                task,
                batch,
                measured: (low, high),
            } => format!(
                "{} at batch size {batch} (measured: {low} to {high})",
                name(task)
            ),
            Outside::Share {
                task,
                share,
                measured: (low, high),
            } if low == high => format!("{} at {share} (measured: {low} only)", name(task)),
            Outside::Share {
                task,
                share,
                measured: (low, high),
            } => format!("{} at {share} (measured: {low} to {high})", name(task)),
            Outside::NeverTogether { task } => {
                format!("{} together with others (measured: alone only)", name(task))
            }
            Outside::Crowd { tasks, most } => {
                format!("{tasks} tasks at once (measured: at most {most})")
            }
        }
    }
}

impl Predictor {
    /// The parts of a configuration that lie outside the measured domain; empty if none does.
    ///
    /// The domain of co-runs is given by the measured ones: for each task the range of its shares with others, and
    /// the largest number of tasks together. Smaller numbers of tasks than the measured ones count as inside, because
    /// they lie between solo runs and co-runs.
    #[must_use]
    pub fn outside(&self, active: &[Setting]) -> Vec<Outside> {
        let mut v = Vec::new();
        for &a in active {
            let task = a.task;
            if active.len() > 1 && !self.base.ran_together(task) {
                v.push(Outside::NeverTogether { task });
            }
            if let Some(measured) = self.trust[task].batches
                && !(measured.0..=measured.1).contains(&a.batch)
            {
                let batch = a.batch;
                v.push(Outside::Batch {
                    task,
                    batch,
                    measured,
                });
            }
            if let Some(measured) = self.share_range(task, active.len())
                && !(measured.0..=measured.1).contains(&a.share)
            {
                let share = a.share;
                v.push(Outside::Share {
                    task,
                    share,
                    measured,
                });
            }
        }
        if active.len() > self.base.most_together {
            v.push(Outside::Crowd {
                tasks: active.len(),
                most: self.base.most_together,
            });
        }
        v
    }

    /// Whether [`Predictor::outside`] is empty. Does not allocate.
    #[must_use]
    pub fn covers(&self, active: &[Setting]) -> bool {
        let within = |a: &Setting| self.covers_setting(a, active.len());
        active.iter().all(within)
    }

    /// Like [`Predictor::covers`], for one of `running` tasks.
    pub(crate) fn covers_setting(&self, a: &Setting, running: usize) -> bool {
        let trust = &self.trust[a.task];
        let measured = Ranges {
            batches: trust.batches,
            shares: trust.shares,
        };
        self.base.covers(&measured, a, running)
    }

    /// Maximum number of tasks that were measured together; 1 if there are only solo runs.
    #[must_use]
    pub fn most_together(&self) -> usize {
        self.base.most_together
    }

    /// Smallest and largest share at which a task was measured if `running` tasks run (with others for 2 and more).
    /// `None` if it never was.
    #[must_use]
    pub fn share_range(&self, task: usize, running: usize) -> Option<(Share, Share)> {
        let all = self.trust[task].shares;
        self.base.share_range(task, running, all)
    }
}
