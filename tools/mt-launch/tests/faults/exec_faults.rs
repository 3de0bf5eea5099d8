//! `mt-launch exec` on a GPU, and `--attach-mps`, while something around the program fails.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use doc::EventKind;
use nix::sys::signal::Signal;
use testkit::fakes::FakeMps;

use crate::exec::{Machine, ON_GPU, done, ended, exec, groups, nothing_remains, text, wait_for};
use crate::mps::{client, command, gpu};
use crate::support::{Corner, has_cgroups, job, signal};

fn kill(pid: i32) {
    signal(pid.cast_unsigned(), Signal::SIGKILL);
}

/// The attendants of the runs of a corner.
fn attendants(corner: &Corner) -> Vec<i32> {
    let runs = corner.path("runs").display().to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = text(&bytes);
        line.contains("\0attend\0") && line.contains(&runs)
    })
    .collect()
}

/// Nothing waits for the program's end then: it continues, and the next one cleans up what it has left.
#[test]
fn a_killed_attendant_harms_no_program() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let share = [&ON_GPU[..], &["--share", "60"]].concat();
    let first = machine.client("first", &share);
    let found = attendants(&machine.corner);
    assert_eq!(found.len(), 1);
    kill(found[0]);
    machine.go();
    done(first);
    done(
        machine
            .exec(&[&share[..], &["true"]].concat())
            .spawn()
            .unwrap(),
    );
    machine.no_daemon();
    nothing_remains(&machine.corner);
}

#[test]
fn a_killed_attendant_leaves_no_group_beyond_the_next_program() {
    if !has_cgroups() {
        return;
    }
    let corner = Corner::new();
    let share = ["--device", "cpu", "--share", "50", "--"];
    let script =
        "setsid sleep 600 & echo $! $$ > pids; until [ -f go ]; do sleep 0.02; done; exit 5";
    let mut child = exec(&corner, &[&share[..], &["sh", "-c", script]].concat())
        .spawn()
        .unwrap();
    wait_for(&corner.path("pids"));
    let found = attendants(&corner);
    assert_eq!(found.len(), 1);
    kill(found[0]);
    let groups = groups(&corner);
    fs::write(corner.path("go"), "").unwrap();
    assert_eq!(ended(&mut child).code(), Some(5));
    let next = exec(&corner, &[&share[..], &["true"]].concat())
        .output()
        .unwrap();
    assert!(next.status.success(), "{}", text(&next.stderr));
    nothing_remains(&corner);
    assert!(groups.iter().all(|g| !g.exists()), "{groups:?}");
}

#[test]
fn on_a_full_disk_a_program_on_the_gpu_keeps_its_status() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let log = [&ON_GPU[..], &["--share", "30", "--log", "/dev/full", "--"]].concat();
    let arguments = [&log[..], &["sh", "-c", "exit 5"]].concat();
    let output = machine.exec(&arguments).output().unwrap();
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{err}");
    assert!(err.contains("warning: --log has no line"), "{err}");
    machine.no_daemon();
    nothing_remains(&machine.corner);
    // No file can be written at all: nothing is started that cannot be cleaned up later.
    let mut limited = machine.exec(&[&ON_GPU[..], &["--share", "30", "touch", "begun"]].concat());
    let program = limited.get_program().to_owned();
    let words: Vec<_> = limited.get_args().map(ToOwned::to_owned).collect();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""])
        .arg(program)
        .args(words);
    shell.envs(
        limited
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell.current_dir(machine.corner.dir.path());
    let output = shell.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(!machine.corner.path("begun").exists());
    limited = machine.exec(&[&ON_GPU[..], &["--share", "30", "true"]].concat());
    done(limited.spawn().unwrap());
    machine.no_daemon();
    nothing_remains(&machine.corner);
}

#[test]
fn a_signal_ends_a_program_on_the_gpu_and_its_daemon() {
    let Some(machine) = Machine::new() else {
        return;
    };
    for log in [false, true] {
        for wanted in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
            let mut arguments = [&ON_GPU[..], &["--share", "60"]].concat();
            if log {
                arguments.extend(["--log", "log.ndjson"]);
            }
            fs::remove_file(machine.corner.path("first")).ok();
            let mut child = machine.client("first", &arguments);
            signal(child.id(), wanted);
            let status = ended(&mut child);
            let by = status.signal().or(status.code().map(|code| code - 128));
            assert_eq!(by, Some(wanted as i32), "{status:?}");
            machine.no_daemon();
            nothing_remains(&machine.corner);
        }
    }
}

#[test]
fn a_killed_daemon_costs_no_status_and_the_next_program_has_one() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let share = [&ON_GPU[..], &["--share", "60"]].concat();
    let first = machine.client("first", &share);
    assert!(end_daemons(&machine.corner) > 0);
    machine.go();
    done(first);
    done(
        machine
            .exec(&[&share[..], &["true"]].concat())
            .spawn()
            .unwrap(),
    );
    machine.no_daemon();
    nothing_remains(&machine.corner);
}

