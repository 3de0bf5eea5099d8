//! Cleaning up after dead runs.
//!
//! The contents of a run directory are not trusted. A directory belongs to a run only if everything that
//! [`super::RunDir`] creates is there and consistent. Only resources in its ledger that contain the run's own random
//! name are touched. And a process is killed only with two proofs that it belongs to the run (see
//! [`crate::process::Lineage`]).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::ledger::{Owner, Resource, is_token};
use crate::private::{check_private_dir, reopen_private};
use crate::sign::Sign;
use crate::{cgroup, process};

/// How often to check whether processes have ended, in a process that does nothing else.
const LOOK: Duration = Duration::from_millis(20);

/// Result of cleaning up after a dead run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// The tool that died.
    pub tool: String,
    /// Its process id.
    pub pid: Option<i32>,
    /// Processes that were killed.
    pub processes: usize,
    /// Control groups that were removed.
    pub cgroups: usize,
    /// Descriptions of what could not be removed, or did not belong to the run and was left alone. The run directory
    /// is then kept, so that a later start can try again.
    pub left: Vec<String>,
}

impl Cleaned {
    /// Messages for the user: what was cleaned up, and each item that is left.
    pub fn told(&self) -> impl Iterator<Item = String> {
        let pid = self.pid.map_or_else(String::new, |pid| format!(" {pid}"));
        let did = format!(
            "cleaned up after {}{pid}, which was killed: {} processes, {} control groups",
            self.tool, self.processes, self.cgroups
        );
        let left = self.left.iter();
        std::iter::once(did).chain(left.map(|left| format!("left where it is: {left}")))
    }
}

/// A directory that provably belongs to a run.
struct Found {
    token: String,
    owner: Owner,
    ledger: Vec<Resource>,
    lock: File,
}

