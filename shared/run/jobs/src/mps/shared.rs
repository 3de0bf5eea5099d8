//! One daemon for each GPU and user, shared by programs that start and end on their own.
//!
//! A directory `gpu-UUID` below the root of run directories holds the daemon's pipe and log, and the file `clients`.
//! Each client holds a shared lock on that file, through the process that attends it (see [`crate::attend`]); the
//! kernel releases the lock when its holder dies, in whatever way. A leaving client that can lock the file exclusively
//! was the last: it stops the daemon and removes the directory. All of this happens under a lock on `gpu-UUID.lock`
//! beside the directory, so that no client joins a daemon that is about to stop.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::private::check_private_dir;
use crate::process::Lineage;
use crate::run_dir::ledger::Owner;

use super::control::Control;
use super::daemon::{self, Mps, MpsOptions};
use super::stale::{self, lock, private_dir};
use super::{MpsError, find_control};

/// A shared daemon that this process keeps alive while this value exists; other clients may keep it alive longer.
#[derive(Debug)]
pub struct SharedMps {
    mps: Mps,
    dir: PathBuf,
    /// Absent after this process has left.
    member: Option<Membership>,
}

impl SharedMps {
    /// Joins the daemon of the first GPU that `options` names, or starts it.
    ///
    /// # Errors
    /// [`MpsError::Occupied`] if a launch keeps its own daemon on that GPU: two daemons on one GPU would take turns
    /// on it instead of sharing it. Otherwise as [`Mps::start`].
    pub fn join(options: &MpsOptions) -> Result<Self, MpsError> {
        let gpu = options.gpus.first().map_or("all", String::as_str);
        private_dir(&options.root)?;
        if let Some(pid) = stale::private_owner(&options.root, gpu)? {
            let gpu = gpu.to_owned();
            return Err(MpsError::Occupied { gpu, pid });
        }
        let dir = options.root.join(name(gpu));
        let _gate = lock(&gate_of(&dir))?;
        for folder in [dir.clone(), dir.join("pipe"), dir.join("log")] {
            private_dir(&folder)?;
        }
        let client = client_lock(&dir)?;
        let control = Control::new(options.program.clone(), dir.join("pipe"), options.timeout);
        // A daemon that does not answer is useless: its clients have already lost it.
        if control.servers().is_err()
            && let Err(error) = start(&control, &dir, options)
        {
            drop(client);
            leave(&dir, &control).ok();
            return Err(error);
        }
        let member = Membership {
            dir: dir.clone(),
            client,
        };
        Ok(Self {
            mps: Mps::of(control, options.gpus.clone()),
            dir,
            member: Some(member),
        })
    }

    /// The daemon.
    #[must_use]
    pub const fn mps(&self) -> &Mps {
        &self.mps
    }

    /// Its directory, for [`Membership::of`].
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for SharedMps {
    fn drop(&mut self) {
        // If this fails, the next client to leave tries again.
        self.member.take().map(Membership::leave);
    }
}

/// Starts the daemon after stopping what is left of one that does not answer.
fn start(control: &Control, dir: &Path, options: &MpsOptions) -> Result<(), MpsError> {
    if let Some(owner) = Owner::read(dir) {
        stale::stop_all(control, &owner.lineage());
        let pipe = dir.join("pipe");
        let what = || format!("cannot empty {}", pipe.display());
        fs::remove_dir_all(&pipe).map_err(MpsError::io(what()))?;
        private_dir(&pipe)?;
        let file = dir.join(Owner::FILE);
        fs::remove_file(&file)
            .map_err(MpsError::io(format!("cannot replace {}", file.display())))?;
    }
    let written = Owner::this("mt-launch exec").write(dir);
    written.map_err(MpsError::io(format!("cannot write in {}", dir.display())))?;
    daemon::start(control, &dir.join("log"), options)
}

/// Membership in a shared daemon that another process has joined. The attendant of that process holds it.
#[derive(Debug)]
pub struct Membership {
    dir: PathBuf,
    client: File,
}

impl Membership {
    /// Joins the daemon of this directory. The process that joined before must still be a member.
    ///
    /// # Errors
    /// [`MpsError::NotPrivate`] if it is no directory of this user; [`MpsError::Io`].
    pub fn of(dir: &Path) -> Result<Self, MpsError> {
        check_private_dir(dir).map_err(MpsError::io(dir.display().to_string()))?;
        let client = client_lock(dir)?;
        let dir = dir.to_owned();
        Ok(Self { dir, client })
    }

    /// Leaves the daemon; the last member stops it.
    ///
    /// # Errors
    /// [`MpsError`] if the daemon's directory cannot be removed. Without the control program
    /// nothing is stopped: the next client finds the daemon.
    pub fn leave(self) -> Result<(), MpsError> {
        let _gate = lock(&gate_of(&self.dir))?;
        drop(self.client);
        let program = find_control().ok_or(MpsError::NoControl)?;
        let control = Control::new(program, self.dir.join("pipe"), LAST_PATIENCE);
        leave(&self.dir, &control)
    }
}

/// Time limit for an answer of a daemon that is being stopped. A daemon answers at once or hangs, and the process that
/// ends last has to wait for it.
const LAST_PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Stops the daemon and removes its directory unless it has members. The caller holds the gate.
pub(super) fn leave(dir: &Path, control: &Control) -> Result<(), MpsError> {
    let path = dir.join("clients");
    let file =
        File::open(&path).map_err(MpsError::io(format!("cannot open {}", path.display())))?;
    if file.try_lock().is_err() {
        return Ok(());
    }
    let lineage = Owner::read(dir).map(|owner| owner.lineage());
    let left = stale::stop_all(
        control,
        &lineage.unwrap_or_else(|| Lineage::of(None, Vec::new())),
    );
    if !left.is_empty() {
        return Err(MpsError::Command {
            command: "quit".to_owned(),
            detail: format!("processes {left:?} outlive SIGKILL"),
        });
    }
    stale::remove(dir)
}

/// Stops the shared daemons below `root` whose clients have all died without leaving (because their attendants were
/// killed, too).
pub(super) fn clean(root: &Path, program: &Path) -> Result<(), MpsError> {
    let what = || format!("cannot read {}", root.display());
    for entry in fs::read_dir(root).map_err(MpsError::io(what()))? {
        let path = entry.map_err(MpsError::io(what()))?.path();
        let named = path
            .file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("gpu-"));
        if !named || check_private_dir(&path).is_err() {
            continue;
        }
        let _gate = lock(&gate_of(&path))?;
        if path.join("clients").exists() {
            let control = Control::new(program.to_owned(), path.join("pipe"), LAST_PATIENCE);
            leave(&path, &control)?;
        }
    }
    Ok(())
}

/// Directory name for a GPU: `gpu-` and the letters and digits of its UUID. It is short because the path of a socket
/// below it may have at most 107 bytes.
fn name(gpu: &str) -> String {
    let uuid = gpu.strip_prefix("GPU-").unwrap_or(gpu);
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    format!("gpu-{}", uuid.chars().map(safe).collect::<String>())
}

fn gate_of(dir: &Path) -> PathBuf {
    dir.with_extension("lock")
}

/// The shared lock of a client. It never blocks, because exclusive locks are only taken by a process that holds the
/// gate (the lock on `gpu-UUID.lock`).
fn client_lock(dir: &Path) -> Result<File, MpsError> {
    let path = dir.join("clients");
    let what = || format!("cannot lock {}", path.display());
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .map_err(MpsError::io(what()))?;
    file.lock_shared().map_err(MpsError::io(what()))?;
    Ok(file)
}
