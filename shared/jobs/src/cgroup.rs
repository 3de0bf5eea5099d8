//! Control groups, version 1 or 2: a share of the machine's cores as a quota.

mod enclosures;
mod find;

pub use enclosures::Enclosures;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use units::Share;

use crate::process::{self, Identity};
use crate::{Resource, RunDir};

/// The version of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    V1,
    /// `cpu.max`.
    V2,
}

/// Why shares cannot be enforced.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No control group can be written.
    #[error(
        "CPU shares need a control group that this user may write, and there is none ({tried}). \
         Start the tool by `systemd-run --user --scope -p Delegate=yes TOOL ...`, or as root, or \
         let root prepare one: `mkdir /sys/fs/cgroup/mt && chown -R $USER /sys/fs/cgroup/mt` and \
         set MT_CGROUP_PARENT=/sys/fs/cgroup/mt; in a container, start it with --privileged or \
         with the cgroup file system mounted for writing"
    )]
    Unavailable {
        /// What was tried and how it failed.
        tried: String,
    },
    /// A file of a group could not be written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The control group of one run, with one group below it for each job. Removed when dropped.
#[derive(Debug)]
pub struct Cgroups {
    version: Version,
    dir: PathBuf,
    cores: usize,
}

/// How long removal waits for processes to go. A killed process goes within milliseconds; what has
/// not gone by then is left to the guard and to the next start.
const PATIENCE: Duration = Duration::from_secs(3);

/// Shortest period of a quota: short against a window of measuring, and long against the 5 ms
/// slices in which the kernel hands a quota out.
const SHORTEST_PERIOD_US: f64 = 20_000.0;
/// Longest period that the kernel takes.
const LONGEST_PERIOD_US: f64 = 1_000_000.0;
/// A quota shorter than this is used up within a scheduler tick; the period is stretched then.
const GOOD_QUOTA_US: f64 = 4_000.0;
/// Shortest quota that the kernel takes.
const SHORTEST_QUOTA_US: u64 = 1_000;

impl Cgroups {
    /// Makes a group for a run below the first writable parent: `MT_CGROUP_PARENT` if it is set,
    /// this process's own group, or one above.
    ///
    /// # Errors
    /// [`CgroupError::Unavailable`] says what to do.
    pub fn create(run: &mut RunDir) -> Result<Self, CgroupError> {
        let name = format!("mt-{}", run.token());
        let mut tried = Vec::new();
        for candidate in find::candidates() {
            let dir = candidate.parent.join(&name);
            let made = run
                .record(&Resource::Cgroup(dir.clone()))
                .and_then(|()| find::make(&candidate, &dir));
            match made {
                Ok(()) => {
                    return Ok(Self {
                        version: candidate.version,
                        dir,
                        cores: cores(),
                    });
                }
                Err(error) => tried.push(format!("{}: {error}", candidate.parent.display())),
            }
            fs::remove_dir(&dir).ok();
        }
        if tried.is_empty() {
            tried.push("no cgroup file system with the cpu controller is mounted".to_owned());
        }
        Err(CgroupError::Unavailable {
            tried: tried.join("; "),
        })
    }

    /// The interface's version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Cores that 100 % stands for: those that this process may use.
    #[must_use]
    pub const fn cores(&self) -> usize {
        self.cores
    }

    /// Makes the group of one job.
    ///
    /// # Errors
    /// [`CgroupError::Io`].
    pub fn group(&self, name: &str, share: Share) -> Result<Group, CgroupError> {
        let group = Group {
            version: self.version,
            dir: self.dir.join(name),
            cores: self.cores,
        };
        if !group.dir.exists() {
            fs::create_dir(&group.dir).map_err(|source| CgroupError::Io {
                path: group.dir.clone(),
                source,
            })?;
        }
        group.set_share(share)?;
        Ok(group)
    }

    /// Kills what still runs in the groups and removes them.
    ///
    /// # Errors
    /// If a process outlives SIGKILL.
    pub fn remove(&self) -> io::Result<()> {
        remove_tree(&self.dir, PATIENCE)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // What cannot be removed now is in the ledger, and the next start tries again.
        self.remove().ok();
    }
}

/// Cores that this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The control group of one job.
#[derive(Debug, Clone)]
pub struct Group {
    version: Version,
    dir: PathBuf,
    cores: usize,
}

