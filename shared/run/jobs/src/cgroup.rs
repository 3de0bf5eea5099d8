//! Control groups, version 1 or 2: a share of the machine's cores as a quota.

mod enclosures;
mod find;
mod remove;

pub use enclosures::Enclosures;
pub use find::Version;
pub(crate) use find::{memory_groups, own_memory_groups};
use remove::{LONGEST_PERIOD_US, SHORTEST_QUOTA_US};
pub(crate) use remove::{is_of_run, kill_members, members_by, remove_tree};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use units::Share;

use crate::process::Identity;
use crate::{Resource, RunDir};
use remove::PATIENCE;

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
        /// Attempts and their errors.
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

/// Shortest period of a quota: short compared with a measurement window, and long compared with the 5 ms slices in
/// which the kernel assigns a quota to processors.
const SHORTEST_PERIOD_US: f64 = 20_000.0;
/// A shorter quota would be used up within a scheduler tick, so the period is lengthened instead.
const GOOD_QUOTA_US: f64 = 4_000.0;

impl Cgroups {
    /// Creates a group for a run below the first writable parent: `MT_CGROUP_PARENT` if it is set, otherwise this
    /// process's own group, or one above.
    ///
    /// # Errors
    /// [`CgroupError::Unavailable`], which says how to get a control group.
    pub fn create(run: &mut RunDir) -> Result<Self, CgroupError> {
        let name = format!("mt-{}", run.token());
        let mut tried = Vec::new();
        for candidate in find::candidates() {
            let dir = candidate.parent.join(&name);
            // The group of jobs without quotas may already exist.
            let new = !dir.is_dir();
            let recorded = match new {
                true => run.record(&Resource::Cgroup(dir.clone())),
                false => Ok(()),
            };
            match recorded.and_then(|()| find::make(&candidate, &dir)) {
                Ok(()) => {
                    return Ok(Self {
                        version: candidate.version,
                        dir,
                        cores: cores(),
                    });
                }
                Err(error) => tried.push(format!("{}: {error}", candidate.parent.display())),
            }
            if new {
                fs::remove_dir(&dir).ok();
            }
        }
        if tried.is_empty() {
            tried.push("no cgroup file system with the cpu controller is mounted".to_owned());
        }
        Err(CgroupError::Unavailable {
            tried: tried.join("; "),
        })
    }

    /// Version of the control-group interface.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Number of cores that correspond to a share of 100 %: the cores that this process may use.
    #[must_use]
    pub const fn cores(&self) -> usize {
        self.cores
    }

    /// Creates the group `name` of one job, with a quota of `share`.
    ///
    /// # Errors
    /// [`CgroupError::Io`].
    pub fn group(&self, name: &str, share: Share) -> Result<Group, CgroupError> {
        let group = self.made(self.dir.join(name))?;
        group.set_share(share)?;
        Ok(group)
    }

    fn made(&self, dir: PathBuf) -> Result<Group, CgroupError> {
        if !dir.exists() {
            fs::create_dir(&dir).map_err(|source| CgroupError::Io {
                path: dir.clone(),
                source,
            })?;
        }
        Ok(Group {
            version: self.version,
            dir,
            cores: self.cores,
        })
    }

    /// Creates the group `job` for one of several jobs that share one quota but end separately. The group `name` above
    /// it has the quota `share`; the group of the job has no quota of its own.
    ///
    /// # Errors
    /// [`CgroupError::Io`].
    pub fn group_below(&self, name: &str, share: Share, job: &str) -> Result<Group, CgroupError> {
        let whole = self.group(name, share)?;
        self.made(whole.dir.join(job))
    }

    /// Kills all processes in the groups and removes the groups.
    ///
    /// # Errors
    /// If a process outlives SIGKILL.
    pub fn remove(&self) -> io::Result<()> {
        remove_tree(&self.dir, PATIENCE)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // If removal fails now, the group is in the ledger, and the next start tries again.
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
    /// `cgroup.procs`: a process that is written to this file enters the group.
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
        remove::members(&self.dir)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), CgroupError> {
        let path = self.dir.join(file);
        fs::write(&path, text).map_err(|source| CgroupError::Io { path, source })
    }
}

/// Quota and period in microseconds; `None` if no limit is needed.
fn quota(share: Share, cores: usize) -> Option<(u64, u64)> {
    if share >= Share::FULL {
        return None;
    }
    let fraction = share.fraction() * cores as f64;
    let period = (GOOD_QUOTA_US / fraction).clamp(SHORTEST_PERIOD_US, LONGEST_PERIOD_US);
    let quota = (fraction * period).round() as u64;
    Some((quota.max(SHORTEST_QUOTA_US), period.round() as u64))
}

/// Whether a process is in the group of this `cgroup.procs`.
pub(crate) fn holds(procs: &Path, pid: i32) -> bool {
    let all = fs::read_to_string(procs).unwrap_or_default();
    all.lines().any(|line| line.parse() == Ok(pid))
}

/// Moves this process out of the groups of runs in which it was started, because everything in these groups is killed
/// when the runs end. If the target group refuses the process, it stays where it is.
pub(crate) fn leave_runs() {
    for group in find::outside_of_runs() {
        // No permission, or a group of version 2 that accepts no processes.
        fs::write(group.join("cgroup.procs"), "0").ok();
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
            // An ordinary directory instead of the kernel's file system.
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

    #[test]
    fn jobs_below_a_group_have_its_share_together() {
        let dir = tempfile::tempdir().unwrap();
        let groups = Cgroups {
            version: Version::V2,
            dir: dir.path().to_owned(),
            cores: 2,
        };
        let half = Share::from_percent(50.0).unwrap();
        let jobs = ["0", "1"].map(|job| groups.group_below("gpu", half, job).unwrap().procs());
        assert_eq!(jobs[0], dir.path().join("gpu/0/cgroup.procs"));
        assert_eq!(jobs[1], dir.path().join("gpu/1/cgroup.procs"));
        let quota = |of: &str| fs::read_to_string(dir.path().join(of).join("cpu.max"));
        assert_eq!(quota("gpu").unwrap(), "20000 20000");
        assert!(quota("gpu/0").is_err(), "its group's is enough");
        std::mem::forget(groups);
    }
}
