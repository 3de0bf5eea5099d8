//! A fatal fault of one MPS client affects all clients, on a fake GPU with a fake MPS control program.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use doc::EventKind;
use nix::sys::signal::Signal;
use testkit::fakes::FakeMps;

use crate::support::{Corner, Ran, job, ran, signal};

/// A fake GPU with its MPS; `None` where it cannot be built.
pub fn gpu() -> Option<(FakeMps, Corner)> {
    let fake = FakeMps::install();
    fake.build_driver().then(|| (fake, Corner::new()))
}

pub fn no_client_is_left(corner: &Corner) {
    let left = FakeMps::processes_below(corner.dir.path());
    assert!(left.is_empty(), "daemon or clients are left: {left:?}");
}

pub fn command(fake: &FakeMps, corner: &Corner, arguments: &[&str]) -> Command {
    let path = std::env::var("PATH").unwrap();
    let mut command = corner.command(&[&["--device", "cuda"], arguments].concat());
    command
        .env("PATH", format!("{}:{path}", fake.folder().display()))
        .env("LD_LIBRARY_PATH", fake.folder())
        .env("TMPDIR", corner.dir.path())
        .env("FAKE_GPUS", "2");
    command
}

fn launched(fake: &FakeMps, corner: &Corner, arguments: &[&str]) -> Ran {
    ran(command(fake, corner, arguments).output().unwrap())
}

/// A job that is a client for a while and writes the daemon's folder and its processors to a file.
pub fn client(fake: &FakeMps, name: &str) -> String {
    let worker = fake.worker().display().to_string();
    // It ends after its own lines and not after a fixed time: on a busy machine a second is too short for it to
    // connect.
    format!(
        r#"echo "$CUDA_MPS_PIPE_DIRECTORY $(taskset -cp $$)" > {name}.told
           {{ "{worker}" & echo $! > {name}.pid; wait; }} | {{
               n=0
               while [ $n -lt 60 ] && read -r line; do echo "$line"; n=$((n + 1)); done
               kill $(cat {name}.pid)
               echo '{{"mt":"done","samples":30}}'
           }}
           exit 0"#
    )
}

#[test]
fn a_fault_of_one_client_stops_all_and_all_are_started_again() {
    let Some((fake, corner)) = gpu() else { return };
    let worker = fake.worker().display().to_string();
    let good = format!(
        r#""{worker}" & w=$!; sleep 3; kill $w; echo '{{"mt":"done","samples":30}}'; exit 0"#
    );
    // The others are clients by then: a server without clients would recover before the check.
    let faulty = format!(
        r#"if [ ! -e faulted ]; then touch faulted; FAKE_CLIENTS=3 FAKE_MODE=faults exec "{worker}"; fi; {good}"#
    );
    let mut a = job("a", &faulty);
    a.resume = good.clone();
    corner.plan(&[a, job("b", &good), job("c", &good)]);
    let ran = launched(&fake, &corner, &["--progress-every", "1"]);
    let said = format!("{} {}", ran.stderr, ran.reasons(EventKind::Restart));
    assert_eq!(ran.code, Some(0), "{said}");
    let faults = ran.reasons(EventKind::Fault);
    assert!(faults.starts_with("the MPS server faulted"), "{said}");
    assert!(faults.ends_with("the MPS server has recovered"), "{said}");
    let restarted: Vec<_> = ran
        .summary()
        .tasks
        .iter()
        .map(|t| t.restarts >= 1)
        .collect();
    assert!(restarted[0], "{said}");
    assert!(ran.of(EventKind::Restart).len() <= 6, "{said}");
    corner.nothing_is_left();
    no_client_is_left(&corner);
}

