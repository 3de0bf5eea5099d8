//! Finds the processes of a pipe directory, and ends them gently.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{Identity, Lineage, kill_all, with_variable};
use crate::sign::MARK;

use super::program::{is_control, is_program};

/// The processes of a private pipe directory that provably belong to the owner of `lineage`.
#[derive(Debug, Default)]
pub(super) struct Ours {
    /// The daemon and its servers.
    pub(super) daemons: Vec<Identity>,
    /// Jobs that were started as its clients.
    pub(super) clients: Vec<Identity>,
}

impl Ours {
    /// Finds these processes. The environment proves nothing: anybody who inspects the daemon exports its pipe
    /// directory, for example in a shell. Nor do numbers printed by a control program, which may belong to any process.
    /// So a daemon or server must also be NVIDIA's program, a client must carry a job's mark, and all must descend from
    /// the owner.
    pub(super) fn find(pipe_dir: &Path, lineage: &Lineage) -> Self {
        let mut wanted = b"CUDA_MPS_PIPE_DIRECTORY=".to_vec();
        wanted.extend_from_slice(pipe_dir.as_os_str().as_bytes());
        let carriers = with_variable(|variable| variable == wanted);
        let mark = format!("{MARK}=");
        let marked = with_variable(|variable| variable.starts_with(mark.as_bytes()));
        let (daemons, others): (Vec<Identity>, Vec<Identity>) =
            carriers.into_iter().partition(|p| is_program(p.pid));
        let jobs: Vec<Identity> = others.into_iter().filter(|p| marked.contains(p)).collect();
        Self {
            daemons: lineage.claim(&daemons),
            clients: lineage.claim(&jobs),
        }
    }

    /// Whether the control daemon itself is still alive: its servers may outlive it.
    pub(super) fn has_control(&self) -> bool {
        self.daemons.iter().any(|p| is_control(p.pid))
    }
}

/// Ends processes: SIGTERM, then SIGKILL to those still there after `patience`. Returns those that survived even
/// that.
pub(super) fn end(processes: &[Identity], patience: Duration) -> Vec<Identity> {
    for process in processes.iter().filter(|p| p.is_alive()) {
        process.terminate();
    }
    let deadline = Instant::now() + patience;
    while processes.iter().any(|p| p.is_alive()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_all(processes, patience)
}
