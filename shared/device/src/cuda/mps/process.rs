//! Processes as `/proc` shows them: which belong to a pipe directory, and ending them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use super::Pid;

/// Processes (of users whose environment we may read) started with this MPS pipe directory:
/// the daemon, its servers and its clients. This process itself is left out.
pub(super) fn with_pipe_dir(pipe_dir: &Path) -> Vec<Pid> {
    let mut wanted = b"CUDA_MPS_PIPE_DIRECTORY=".to_vec();
    wanted.extend_from_slice(pipe_dir.as_os_str().as_bytes());
    let own = std::process::id().cast_signed();
    all()
        .into_iter()
        .filter(|&pid| pid != own && is_alive(pid))
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| env.split(|&b| b == 0).any(|v| v == wanted))
        })
        .collect()
}

/// Processes of a process group.
pub(super) fn of_group(group: Pid) -> Vec<Pid> {
    all()
        .into_iter()
        .filter(|&pid| stat(pid).is_some_and(|s| s.group == group))
        .collect()
}

/// Whether the process exists and is no zombie.
pub(super) fn is_alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|s| !matches!(s.state, 'Z' | 'X'))
}

/// Ends processes: SIGTERM, then SIGKILL to those still there after `patience`. Returns those
/// that outlived even that.
pub(super) fn end(pids: &[Pid], patience: Duration) -> Vec<Pid> {
    let mut left = pids.to_vec();
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        for &pid in &left {
            // Gone in the meantime is what is wanted; anything else shows in the wait below.
            let _ = kill(nix::unistd::Pid::from_raw(pid), signal);
        }
        let deadline = Instant::now() + patience;
        loop {
            left.retain(|&pid| is_alive(pid));
            if left.is_empty() || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if left.is_empty() {
            break;
        }
    }
    left
}

struct Stat {
    state: char,
    group: Pid,
}

fn stat(pid: Pid) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so fields count from its last parenthesis.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some(Stat { state, group })
}

fn all() -> Vec<Pid> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}
