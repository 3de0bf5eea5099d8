//! Control groups without a limit, which only track everything that a job starts.

use std::fs;
use std::path::{Path, PathBuf};

use super::find::{self, Version};
use super::remove::{PATIENCE, remove_tree};
use crate::{Resource, RunDir};

/// The control group of one run, with one group below it for each job that needs no quota: a
/// transfer, or a job on a GPU. Removed when dropped.
#[derive(Debug)]
pub struct Enclosures {
    dir: PathBuf,
    /// Groups of ended jobs whose removal failed. The kernel releases a control group a moment after its last process
    /// has been waited for: of ten immediate removals, one failed.
    ended: Vec<PathBuf>,
}

impl Enclosures {
    /// Creates a group for a run if there is a writable hierarchy. `None` if there is none, which is not an error:
    /// descendants of a job can still be found by marks and process groups.
    ///
    /// Prefers version 2, even without controllers: membership costs nothing there, while groups of version 1's cpu
    /// controller divide the processors equally among themselves.
    pub fn create(run: &mut RunDir) -> Option<Self> {
        let name = format!("mt-{}", run.token());
        let mut candidates = find::candidates();
        candidates.sort_by_key(|candidate| candidate.version != Version::V2);
        candidates.into_iter().find_map(|candidate| {
            let dir = candidate.parent.join(&name);
            // The group of the run's quotas may already exist.
            if !dir.is_dir() {
                run.record(&Resource::Cgroup(dir.clone())).ok()?;
                fs::create_dir(&dir).ok()?;
            }
            let ended = Vec::new();
            Some(Self { dir, ended })
        })
    }

    /// Creates a group `name` beside those of the jobs and returns its `cgroup.procs`; it is removed with all others
    /// of the run.
    pub(crate) fn beside(run: &mut RunDir, name: &str) -> Option<PathBuf> {
        let all = Self::create(run)?;
        let group = all.dir.join(name);
        // Not dropped, since dropping removes the group: the jobs' groups will be created below it.
        std::mem::forget(all);
        fs::create_dir(&group).ok()?;
        Some(group.join("cgroup.procs"))
    }

    /// Removes the group of an ended job, and groups whose removal failed before. `procs` is the `cgroup.procs` of the
    /// job.
    pub(crate) fn discard(&mut self, procs: &Path) {
        self.ended.extend(procs.parent().map(Path::to_owned));
        self.ended.retain(|group| match fs::remove_dir(group) {
            Ok(()) => false,
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        });
    }

    /// Creates the group of a job and returns its `cgroup.procs`. Jobs of tasks have names without a colon.
    pub(crate) fn make(&self, number: u64) -> Option<PathBuf> {
        let group = self.dir.join(format!("job:{number}"));
        fs::create_dir(&group).ok()?;
        Some(group.join("cgroup.procs"))
    }
}

impl Drop for Enclosures {
    fn drop(&mut self) {
        // If removal fails now, the group is in the ledger, and the next start tries again.
        remove_tree(&self.dir, PATIENCE).ok();
    }
}
