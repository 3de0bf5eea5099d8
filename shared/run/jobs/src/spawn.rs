mod program;
mod seat;

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::errno::Errno;

pub(crate) use self::program::{Process, wait};
use self::seat::{Group, Seat};
use crate::JobSpec;
use crate::descriptors::keep_streams_only;
use crate::sign::{MARK, Sign};

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program cannot be run.
    #[error("cannot start {program:?}: {source}")]
    Program {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Its working directory cannot be used.
    #[error("cannot start in the folder {path}: {source}; name an existing one, or none (\"cwd\" of the job)", path = path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its log cannot be written.
    #[error("cannot write the log {path}: {source}", path = path.display())]
    Log {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its control group cannot be entered.
    #[error("cannot enter the control group {path}: {source}", path = path.display())]
    Cgroup {
        /// Its `cgroup.procs`.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SpawnError {
    /// Whether the machine temporarily lacks what a start needs: processes, descriptors, memory, disk space. The same
    /// start may succeed later, unlike one with a missing program.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        let (Self::Program { source, .. }
        | Self::Folder { source, .. }
        | Self::Log { source, .. }
        | Self::Cgroup { source, .. }) = self;
        let full = [
            io::ErrorKind::StorageFull,
            io::ErrorKind::QuotaExceeded,
            io::ErrorKind::OutOfMemory,
        ];
        full.contains(&source.kind()) || source.get_ref().is_some_and(|e| e.is::<Limit>())
    }
}

/// A limit was reached; the text names the limit, unlike the system's message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Limit(&'static str);

/// Starts the program in its own process group; it dies with the calling thread. It is put into the control group
/// with the `cgroup.procs` file `enclosure`, if possible.
pub(crate) fn spawn(
    spec: &JobSpec,
    sign: &Sign,
    enclosure: Option<&Path>,
) -> Result<Process, SpawnError> {
    let quota = spec
        .cgroup_procs
        .as_deref()
        .map(|procs| {
            Group::open(procs).map_err(|source| SpawnError::Cgroup {
                path: procs.to_owned(),
                source: with_limit(source),
            })
        })
        .transpose()?;
    let must = quota.is_some();
    let group = quota.or_else(|| Group::open(enclosure?).ok());
    let seat = Seat::new(sign, group, must, &spec.cpus);
    let mark = sign.mark();
    program::start(spec, (MARK, mark.as_ref()), &seat).map_err(|source| match &spec.cwd {
        // Starting fails with the same error as for a missing program, so this case is distinguished here.
        Some(cwd) if !cwd.is_dir() => SpawnError::Folder {
            path: cwd.clone(),
            source: fs::read_dir(cwd).err().unwrap_or(source),
        },
        _ => SpawnError::Program {
            program: spec
                .argv
                .first()
                .map_or_else(String::new, |p| p.to_string_lossy().into_owned()),
            source: with_limit(source),
        },
    })
}

/// Makes a program that is not a job die with the thread that starts it, carry a sign, and join a control group if the
/// group accepts it.
pub(crate) fn contain(command: &mut Command, sign: &Sign, enclosure: Option<&Path>) {
    command.env(MARK, sign.mark()).process_group(0);
    let group = enclosure.and_then(|path| Group::open(path).ok());
    let seat = Seat::new(sign, group, false, &[]);
    let hook = move || {
        keep_streams_only();
        Ok(seat.take(false)?)
    };
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are allowed, and makes no
    // other.
    #[expect(unsafe_code, reason = "see above")]
    unsafe {
        command.pre_exec(hook);
    }
}

/// Adds the name of the limit to an error of too many processes or files, because the system's message ("Resource
/// temporarily unavailable") does not contain it.
pub(crate) fn with_limit(error: io::Error) -> io::Error {
    let limit = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => {
            "no more processes may be started: the limit of this user (ulimit -u) or of its control group \
             (pids.max; in a container, --pids-limit) is reached"
        }
        Some(Errno::EMFILE) => {
            "no more files may be open: the limit of this process (ulimit -n) is reached"
        }
        Some(Errno::ENFILE) => {
            "no more files may be open: the limit of the machine (fs.file-max) is reached"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), Limit(limit))
}
