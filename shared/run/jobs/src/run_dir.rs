mod clean;
pub(crate) mod ledger;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guard::Guard;
use crate::private::{append_private, open_private_dir};
pub use clean::Cleaned;
use ledger::Owner;
pub use ledger::Resource;
use ledger::TOKEN;

/// The private directory of one run, with a ledger of the resources to clean up when the run ends.
///
/// Its owner holds a lock on a file in it. The kernel releases the lock however the owner ends, so a directory whose
/// lock is free belongs to a dead owner. [`RunDir::create`] cleans up those, and touches no other. Every resource is
/// written into the ledger before it is created.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    token: String,
    ledger: File,
    /// Control groups of the ledger.
    cgroups: Vec<PathBuf>,
    /// Never read; dropping the file releases the lock.
    _lock: File,
    /// Dropped after the lock, since the guard waits for the lock.
    guard: Option<Guard>,
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

/// How long the guard of a run waits for a killed process to disappear: SIGKILL acts within milliseconds, except inside
/// a driver. Nothing waits for the guard.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same for a start that finds the directory of a dead run. A process that remains after this time (inside a
/// hanging driver) is reported and left to a later start.
const PATIENCE_OF_A_START: Duration = Duration::from_secs(1);
/// Number of clean-up attempts of [`RunDir::put_away`], of some seconds each: a process inside a driver may take that
/// long.
const CLEANINGS: u32 = 5;

impl RunDir {
    /// Folder of run directories: `mt-tools-UID` in the folder for temporary files.
    #[must_use]
    pub fn default_base() -> PathBuf {
        std::env::temp_dir().join(format!("mt-tools-{}", nix::unistd::geteuid()))
    }

    /// Cleans up after dead runs below `base`, then creates a new run directory there.
    ///
    /// # Errors
    /// [`RunDirError`] if `base` is not private or cannot be written.
    pub fn create(base: &Path, tool: &str) -> Result<(Self, Vec<Cleaned>), RunDirError> {
        let failed = |source| RunDirError {
            path: base.to_owned(),
            source,
        };
        open_private_dir(base).map_err(failed)?;
        // One start at a time, so that none sees the incomplete directory of another.
        let gate = append_private(&base.join("lock")).map_err(failed)?;
        gate.lock().map_err(failed)?;
        let cleaned = clean::dead(base, PATIENCE_OF_A_START).map_err(failed)?;
        let run = Self::make(base, tool).map_err(failed)?;
        Ok((run, cleaned))
    }

    /// Opens a run: as [`RunDir::create`], with a guard if the program can have one ([`RunDir::guard`]). The returned
    /// texts describe leftovers of killed runs, and those of them that could not be removed. Every tool that runs jobs
    /// for longer than a moment starts with this.
    ///
    /// # Errors
    /// [`RunDirError`], also if the guard cannot be started.
    pub fn begin(
        base: &Path,
        tool: &str,
        guarded: bool,
    ) -> Result<(Self, Vec<String>), RunDirError> {
        let (mut run, cleaned) = Self::create(base, tool)?;
        if guarded {
            run.guard().map_err(|source| RunDirError {
                path: base.to_owned(),
                source,
            })?;
        }
        Ok((run, cleaned.iter().flat_map(Cleaned::told).collect()))
    }

    fn make(base: &Path, tool: &str) -> io::Result<Self> {
        let path = tempfile::Builder::new()
            .prefix("run-")
            .rand_bytes(TOKEN)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(base)?
            .keep();
        let lock = append_private(&path.join("lock"))?;
        lock.lock()?;
        Owner::this(tool).write(&path)?;
        let ledger = append_private(&path.join("ledger"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let token = name.trim_start_matches("run-").to_owned();
        let mut run = Self {
            path,
            token,
            ledger,
            cgroups: Vec::new(),
            _lock: lock,
            guard: None,
        };
        run.record(&Resource::Mark(run.token.clone()))?;
        Ok(run)
    }

    /// Starts a second process that cleans up the contents of the ledger if this one is killed; call it before creating
    /// any of them. Only for a program that supports [`Guard::OPTION`]. The guard ends with this run directory, that
    /// is, after everything that is dropped before it.
    ///
    /// # Errors
    /// If this program cannot be started again.
    pub fn guard(&mut self) -> io::Result<()> {
        self.guard = Some(Guard::start(&self.path)?);
        Ok(())
    }

    /// Records a resource that is about to be created.
    ///
    /// # Errors
    /// If the ledger cannot be written; then the caller must not create the resource.
    pub fn record(&mut self, resource: &Resource) -> io::Result<()> {
        if let Resource::Cgroup(group) = resource {
            self.cgroups.push(group.clone());
        }
        let mut line = serde_json::to_vec(resource)?;
        line.push(b'\n');
        self.ledger.write_all(&line)
    }

    /// Asks every process of a run whose owner is dead to end, and waits at most for `grace` until they have.
    ///
    /// # Errors
    /// The same as for [`RunDir::clean`].
    pub fn ask_to_end(path: &Path, grace: Duration) -> io::Result<()> {
        clean::ask_to_end(path, grace)
    }

    /// Cleans up after one run, unless its owner is alive or has cleaned up itself. Waits for an owner that is about
    /// to die.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if this is not a run directory: then nothing is touched.
    pub fn clean(path: &Path) -> io::Result<Option<Cleaned>> {
        let deadline = std::time::Instant::now() + PATIENCE;
        while path.is_dir() {
            let cleaned = clean::one(path, PATIENCE)?;
            if cleaned.is_some() || std::time::Instant::now() > deadline {
                return Ok(cleaned);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(None)
    }

    /// Ends the processes that a dead run left running, or waits until its guard has done so: jobs may only be started
    /// again when none of them is left.
    ///
    /// # Errors
    /// A description, if a process does not end.
    pub fn put_away(path: &Path) -> Result<(), String> {
        for _ in 0..CLEANINGS {
            if !path.is_dir() {
                return Ok(());
            }
            // A directory that is no run directory (any more) contains nothing of ours.
            match Self::clean(path) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(()),
                _ => {}
            }
        }
        match path.is_dir() {
            true => Err(format!(
                "processes of an earlier run do not end: see {}",
                path.display()
            )),
            false => Ok(()),
        }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A unique name: 12 letters and digits.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // A group that could not be removed is known only from the ledger, so the ledger stays for the guard and for
        // the next start.
        if !self.cgroups.iter().any(|group| group.exists()) {
            // The next start finds remaining files.
            fs::remove_dir_all(&self.path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_shared_folder_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(&target, root.path().join("runs")).unwrap();
        assert!(RunDir::create(&root.path().join("runs"), "x").is_err());
    }
}
