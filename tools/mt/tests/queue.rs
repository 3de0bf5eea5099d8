//! Queues of real processes whose server is killed, and whose disk is full.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

/// A queue in its own folder; its server ends with it.
struct Queue(tempfile::TempDir);

impl Queue {
    fn new() -> Self {
        let queue = Self(tempfile::tempdir().expect("a folder"));
        assert_eq!(queue.mt("queue --device cpu").status.code(), Some(0));
        queue
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn mt(&self, words: &str) -> Output {
        let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
        let mut command = self.mt_command(verb);
        let rest = rest.split(' ').filter(|word| !word.is_empty());
        command.args(rest).output().expect("mt starts")
    }

    fn mt_command(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mt"));
        command.current_dir(self.path());
        command.arg(verb).arg("--queue").arg(self.path().join("q"));
        command
    }

    fn text(&self, words: &str) -> String {
        let output = self.mt(words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "mt {words}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The number after `"name":` in the status.
    fn number(&self, name: &str) -> Option<i64> {
        let status = self.text("status --json");
        let (_, rest) = status.split_once(&format!("\"{name}\":"))?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    fn kill_server(&self) {
        if let Some(pid) = self.number("pid") {
            let pid = i32::try_from(pid).expect("a number of a process");
            signal::kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a server");
        }
    }

    fn script(&self, text: &str) {
        fs::write(self.path().join("job.sh"), text).expect("a script is written");
    }

    fn ledger(&self) -> String {
        fs::read_to_string(self.path().join("ledger")).unwrap_or_default()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.mt("queue --stop");
    }
}

/// A job that reports when it begins and ends, and whether processes of another start of it are still alive.
const JOB: &str = r#"
mkdir "live-$1" 2>/dev/null || { read -r old < "live-$1/pid"; grep -qs '^State:.[^ZX]' "/proc/$old/status" && echo "twice $1" >> ledger; }
sleep 60 & echo $! > "live-$1/pid"
echo "begin $1" >> ledger
i=0; while [ $i -lt 8 ]; do i=$((i+1)); sleep 0.05; echo "step $i/8"; done
echo "end $1" >> ledger
"#;

#[test]
fn what_was_confirmed_is_done_once_though_the_server_is_killed() {
    let queue = Queue::new();
    queue.script(JOB);
    let kills = std::env::var("MT_QUEUE_KILLS").map_or(6, |n| n.parse().unwrap());
    let jobs = 2 * kills;
    let mut confirmed = Vec::new();
    for n in 1..=jobs {
        let id = queue.text(&format!("add -- sh job.sh {n}"));
        confirmed.push(id.trim().parse::<u32>().unwrap());
        // At a random moment, unrelated to the server's work.
        std::thread::sleep(Duration::from_millis(n * 37 % 200));
        if n % 2 == 0 {
            queue.kill_server();
        }
    }
    assert_eq!(
        confirmed,
        (1..=u32::try_from(jobs).unwrap()).collect::<Vec<_>>()
    );
    let waited = queue.mt(&format!("wait 1-{jobs}"));
    let status = queue.text("status --all");
    // A job may be given up if its server was killed three times while it ran; this is then reported.
    let skipped = status.matches("the server ended 3 times").count();
    assert_eq!(
        waited.status.code(),
        Some(i32::from(skipped > 0)),
        "{status}"
    );
    let mut ends = BTreeMap::new();
    for line in queue.ledger().lines() {
        assert!(!line.starts_with("twice"), "{}", queue.ledger());
        if let Some(job) = line.strip_prefix("end ") {
            *ends.entry(job.to_owned()).or_insert(0) += 1;
        }
    }
    let (jobs, kills) = (
        usize::try_from(jobs).unwrap(),
        usize::try_from(kills).unwrap(),
    );
    let is_done = |l: &&str| l.contains("sh job.sh") && l.split_whitespace().nth(1) == Some("done");
    let done = status.lines().filter(is_done).count();
    assert_eq!(done + skipped, jobs, "{status}");
    assert!(
        ends.len() + skipped >= jobs,
        "what is told to be done was done: {status}"
    );
    // If the server is killed between the end of a job and its record on disk, the job runs again. The job's own
    // children are ended in between, which takes about 10 ms of 400: less than one kill in three falls there on any
    // machine.
    let again = ends.values().filter(|&&n| n > 1).count();
    assert!(again <= 1 + kills / 3, "{}", queue.ledger());
}

#[test]
fn a_job_of_once_is_told_to_be_lost_and_not_started_again() {
    let queue = Queue::new();
    queue.script("echo begin >> ledger; exec sleep 30");
    queue.text("add --once -- sh job.sh");
    wait_until(|| queue.ledger().contains("begin"));
    queue.kill_server();
    assert_eq!(queue.mt("wait 1").status.code(), Some(1));
    assert_eq!(queue.ledger(), "begin\n");
    assert!(
        queue
            .text("status 1")
            .contains("--once forbids a second start")
    );
}

#[test]
fn nothing_is_confirmed_that_a_full_disk_does_not_hold() {
    let queue = Queue::new();
    queue.script("echo begin >> ledger");
    queue.text("pause");
    queue.text("queue --stop");
    // The next server may write files of some KB: what mt add cannot store it must refuse.
    let program = env!("CARGO_BIN_EXE_mt");
    // The limit also holds for a file that the tests' own output goes to. Who adds has it too: for jobs of somebody
    // without it, another server would be started.
    let limited = |words: &str| {
        let script = format!("ulimit -f 24; exec {program} {words}");
        let mut limited = Command::new("sh");
        limited.args(["-c", &script]).current_dir(queue.path());
        limited.output().expect("mt starts")
    };
    assert!(limited("queue --queue q").status.success());
    let mut confirmed = 0;
    let refusal = loop {
        assert!(confirmed < 1000, "the limit holds");
        let output = limited("add --queue q -- sh job.sh");
        if output.status.success() {
            confirmed += 1;
        } else {
            assert_eq!(output.status.code(), Some(3));
            break String::from_utf8(output.stderr).unwrap();
        }
    };
    assert!(
        refusal.contains("nothing was added") && confirmed > 0,
        "{refusal}"
    );
    queue.kill_server();
    queue.text("pause --off");
    queue.text("wait");
    assert_eq!(
        queue.ledger().lines().count(),
        confirmed,
        "each that was confirmed ran once"
    );
}

#[test]
fn a_program_of_others_waits_for_its_place_and_leaves_it_when_it_is_killed() {
    let queue = Queue::new();
    queue.text("queue --most 1");
    queue.script("echo \"begin $1\" >> ledger; exec sleep 30");
    let start = |n: &str| {
        let mut command = queue.mt_command("exec");
        command.args(["--", "sh", "job.sh", n]).spawn().unwrap()
    };
    let mut first = start("1");
    wait_until(|| queue.ledger().contains("begin 1"));
    let mut second = start("2");
    wait_until(|| queue.text("status --all").contains("waiting"));
    // The server is killed, and the program that it has admitted keeps its place with the next one.
    queue.kill_server();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(queue.ledger(), "begin 1\n");
    first.kill().unwrap();
    first.wait().unwrap();
    wait_until(|| queue.ledger().contains("begin 2"));
    queue.text("cancel --all");
    assert!(!second.wait().unwrap().success());
    wait_until(|| !queue.text("status --all").contains("running"));
    assert!(queue.text("status --all").contains("left"));
}

/// Reproducible random numbers (Marsaglia's xorshift).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Processes whose command line contains a text.
fn processes_with(text: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
    .collect()
}

fn kill(pid: i32) {
    // It may have gone since it was found.
    signal::kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
}

/// A parent that starts programs by `mt exec`, like Optuna, a sweep, and a server: one of them, or a job, is killed
/// at a random moment. `MT_QUEUE_KILLS=200` for many.
#[test]
fn a_kill_of_anything_leaves_nothing_behind() {
    let queue = Queue::new();
    queue.text("queue --most 3");
    queue.script("echo \"begin $1\" >> ledger\ni=0; while [ $i -lt 6 ]; do i=$((i+1)); sleep 0.05; done\necho \"end $1\" >> ledger");
    let script = queue.path().join("job.sh").display().to_string();
    let exec = format!(
        "{} exec --queue {} -- sh {script}",
        env!("CARGO_BIN_EXE_mt"),
        queue.path().join("q").display()
    );
    let kills = std::env::var("MT_QUEUE_KILLS").map_or(10, |n| n.parse().unwrap());
    let mut draw = Draw(0x9E37_79B9_7F4A_7C15);
    let mut runs = Vec::new();
    for n in 0..kills {
        let lines = format!("{exec} e{n}a & {exec} e{n}b & {exec} e{n}c & wait");
        let mut shell = Command::new("sh");
        shell.args(["-c", &lines]).current_dir(queue.path());
        shell.stderr(std::process::Stdio::null());
        let mut shell = shell.spawn().expect("sh starts");
        let mut sweep = queue.mt_command("sweep");
        sweep.args(["--", "sh", &script, "{x}", ":::", &format!("x=s{n}a,s{n}b")]);
        sweep.stderr(std::process::Stdio::null());
        let mut sweep = sweep.spawn().expect("mt starts");
        std::thread::sleep(Duration::from_millis(draw.below(800)));
        runs.push(fs::read_to_string(queue.path().join("q/run")).unwrap_or_default());
        match n % 4 {
            0 => shell.kill().expect("a child"),
            1 => queue.kill_server(),
            2 => sweep.kill().expect("a child"),
            _ => {
                let all = processes_with(&script);
                all.iter().take(1).for_each(|&pid| kill(pid));
            }
        }
        shell.wait().expect("a child");
        sweep.wait().expect("a child");
    }
    queue.mt("wait");
    wait_until(|| processes_with(&script).is_empty());
    let status = queue.text("status --all --json");
    for word in ["\"running\"", "\"waiting\""] {
        assert!(!status.contains(word), "{status}");
    }
    let ledger = queue.ledger();
    let count = |line: &str| ledger.lines().filter(|l| *l == line).count();
    let mut again = 0;
    for n in 0..kills {
        for job in ["a", "b", "c"].map(|letter| format!("e{n}{letter}")) {
            assert!(count(&format!("begin {job}")) <= 1, "{job} twice: {ledger}");
        }
        for job in ["a", "b"].map(|letter| format!("s{n}{letter}")) {
            let ends = count(&format!("end {job}"));
            // The sweep may have been killed before it had added its jobs, and a killed job has no end.
            assert!(ends >= 1 || n % 4 >= 2, "{job} is lost: {ledger}\n{status}");
            again += usize::from(ends > 1);
        }
    }
    assert!(again as u64 <= 1 + kills / 4, "{ledger}");
    let groups = |run: &str| {
        let token = run.rsplit(['/', '-']).next().expect("a run directory");
        let name = format!("mt-{token}");
        let found = Command::new("find")
            .args(["/sys/fs/cgroup", "-name", &name])
            .output();
        String::from_utf8(found.expect("find starts").stdout).expect("paths")
    };
    // The last server may have been killed after the last job, and nobody starts another one for nothing.
    queue.text("queue --most 3");
    let last = fs::read_to_string(queue.path().join("q/run")).expect("a run directory");
    let made = !groups(&last).is_empty();
    queue.text("queue --stop");
    runs.push(last);
    for run in runs {
        assert_eq!(groups(&run), "", "control groups are left");
    }
    // If groups can be created, they have the expected names.
    assert!(made || std::env::var("MT_REQUIRE").is_err());
}

/// Programs that a killed Optuna or shell has started end, even if they would run for minutes; under nohup they
/// continue.
#[test]
fn a_program_ends_with_its_parent_and_goes_on_without_a_terminal() {
    let queue = Queue::new();
    queue.script("echo \"begin $1\" >> ledger; exec sleep 300");
    let exec = |words: &str| {
        let queue = queue.path().join("q").display().to_string();
        let program = env!("CARGO_BIN_EXE_mt");
        format!("{words} {program} exec --queue {queue} -- sh job.sh")
    };
    let lines = format!("{} 1 & {} 2 & wait", exec(""), exec("nohup"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &lines]).current_dir(queue.path());
    let mut shell = shell.spawn().expect("sh starts");
    let begun = |n: &str| queue.ledger().contains(&format!("begin {n}"));
    wait_until(|| begun("1") && begun("2"));
    shell.kill().expect("a child");
    shell.wait().expect("a child");
    wait_until(|| queue.text("status --all --json").contains("\"left\""));
    let status = queue.text("status --all");
    let of = |n: &str| {
        status
            .lines()
            .find(|l| l.ends_with(&format!("job.sh {n}")))
            .expect("a job")
    };
    assert!(
        of("1").contains("left") && of("2").contains("running"),
        "{status}"
    );
    queue.text("cancel --all");
    wait_until(|| !queue.text("status --all --json").contains("\"running\""));
}

/// After a restart of the machine, the process number belongs to another process.
#[test]
fn a_process_of_another_boot_is_not_taken_for_the_one_that_was_admitted() {
    let queue = Queue::new();
    queue.script("echo begin >> ledger; exec sleep 30");
    let mut command = queue.mt_command("exec");
    let mut program = command
        .args(["--", "sh", "job.sh"])
        .spawn()
        .expect("mt starts");
    wait_until(|| queue.ledger().contains("begin"));
    queue.kill_server();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let journal = queue.path().join("q/journal.ndjson");
    let text = fs::read_to_string(&journal).expect("a journal");
    assert!(
        text.contains(boot.trim()),
        "the journal knows the boot: {text}"
    );
    let before = "00000000-0000-4000-8000-000000000000";
    fs::write(&journal, text.replace(boot.trim(), before)).expect("a journal");
    queue.text("queue");
    assert!(queue.text("status 1 --json").contains("\"left\""));
    program.kill().expect("a child");
    program.wait().expect("a child");
}

#[test]
fn a_damaged_journal_loses_only_the_damaged_line_and_its_file_is_named() {
    let queue = Queue::new();
    queue.text("pause");
    for _ in 0..3 {
        queue.text("add -- true");
    }
    // Ranges may overlap: one end of each.
    queue.text("cancel 1 1-2");
    queue.text("queue --stop");
    let path = queue.path().join("q/journal.ndjson");
    let text = fs::read_to_string(&path).expect("a journal");
    assert_eq!(text.matches("\"ended\"").count(), 2, "{text}");
    let damaged = text.replacen("{\"ended\":{\"id\":1", "{\"ended\":{\"id\":-1", 1);
    // The last record was being written when the power failed.
    fs::write(&path, damaged + "{\"paused\":fal").expect("a damaged journal");
    let looked = queue.mt("status");
    let error = String::from_utf8_lossy(&looked.stderr).into_owned();
    assert!(
        looked.status.success() && error.contains("unreadable lines (2)"),
        "{error}"
    );
    let started = queue.mt("queue");
    let error = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(started.status.success(), "{error}");
    assert!(error.contains("unreadable lines (2) are in"), "{error}");
    let status = queue.text("status --all");
    assert!(status.contains("2 waiting, 1 cancelled"), "{status}");
    assert!(status.contains("/q/journal-unreadable-"), "{status}");
}

#[test]
fn a_program_in_a_job_of_the_queue_has_its_place_already() {
    let queue = Queue::new();
    queue.text("queue --most 1");
    let mt = env!("CARGO_BIN_EXE_mt");
    let folder = queue.path().join("q").display().to_string();
    queue.script(&format!(
        "{mt} exec --queue {folder} -- sh -c 'echo inside >ledger'"
    ));
    queue.text("add -- sh job.sh");
    queue.text("wait 1");
    assert_eq!(queue.ledger(), "inside\n");
}

#[test]
fn what_an_admitted_program_leaves_running_keeps_its_place_and_is_ended_with_it() {
    let queue = Queue::new();
    queue.text("queue --most 1");
    queue.script("setsid sleep 47.11 & exit 0");
    let mut wrapper = queue.mt_command("exec");
    wrapper.args(["--", "sh", "job.sh"]);
    assert!(wrapper.status().expect("mt starts").success());
    std::thread::sleep(Duration::from_millis(600));
    let status = queue.text("status");
    assert!(status.contains("1 running"), "{status}");
    queue.text("add -- true");
    queue.text("cancel 1");
    queue.text("wait 2");
    assert!(processes_with("47.11").is_empty());
    let status = queue.text("status --all");
    assert!(status.contains("1 cancelled"), "{status}");
}

#[test]
fn a_server_that_is_asked_to_end_gives_its_jobs_back() {
    let queue = Queue::new();
    queue.text("add -- sleep 60");
    for _ in 0..4 {
        wait_until(|| queue.text("status 1").contains("1 running"));
        queue.text("queue --stop");
        let status = queue.text("status");
        assert!(status.contains("1 waiting"), "{status}");
        queue.text("queue");
    }
}

/// A server that no client can reach any more must not run on.
#[test]
fn a_server_ends_when_its_folder_is_removed() {
    let queue = Queue::new();
    queue.text("add -- sleep 60");
    let pid = queue.number("pid").expect("a server");
    fs::remove_dir_all(queue.path().join("q")).expect("the folder is removed");
    let process = format!("/proc/{pid}");
    wait_until(|| !Path::new(&process).exists());
}

/// As long as the server of the removed folder has not noticed, there are two.
#[test]
fn a_server_leaves_the_socket_of_the_one_that_replaced_it() {
    let queue = Queue::new();
    let old = queue.number("pid").expect("a server");
    fs::remove_dir_all(queue.path().join("q")).expect("the folder is removed");
    queue.text("queue --device cpu");
    wait_until(|| !Path::new(&format!("/proc/{old}/fd/0")).exists());
    assert!(queue.path().join("q/socket").exists());
    assert!(queue.number("pid").is_some_and(|new| new != old));
}

/// Waits for something that must happen, for at most a minute on a loaded machine.
fn wait_until(happened: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(
            Instant::now() < deadline,
            "it has not happened within a minute"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
