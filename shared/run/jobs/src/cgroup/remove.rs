//! Removing control groups with the processes in them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{self, Identity};

/// How long removal waits for processes to exit. A killed process exits within milliseconds; processes that remain
/// after this time are left to the guard and to the next start.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Longest period that the kernel accepts.
pub(super) const LONGEST_PERIOD_US: f64 = 1_000_000.0;
/// Shortest quota that the kernel accepts.
pub(super) const SHORTEST_QUOTA_US: u64 = 1_000;

/// Whether `dir` is a control group that the run with this token created: a directory of a cgroup file system, and not
/// any other path that a ledger happens to contain.
pub(crate) fn is_of_run(dir: &Path, token: &str) -> bool {
    use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};
    let named = dir
        .file_name()
        .is_some_and(|n| n == &*format!("mt-{token}"));
    let real = fs::canonicalize(dir).is_ok_and(|path| path == dir);
    let kind = statfs(dir).map(|s| s.filesystem_type());
    named && real && kind.is_ok_and(|k| k == CGROUP_SUPER_MAGIC || k == CGROUP2_SUPER_MAGIC)
}

/// Kills every process of the group with this `cgroup.procs`, even while they fork. Killing one by one is too slow
/// for a fork bomb, which starts new processes faster.
pub(crate) fn kill_members(procs: &Path) {
    let Some(group) = procs.parent() else {
        return;
    };
    if members_by(procs).is_empty() {
        return;
    }
    // Linux 5.14 with version 2: the kernel kills all processes at once.
    if fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    // Version 1: a quota of a thousandth of the time slows the processes down, so that they are killed faster than they
    // fork.
    let quota = group.join("cpu.cfs_quota_us");
    let held = fs::write(
        group.join("cpu.cfs_period_us"),
        LONGEST_PERIOD_US.to_string(),
    )
    .and_then(|()| fs::write(&quota, SHORTEST_QUOTA_US.to_string()))
    .is_ok();
    let mut killed = std::collections::HashSet::new();
    for _ in 0..PASSES {
        let new: Vec<Identity> = members_by(procs)
            .into_iter()
            .filter(|p| killed.insert(*p))
            .collect();
        if new.is_empty() {
            break;
        }
        for process in new {
            process.kill();
        }
    }
    if held {
        // The remaining processes may exit at full speed.
        fs::write(&quota, "-1").ok();
    }
}

/// Number of passes over the members of a group that is being killed. Three were enough for 2,000 processes that
/// fork.
const PASSES: usize = 100;

/// Kills every process of a group and of those below it, and removes them. A group that does not
/// exist is not an error.
pub(crate) fn remove_tree(dir: &Path, patience: Duration) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    let Ok(entries) = fs::read_dir(dir) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path(), patience)?;
        }
    }
    loop {
        kill_members(&dir.join("cgroup.procs"));
        process::kill_all(&members(dir), Duration::from_millis(50));
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // A process that was just killed still exists for a moment.
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn members(dir: &Path) -> Vec<Identity> {
    members_by(&dir.join("cgroup.procs"))
}

/// Processes of the group with this `cgroup.procs`.
pub(crate) fn members_by(procs: &Path) -> Vec<Identity> {
    fs::read_to_string(procs)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| Identity::of(line.parse().ok()?))
        .collect()
}
