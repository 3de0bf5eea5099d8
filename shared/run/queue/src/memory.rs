//! How much memory jobs use: of the machine, and of their GPUs.

use std::collections::BTreeMap;
use std::path::Path;

use jobs::MemoryMeter;

use crate::book::Id;

/// What was seen of a job.
#[derive(Debug, Default)]
struct Seen {
    meter: MemoryMeter,
    /// Most bytes of the machine's memory.
    ram: u64,
    /// Most bytes of its GPUs' memory, where the driver reports them.
    gpu: Option<u64>,
}

/// Most memory that each job was seen to use.
#[derive(Debug, Default)]
pub(crate) struct Peaks(BTreeMap<Id, Seen>);

impl Peaks {
    /// Observes the memory of the machine that a job uses, from its first process and the list of its processes if it has
    /// a control group; returns the bytes that it uses now.
    pub(crate) fn look(&mut self, id: Id, pid: i32, procs: Option<&Path>) -> u64 {
        let seen = self.0.entry(id).or_default();
        let used = seen.meter.look(pid, procs);
        seen.ram = seen.ram.max(used.peak);
        used.now
    }

    /// A job holds these bytes of its GPUs' memory.
    pub(crate) fn holds(&mut self, id: Id, bytes: u64) {
        let seen = self.0.entry(id).or_default();
        seen.gpu = seen.gpu.max(Some(bytes));
    }

    /// Takes what is known of a job that has ended, of its GPUs and of the machine. `kernel`: what the kernel knows of
    /// its processes.
    pub(crate) fn take(&mut self, id: Id, kernel: Option<u64>) -> (Option<u64>, Option<u64>) {
        let seen = self.0.remove(&id).unwrap_or_default();
        let ram = Some(seen.ram).filter(|bytes| *bytes > 0);
        (seen.gpu, ram.max(kernel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_some_memory_and_gpus_count_apart() {
        let mut peaks = Peaks::default();
        let pid = i32::try_from(std::process::id()).unwrap();
        let now = peaks.look(Id(1), pid, None);
        let (gpu, ram) = peaks.take(Id(1), Some(1));
        assert!(now > 0 && gpu.is_none() && ram >= Some(now), "{ram:?}");
        peaks.holds(Id(1), 7);
        peaks.holds(Id(1), 5);
        assert_eq!(peaks.take(Id(1), None), (Some(7), None));
    }
}