impl Group {
    /// The file that a process enters the group by.
    #[must_use]
    pub fn procs(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    /// Sets the quota to `share` of the machine's cores; takes effect at once.
    ///
    /// # Errors
    /// [`CgroupError::Io`].
    pub fn set_share(&self, share: Share) -> Result<(), CgroupError> {
        let quota = quota(share, self.cores);
        match self.version {
            Version::V2 => {
                let text = match quota {
                    Some((quota, period)) => format!("{quota} {period}"),
                    None => "max".to_owned(),
                };
                self.write("cpu.max", &text)
            }
            Version::V1 => {
                let Some((quota, period)) = quota else {
                    return self.write("cpu.cfs_quota_us", "-1");
                };
                self.write("cpu.cfs_period_us", &period.to_string())?;
                self.write("cpu.cfs_quota_us", &quota.to_string())
            }
        }
    }

    /// Processes in the group.
    #[must_use]
    pub fn processes(&self) -> Vec<Identity> {
        members(&self.dir)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), CgroupError> {
        let path = self.dir.join(file);
        fs::write(&path, text).map_err(|source| CgroupError::Io { path, source })
    }
}

/// Quota and period in microseconds; `None`: no limit is needed.
fn quota(share: Share, cores: usize) -> Option<(u64, u64)> {
    if share >= Share::FULL {
        return None;
    }
    let fraction = share.fraction() * cores as f64;
    let period = (GOOD_QUOTA_US / fraction).clamp(SHORTEST_PERIOD_US, LONGEST_PERIOD_US);
    let quota = (fraction * period).round() as u64;
    Some((quota.max(SHORTEST_QUOTA_US), period.round() as u64))
}

fn members(dir: &Path) -> Vec<Identity> {
    members_by(&dir.join("cgroup.procs"))
}

/// Processes of the group that this `cgroup.procs` is of.
pub(crate) fn members_by(procs: &Path) -> Vec<Identity> {
    fs::read_to_string(procs)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| Identity::of(line.parse().ok()?))
        .collect()
}

/// Whether a process is in the group that this `cgroup.procs` is of.
pub(crate) fn holds(procs: &Path, pid: i32) -> bool {
    let all = fs::read_to_string(procs).unwrap_or_default();
    all.lines().any(|line| line.parse() == Ok(pid))
}

/// Takes this process out of the groups of runs that it was started in, which end with whatever is in
/// them. A group that refuses it holds it where it is.
pub(crate) fn leave_runs() {
    for group in find::outside_of_runs() {
        // No permission, or a group of version 2 that takes no processes.
        fs::write(group.join("cgroup.procs"), "0").ok();
    }
}

/// Whether `dir` is the control group that a run of this name makes: a real directory of a cgroup
/// file system, and not whatever a ledger happens to name.
pub(crate) fn is_of_run(dir: &Path, token: &str) -> bool {
    use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};
    let named = dir
        .file_name()
        .is_some_and(|n| n == &*format!("mt-{token}"));
    let real = fs::canonicalize(dir).is_ok_and(|path| path == dir);
    let kind = statfs(dir).map(|s| s.filesystem_type());
    named && real && kind.is_ok_and(|k| k == CGROUP_SUPER_MAGIC || k == CGROUP2_SUPER_MAGIC)
}

/// Kills every process of the group that this `cgroup.procs` is of, also while they fork: killed one by one,
/// those of a fork bomb are outrun by those that they start.
pub(crate) fn kill_members(procs: &Path) {
    let Some(group) = procs.parent() else {
        return;
    };
    if members_by(procs).is_empty() {
        return;
    }
    // Linux 5.14, version 2: at once, by the kernel.
    if fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    // Version 1: while each may compute for a thousandth of the time, they are told to end faster than they
    // fork. One that has a SIGKILL pending forks no more, and needs the processor only to go.
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
        // Nothing is to be held to its share any more.
        fs::write(&quota, "-1").ok();
    }
}

/// Looks at the members of a group that is being ended. Three were enough for 2,000 processes that fork.
const PASSES: usize = 100;

/// Kills every process of a group and of those below it, and removes them. A group that does not
/// exist is no error.
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
            // A process that has just been killed is still there for a moment.
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_what_the_kernel_takes() {
        for cores in [1, 2, 8, 128] {
            for hundredths in 1..10_000 {
                let share = Share::from_hundredths(hundredths);
                let (quota, period) = quota(share, cores).unwrap();
                assert!((20_000..=1_000_000).contains(&period), "{share} {period}");
                assert!(quota >= SHORTEST_QUOTA_US);
                let exact = share.fraction() * cores as f64;
                if quota > SHORTEST_QUOTA_US {
                    let error = quota as f64 / period as f64 / exact - 1.0;
                    assert!(error.abs() < 1e-3, "{share} of {cores}: {error}");
                }
            }
        }
        assert_eq!(quota(Share::FULL, 2), None);
    }

    #[test]
    fn writes_the_files_of_either_version() {
        let dir = tempfile::tempdir().unwrap();
        let half = Share::from_percent(50.0).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join("job").join(name)).unwrap();
        for version in [Version::V1, Version::V2] {
            // An ordinary directory stands in for the file system of the kernel.
            let groups = Cgroups {
                version,
                dir: dir.path().to_owned(),
                cores: 2,
            };
            let group = groups.group("job", half).unwrap();
            match version {
                Version::V1 => {
                    assert_eq!(read("cpu.cfs_quota_us"), "20000");
                    assert_eq!(read("cpu.cfs_period_us"), "20000");
                    group.set_share(Share::FULL).unwrap();
                    assert_eq!(read("cpu.cfs_quota_us"), "-1");
                }
                Version::V2 => {
                    assert_eq!(read("cpu.max"), "20000 20000");
                    group.set_share(Share::FULL).unwrap();
                    assert_eq!(read("cpu.max"), "max");
                }
            }
            std::mem::forget(groups);
        }
    }
}
