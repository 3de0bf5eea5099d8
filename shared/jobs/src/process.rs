//! Processes as `/proc` shows them.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Process id.
    pub pid: i32,
    /// When it started, in clock ticks since the machine did.
    pub start: u64,
}

struct Stat {
    state: u8,
    group: i32,
    start: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, also blanks and parentheses: fields count from its end.
    let end = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        group: fields.get(2)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

impl Identity {
    /// The process with the number `pid`, if there is one.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        stat(pid).map(|s| Self {
            pid,
            start: s.start,
        })
    }

    /// This process.
    #[must_use]
    pub fn own() -> Option<Self> {
        Self::of(std::process::id().cast_signed())
    }

    /// Whether it still exists and is not a zombie.
    #[must_use]
    pub fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|s| s.start == self.start && !is_dead(s.state))
    }
}

fn is_dead(state: u8) -> bool {
    matches!(state, b'Z' | b'X' | b'x')
}

fn all() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Living processes of a process group.
#[must_use]
pub fn of_group(group: i32) -> Vec<Identity> {
    let alive = |pid| {
        let s = stat(pid)?;
        (s.group == group && !is_dead(s.state)).then_some(Identity {
            pid,
            start: s.start,
        })
    };
    all().filter_map(alive).collect()
}

/// Living processes, other than this one, one of whose environment variables, as `NAME=value`,
/// meets `wanted` (those of other users are not seen).
#[must_use]
pub fn with_variable(wanted: impl Fn(&[u8]) -> bool) -> Vec<Identity> {
    let own = std::process::id().cast_signed();
    all()
        .filter(|&pid| pid != own)
        .filter_map(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let has = environ.split(|&b| b == 0).any(&wanted);
            let identity = Identity::of(pid)?;
            (has && identity.is_alive()).then_some(identity)
        })
        .collect()
}

/// Seconds of processor time that a process and its waited-for children have used.
#[must_use]
pub fn cpu_seconds(pid: i32) -> Option<f64> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|f| f.parse().unwrap_or(0))
        .sum();
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(ticks as f64 / per_second as f64)
}

/// Kills processes and waits until they have gone, at most `patience`. Returns those that have
/// not.
pub fn kill_all(processes: &[Identity], patience: Duration) -> Vec<Identity> {
    let mut left = processes.to_vec();
    let deadline = Instant::now() + patience;
    loop {
        left.retain(|p| p.is_alive());
        for p in &left {
            // One that has gone in the meantime is what is wanted.
            kill(Pid::from_raw(p.pid), Signal::SIGKILL).ok();
        }
        if left.is_empty() || Instant::now() >= deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    left
}

/// Takes killed orphans off the process table. They are children of this process where it is a
/// subreaper; where it is not, somebody else's duty.
pub(crate) fn bury(processes: &[Identity]) {
    for p in processes {
        waitpid(Pid::from_raw(p.pid), Some(WaitPidFlag::WNOHANG)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn finds_and_kills_by_variable() {
        let value = format!("t{}", std::process::id());
        let mut child = Command::new("sleep")
            .arg("60")
            .env("MT_TEST_FIND", &value)
            .spawn()
            .unwrap();
        let found = loop {
            // The environment is the parent's until exec.
            let found = with_variable(|v| v == format!("MT_TEST_FIND={value}").as_bytes());
            if !found.is_empty() {
                break found;
            }
        };
        assert_eq!(found.len(), 1);
        assert!(Identity::own().unwrap().is_alive());
        assert!(kill_all(&found, Duration::from_secs(10)).is_empty());
        child.wait().ok();
        assert!(!found[0].is_alive());
    }
}
