//! NVIDIA MPS: the control program, a private daemon, and whether a client really is attached.
//!
//! Invariants: the compute mode, clocks and MIG are never touched; what [`Mps::start`] started is
//! gone when the guard is dropped, and what a killed owner left behind is found and removed by
//! the next start; a daemon that was there before is used ([`Mps::attach`]) but never stopped.
//!
//! Facts relied on are those of NVIDIA's MPS documentation (r510 to r580): the control program
//! reads commands on stdin and exits 0 whenever it could talk to the daemon, *also when the
//! command failed*, so what it prints decides; a client that cannot reach the daemon silently
//! runs without MPS; after a fatal fault the server is in state FAULT until all clients exited.

mod control;
mod daemon;
mod process;
mod shared;
mod stale;

use std::path::PathBuf;

pub use control::{CONTROL, Control, ServerStatus, find_control};
pub use daemon::{Attachment, Mps, MpsOptions, Ready};
pub(crate) use process::is_program;
pub use shared::{Membership, SharedMps};
pub use stale::{clean_orphans, default_root};

/// The variable that limits the device memory of a client on each of the `gpus` GPUs that it sees,
/// and its value: in MiB, rounded up (`CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`, CUDA 11.5 and newer).
#[must_use]
pub fn memory_limit(memory: units::Bytes, gpus: usize) -> (&'static str, String) {
    let mebibytes = memory.get().div_ceil(1 << 20);
    let each: Vec<String> = (0..gpus).map(|gpu| format!("{gpu}={mebibytes}M")).collect();
    ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", each.join(","))
}

/// A process id.
pub type Pid = i32;

/// What can go wrong with MPS.
#[derive(Debug, thiserror::Error)]
pub enum MpsError {
    /// The control program is missing.
    #[error("MPS cannot run: {CONTROL} is not on PATH; it comes with the NVIDIA driver")]
    NoControl,
    /// The daemon did not come up.
    #[error("the MPS daemon does not start: {detail}")]
    Start {
        /// What was seen.
        detail: String,
    },
    /// A launch keeps a daemon of its own on the GPU.
    #[error(
        "GPU {gpu} is used by a launch (process {pid}) through an MPS daemon of its own, and a second \
         daemon would take turns with it; wait for its end"
    )]
    Occupied {
        /// The GPU's UUID.
        gpu: String,
        /// The launch.
        pid: Pid,
    },
    /// No daemon answers where one was to be attached to.
    #[error("no MPS daemon answers at {}: {detail}", pipe_dir.display())]
    NoDaemon {
        /// The pipe directory that was tried.
        pipe_dir: PathBuf,
        /// What the control program said.
        detail: String,
    },
    /// A command to the daemon failed, whatever the exit code of the control program.
    #[error("MPS control command {command:?} failed: {detail}")]
    Command {
        /// The command.
        command: String,
        /// What was printed, or that nothing came in time.
        detail: String,
    },
    /// A process runs without MPS.
    #[error("process {pid} is not attached to MPS: {detail}")]
    NotAttached {
        /// The process.
        pid: Pid,
        /// How that was seen.
        detail: String,
    },
    /// A client has the whole GPU though its share is less.
    #[error(
        "process {pid} sees {sms} of {gpu_sms} SMs at a share of {share}: the share was not applied"
    )]
    ShareNotApplied {
        /// The process.
        pid: Pid,
        /// SMs that it reports.
        sms: u32,
        /// SMs of the GPU.
        gpu_sms: u32,
        /// Its share.
        share: units::Share,
    },
    /// A server does not serve.
    #[error("the MPS server is in state {status:?}")]
    Fault {
        /// Its state.
        status: ServerStatus,
    },
    /// A directory that must be private is not.
    #[error("{} must be a directory of this user with mode 0700: {detail}", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The refusal.
        source: std::io::Error,
    },
}

impl MpsError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
