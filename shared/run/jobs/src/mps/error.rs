use std::path::PathBuf;

/// Longest path of a socket, unix(7): 108 bytes with the zero at its end.
pub(super) const LONGEST_SOCKET: usize = 107;

/// A process id.
pub type Pid = i32;

/// Name of NVIDIA's control program.
pub const CONTROL: &str = "nvidia-cuda-mps-control";

/// State of an MPS server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStatus {
    /// It is starting or recovering.
    Initializing,
    /// It serves clients.
    Active,
    /// A client faulted: no new client is served until all have exited.
    Fault,
    /// A state unknown to this program.
    Unknown,
}

/// Errors of MPS.
#[derive(Debug, thiserror::Error)]
pub enum MpsError {
    /// The control program is missing.
    #[error("MPS cannot run: {CONTROL} is not on PATH; it comes with the NVIDIA driver")]
    NoControl,
    /// The daemon did not come up.
    #[error("the MPS daemon does not start: {detail}")]
    Start {
        /// Message of the program or of its log.
        detail: String,
    },
    /// A launch keeps its own daemon on the GPU.
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
    /// No daemon to attach to answers.
    #[error("no MPS daemon answers at {}: {detail}", pipe_dir.display())]
    NoDaemon {
        /// The pipe directory that was tried.
        pipe_dir: PathBuf,
        /// What the control program said.
        detail: String,
    },
    /// The daemon to attach to speaks another version of the interface.
    #[error(
        "the MPS daemon at {} speaks MPS v3, and this program speaks version 2: start that daemon with \
         \"nvidia-cuda-mps-control -d -p 2\" and without CUDA_MPS_PROTOCOL_VERSION, or let this program \
         start one of its own",
        pipe_dir.display()
    )]
    Protocol {
        /// Its pipe directory.
        pipe_dir: PathBuf,
    },
    /// The daemon's sockets would have paths that the kernel does not allow.
    #[error(
        "the socket {} of an MPS daemon would have a path of {} bytes, and the kernel allows {}; set TMPDIR to a \
         shorter folder",
        path.display(), path.as_os_str().len(), LONGEST_SOCKET
    )]
    LongPath {
        /// The path.
        path: PathBuf,
    },
    /// A command to the daemon failed, whatever the exit code of the control program.
    #[error("MPS control command {command:?} failed: {detail}")]
    Command {
        /// The command.
        command: String,
        /// The output, or a message that there was none in time.
        detail: String,
    },
    /// A process runs without MPS.
    #[error("process {pid} is not attached to MPS: {detail}")]
    NotAttached {
        /// The process.
        pid: Pid,
        /// How this was detected.
        detail: String,
    },
    /// A client has the whole GPU although its share is smaller.
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
    /// The operating system refused an operation.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The refusal.
        source: std::io::Error,
    },
}

impl MpsError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
