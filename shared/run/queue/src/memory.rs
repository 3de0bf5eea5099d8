//! How much memory jobs use, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use jobs::process::family;

use crate::book::Id;

/// Time between two observations: trainings reach their peak in seconds, and an observation reads a file of each
/// process.
const PAUSE: Duration = Duration::from_millis(500);

/// Most memory that each job was seen to use.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    looked: Option<Instant>,
    bytes: BTreeMap<Id, u64>,
}

impl Peaks {
    /// Observes running jobs, each with its first process and the list of its processes if it has a control group.
    pub(crate) fn look<'a>(&mut self, jobs: impl Iterator<Item = (Id, i32, Option<&'a Path>)>) {
        if self.looked.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        self.looked = Some(Instant::now());
        for (id, pid, procs) in jobs {
            let listed = procs.and_then(|procs| fs::read_to_string(procs).ok());
            let pids = match listed {
                Some(text) => text.lines().filter_map(|l| l.parse().ok()).collect(),
                None => family(pid),
            };
            let used: Vec<(u64, u64)> = pids.into_iter().filter_map(resident).collect();
            // The peak of one process is exact. That of several is only seen while they live together.
            let together = used.iter().map(|(now, _)| now).sum();
            let most = used.iter().map(|(_, peak)| *peak).fold(together, u64::max);
            let known = self.bytes.entry(id).or_default();
            *known = most.max(*known);
        }
    }

    /// Takes what is known of a job that has ended.
    pub(crate) fn take(&mut self, id: Id) -> Option<u64> {
        self.bytes.remove(&id).filter(|bytes| *bytes > 0)
    }
}

/// Resident bytes of a process now, and at most so far. Pages that processes share count for each.
fn resident(pid: i32) -> Option<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib.saturating_mul(1024))
    };
    Some((field("VmRSS:")?, field("VmHWM:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_some_megabytes() {
        let mut peaks = Peaks::default();
        let pid = i32::try_from(std::process::id()).unwrap();
        peaks.look([(Id(1), pid, None)].into_iter());
        let bytes = peaks.take(Id(1)).unwrap();
        assert!((1 << 20..1 << 32).contains(&bytes), "{bytes}");
        assert_eq!(peaks.take(Id(1)), None);
    }
}
