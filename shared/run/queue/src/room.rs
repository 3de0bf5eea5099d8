//! Memory of the machine, or of the control group that stands for it.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of memory that the jobs of this process may use together: those of the machine, or the limit of a control
/// group that this process is in, at any level, if that is less.
#[must_use]
pub(crate) fn of_machine() -> u64 {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let meminfo = read("/proc/meminfo");
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    // Without /proc the memory is unknown, and nothing is refused.
    let machine = kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024));
    let files = limit_files(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    let limits = files.iter().filter_map(|path| limit(path));
    limits.fold(machine, u64::min)
}

/// The limit in a file; `None` if there is none: `max`, or a number beyond all memory in version 1.
fn limit(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The files with limits of the groups of a process, from `/proc/PID/cgroup` and `/proc/PID/mountinfo`, cgroups(7).
fn limit_files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (kind, file) = match controllers {
            "" => ("cgroup2", "memory.max"),
            all if all.split(',').any(|c| c == "memory") => ("cgroup", "memory.limit_in_bytes"),
            _ => continue,
        };
        for (root, point) in mounts.lines().filter_map(|line| mounted(line, kind)) {
            // Inside a container, a part of the tree is mounted, or the group is beyond what is visible.
            let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
            let levels = below.ancestors();
            files.extend(levels.map(|level| Path::new(point).join(level).join(file)));
        }
    }
    files
}

/// Root and mount point of a hierarchy of control groups that is mounted by a line.
fn mounted<'a>(line: &'a str, kind: &str) -> Option<(&'a str, &'a str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    let (found, _, options) = (right.next()?, right.next()?, right.next().unwrap_or(""));
    if found != kind || (kind == "cgroup" && !options.split(',').any(|o| o == "memory")) {
        return None;
    }
    let mut left = left.split(' ').skip(3);
    Some((left.next()?, left.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_of_both_versions_is_looked_at() {
        let names = |groups: &str, mounts: &str| -> Vec<String> {
            let files = limit_files(groups, mounts);
            files.iter().map(|p| p.display().to_string()).collect()
        };
        let two = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            names("0::/user.slice/job\n", two),
            [
                "/sys/fs/cgroup/user.slice/job/memory.max",
                "/sys/fs/cgroup/user.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        let one = "33 25 0:29 /docker/ab /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                   34 25 0:30 /docker/ab /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let groups = "5:cpu:/docker/ab\n4:memory:/docker/ab/x\n0::/\n";
        assert_eq!(
            names(groups, one),
            [
                "/sys/fs/cgroup/memory/x/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
        );
        assert!(names("", two).is_empty());
    }
}
