//! The most memory that jobs were seen to use.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use jobs::MemoryMeter;

use crate::book::Id;

/// Time between two observations: trainings reach their peak in seconds, and an observation reads a file of each
/// process.
const PAUSE: Duration = Duration::from_millis(500);

/// Most memory that each job was seen to use.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    looked: Option<Instant>,
    jobs: BTreeMap<Id, (MemoryMeter, u64)>,
}

impl Peaks {
    /// Observes running jobs, each with its first process and the list of its processes if it has a control group.
    pub(crate) fn look<'a>(&mut self, jobs: impl Iterator<Item = (Id, i32, Option<&'a Path>)>) {
        if self.looked.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        self.looked = Some(Instant::now());
        for (id, pid, procs) in jobs {
            let (meter, peak) = self.jobs.entry(id).or_default();
            *peak = meter.look(pid, procs).peak.max(*peak);
        }
    }

    /// Takes what is known of a job that has ended.
    pub(crate) fn take(&mut self, id: Id) -> Option<u64> {
        let (_, peak) = self.jobs.remove(&id)?;
        Some(peak).filter(|bytes| *bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_some_memory() {
        let mut peaks = Peaks::default();
        let pid = i32::try_from(std::process::id()).unwrap();
        peaks.look([(Id(1), pid, None)].into_iter());
        let bytes = peaks.take(Id(1)).unwrap();
        assert!((1 << 16..1 << 32).contains(&bytes), "{bytes}");
        assert_eq!(peaks.take(Id(1)), None);
    }
}