/// The first job starts the fault; what shares its GPU is a victim, and what runs on another is left alone.
#[test]
fn a_fault_ends_the_jobs_of_its_own_gpu_and_names_who_made_it() {
    let Some((fake, corner)) = gpu() else { return };
    let worker = fake.worker().display().to_string();
    let good = format!(
        r#""{worker}" & w=$!; sleep 3; kill $w; echo '{{"mt":"done","samples":30}}'; exit 0"#
    );
    let faulty = format!(
        r#"if [ ! -e faulted ]; then touch faulted; FAKE_CLIENTS=2 FAKE_MODE=faults exec "{worker}"; fi; {good}"#
    );
    let mut a = job("a", &faulty);
    a.resume = good.clone();
    let plan = corner.plan(&[a, job("b", &good), job("c", &good)]);
    let text = fs::read_to_string(&plan).unwrap();
    let apart = text.replace(r#""id":"c","batch":"#, r#""id":"c","gpu":1,"batch":"#);
    fs::write(&plan, apart).unwrap();
    let ran = launched(&fake, &corner, &["--progress-every", "1"]);
    let restarts = ran.reasons(EventKind::Restart);
    let said = format!("{} {restarts}", ran.stderr);
    assert_eq!(ran.code, Some(0), "{said}");
    let faults = ran.reasons(EventKind::Fault);
    assert!(
        faults.starts_with("the MPS server of GPU 0 faulted; its jobs are stopped"),
        "{faults}"
    );
    assert!(restarts.contains("it made the MPS server fault"), "{said}");
    let restarted = |n: usize| ran.summary().tasks[n].restarts;
    assert!(restarted(0) >= 1 && restarted(2) == 0, "{said}");
    corner.nothing_is_left();
    no_client_is_left(&corner);
}

#[test]
fn a_signal_is_heeded_while_the_server_recovers() {
    let Some((fake, corner)) = gpu() else { return };
    let worker = fake.worker().display().to_string();
    fake.set("stays_faulted", "");
    corner.plan(&[job("a", &format!(r#"FAKE_MODE=faults exec "{worker}""#))]);
    let child = corner.spawn(command(&fake, &corner, &[]), EventKind::Fault);
    signal(child.id(), Signal::SIGINT);
    let ran = corner.end(child);
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    let faults = ran.reasons(EventKind::Fault);
    assert_eq!(faults, "the MPS server faulted; every job is stopped");
    no_client_is_left(&corner);
}

#[test]
fn a_daemon_that_runs_already_is_used_and_left_running() {
    let Some((fake, corner)) = gpu() else { return };
    corner.plan(&[job("a", &client(&fake, "a"))]);
    let pipe = corner.path("theirs");
    fs::create_dir(&pipe).unwrap();
    let attach = || {
        let mut command = command(&fake, &corner, &["--attach-mps"]);
        ran(command
            .env("CUDA_MPS_PIPE_DIRECTORY", &pipe)
            .output()
            .unwrap())
    };
    let none = attach();
    assert_eq!(none.code, Some(3), "{}", none.stderr);
    assert!(
        none.stderr.contains("no MPS daemon answers at"),
        "{}",
        none.stderr
    );
    let started = Command::new(fake.control())
        .arg("-d")
        .env("CUDA_MPS_PIPE_DIRECTORY", &pipe)
        .status();
    assert!(started.unwrap().success());
    let ran = attach();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told = fs::read_to_string(corner.path("a.told")).unwrap();
    assert!(told.starts_with(&pipe.display().to_string()), "{told}");
    assert!(!fake.commands().contains("quit"), "{}", fake.commands());
    corner.nothing_is_left();
    // The daemon still exists, the client does not. Its server ends with the client's control group, if there is one,
    // because the stand-in starts it from there; a real daemon starts it itself.
    let left = FakeMps::processes_below(corner.dir.path());
    assert!((1..=2).contains(&left.len()));
    for pid in left {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
}

#[test]
fn each_gpu_of_a_plan_has_its_own_daemon() {
    let Some((fake, corner)) = gpu() else { return };
    let jobs = ["a", "b", "c"].map(|id| job(id, &client(&fake, id)));
    let plan = corner.plan(&jobs);
    let text = fs::read_to_string(&plan).unwrap();
    let spread = |last: u32| {
        text.replace(
            r#""id":"c","batch":"#,
            &format!(r#""id":"c","gpu":{last},"batch":"#),
        )
    };

    fs::write(&plan, spread(1)).unwrap();
    let ran = launched(&fake, &corner, &["--cpus", "0"]);
    assert_eq!(ran.code, Some(0), "{}", ran.reasons(EventKind::Stop));
    let told = ["a", "b", "c"].map(|id| {
        let told = fs::read_to_string(corner.path(&format!("{id}.told"))).unwrap();
        let (folder, cpus) = told.trim().split_once(' ').unwrap();
        assert!(cpus.ends_with(": 0"), "{cpus}");
        folder.to_owned()
    });
    assert_eq!(told[0], told[1]);
    assert_ne!(told[0], told[2]);
    let commands = fake.commands();
    let started: BTreeSet<&str> = commands
        .lines()
        .filter(|l| l.starts_with("start "))
        .collect();
    assert_eq!(started.len(), 2, "{started:?}");
    corner.nothing_is_left();

    fs::write(&plan, spread(2)).unwrap();
    let ran = launched(&fake, &corner, &[]);
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.stderr.contains("needs 3 of this") && ran.stderr.contains("share 2 of 3 GPUs"),
        "{}",
        ran.stderr
    );

    let named = |name: &str| {
        let device = format!(r#""device":{{"kind":"cpu","gpus":["{name}"]}}"#);
        fs::write(&plan, text.replace(r#""device":{"kind":"cpu"}"#, &device)).unwrap();
        launched(&fake, &corner, &[])
    };
    let uuid = |last: &str| {
        format!(
            "GPU-{last}-{0}-{0}-{0}-{1}",
            &last[..4],
            last.repeat(2)[..12].to_owned()
        )
    };
    let ran = named(&uuid("acacacac"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = named("GPU-0");
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains(&uuid("acacacac")), "{}", ran.stderr);

    fs::write(&plan, spread(2)).unwrap();
    let on_cpu = corner.command(&["--device", "cpu"]).output().unwrap();
    assert_eq!(on_cpu.status.code(), Some(3));
    no_client_is_left(&corner);
}
