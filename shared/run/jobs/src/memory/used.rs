//! Measures how much memory of the machine a job uses.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::members;

use super::groups::{counts, kib};

/// Memory of the machine that a job uses, in bytes. Mapped and cached files do not count, because the kernel can
/// reclaim their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Bytes that the end of the job would free.
    pub now: u64,
    /// Known peak so far, at least [`MemoryUse::now`]. It is exact for a single process, because the kernel keeps the
    /// peak; for several processes together, a peak between two looks may be missed.
    pub peak: u64,
}

/// Measures the memory of one job repeatedly.
#[derive(Debug, Default)]
pub struct MemoryMeter {
    /// Shared memory by process.
    shared: BTreeMap<i32, Shared>,
}

/// Memory that a process shares with others, as after a fork, minus its proportional part. It is subtracted, because
/// eight workers of a data loader would otherwise count the inherited memory nine times.
#[derive(Debug, Clone, Copy)]
struct Shared {
    bytes: u64,
    read: Instant,
    /// Duration of the read: the kernel walks through the page tables, which takes 5 to 40 ms for each GiB in small
    /// pages.
    took: Duration,
}

/// A process is read again after this many times the duration of the last read, so that reads cost at most 2 % of a
/// processor.
const PAUSE: u32 = 50;

impl MemoryMeter {
    /// Memory use of the job now: that of the control group with this `cgroup.procs` if it counts memory, otherwise of
    /// the processes in the group, or without a group of `pid` and its descendants. All zero if no process is alive.
    pub fn look(&mut self, pid: i32, procs: Option<&Path>) -> MemoryUse {
        let pids = members(pid, procs);
        let group = procs.and_then(Path::parent).and_then(counts);
        let several = pids.len() > 1 && group.is_none();
        self.shared.retain(|pid, _| several && pids.contains(pid));
        let looked = pids
            .into_iter()
            .filter_map(|pid| self.process(pid, several));
        let all: Vec<MemoryUse> = looked.collect();
        let now = match group {
            Some(group) => group.needed(),
            None => all.iter().map(|one| one.now).sum(),
        };
        let peak = all.iter().map(|one| one.peak).fold(now, u64::max);
        MemoryUse { now, peak }
    }

    fn process(&mut self, pid: i32, several: bool) -> Option<MemoryUse> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| kib(&status, name);
        let alone = field("RssAnon:")? + field("RssShmem:")?;
        let shared = match several {
            true => self.shared(pid, alone),
            false => 0,
        };
        let now = alone.saturating_sub(shared);
        // The kernel's peak includes files. Files are mapped once and stay mapped, so those that are mapped now are
        // subtracted.
        let peak = field("VmHWM:")?
            .saturating_sub(field("RssFile:")?)
            .saturating_sub(shared)
            .max(now);
        Some(MemoryUse { now, peak })
    }

    fn shared(&mut self, pid: i32, alone: u64) -> u64 {
        let read = Instant::now();
        if let Some(known) = self.shared.get(&pid)
            && read.duration_since(known.read) < PAUSE * known.took
        {
            return known.bytes;
        }
        // The file of a process that just ended, or that has other privileges, cannot be read.
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let own = kib(&rollup, "Pss_Anon:").zip(kib(&rollup, "Pss_Shmem:"));
        let known = Shared {
            bytes: own.map_or(0, |(anon, shmem)| alone.saturating_sub(anon + shmem)),
            read,
            took: read.elapsed(),
        };
        self.shared.insert(pid, known);
        known.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn shell(script: &str) -> Child {
        let mut child = Command::new("python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        child
    }

    fn seen(child: &mut Child) -> MemoryUse {
        let used = MemoryMeter::default().look(child.id().cast_signed(), None);
        drop(child.stdin.take());
        child.wait().unwrap();
        used
    }

    #[test]
    fn what_is_shared_counts_once_and_what_was_given_back_is_in_the_peak() {
        if Command::new("python3").arg("-V").output().is_err() {
            return testkit::skipped("python", "there is no python3");
        }
        let end = "print('up', flush=True); sys.stdin.read()";
        let mut gone = shell(&format!(
            "import sys; a = bytearray(200 << 20); del a; {end}"
        ));
        let gone = seen(&mut gone);
        assert!(gone.now < 60 * MIB && gone.peak > 190 * MIB, "{gone:?}");

        let mut forked = shell(&format!(
            "import os, sys; a = b'x' * (100 << 20)\nfor _ in range(4):\n  if not os.fork():\n    sys.stdin.read(); os._exit(0)\n{end}"
        ));
        let forked = seen(&mut forked);
        assert!(
            (100 * MIB..190 * MIB).contains(&forked.now) && forked.peak < 190 * MIB,
            "five processes, one of them with 100 MiB that all see: {forked:?}"
        );
    }

    #[test]
    fn a_group_that_counts_memory_says_what_its_processes_use() {
        let dir = tempfile::tempdir().unwrap();
        let procs = dir.path().join("cgroup.procs");
        fs::write(&procs, "").unwrap();
        assert_eq!(
            MemoryMeter::default().look(-1, Some(&procs)),
            MemoryUse::default()
        );
        fs::write(dir.path().join("memory.current"), "5000\n").unwrap();
        fs::write(dir.path().join("memory.stat"), "inactive_file 1000\n").unwrap();
        let used = MemoryMeter::default().look(-1, Some(&procs));
        assert_eq!((used.now, used.peak), (4000, 4000));
    }
}
