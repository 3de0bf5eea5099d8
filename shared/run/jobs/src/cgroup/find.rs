//! Finds directories in which a control group can be created.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::run_dir::ledger::is_token;

/// Version of the control-group interface, with the files of its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    V1,
    /// `cpu.max`.
    V2,
}

/// A directory below which a group may be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) version: Version,
    pub(super) parent: PathBuf,
}

/// Candidates in order of preference.
pub(super) fn candidates() -> Vec<Candidate> {
    if let Some(parent) = std::env::var_os("MT_CGROUP_PARENT") {
        let parent = PathBuf::from(parent);
        let v1 = parent.join("cpu.cfs_quota_us").exists();
        let version = if v1 { Version::V1 } else { Version::V2 };
        return vec![Candidate { version, parent }];
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    from_tables(&mounts, &own, "cpu")
}

/// The groups of this process and their ancestors, in every hierarchy that counts memory; each group precedes its
/// ancestors.
pub(crate) fn memory_groups() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let all = from_tables(&mounts, &own, "memory");
    all.into_iter().map(|c| c.parent).collect()
}

/// The group of this process in every hierarchy that counts memory.
pub(crate) fn own_memory_groups() -> Vec<PathBuf> {
    let mut groups: Vec<PathBuf> = Vec::new();
    for group in memory_groups() {
        let is_above = groups.iter().any(|g| g.starts_with(&group));
        if !is_above {
            groups.push(group);
        }
    }
    groups
}

/// For every hierarchy in which this process is in a group of a run: the nearest ancestor group that belongs to no run.
pub(super) fn outside_of_runs() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let above = from_tables(&mounts, &own, "cpu")
        .into_iter()
        .map(|c| c.parent);
    let mut found = Vec::new();
    let mut inside = false;
    for parent in above {
        let is_of_run = parent.components().any(|part| {
            let token = part
                .as_os_str()
                .to_str()
                .and_then(|n| n.strip_prefix("mt-"));
            token.is_some_and(is_token)
        });
        if inside && !is_of_run {
            found.push(parent);
        }
        inside = is_of_run;
    }
    found
}

/// In every hierarchy with a controller, the group of this process and those above it, up to the mounted one.
fn from_tables(mounts: &str, own: &str, controller: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(&root), Some(&point), Some(&kind)) = (left.get(3), left.get(4), right.first())
        else {
            continue;
        };
        let has = right
            .get(2)
            .is_some_and(|o| o.split(',').any(|o| o == controller));
        let (version, path) = match kind {
            "cgroup2" => (Version::V2, own_path(own, "")),
            "cgroup" if has => (Version::V1, own_path(own, controller)),
            _ => continue,
        };
        let relative = path
            .as_deref()
            .and_then(|p| p.strip_prefix(root.trim_end_matches('/')))
            .unwrap_or_default();
        let mut parent = PathBuf::from(point).join(relative.trim_start_matches('/'));
        loop {
            found.push(Candidate {
                version,
                parent: parent.clone(),
            });
            if parent == Path::new(point) || !parent.pop() {
                break;
            }
        }
    }
    found
}

/// This process's path in the hierarchy of a controller; "" means version 2.
fn own_path(own: &str, controller: &str) -> Option<String> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        controllers
            .split(',')
            .any(|c| c == controller)
            .then(|| path.to_owned())
    })
}

/// Creates the group `dir` below a candidate, if it does not exist, such that groups below `dir` can have quotas.
pub(super) fn make(candidate: &Candidate, dir: &Path) -> io::Result<()> {
    let parent = &candidate.parent;
    let create = || match dir.is_dir() {
        true => Ok(()),
        false => fs::create_dir(dir),
    };
    match candidate.version {
        Version::V1 => {
            create()?;
            fs::write(dir.join("cpu.cfs_quota_us"), "-1")
        }
        Version::V2 => {
            let controllers = fs::read_to_string(parent.join("cgroup.controllers"))?;
            if !controllers.split_whitespace().any(|c| c == "cpu") {
                let text = "the cpu controller is not available here";
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
            enable(parent, dir)?;
            create()?;
            fs::write(dir.join("cgroup.subtree_control"), "+cpu")
        }
    }
}

/// Allows quotas for groups below `parent`. The kernel refuses while processes are in `parent` itself. If this process
/// is the only one in `parent` (in its own scope), it first moves into `dir`.
fn enable(parent: &Path, dir: &Path) -> io::Result<()> {
    let control = parent.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&control)?;
    if enabled.split_whitespace().any(|c| c == "cpu") {
        return Ok(());
    }
    let refused = match fs::write(&control, "+cpu") {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let members = fs::read_to_string(parent.join("cgroup.procs"))?;
    if members.trim() != std::process::id().to_string() {
        return Err(refused);
    }
    let leaf = dir.with_extension("self");
    fs::create_dir(&leaf)?;
    fs::write(leaf.join("cgroup.procs"), members.trim())?;
    fs::write(&control, "+cpu")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of mounts, a NUL, and the groups of this process.
    #[test]
    fn fuzz_tables() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/cgroup");
        testkit::fuzz::fuzz("cgroup", &[&corpus], |text| {
            let text = String::from_utf8_lossy(text);
            let (mounts, own) = text.split_once('\0').unwrap_or((&text, ""));
            let found = from_tables(mounts, own, "cpu");
            let first = found.first().map(|c| (c.version, c.parent.is_absolute()));
            format!("{first:?} {}", found.len().min(8))
        });
    }

    #[test]
    fn finds_both_versions() {
        let v1 = "33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  34 25 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "4:cpu,cpuacct:/user/me\n3:memory:/x\n0::/\n";
        let parents = |mounts, own| -> Vec<String> {
            from_tables(mounts, own, "cpu")
                .iter()
                .map(|c| c.parent.display().to_string())
                .collect()
        };
        let root = "/sys/fs/cgroup/cpu,cpuacct";
        let expected = [&format!("{root}/user/me"), &format!("{root}/user"), root];
        assert_eq!(parents(v1, own), expected);
        let memory = from_tables(v1, own, "memory");
        assert_eq!(memory[0].parent, Path::new("/sys/fs/cgroup/memory/x"));
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
        let expected = [
            "/sys/fs/cgroup/user.slice/a.scope",
            "/sys/fs/cgroup/user.slice",
            "/sys/fs/cgroup",
        ];
        assert_eq!(parents(v2, "0::/user.slice/a.scope\n"), expected);
        assert_eq!(from_tables(v2, "0::/\n", "cpu")[0].version, Version::V2);
        assert!(from_tables("nonsense\n", "x", "cpu").is_empty());
    }

    #[test]
    fn a_parent_without_the_controller_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let candidate = Candidate {
            version: Version::V2,
            parent: dir.path().to_owned(),
        };
        fs::write(dir.path().join("cgroup.controllers"), "memory io\n").unwrap();
        fs::write(dir.path().join("cgroup.subtree_control"), "").unwrap();
        let group = dir.path().join("mt-x");
        assert!(make(&candidate, &group).is_err());
        fs::write(dir.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        make(&candidate, &group).unwrap();
        // It may exist already, for jobs without a quota.
        make(&candidate, &group).unwrap();
        let enabled = fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(enabled, "+cpu");
    }
}