impl Found {
    /// Checks that the directory belongs to a run: its name is random, only this user can read it, and its ledger
    /// begins with its name.
    fn authenticate(path: &Path) -> io::Result<Self> {
        let refused = |why: &str| {
            let text = format!(
                "{} is not a run directory: {why}; nothing was touched",
                path.display()
            );
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        let name = path.file_name().and_then(|n| n.to_str());
        let token = name
            .and_then(|n| n.strip_prefix("run-"))
            .unwrap_or_default();
        if !is_token(token) {
            return Err(refused("its name is not one"));
        }
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        for dir in [Some(path), parent].into_iter().flatten() {
            check_private_dir(dir).map_err(|error| refused(&error.to_string()))?;
        }
        let lock = reopen_private(&path.join("lock")).map_err(|e| refused(&e.to_string()))?;
        let owner = Owner::read(path).ok_or_else(|| refused("it names no owner"))?;
        let ledger = fs::read_to_string(path.join("ledger"))
            .map_err(|error| refused(&format!("its ledger cannot be read: {error}")))?;
        // A truncated last line comes from a kill; its resource was never created.
        let ledger: Vec<Resource> = ledger
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        match ledger.first() {
            Some(Resource::Mark(mark)) if mark == token => Ok(Self {
                token: token.to_owned(),
                owner,
                ledger,
                lock,
            }),
            _ => Err(refused("its ledger belongs to another run")),
        }
    }

    /// Whether the owner is alive. A free lock is no proof of its death, because some file systems do not keep locks.
    fn is_in_use(&self) -> io::Result<bool> {
        match self.lock.try_lock() {
            Ok(()) => Ok(self.owner.is_alive()),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Cleans up after the dead runs below `base`. A directory that cannot be cleaned up does not block a start.
pub(super) fn dead(base: &Path, patience: Duration) -> io::Result<Vec<Cleaned>> {
    let mut cleaned = Vec::new();
    for entry in fs::read_dir(base)?.flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with("run-") {
            continue;
        }
        match one(&path, patience) {
            Ok(found) => cleaned.extend(found),
            Err(error) if remove_half_made(&path).is_err() => cleaned.push(Cleaned {
                tool: "a run".to_owned(),
                pid: None,
                processes: 0,
                cgroups: 0,
                left: vec![error.to_string()],
            }),
            Err(_) => {}
        }
    }
    Ok(cleaned)
}

/// Cleans up after one run; `None` if its owner is alive.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if this is no run directory.
pub(super) fn one(path: &Path, patience: Duration) -> io::Result<Option<Cleaned>> {
    let found = Found::authenticate(path)?;
    if found.is_in_use()? {
        return Ok(None);
    }
    let mut cleaned = Cleaned {
        tool: found.owner.tool.clone(),
        pid: found.owner.process.map(|p| p.pid),
        processes: 0,
        cgroups: 0,
        left: Vec::new(),
    };
    for resource in &found.ledger {
        match resource {
            Resource::Mark(token) if *token == found.token => {
                let processes = Sign::of_run(token).find(&found.owner.lineage());
                let left = process::kill_all(&processes, patience);
                cleaned.processes += processes.len() - left.len();
                let pids = left.iter().map(|p| p.pid);
                cleaned.left.extend(
                    pids.map(|pid| format!("process {pid} does not end, even after SIGKILL")),
                );
            }
            Resource::Mark(_) => {}
            Resource::Cgroup(group) if cgroup::is_of_run(group, &found.token) => {
                match cgroup::remove_tree(group, patience) {
                    Ok(()) => cleaned.cgroups += 1,
                    Err(error) => cleaned.left.push(format!("{}: {error}", group.display())),
                }
            }
            // Checked last: a group inside the group of another run (`exec` in `exec`) may be removed with that run at
            // any moment, and then it did not belong to somebody else.
            Resource::Cgroup(group) if !group.exists() => {}
            Resource::Cgroup(group) => {
                let text = format!("{} is not this run's control group", group.display());
                cleaned.left.push(text);
            }
        }
    }
    if cleaned.left.is_empty() {
        fs::remove_dir_all(path)?;
    }
    Ok(Some(cleaned))
}

/// Asks every process of a run whose owner is dead to end, and waits at most for `grace` until they have.
///
/// # Errors
/// As for [`one`].
pub(super) fn ask_to_end(path: &Path, grace: Duration) -> io::Result<()> {
    // Holds the lock meanwhile, since another start would kill the processes at once.
    let found = Found::authenticate(path)?;
    if found.is_in_use()? {
        return Ok(());
    }
    let lineage = found.owner.lineage();
    let mut left = Sign::of_run(&found.token).find(&lineage);
    left.iter()
        .filter(|p| !process::is_filter(p.pid))
        .for_each(|p| p.terminate());
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline {
        left.retain(|process| process.is_alive());
        if left.is_empty() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Removes a directory whose owner died while creating it, so that it contains only the files that are created first.
/// Call it while no other start is in progress.
fn remove_half_made(path: &Path) -> io::Result<()> {
    check_private_dir(path)?;
    let made = ["lock", "owner.json", "ledger"];
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let small = entry
            .metadata()
            .is_ok_and(|m| m.is_file() && m.len() < 4096);
        if !small || !made.iter().any(|name| entry.file_name() == *name) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
    }
    if let Ok(lock) = reopen_private(&path.join("lock"))
        && lock.try_lock().is_err()
    {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    for name in made {
        // Some of these files may be missing.
        fs::remove_file(path.join(name)).ok();
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunDir;
    use crate::process::Identity;
    use crate::sign::MARK;
    use std::path::PathBuf;
    use std::process::Command;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// A directory as a dead run leaves it: its owner no longer exists, and the lock is free.
    fn dead_run(base: &Path) -> (PathBuf, String) {
        let (run, _) = RunDir::create(base, "dead").unwrap();
        let (path, token) = (run.path().to_owned(), run.token().to_owned());
        let ledger = fs::read(path.join("ledger")).unwrap();
        drop(run);
        fs::create_dir(&path).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&path, mode).unwrap();
        fs::write(path.join("lock"), "").unwrap();
        fs::write(path.join("ledger"), ledger).unwrap();
        let mut owner = Owner::this("dead");
        // The recorded owner has this process's number but an earlier start time, so it counts as dead.
        owner.process = Some(Identity {
            pid: std::process::id().cast_signed(),
            start: 1,
        });
        owner.ancestors.extend(Identity::own());
        owner.write(&path).unwrap();
        (path, token)
    }

    #[test]
    fn a_dead_run_is_cleaned_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("runs");
        let (living, cleaned) = RunDir::create(&base, "living").unwrap();
        assert!(cleaned.is_empty());
        let (path, token) = dead_run(&base);
        let mut job = Command::new("sleep")
            .arg("60")
            .env(MARK, format!("{token}.0"))
            .spawn()
            .unwrap();
        let prefix = format!("{MARK}={token}.");
        let carriers = || process::with_variable(|v| v.starts_with(prefix.as_bytes()));
        while carriers().is_empty() {
            std::thread::yield_now();
        }
        let (_next, cleaned) = RunDir::create(&base, "next").unwrap();
        assert_eq!(cleaned.len(), 1);
        let first = &cleaned[0];
        assert_eq!((first.tool.as_str(), first.processes), ("dead", 1));
        assert!(first.left.is_empty(), "{first:?}");
        job.wait().unwrap();
        assert!(!path.exists());
        assert!(living.path().exists());
    }

    #[test]
    fn what_is_no_run_directory_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("runs");
        let (path, token) = dead_run(&base);
        let precious = dir.path().join("precious");
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("thesis"), "years of work").unwrap();
        let link = base.join("run-abcdefabcdef");
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        let copy = base.join("run-copycopycopy");
        fs::create_dir(&copy).unwrap();
        for name in ["lock", "owner.json", "ledger"] {
            fs::copy(path.join(name), copy.join(name)).unwrap();
        }
        fs::write(copy.join("thesis"), "years of work").unwrap();
        for other in [&precious, &link, &copy, &base] {
            let error = one(other, PATIENCE).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{other:?}");
        }
        // A start reports that it left these entries, and succeeds.
        let (_run, cleaned) = RunDir::create(&base, "next").unwrap();
        let left = cleaned.iter().filter(|c| !c.left.is_empty()).count();
        assert_eq!(left, 2, "{cleaned:?}");
        assert!(precious.join("thesis").exists() && copy.join("thesis").exists());
        assert!(!path.exists(), "{token} was a run's");
    }

    #[test]
    fn a_ledger_that_names_what_is_not_its_own_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("runs");
        let (path, _) = dead_run(&base);
        let folder = dir.path().join("mt-elsewhere");
        fs::create_dir(&folder).unwrap();
        let mut job = Command::new("sleep")
            .arg("60")
            .env(MARK, "foreign.0")
            .spawn()
            .unwrap();
        let lines = format!(
            "{}\n{}\n",
            serde_json::to_string(&Resource::Mark("foreign".to_owned())).unwrap(),
            serde_json::to_string(&Resource::Cgroup(folder.clone())).unwrap()
        );
        let mut ledger = fs::read_to_string(path.join("ledger")).unwrap();
        ledger.push_str(&lines);
        fs::write(path.join("ledger"), ledger).unwrap();
        let cleaned = one(&path, PATIENCE).unwrap().unwrap();
        assert_eq!((cleaned.processes, cleaned.cgroups), (0, 0));
        assert_eq!(cleaned.left.len(), 1);
        assert!(folder.exists() && path.exists());
        assert!(job.try_wait().unwrap().is_none(), "another's process");
        job.kill().unwrap();
        job.wait().unwrap();
    }

    #[test]
    fn a_directory_whose_owner_died_while_making_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("runs");
        drop(RunDir::create(&base, "first").unwrap());
        let half = base.join("run-halfhalfhalf");
        fs::create_dir(&half).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&half, mode).unwrap();
        fs::write(half.join("lock"), "").unwrap();
        let (_run, cleaned) = RunDir::create(&base, "next").unwrap();
        assert!(cleaned.is_empty() && !half.exists());
    }
}
