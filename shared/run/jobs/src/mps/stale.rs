//! Run directories of private daemons, and cleaning up those whose owner is dead.
//!
//! Each daemon has a directory `run-*` below a root of this user. Its owner holds an exclusive lock
//! on the file `lock` in it while it lives; the kernel releases the lock however the owner dies, so
//! a lock that can be acquired means an orphan.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::private::{append_private, check_private_dir};
use crate::process::Lineage;
use crate::run_dir::ledger::Owner;

use super::control::Control;
use super::error::{LONGEST_SOCKET, MpsError, Pid};
use super::process::{self, Ours};

/// The longest name of a socket in the daemon's pipe directory.
pub(super) const SOCKET: &str = "control_privileged";
/// Longest path of the root directory. Paths of sockets may have at most 107 bytes, and the longest suffix that we and
/// the daemon add is `/gpu-` with 32 letters of a GPU's name, and `/pipe/control_privileged`.
const LONGEST: usize = LONGEST_SOCKET - 5 - 32 - 24;

/// Default root of run directories. It must be a short path, so a batch system's folder for temporary files is not used
/// if its path is too long.
#[must_use]
pub fn default_root() -> PathBuf {
    let name = format!("mt-mps-{}", nix::unistd::getuid());
    let root = std::env::temp_dir().join(&name);
    match root.as_os_str().len() <= LONGEST {
        true => root,
        false => PathBuf::from("/tmp").join(name),
    }
}

/// A run directory that this process owns.
#[derive(Debug)]
pub(super) struct RunDir {
    path: PathBuf,
    /// Never read; dropping the file releases the lock.
    _lock: File,
}