/// With any limit, the program either runs or is not started, and nothing is left.
#[test]
fn limits_of_descriptors_and_processes_leave_nothing_on_the_gpu() {
    let Some(machine) = Machine::new() else {
        return;
    };
    let parent = Path::new("/sys/fs/cgroup/pids");
    let group = parent.join(format!("mt-test-gpu-{}", std::process::id()));
    let limited = parent.exists() && fs::create_dir(&group).is_ok();
    let procs = group.join("cgroup.procs").display().to_string();
    let run = |prefix: &str| {
        let inner = machine.exec(&[&ON_GPU[..], &["--share", "30", "true"]].concat());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{prefix}; exec \"$0\" \"$@\"")])
            .arg(inner.get_program())
            .args(inner.get_args());
        shell.envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let output = shell
            .current_dir(machine.corner.dir.path())
            .output()
            .unwrap();
        let err = text(&output.stderr);
        assert!(!err.contains("panicked"), "{prefix}: {err}");
        // The loader of the C library needs a descriptor, too.
        let code = output.status.code();
        assert!(
            [Some(0), Some(3), Some(127)].contains(&code),
            "{prefix}: {code:?} {err}"
        );
        (code, err)
    };
    for most in [4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20] {
        run(&format!("ulimit -n {most}"));
    }
    let mut told = Vec::new();
    for most in (1..=8).filter(|_| limited) {
        fs::write(group.join("pids.max"), most.to_string()).unwrap();
        let (code, err) = run(&format!("echo $$ > {procs}"));
        told.push(format!("{most}: {code:?} {err}"));
    }
    let met = told.iter().any(|t| t.contains("Some(3)"));
    assert!(met || !limited, "no limit was met: {told:#?}");
    fs::write(group.join("pids.max"), "max").ok();
    done(
        machine
            .exec(&[&ON_GPU[..], &["--share", "30", "true"]].concat())
            .spawn()
            .unwrap(),
    );
    machine.no_daemon();
    nothing_remains(&machine.corner);
    fs::remove_dir(&group).ok();
}

/// A daemon of somebody else, to which the launch attaches.
fn theirs(fake: &FakeMps, corner: &Corner) -> std::path::PathBuf {
    let pipe = corner.path("theirs");
    fs::create_dir(&pipe).unwrap();
    let started = Command::new(fake.control())
        .arg("-d")
        .env("CUDA_MPS_PIPE_DIRECTORY", &pipe)
        .status();
    assert!(started.unwrap().success());
    pipe
}

/// Ends daemon and servers, but not their clients or attached processes; returns how many there were.
fn end_daemons(corner: &Corner) -> usize {
    let mut ended = 0;
    for pid in FakeMps::processes_below(corner.dir.path()) {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if text(&line).contains("\0--process\0") {
            kill(pid);
            ended += 1;
        }
    }
    ended
}

#[test]
fn a_killed_launch_leaves_the_daemon_that_it_had_attached_to() {
    let Some((fake, corner)) = gpu() else { return };
    let worker = fake.worker().display().to_string();
    corner.plan(&[job("a", &format!("exec \"{worker}\""))]);
    let pipe = theirs(&fake, &corner);
    let mut command = command(&fake, &corner, &["--attach-mps"]);
    command.env("CUDA_MPS_PIPE_DIRECTORY", &pipe);
    let mut child = corner.spawn(command, EventKind::Progress);
    signal(child.id(), Signal::SIGKILL);
    ended(&mut child);
    nothing_remains(&corner);
    assert!(!fake.commands().contains("quit"), "{}", fake.commands());
    assert!(end_daemons(&corner) > 0, "the daemon is still there");
}

/// Jobs that live on without the daemon end normally: the launch neither starts nor ends a daemon of somebody else.
#[test]
fn the_end_of_a_daemon_that_is_attached_to_ends_no_job_that_lives_on() {
    let Some((fake, corner)) = gpu() else { return };
    corner.plan(&[job("a", &client(&fake, "a"))]);
    let pipe = theirs(&fake, &corner);
    let mut command = command(&fake, &corner, &["--attach-mps"]);
    command.env("CUDA_MPS_PIPE_DIRECTORY", &pipe);
    let child = corner.spawn(command, EventKind::Progress);
    assert!(end_daemons(&corner) > 0);
    let ran = corner.end(child);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let commands = fake.commands();
    let started = commands.lines().filter(|l| l.starts_with("start")).count();
    assert_eq!(started, 1, "{commands}");
    assert!(!commands.contains("quit"), "{commands}");
}
