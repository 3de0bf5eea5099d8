//! Processes in `/proc`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A command that runs this program again, under the name by which it was called, because the name selects one of
/// several tools. It uses the executable of the running process and not its path, because the file may have been
/// replaced.
#[must_use]
pub fn again() -> Command {
    this_program(std::env::args_os().next().unwrap_or_default())
}

/// A command that runs this program again as the tool `name`.
#[must_use]
pub fn this_program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name);
    command
}

/// Identifies the current boot of the machine: process numbers are meaningless after a reboot. Empty if the kernel
/// does not provide it; then all boots count as the same.
#[must_use]
pub fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}

/// A process, identified so that a later one with the same number is not mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Process id.
    pub pid: i32,
    /// Start time, in clock ticks since the boot of the machine.
    pub start: u64,
}

struct Stat {
    state: u8,
    parent: i32,
    group: i32,
    start: u64,
}

/// Content of `/proc/PID/stat`. Every process of the machine is read when a job ends, so this avoids system calls: it
/// allocates enough space in advance and does not ask for the size. The 52 numbers and the name have less than 1,300
/// bytes.
fn stat_text(pid: i32) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(2048);
    let file = File::open(format!("/proc/{pid}/stat")).ok()?;
    file.take(u64::MAX).read_to_end(&mut text).ok()?;
    Some(text)
}

fn stat(pid: i32) -> Option<Stat> {
    Stat::parse(&stat_text(pid)?)
}

/// The fields of `/proc/PID/stat`, starting with the state.
fn fields(text: &[u8]) -> Option<Vec<&str>> {
    // The name may contain anything, even blanks and parentheses, so fields are counted after its end.
    let end = text.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    Some(rest.split_whitespace().collect())
}

impl Stat {
    fn parse(text: &[u8]) -> Option<Self> {
        let fields = fields(text)?;
        Some(Self {
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Shows program and number: `sleep (pid 123)`.
impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match name(self.pid).as_str() {
            "" => write!(f, "pid {}", self.pid),
            name => write!(f, "{name} (pid {})", self.pid),
        }
    }
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

    /// Its current parent, which may differ from the process that started it.
    #[must_use]
    pub fn parent(self) -> Option<i32> {
        stat(self.pid)
            .filter(|s| s.start == self.start)
            .map(|s| s.parent)
    }

    /// Its parent, its parent's parent, and so on up to the first process.
    #[must_use]
    pub fn ancestors(self) -> Vec<Self> {
        let next = |p: &Self| p.parent().filter(|pid| *pid > 0).and_then(Self::of);
        std::iter::successors(next(&self), next).collect()
    }

    /// Kills exactly this process, not a later one with its number.
    pub fn kill(self) {
        self.send(Signal::KILL);
    }

    /// Asks exactly this process to end (SIGTERM).
    pub fn terminate(self) {
        self.send(Signal::TERM);
    }

    /// Opens a pidfd, which always refers to the same process, checks the identity, and then sends the signal. With the
    /// number alone, the number might be reused between the check and the signal.
    fn send(self, signal: Signal) {
        let Some(pid) = rustix::process::Pid::from_raw(self.pid) else {
            return;
        };
        let sent = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) if self.is_alive() => pidfd_send_signal(&process, signal),
            // Linux before 5.3, or a system call filter that does not know `pidfd_open`.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) if self.is_alive() => {
                kill_process(pid, signal)
            }
            // The process has already gone.
            _ => Ok(()),
        };
        // It failed because the process has gone in the meantime or belongs to another user; the caller waits for its
        // end and will notice.
        sent.ok();
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

/// Live processes, except this one, with an environment variable (as `NAME=value`) for which `wanted` is true.
/// Processes of other users cannot be inspected.
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

/// Live processes by their process group.
pub(crate) fn by_group() -> BTreeMap<i32, Vec<Identity>> {
    let mut groups = BTreeMap::<i32, Vec<Identity>>::new();
    for pid in all() {
        if let Some(s) = stat(pid).filter(|s| !is_dead(s.state)) {
            let start = s.start;
            groups
                .entry(s.group)
                .or_default()
                .push(Identity { pid, start });
        }
    }
    groups
}

/// Live children of this process.
pub(crate) fn children() -> Vec<Identity> {
    let own = std::process::id().cast_signed();
    let child = |pid| {
        let s = stat(pid)?;
        (s.parent == own && !is_dead(s.state)).then_some(Identity {
            pid,
            start: s.start,
        })
    };
    all().filter_map(child).collect()
}

/// A process with all its descendants; only the process itself if the kernel does not list children.
#[must_use]
pub fn family(pid: i32) -> Vec<i32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            all.extend(
                list.split_whitespace()
                    .filter_map(|p| p.parse::<i32>().ok()),
            );
        }
        next += 1;
    }
    all
}

