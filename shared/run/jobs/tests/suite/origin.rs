//! Jobs have what whoever added them has, and no more of this process than they need.

use std::fs::File;
use std::process::Command;

use jobs::{Exit, Origin};
use nix::fcntl::{Flock, FlockArg};
use nix::libc;

use crate::bench::Bench;

fn own() -> serde_json::Value {
    serde_json::to_value(Origin::of_this_process()).unwrap()
}

/// Prints what it was given.
const SHOW: &str = r#"umask; nice; ulimit -Sn; ulimit -Hn; ulimit -Sc
    grep -E '^(SigIgn|SigBlk|Cpus_allowed_list)' /proc/self/status"#;

#[test]
fn a_job_has_what_its_adder_has() {
    let mut origin = own();
    let cpu = origin["cpus"].as_str().unwrap().chars().last().unwrap();
    origin["umask"] = "0027".into();
    origin["nice"] = 7.into();
    origin["cpus"] = cpu.to_string().into();
    origin["limits"]["nofile"] = serde_json::json!([77, 99]);
    origin["limits"]["core"] = serde_json::json!([0, 0]);
    origin["ignored"] = serde_json::json!([libc::SIGHUP, libc::SIGINT]);
    let mut bench = Bench::new();
    let mut spec = bench.spec(&["sh", "-c", SHOW]);
    spec.origin = Some(serde_json::from_value(origin).unwrap());
    bench.supervisor.spawn(&spec).unwrap();
    assert_eq!(bench.exit().0, Exit::Code(0));
    let log = bench.log();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..5], ["0027", "7", "77", "99", "0"], "{log}");
    let value = |name: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim_start_matches(':').trim()
    };
    assert_eq!(value("Cpus_allowed_list"), cpu.to_string());
    assert_eq!(value("SigBlk"), "0000000000000000");
    // Without those of the C library, which it ignores in what posix_spawn starts.
    let ignored = u64::from_str_radix(value("SigIgn"), 16).unwrap();
    assert_eq!(ignored & !(3 << 31), 3, "{log}");
}

/// The program that adds a job is asked, in a shell that has changed everything.
#[test]
fn an_origin_is_what_the_shell_has_that_starts_a_program() {
    if std::env::var_os("MT_TEST_ORIGIN").is_some() {
        println!("{}", own());
        return;
    }
    let line = "umask 031; ulimit -Sn 55; trap '' HUP USR1; exec nice -n 3 taskset -c 0 \"$0\" \
                --exact origin::an_origin_is_what_the_shell_has_that_starts_a_program --nocapture";
    let test = std::env::current_exe().unwrap();
    let asked = Command::new("sh")
        .args(["-c", line])
        .arg(test)
        .env("MT_TEST_ORIGIN", "1")
        .output();
    let text = String::from_utf8(asked.unwrap().stdout).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.find('{').map(|at| &line[at..]));
    let found: serde_json::Value = serde_json::from_str(line.unwrap()).unwrap();
    assert_eq!(found["umask"], "0031");
    assert_eq!(found["nice"], own()["nice"].as_i64().unwrap_or(0) + 3);
    assert_eq!(found["cpus"], "0");
    assert_eq!(found["limits"]["nofile"][0], 55);
    assert_eq!(
        found["ignored"],
        serde_json::json!([libc::SIGHUP, libc::SIGUSR1])
    );
}

/// Only a privileged process may lower niceness or raise a hard limit: a thread of another user tries.
#[test]
fn what_cannot_be_given_is_told() {
    let own = own();
    assert_eq!(Origin::of_this_process().refused(), Vec::<String>::new());
    let mut more = own.clone();
    more["nice"] = (own["nice"].as_i64().unwrap_or(0) - 1).into();
    more["cpus"] = format!("{},1023", own["cpus"].as_str().unwrap()).into();
    let (_, most) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    more["limits"]["nofile"] = serde_json::json!([most, most + 1]);
    let mut less = own;
    less["nice"] = 19.into();
    less["limits"]["nofile"] = serde_json::json!([10, 10]);
    let read = |value| serde_json::from_value::<Origin>(value).unwrap();
    let (more, less) = (read(more), read(less));
    let asked = std::thread::spawn(move || {
        // Of this thread only; the C library's function changes all of them.
        #[expect(unsafe_code, reason = "a system call without memory")]
        unsafe {
            libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534);
        }
        (more.refused(), less.refused())
    });
    let (more, less) = asked.join().unwrap();
    assert_eq!(less, Vec::<String>::new());
    assert_eq!(more.len(), 3, "{more:?}");
    assert!(more[0].starts_with("niceness -"), "{more:?}");
    assert!(
        more[1].contains("processors") && more[1].contains("1023"),
        "{more:?}"
    );
    assert!(
        more[2].contains(&format!("nofile of {most} to {}", most + 1)),
        "{more:?}"
    );
}

/// A script holds a lock on descriptor 9, and its programs start others.
#[test]
fn a_lock_of_the_starter_is_free_when_it_ends() {
    let Some(path) = std::env::var_os("MT_TEST_LOCK") else {
        let dir = tempfile::tempdir().unwrap();
        let line = "exec 9>lock; flock -n 9 || exit 5; exec \"$0\" --exact \
                    origin::a_lock_of_the_starter_is_free_when_it_ends --nocapture";
        let tested = Command::new("sh")
            .args(["-c", line])
            .arg(std::env::current_exe().unwrap())
            .env("MT_TEST_LOCK", dir.path().join("lock"))
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(tested.status.success(), "{tested:?}");
        return;
    };
    let mut bench = Bench::new();
    let job = bench.script("echo up; exec sleep 60");
    let mut sleep = Command::new("sleep");
    sleep.arg("60");
    let mut server = jobs::seal(&mut sleep).spawn().unwrap();
    let mut sleep = Command::new("sleep");
    sleep.arg("60");
    let helper = jobs::Helper::start(sleep, &mut bench.run).unwrap();
    bench.until_log("up");
    let is_free = || {
        let file = File::create(&path).unwrap();
        Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok()
    };
    assert!(!is_free());
    nix::unistd::close(9).unwrap();
    assert!(is_free());
    drop(helper);
    server.kill().unwrap();
    server.wait().unwrap();
    bench.supervisor.stop(job, std::time::Duration::ZERO);
    bench.exit();
}
