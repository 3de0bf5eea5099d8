use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::private::{append_private, open_private_dir};
use crate::process::{self, Identity};
use crate::spawn::MARK;

/// The private directory of one run, and the ledger of what has to be put away when it ends.
///
/// Its owner holds a lock on a file in it. The kernel gives the lock back however the owner ends,
/// so a directory whose lock is free belongs to a dead one: [`RunDir::create`] cleans those up,
/// and touches no other. Every resource is written into the ledger before it is made.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    token: String,
    ledger: File,
    /// Held, not read.
    _lock: File,
}

/// Something that outlives a process that is killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Resource {
    /// Processes that carry this mark in their environment.
    Mark(String),
    /// A control group with those below it.
    Cgroup(PathBuf),
}

#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    tool: String,
    process: Option<Identity>,
}

/// What was cleaned up after a dead run.
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
}

/// Why there is no run directory.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the run directory {path}: {source}", path = path.display())]
pub struct RunDirError {
    /// Which directory.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// How long to wait for a killed process to go.
const PATIENCE: Duration = Duration::from_secs(5);

impl RunDir {
    /// Where run directories are: `mt-tools-UID` in the folder for temporary files.
    #[must_use]
    pub fn default_base() -> PathBuf {
        std::env::temp_dir().join(format!("mt-tools-{}", nix::unistd::geteuid()))
    }

    /// Cleans up after dead runs below `base`, then makes a new run directory there.
    ///
    /// # Errors
    /// [`RunDirError`] if `base` is not private or cannot be written.
    pub fn create(base: &Path, tool: &str) -> Result<(Self, Vec<Cleaned>), RunDirError> {
        let failed = |source| RunDirError {
            path: base.to_owned(),
            source,
        };
        open_private_dir(base).map_err(failed)?;
        // One start at a time: none sees the half-made directory of another.
        let gate = append_private(&base.join("lock")).map_err(failed)?;
        gate.lock().map_err(failed)?;
        let cleaned = clean_dead(base).map_err(failed)?;
        let run = Self::make(base, tool).map_err(failed)?;
        Ok((run, cleaned))
    }

    fn make(base: &Path, tool: &str) -> io::Result<Self> {
        let path = tempfile::Builder::new()
            .prefix("run-")
            .rand_bytes(12)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(base)?
            .keep();
        let lock = append_private(&path.join("lock"))?;
        lock.lock()?;
        let owner = Owner {
            tool: tool.to_owned(),
            process: Identity::own(),
        };
        let mut file = append_private(&path.join("owner.json"))?;
        file.write_all(&serde_json::to_vec(&owner)?)?;
        let ledger = append_private(&path.join("ledger"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let token = name.trim_start_matches("run-").to_owned();
        let mut run = Self {
            path,
            token,
            ledger,
            _lock: lock,
        };
        run.record(&Resource::Mark(run.token.clone()))?;
        Ok(run)
    }

    /// Notes a resource that is about to be made.
    ///
    /// # Errors
    /// If the ledger cannot be written; then do not make it.
    pub fn record(&mut self, resource: &Resource) -> io::Result<()> {
        let mut line = serde_json::to_vec(resource)?;
        line.push(b'\n');
        self.ledger.write_all(&line)
    }

    /// Cleans up after one run, unless its owner lives or has cleaned up itself. Waits for an
    /// owner that is about to die.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub fn clean(path: &Path) -> io::Result<Option<Cleaned>> {
        let deadline = std::time::Instant::now() + PATIENCE;
        while path.is_dir() {
            let cleaned = clean_one(path)?;
            if cleaned.is_some() || std::time::Instant::now() > deadline {
                return Ok(cleaned);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(None)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name that no other run has: 12 letters and digits.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Whatever is left is found by the next start.
        fs::remove_dir_all(&self.path).ok();
    }
}

fn clean_dead(base: &Path) -> io::Result<Vec<Cleaned>> {
    let own = nix::unistd::geteuid().as_raw();
    let mut cleaned = Vec::new();
    for entry in fs::read_dir(base)?.flatten() {
        let is_run = entry.file_name().to_string_lossy().starts_with("run-");
        let ours = fs::symlink_metadata(entry.path()).is_ok_and(|m| m.is_dir() && m.uid() == own);
        if is_run && ours {
            cleaned.extend(clean_one(&entry.path())?);
        }
    }
    Ok(cleaned)
}

fn clean_one(path: &Path) -> io::Result<Option<Cleaned>> {
    let lock = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(path.join("lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let owner: Option<Owner> = fs::read(path.join("owner.json"))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    // The lock may be free although the owner lives: some file systems do not keep locks.
    if owner
        .as_ref()
        .and_then(|o| o.process)
        .is_some_and(Identity::is_alive)
    {
        return Ok(None);
    }
    let mut cleaned = Cleaned {
        pid: owner.as_ref().and_then(|o| o.process).map(|p| p.pid),
        tool: owner.map_or_else(|| "unknown".to_owned(), |o| o.tool),
        processes: 0,
        cgroups: 0,
    };
    let ledger = fs::read_to_string(path.join("ledger")).unwrap_or_default();
    // A line cut short by a kill names something that was not made.
    let resources: Vec<Resource> = ledger
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    for resource in &resources {
        match resource {
            Resource::Mark(token) => {
                let found = marked(token);
                cleaned.processes += found.len();
                process::kill_all(&found, PATIENCE);
            }
            Resource::Cgroup(group) => {
                cleaned.cgroups += usize::from(group.exists());
                crate::cgroup::remove_tree(group, PATIENCE)?;
            }
        }
    }
    fs::remove_dir_all(path)?;
    Ok(Some(cleaned))
}

/// Living processes that carry the mark of a run.
pub(crate) fn marked(token: &str) -> Vec<Identity> {
    let prefix = format!("{MARK}={token}.");
    process::with_variable(|v| v.starts_with(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_dead_run_is_cleaned_and_a_living_one_is_not() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("runs");
        let (living, cleaned) = RunDir::create(&base, "living").unwrap();
        assert!(cleaned.is_empty());
        let (dead, _) = RunDir::create(&base, "dead").unwrap();
        let mut job = Command::new("sleep")
            .arg("60")
            .env(MARK, format!("{}.0", dead.token()))
            .spawn()
            .unwrap();
        while marked(dead.token()).is_empty() {
            std::thread::yield_now();
        }
        // Die: the lock goes, the directory stays, the owner no longer exists.
        let path = dead.path().to_owned();
        let owner = Owner {
            tool: "dead".to_owned(),
            process: Some(Identity {
                pid: std::process::id().cast_signed(),
                start: 1,
            }),
        };
        let kept = base.join("run-kept");
        fs::create_dir(&kept).unwrap();
        fs::copy(path.join("ledger"), kept.join("ledger")).unwrap();
        fs::write(kept.join("owner.json"), serde_json::to_vec(&owner).unwrap()).unwrap();
        drop(dead);
        let (_next, cleaned) = RunDir::create(&base, "next").unwrap();
        assert_eq!(cleaned.len(), 1);
        assert_eq!(
            (cleaned[0].tool.as_str(), cleaned[0].processes),
            ("dead", 1)
        );
        job.wait().unwrap();
        assert!(!kept.exists());
        assert!(living.path().exists());
    }

    #[test]
    fn a_link_in_the_shared_folder_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, root.path().join("runs")).unwrap();
        assert!(RunDir::create(&root.path().join("runs"), "x").is_err());
    }
}
