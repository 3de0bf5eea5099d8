//! Counters of control groups: processes killed for lack of memory, and peak memory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cgroup::own_memory_groups;

/// Control groups that a job is in, with their counts when it started.
#[derive(Debug, Default)]
pub(crate) struct Watched(Vec<Counted>);

#[derive(Debug)]
struct Counted {
    group: PathBuf,
    kills: u64,
    /// Whether it contains only this job.
    alone: bool,
}

impl Watched {
    /// The group of a job (given by its `cgroup.procs`), its ancestors, and the groups of this process, as far as they
    /// count kills.
    pub(crate) fn since_now(procs: Option<&Path>) -> Self {
        let own = own_memory_groups();
        let job = procs.and_then(Path::parent);
        let above = job.into_iter().flat_map(Path::ancestors);
        // Ancestors of this process's own groups prove nothing, because an unrelated process may have been killed.
        let above: Vec<PathBuf> = above
            .take_while(|dir| !own.iter().any(|own| own == dir))
            .map(Path::to_owned)
            .collect();
        let counted = |group: PathBuf| {
            let alone = job == Some(group.as_path());
            kills(&group).map(|kills| Counted {
                group,
                kills,
                alone,
            })
        };
        let all = above.into_iter().chain(own);
        Self(all.filter_map(counted).collect())
    }

    /// A group that has counted more kills since the start; `killed`: the job was killed.
    pub(super) fn full(&self, killed: bool) -> Option<PathBuf> {
        let rose =
            |c: &&Counted| (c.alone || killed) && kills(&c.group).is_some_and(|now| now > c.kills);
        self.0.iter().find(rose).map(|c| c.group.clone())
    }
}

/// Number of processes of a group that the kernel has killed for lack of memory; before Linux 4.13, the number of times
/// that its memory limit was hit.
fn kills(group: &Path) -> Option<u64> {
    let count = |file: &str| {
        let text = fs::read_to_string(group.join(file)).ok()?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count?.trim().parse().ok()
    };
    count("memory.events")
        .or_else(|| count("memory.oom_control"))
        .or_else(|| number(&group.join("memory.failcnt")))
}

/// Peak memory of the group with this `cgroup.procs`, in bytes, including cached files.
pub(crate) fn peak(procs: &Path) -> Option<u64> {
    number(&procs.with_file_name("memory.peak"))
        .or_else(|| number(&procs.with_file_name("memory.max_usage_in_bytes")))
}

/// Bytes that a control group counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    used: u64,
    /// The reclaimable part of these: cached files (without shared memory), and the kernel's own caches.
    reclaimable: u64,
}

impl Counts {
    /// Bytes that are freed only when a process ends.
    pub(super) const fn needed(self) -> u64 {
        self.used.saturating_sub(self.reclaimable)
    }
}

/// Current use of a group and its descendants; `None` if it does not count memory.
pub(super) fn counts(group: &Path) -> Option<Counts> {
    let used = number(&group.join("memory.current"))
        .or_else(|| number(&group.join("memory.usage_in_bytes")))?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let field = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(' ')?.trim().parse::<u64>().ok()
    };
    // In version 1, names without `total_` exclude the descendant groups.
    let bytes = |name: &str| field(&format!("total_{name}")).or_else(|| field(name));
    let reclaimable = ["active_file", "inactive_file", "slab_reclaimable"];
    Some(Counts {
        used,
        reclaimable: reclaimable.into_iter().filter_map(bytes).sum(),
    })
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Bytes of a line of /proc such as `RssAnon:  12 kB`.
pub(super) fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_full_if_its_count_rose_and_that_of_others_if_the_job_was_killed() {
        let dir = tempfile::tempdir().unwrap();
        let job = dir.path().join("job");
        fs::create_dir(&job).unwrap();
        let procs = job.join("cgroup.procs");
        for (file, before, after) in [
            (
                "memory.events",
                "low 0\noom 3\noom_kill 1\n",
                "low 0\noom 4\noom_kill 2\n",
            ),
            (
                "memory.oom_control",
                "under_oom 0\noom_kill 0\n",
                "under_oom 0\noom_kill 1\n",
            ),
            ("memory.failcnt", "5\n", "9\n"),
        ] {
            fs::write(job.join(file), before).unwrap();
            let watched = Watched::since_now(Some(&procs));
            assert_eq!(watched.full(true), None, "{file}");
            fs::write(job.join(file), after).unwrap();
            assert_eq!(watched.full(false), Some(job.clone()), "{file}");
            fs::remove_file(job.join(file)).unwrap();

            fs::write(dir.path().join(file), before).unwrap();
            let watched = Watched::since_now(Some(&procs));
            fs::write(dir.path().join(file), after).unwrap();
            assert_eq!(watched.full(false), None, "{file}");
            assert_eq!(watched.full(true), Some(dir.path().to_owned()), "{file}");
            fs::remove_file(dir.path().join(file)).unwrap();
        }
        assert_eq!(peak(&procs), None);
        fs::write(job.join("memory.peak"), "4096\n").unwrap();
        assert_eq!(peak(&procs), Some(4096));
    }
}
