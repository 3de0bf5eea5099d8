//! Memory use of jobs: RAM of the machine and memory of their GPUs.

use std::collections::BTreeMap;
use std::path::Path;

use jobs::MemoryMeter;

use crate::book::Id;

/// Peak memory of a job.
#[derive(Debug, Default)]
struct Seen {
    meter: MemoryMeter,
    /// Most bytes of the machine's memory.
    ram: u64,
    /// Most bytes of its GPUs' memory, where the driver reports them.
    gpu: Option<u64>,
}

/// Peak memory of each job.
#[derive(Debug, Default)]
pub(crate) struct Peaks(BTreeMap<Id, Seen>);

impl Peaks {
    /// Measures the RAM that a job uses, from its first process (`pid`), and from the list of its processes (`procs`)
    /// if it has a control group; returns the bytes in use now.
    pub(crate) fn look(&mut self, id: Id, pid: i32, procs: Option<&Path>) -> u64 {
        let seen = self.0.entry(id).or_default();
        let used = seen.meter.look(pid, procs);
        seen.ram = seen.ram.max(used.peak);
        used.now
    }

    /// Records that a job uses this many bytes of its GPUs' memory now.
    pub(crate) fn holds(&mut self, id: Id, bytes: u64) {
        let seen = self.0.entry(id).or_default();
        seen.gpu = seen.gpu.max(Some(bytes));
    }

    /// Removes a job that has ended and returns its peaks, of GPU memory and of RAM. `kernel`: peak RAM according to
    /// the kernel.
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