/// The processes of a job: those that its `cgroup.procs` lists, or without a group its first process and the
/// descendants.
#[must_use]
pub fn members(pid: i32, procs: Option<&Path>) -> Vec<i32> {
    let listed = procs.and_then(|procs| fs::read_to_string(procs).ok());
    match listed {
        Some(text) => text.lines().filter_map(|line| line.parse().ok()).collect(),
        None => family(pid),
    }
}

/// Ancestry that the processes of a run must have.
///
/// An environment variable does not prove that a process is ours: a user who exports the daemon's variables to inspect
/// it has them too, as has everything started from that shell. A number that a program printed proves nothing either.
/// So a process that carries a sign of the run must also belong to this user, be no older than the run's owner, and
/// have a parent that belongs to the run or adopts orphans: the owner itself, or one of the owner's ancestors.
#[derive(Debug, Clone)]
pub(crate) struct Lineage {
    since: u64,
    parents: Vec<Identity>,
}

impl Lineage {
    /// The lineage of processes that this process has started.
    pub(crate) fn own() -> Self {
        let own = Identity::own();
        Self::of(own, own.map(Identity::ancestors).unwrap_or_default())
    }

    /// The lineage of processes that `owner` has started; `ancestors` are those of the owner. Without an owner it
    /// claims nothing.
    pub(crate) fn of(owner: Option<Identity>, ancestors: Vec<Identity>) -> Self {
        Self {
            since: owner.map_or(u64::MAX, |o| o.start),
            // Process 1 adopts orphans without a nearer subreaper. It is no parent of processes that entered a
            // container from outside.
            parents: ancestors
                .into_iter()
                .chain(owner)
                .chain(Identity::of(1))
                .collect(),
        }
    }

    /// Live processes, except this one, that are not older than the run's owner, with their process groups.
    pub(crate) fn since_owner(&self) -> Vec<(Identity, i32)> {
        let own = std::process::id().cast_signed();
        let since_owner = |pid| {
            let s = stat(pid).filter(|s| s.start >= self.since && !is_dead(s.state))?;
            let start = s.start;
            Some((Identity { pid, start }, s.group))
        };
        all()
            .filter(|&pid| pid != own)
            .filter_map(since_owner)
            .collect()
    }

    /// The processes among `carriers` (of a sign) that provably belong to the run.
    pub(crate) fn claim(&self, carriers: &[Identity]) -> Vec<Identity> {
        let known = |pid: i32| {
            let parents = carriers.iter().chain(&self.parents);
            parents.filter(|p| p.pid == pid).any(|p| p.is_alive())
        };
        let is_ours =
            |p: &&Identity| p.start >= self.since && is_own(p.pid) && p.parent().is_some_and(known);
        carriers.iter().filter(is_ours).copied().collect()
    }
}

/// Whether a process is of this user.
fn is_own(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = nix::unistd::geteuid().as_raw();
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|m| m.uid() == own)
}

