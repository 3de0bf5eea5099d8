//! The processes of a pipe directory, and ending them gently.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{Identity, kill_all, with_variable};
use nix::sys::signal::{Signal, kill};

/// Processes (of users whose environment we may read) started with this MPS pipe directory:
/// the daemon, its servers and its clients. This process itself is left out.
pub(super) fn with_pipe_dir(pipe_dir: &Path) -> Vec<Identity> {
    let mut wanted = b"CUDA_MPS_PIPE_DIRECTORY=".to_vec();
    wanted.extend_from_slice(pipe_dir.as_os_str().as_bytes());
    with_variable(|variable| variable == wanted)
}

/// Ends processes: SIGTERM, then SIGKILL to those still there after `patience`. Returns those
/// that outlived even that.
pub(super) fn end(processes: &[Identity], patience: Duration) -> Vec<Identity> {
    for process in processes.iter().filter(|p| p.is_alive()) {
        // One that has gone in the meantime is what is wanted.
        kill(nix::unistd::Pid::from_raw(process.pid), Signal::SIGTERM).ok();
    }
    let deadline = Instant::now() + patience;
    while processes.iter().any(|p| p.is_alive()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_all(processes, patience)
}
