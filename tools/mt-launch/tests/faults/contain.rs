//! Processes that try to outlive their job: from a transfer, from a job on a GPU, with and without control groups,
//! and when the launcher is killed.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use doc::{EventKind, PhaseKind};
use nix::sys::signal::Signal;

use crate::mps::{command, gpu, no_client_is_left};
use crate::support::{Corner, ENDLESS, GOOD, ScriptedTask, job, needs_cgroups, ran, signal};

/// A line of a script that starts a process with an empty environment in a session of its own.
fn escape(corner: &Corner) -> String {
    format!("env -i CORNER='{}' setsid sleep 600 &", corner.mark())
}

/// No control group can be made.
fn without_groups(command: &mut Command) {
    command.env("MT_CGROUP_PARENT", "/no/such/folder");
}

/// One that starts a stray in its download and in its compute phase, and one that runs on.
fn two(corner: &Corner, script: &str) -> [ScriptedTask; 2] {
    let escape = escape(corner);
    let mut a = job("a", &format!("{escape}\n{script}"));
    a.download = ["sh", "-c", &escape].map(str::to_owned).to_vec();
    [a, job("b", ENDLESS)]
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The strays of `a` go with the phase that started them, while `b` still computes.
fn strays_go_at_once(corner: &Corner, child: Child) {
    let told = |phase: PhaseKind| {
        let events = corner.events();
        let mut exits = events.iter().filter(|e| e.event == EventKind::Exit);
        let exit = exits.find(|e| e.task.as_deref() == Some("a") && e.phase == Some(phase));
        exit.map(|e| e.reason.clone().unwrap_or_default())
    };
    for phase in [PhaseKind::Download, PhaseKind::Compute] {
        wait_until("the phase does not end", || told(phase).is_some());
        let reason = told(phase).unwrap();
        // For a fake client, also everything that it has started.
        assert!(
            reason.contains(" processes that it left were killed: "),
            "{phase:?}: {reason}"
        );
    }
    signal(child.id(), Signal::SIGTERM);
    assert_eq!(corner.end(child).code, Some(143));
}

#[test]
fn strays_of_a_transfer_or_job_go_with_it_while_others_run() {
    needs_cgroups!();
    let corner = Corner::new();
    let child = corner.start(&two(&corner, GOOD), &[], EventKind::Exit);
    strays_go_at_once(&corner, child);
}

#[test]
fn strays_of_jobs_on_a_gpu_go_with_them() {
    for groups in [true, false] {
        let Some((fake, corner)) = gpu() else { return };
        let worker = fake.worker().display().to_string();
        let good = format!(
            r#""{worker}" & w=$!; sleep 2; kill $w; echo '{{"mt":"done","samples":30}}'; exit 0"#
        );
        let mut jobs = two(&corner, &good);
        jobs[1].script = format!(r#"exec "{worker}""#);
        corner.plan(&jobs);
        let mut command = command(&fake, &corner, &[]);
        if !groups {
            without_groups(&mut command);
        }
        let child = corner.spawn(command, EventKind::Exit);
        strays_go_at_once(&corner, child);
        no_client_is_left(&corner);
    }
}

/// The guard knows the strays, the daemon and the server.
#[test]
fn a_killed_launcher_leaves_no_stray_and_no_daemon() {
    for groups in [true, false] {
        let Some((fake, corner)) = gpu() else { return };
        let worker = fake.worker().display().to_string();
        let mut jobs = two(&corner, &format!(r#"exec "{worker}""#));
        jobs[1].script = format!("{}\nexec '{worker}'", escape(&corner));
        corner.plan(&jobs);
        let mut command = command(&fake, &corner, &[]);
        if !groups {
            without_groups(&mut command);
        }
        let mut child = corner.spawn(command, EventKind::Progress);
        // At least one stray of a compute phase; that of the download ended with it.
        wait_until("no stray", || corner.processes() >= 3);
        assert!(!testkit::fakes::FakeMps::processes_below(corner.dir.path()).is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("something is left", || {
            let daemons = testkit::fakes::FakeMps::processes_below(corner.dir.path());
            corner.processes() == 0 && corner.run_dirs().is_empty() && daemons.is_empty()
        });
        wait_until("the folder of the daemon is left", || {
            let mut roots = std::fs::read_dir(corner.dir.path())
                .unwrap()
                .flatten()
                .filter(|e| e.file_name().to_string_lossy().starts_with("mt-mps"));
            let runs = std::fs::read_dir(roots.next().unwrap().path()).unwrap();
            runs.flatten().all(|e| !e.path().is_dir())
        });
    }
}

#[test]
fn a_killed_launcher_leaves_no_stray_of_a_transfer() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut jobs = two(&corner, ENDLESS);
    jobs[0].download[2] += "\nsleep 600";
    let mut child = corner.start(&jobs, &[], EventKind::Launch);
    wait_until("no stray", || corner.processes() >= 3);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("something is left", || {
        corner.processes() == 0 && corner.run_dirs().is_empty()
    });
}

/// A group of the machine, as a job with the necessary rights could enter it.
#[test]
fn a_job_that_leaves_its_control_group_is_noticed() {
    needs_cgroups!();
    let outside = [
        "/sys/fs/cgroup/cpu/cgroup.procs",
        "/sys/fs/cgroup/cgroup.procs",
    ];
    let Some(outside) = outside.iter().find(|path| Path::new(path).exists()) else {
        testkit::skipped("cgroups", "control groups are mounted elsewhere");
        return;
    };
    let corner = Corner::new();
    // A process of the job other than its first.
    let leaves = format!("(exec sh -c 'echo $$ > {outside}; exec sleep 600') &");
    let script = format!("{leaves} {GOOD}; sleep 2.5");
    let ran = corner.launch(&[job("a", &script)], &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let said = &ran.stderr;
    assert!(
        said.contains("a: process ") && said.contains("has left the control group"),
        "{said}"
    );
    assert_eq!(said.matches("has left").count(), 1, "{said}");
    assert!(
        ran.reasons(EventKind::Exit)
            .contains("1 processes that it left were killed")
    );
}

#[test]
fn launches_on_one_device_are_told_of_each_other() {
    needs_cgroups!();
    let corner = Corner::new();
    let first = corner.start(&[job("a", ENDLESS)], &[], EventKind::Progress);
    let second = corner
        .command(&[])
        .arg("--task-timeout")
        .arg("0.3")
        .output()
        .unwrap();
    let second = ran(second);
    let named = format!("mt-launch (process {}) uses the same device", first.id());
    assert!(second.stderr.contains(&named), "{}", second.stderr);
    let pid = first.id();
    signal(pid, Signal::SIGTERM);
    let first = corner.end(first);
    assert!(
        first.stderr.contains("started to use the same device"),
        "{}",
        first.stderr
    );
    // A third is alone.
    let third = corner.launch(&[job("a", GOOD)], &[]);
    assert_eq!((third.code, &*third.stderr), (Some(0), ""));
}

#[test]
fn a_working_directory_that_is_not_there_is_told_as_such() {
    needs_cgroups!();
    let corner = Corner::new();
    let plan = corner.plan(&[job("a", GOOD)]);
    let text = std::fs::read_to_string(&plan)
        .unwrap()
        .replace(r#""job":{"argv""#, r#""job":{"cwd":"/no/such","argv""#);
    std::fs::write(&plan, text).unwrap();
    let ran = ran(corner.command(&["--restarts", "0"]).output().unwrap());
    assert_eq!(ran.code, Some(1));
    let told = ran.reasons(EventKind::Stop);
    assert!(
        told.contains("cannot start in the folder /no/such: No such file"),
        "{told}"
    );
    corner.nothing_is_left();
}

/// A log that is a pipe is refused: the launch would wait for a reader, or block when it is full.
#[test]
fn a_log_that_is_a_pipe_is_refused() {
    needs_cgroups!();
    for reader in [true, false] {
        let corner = Corner::new();
        let logs = corner.path("logs");
        std::fs::create_dir(&logs).unwrap();
        let pipe = logs.join("a.log");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let options = nix::fcntl::OFlag::O_RDONLY | nix::fcntl::OFlag::O_NONBLOCK;
        let open = || nix::fcntl::open(&pipe, options, nix::sys::stat::Mode::empty()).unwrap();
        let _reader = reader.then(open);
        corner.plan(&[job("a", GOOD)]);
        let logs = logs.to_string_lossy().into_owned();
        let begun = Instant::now();
        let ran = ran(corner
            .command(&["--logs", &logs, "--restarts", "0"])
            .output()
            .unwrap());
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let told = ran.reasons(EventKind::Stop);
        assert!(told.contains("cannot write the log"), "{told}");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