/// Name of a process's program; at most its first 15 bytes.
#[must_use]
pub fn name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Numbers of processor-time fields in `/proc/PID/stat` to add: user and kernel time of the process, then the same of
/// the children for which it has waited.
const OWN: usize = 2;
const WITH_CHILDREN: usize = 4;

/// Sum of the first `count` of these fields, in clock ticks.
fn ticks(stat: &[u8], count: usize) -> Option<u64> {
    let fields = fields(stat)?;
    let number = |f: &&str| f.parse::<u64>().unwrap_or(0);
    let counts = fields.iter().skip(11).take(count).map(number);
    Some(counts.fold(0, u64::saturating_add))
}

fn seconds(ticks: u64) -> Option<f64> {
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(ticks as f64 / per_second as f64)
}

/// Seconds of processor time that a process has used, without its children.
#[must_use]
pub fn cpu_seconds(pid: i32) -> Option<f64> {
    seconds(ticks(&stat_text(pid)?, OWN)?)
}

/// Processor time of a process since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wanted {
    /// Seconds that it and the children for which it has waited have used.
    pub used_s: f64,
    /// Seconds in which its threads were ready but had no processor; 0 if the kernel does not report them.
    pub ready_s: f64,
}

/// Processor time that a process used, and the time for which it was ready but had no processor.
#[must_use]
pub fn wanted(pid: i32) -> Option<Wanted> {
    // `schedstat` holds nanoseconds on a processor, nanoseconds in a run queue, and the number of time slices.
    let ready = |task: fs::DirEntry| -> Option<f64> {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse().ok()
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let waited: f64 = tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(ready)
        .sum();
    Some(Wanted {
        used_s: seconds(ticks(&stat_text(pid)?, WITH_CHILDREN)?)?,
        ready_s: waited * 1e-9,
    })
}

/// Seconds of processor time that this process and its descendants have used, except those killed before their parent
/// waited for them.
#[must_use]
pub fn family_cpu_seconds() -> Option<f64> {
    let known = |pid| {
        let text = stat_text(pid)?;
        let used = ticks(&text, WITH_CHILDREN)?;
        Some((pid, (Stat::parse(&text)?.parent, used)))
    };
    let used: BTreeMap<i32, (i32, u64)> = all().filter_map(known).collect();
    let own = std::process::id().cast_signed();
    let is_ours = |pid: i32| {
        let above = std::iter::successors(Some(pid), |pid| Some(used.get(pid)?.0));
        // If a parent's number was reused, the walk may loop: limit its length to the number of processes.
        above.take(used.len() + 1).any(|pid| pid == own)
    };
    let ours = used.iter().filter(|(pid, _)| is_ours(**pid));
    seconds(ours.map(|(_, (_, ticks))| ticks).sum())
}

/// Processor time of this machine since it was started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Seconds, summed over all processors, in which a program or another virtual machine on the same hardware ran.
    /// Programs of low priority do not count, because they give way.
    pub busy_s: f64,
    /// Seconds in which programs of low priority ran. In a separate control group or session (autogroup), such programs
    /// do not give way to others.
    pub niced_s: f64,
    /// Number of processors.
    pub processors: usize,
}

/// Fields of `/proc/stat`.
#[must_use]
pub fn machine() -> Option<Machine> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let mut lines = text.lines().take_while(|line| line.starts_with("cpu"));
    // cpu, user, nice, system, idle, iowait, irq, softirq, steal; the later fields for guests are included in user.
    let all: Vec<&str> = lines.next()?.split_ascii_whitespace().collect();
    let ticks = |i: &usize| -> Option<u64> { all.get(*i)?.parse().ok() };
    let busy: Option<Vec<u64>> = [1, 3, 6, 7, 8].iter().map(ticks).collect();
    Some(Machine {
        busy_s: seconds(busy?.iter().sum())?,
        niced_s: seconds(ticks(&2)?)?,
        processors: lines.count(),
    })
}

