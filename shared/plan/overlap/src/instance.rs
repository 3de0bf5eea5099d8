pub mod batches;
pub mod set;

use crate::OverlapError;
use crate::instance::set::{MAX_TASKS, Set};

/// One task of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTask {
    /// Seconds to download alone on the link, `d_i`.
    pub download_s: f64,
    /// Samples to compute, `W_i`, in the unit of the rates.
    pub work: f64,
    /// Seconds to upload alone on the link, `u_i`.
    pub upload_s: f64,
}

/// How transfers share the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// One download and one upload at a time.
    Full,
    /// One transfer at a time, in either direction.
    Half,
    /// All transfers of a direction at once, each with an equal share of the bandwidth.
    Shared,
}

/// The tasks of one round and their link.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    jobs: Vec<RoundTask>,
    link: Link,
}

impl Instance {
    /// Builds a round of 1 to [`MAX_TASKS`] tasks with finite quantities, 0 or more.
    pub fn new(jobs: Vec<RoundTask>, link: Link) -> Result<Self, OverlapError> {
        if jobs.is_empty() {
            return Err(OverlapError::NoTasks);
        }
        if jobs.len() > MAX_TASKS {
            return Err(OverlapError::TooManyTasks(jobs.len()));
        }
        for (task, job) in jobs.iter().enumerate() {
            for (what, value) in [
                ("download time", job.download_s),
                ("work", job.work),
                ("upload time", job.upload_s),
            ] {
                if !(value.is_finite() && value >= 0.0) {
                    return Err(OverlapError::BadQuantity { task, what, value });
                }
            }
        }
        Ok(Self { jobs, link })
    }

    /// The tasks.
    #[must_use]
    pub fn jobs(&self) -> &[RoundTask] {
        &self.jobs
    }

    /// The link.
    #[must_use]
    pub fn link(&self) -> Link {
        self.link
    }

    /// Number of tasks, at least 1.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The set of all tasks.
    pub(crate) fn everyone(&self) -> Set {
        Set::MAX >> (MAX_TASKS - self.jobs.len())
    }
}

/// Indices of the tasks of a set, ascending.
pub(crate) fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let i = set.trailing_zeros() as usize;
            set &= set - 1;
            i
        })
    })
}
