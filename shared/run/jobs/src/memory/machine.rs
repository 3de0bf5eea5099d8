//! Memory of the machine, or of the control groups that limit it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cgroup::memory_groups;

use super::groups::{Counts, counts, kib};

/// Memory that the jobs of this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ram {
    /// Bytes that the jobs may use in total: the memory of the machine, or the limit of a control group that contains
    /// this process, at any level, if that is lower. `u64::MAX` if neither is known, so that nothing is refused.
    pub total: u64,
    /// Bytes that can still be allocated now; memory of all other processes counts as used. Memory that the kernel
    /// gives back when something needs it, such as cached files, counts as free.
    pub free: u64,
}

impl Ram {
    /// Reads the current values from a few files, which takes less than a millisecond.
    #[must_use]
    pub fn now() -> Self {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self::of(&meminfo, &memory_groups())
    }

    fn of(meminfo: &str, groups: &[PathBuf]) -> Self {
        let total = kib(meminfo, "MemTotal:").unwrap_or(u64::MAX);
        let machine = Self {
            total,
            free: kib(meminfo, "MemAvailable:").unwrap_or(total),
        };
        let limited = groups.iter().filter_map(|group| of_group(group));
        limited.fold(machine, |a, b| Self {
            total: a.total.min(b.total),
            free: a.free.min(b.free),
        })
    }
}

/// Limit and free memory of a group; `None` if it has no limit.
fn of_group(group: &Path) -> Option<Ram> {
    // Above `memory.high` the kernel throttles the group until it makes no progress, so it is a limit like
    // `memory.max`. "No limit" is written as `max`, or in version 1 as a number larger than any memory.
    let files = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    let limit = |file: &str| {
        let text = fs::read_to_string(group.join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let total = files.into_iter().filter_map(limit).min()?;
    let used = counts(group).map_or(0, Counts::needed);
    let free = total.saturating_sub(used);
    Some(Ram { total, free })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_of_machine_and_groups_counts_and_cached_files_are_free() {
        let dir = tempfile::tempdir().unwrap();
        let group = |name: &str, files: &[(&str, &str)]| {
            let group = dir.path().join(name);
            fs::create_dir(&group).unwrap();
            for (file, text) in files {
                fs::write(group.join(file), text).unwrap();
            }
            group
        };
        let meminfo = "MemTotal:       8 kB\nMemFree:        1 kB\nMemAvailable:   6 kB\n";
        let none = Ram::of(meminfo, &[]);
        assert_eq!((none.total, none.free), (8192, 6144));

        let open = group(
            "open",
            &[("memory.max", "max\n"), ("memory.current", "5\n")],
        );
        assert_eq!(Ram::of(meminfo, std::slice::from_ref(&open)), none);

        let stat = "anon 900\nfile 800\nshmem 100\nactive_file 300\ninactive_file 400\nslab_reclaimable 50\n";
        let two = group(
            "two",
            &[
                ("memory.max", "4096\n"),
                ("memory.high", "max\n"),
                ("memory.current", "2000\n"),
                ("memory.stat", stat),
            ],
        );
        let seen = Ram::of(meminfo, &[open, two.clone()]);
        assert_eq!((seen.total, seen.free), (4096, 4096 - (2000 - 750)));
        fs::write(two.join("memory.high"), "1000\n").unwrap();
        let seen = Ram::of(meminfo, std::slice::from_ref(&two));
        assert_eq!((seen.total, seen.free), (1000, 0));

        // Version 1 includes descendant groups only in the `total_` counters.
        let stat = "cache 9\ninactive_file 1\ntotal_active_file 300\ntotal_inactive_file 400\n";
        let one = group(
            "one",
            &[
                ("memory.limit_in_bytes", "3000\n"),
                ("memory.usage_in_bytes", "2000\n"),
                ("memory.stat", stat),
            ],
        );
        let seen = Ram::of(meminfo, &[two, one]);
        assert_eq!((seen.total, seen.free), (1000, 0));
        let limited = of_group(&dir.path().join("one")).unwrap();
        assert_eq!((limited.total, limited.free), (3000, 1700));
        assert_eq!(Ram::of("", &[]).free, u64::MAX);
    }

    #[test]
    fn this_machine_has_memory() {
        let ram = Ram::now();
        assert!(ram.free > 1 << 20 && ram.free <= ram.total, "{ram:?}");
    }
}