/// Kills processes and waits until they have gone, at most `patience`. Returns those that have not.
pub fn kill_all(processes: &[Identity], patience: Duration) -> Vec<Identity> {
    let mut left = processes.to_vec();
    let deadline = Instant::now() + patience;
    loop {
        left.retain(|p| p.is_alive());
        for p in &left {
            p.kill();
        }
        if left.is_empty() || Instant::now() >= deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    left
}

/// Programs that pass on what they read, and end when it ends.
const FILTERS: [&str; 12] = [
    "awk", "cat", "cut", "gawk", "grep", "head", "mawk", "sed", "tail", "tee", "tr", "ts",
];

/// Whether a process is a filter that only passes on its standard input, as `tee` in a pipeline after a training. A
/// filter is not asked to end, because a training that prints while it saves would fail at the broken pipe. It ends
/// when its last writer ends.
pub(crate) fn is_filter(pid: i32) -> bool {
    let input = fs::read_link(format!("/proc/{pid}/fd/0")).unwrap_or_default();
    FILTERS.contains(&name(pid).as_str()) && input.to_string_lossy().starts_with("pipe:")
}

/// Reaps killed orphans. They are children of this process if it is a subreaper; otherwise another process reaps
/// them.
pub(crate) fn bury(processes: &[Identity]) {
    for p in processes {
        waitpid(Pid::from_raw(p.pid), Some(WaitPidFlag::WNOHANG)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::{Child, Command};

    #[test]
    fn fuzz_proc_stat() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/stat");
        testkit::fuzz::fuzz("stat", &[&corpus], |text| {
            let read = Stat::parse(text).map(|s| (s.parent > 0, s.group > 0, s.start > 0));
            format!("{read:?} {:?}", ticks(text, OWN).map(|t| t.min(2)))
        });
    }

    fn carriers(sign: &str, wanted: usize) -> Vec<Identity> {
        loop {
            let found = with_variable(|v| v == sign.as_bytes());
            // Until exec, a child has the environment of its parent.
            let ready = |p: &Identity| matches!(name(p.pid).as_str(), "sleep" | "sh");
            if found.len() == wanted && found.iter().all(ready) {
                return found;
            }
        }
    }

    fn sleeper(sign: Option<&str>, script: &str) -> Child {
        let mut command = Command::new("sh");
        if let Some((name, value)) = sign.and_then(|s| s.split_once('=')) {
            command.env(name, value);
        }
        command.args(["-c", script]).spawn().unwrap()
    }

    #[test]
    fn a_variable_alone_makes_no_process_ours() {
        let sign = format!("MT_TEST_SIGN=x{}", std::process::id());
        // An unrelated process of the same user, such as a shell, with a child that carries the sign.
        let script = format!("env {sign} sleep 60 & wait");
        let mut foreign = sleeper(None, &script);
        let mut ours = sleeper(Some(&sign), "sleep 60 & wait");
        let carriers = carriers(&sign, 3);
        let claimed = Lineage::own().claim(&carriers);
        assert_eq!(claimed.len(), 2, "{claimed:?}");
        assert!(claimed.iter().any(|p| p.pid == ours.id().cast_signed()));
        // A run that began later than the process claims nothing, and neither does a run without an owner.
        let later = Identity {
            start: u64::MAX,
            ..Identity::own().unwrap()
        };
        assert!(
            Lineage::of(Some(later), Vec::new())
                .claim(&carriers)
                .is_empty()
        );
        assert!(Lineage::of(None, Vec::new()).claim(&carriers).is_empty());
        assert!(kill_all(&carriers, Duration::from_secs(10)).is_empty());
        foreign.wait().unwrap();
        ours.wait().unwrap();
    }

    #[test]
    fn finds_and_kills_by_variable() {
        let value = format!("t{}", std::process::id());
        let mut child = Command::new("sleep")
            .arg("60")
            .env("MT_TEST_FIND", &value)
            .spawn()
            .unwrap();
        let found = loop {
            // Until exec, a child has the environment of its parent.
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