impl RunDir {
    /// Creates a new one below `root` (which is also created, mode 0700) after removing orphans there. It contains
    /// the GPUs of its daemon, one per line.
    pub(super) fn create(root: &Path, program: &Path, gpus: &[String]) -> Result<Self, MpsError> {
        private_dir(root)?;
        // Held during the search for orphans, so that a directory whose owner is about to lock it does not count as
        // one.
        let _guard = lock(&root.join("lock"))?;
        clean(root, program)?;
        let path = tempfile::Builder::new()
            .prefix("run-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(root)
            .map_err(MpsError::io(format!(
                "cannot make a directory in {}",
                root.display()
            )))?
            .keep();
        for name in ["pipe", "log"] {
            private_dir(&path.join(name))?;
        }
        let lock = lock(&path.join("lock"))?;
        let written = Owner::this("mps")
            .write(&path)
            .and_then(|()| fs::write(path.join("gpu"), gpus.join("\n")));
        written.map_err(MpsError::io(format!("cannot write in {}", path.display())))?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn pipe(&self) -> PathBuf {
        self.path.join("pipe")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(super) fn remove(&self) -> Result<(), MpsError> {
        remove(&self.path)
    }
}

/// The owner of a live private daemon on a GPU.
///
/// # Errors
/// [`MpsError::Io`] if the root cannot be read.
pub(super) fn private_owner(root: &Path, gpu: &str) -> Result<Option<Pid>, MpsError> {
    let what = || format!("cannot read {}", root.display());
    let _gate = lock(&root.join("lock"))?;
    for entry in fs::read_dir(root).map_err(MpsError::io(what()))? {
        let path = entry.map_err(MpsError::io(what()))?.path();
        if !is_run(&path) || !owner_lives(&path)? {
            continue;
        }
        let named = fs::read_to_string(path.join("gpu")).unwrap_or_default();
        if named.lines().any(|other| other == gpu) {
            return Ok(Owner::read(&path).and_then(|owner| owner.pid()));
        }
    }
    Ok(None)
}

/// Stops the processes that dead owners left below `root` and removes their directories. If a process cannot be stopped
/// (inside a hanging driver), its directory stays, and the start continues.
pub(super) fn clean(root: &Path, program: &Path) -> Result<(), MpsError> {
    let what = || format!("cannot read {}", root.display());
    for entry in fs::read_dir(root).map_err(MpsError::io(what()))? {
        let path = entry.map_err(MpsError::io(what()))?.path();
        if !is_run(&path) || owner_lives(&path)? {
            continue;
        }
        let control = Control::new(
            program.to_owned(),
            path.join("pipe"),
            Duration::from_secs(2),
        );
        // An owner that died before it recorded itself had not started anything.
        let stopped = match Owner::read(&path) {
            Some(owner) => stop_all(&control, &owner.lineage()).is_empty(),
            None => true,
        };
        if stopped {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Whether a directory was created by [`RunDir::create`]: it is private, and has no other contents.
fn is_run(path: &Path) -> bool {
    let named = path
        .file_name()
        .is_some_and(|n| n.to_string_lossy().starts_with("run-"));
    let known = |entry: fs::DirEntry| {
        let made = ["pipe", "log", "lock", "owner.json", "gpu"];
        made.iter().any(|name| entry.file_name() == *name)
    };
    let plain = || fs::read_dir(path).is_ok_and(|mut all| all.all(|e| e.is_ok_and(known)));
    named && check_private_dir(path).is_ok() && plain()
}

/// Ends the clients, servers and the daemon of a pipe directory, gently first. Returns those
/// that could not be ended.
pub(super) fn stop_all(control: &Control, lineage: &Lineage) -> Vec<Pid> {
    for server in control.servers().unwrap_or_default() {
        for client in control.clients(server).unwrap_or_default() {
            // SIGKILL with pending GPU work has undefined effects under MPS, so the work is ended first. If the daemon
            // refuses that, only the kill below remains.
            control.terminate(server, client).ok();
        }
    }
    // The clients before the daemon: a server waits for them.
    let find = || Ours::find(control.pipe_dir(), lineage);
    let clients = process::end(&find().clients, Duration::from_secs(2));
    // A daemon that does not answer is ended by signal.
    control.quit(Duration::from_secs(1)).ok();
    let daemons = process::end(&find().daemons, Duration::from_secs(2));
    let left = clients.into_iter().chain(daemons);
    left.map(|process| process.pid).collect()
}

fn owner_lives(path: &Path) -> Result<bool, MpsError> {
    let lock = path.join("lock");
    let file = match File::open(&lock) {
        Ok(file) => file,
        // Its owner died between creating the directory and locking it.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(MpsError::io(format!("cannot open {}", lock.display()))(e)),
    };
    match file.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(e)) => {
            Err(MpsError::io(format!("cannot lock {}", lock.display()))(e))
        }
    }
}

pub(super) fn lock(path: &Path) -> Result<File, MpsError> {
    let what = || format!("cannot lock {}", path.display());
    let file = append_private(path).map_err(MpsError::io(what()))?;
    file.lock().map_err(MpsError::io(what()))?;
    Ok(file)
}

pub(super) fn remove(path: &Path) -> Result<(), MpsError> {
    fs::remove_dir_all(path).map_err(MpsError::io(format!("cannot remove {}", path.display())))
}

/// Creates a directory with mode 0700, or checks that an existing one is private.
pub(super) fn private_dir(path: &Path) -> Result<(), MpsError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            let meta = fs::symlink_metadata(path)
                .map_err(MpsError::io(format!("cannot look at {}", path.display())))?;
            let detail = if !meta.is_dir() {
                "it is no directory".to_owned()
            } else if meta.uid() != nix::unistd::getuid().as_raw() {
                format!("it belongs to user {}", meta.uid())
            } else if meta.mode() & 0o077 != 0 {
                format!("its mode is {:o}", meta.mode() & 0o777)
            } else {
                return Ok(());
            };
            Err(MpsError::NotPrivate {
                path: path.to_owned(),
                detail,
            })
        }
        Err(e) => Err(MpsError::io(format!("cannot make {}", path.display()))(e)),
    }
}
