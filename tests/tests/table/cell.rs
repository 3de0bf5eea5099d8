//! One cell: a runner with a job in a folder of its own, what is done to it, and what is seen.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use mt_tests::Folder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::column::Column;
use crate::preload::Libraries;
use crate::row::{Act, Group, Paused, Row};
use crate::seen::{Seen, show};

/// The longest that a cell may take after what was done to it. The slowest of them, a queue's ten seconds between
/// SIGTERM and SIGKILL, fits twice.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a runner may take to clean up behind itself; guards do so after the end of the process.
const CLEANING: Duration = Duration::from_secs(3);

/// What a job may use. Ten steps of 10 samples take half a second.
const FUNCTIONS: &str = r#"up() { touch up; echo $$ > pid; }
ready() { echo '{"mt":"ready"}'; }
step() { echo '{"mt":"step","samples":10,"loss":0.5}'; }
steps() { n=0; while [ $n -lt $1 ]; do n=$((n+10)); sleep 0.05; step; done; }
train() { up; ready; steps 100; echo '{"mt":"done","samples":100}'; }
"#;

/// A training that needs most of a second after SIGTERM to save.
const SAVES: &str = r#"import signal, sys, time
def save(*_):
    time.sleep(0.8)
    open("saved", "w").write("saved")
    print('{"mt":"parked","step":1}', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print('{"mt":"ready"}', flush=True)
open("up", "w")
while True:
    print('{"mt":"step","samples":1}', flush=True)
    time.sleep(0.3)
"#;

const WORKLOAD: &str = r#""schema":"mt.workload/1","device":{"kind":"cpu","gpus":1},"tasks":[
    {"id":"a","batch_sizes":[10],"samples":100,"job":{"argv":["sh","job.sh"]}}]"#;

const CLUSTER: &str = r#"{"schema":"mt.cluster/1","gpus":[{"type":"t","count":1}],"jobs":[
    {"id":"a","rounds":1,"tasks_per_round":1,"train_s":{"t":0.5},"job":{"argv":["sh","job.sh"]}}]}"#;

/// A run that no tool replaces unless it is told to.
const OLD_RUN: &str = r#"{"schema":"mt.run/1","event":"launch","time_s":0.0}
"#;

/// Schedule of a single task, made once.
fn schedule() -> &'static str {
    static MADE: OnceLock<String> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Folder::new();
        fs::write(folder.path().join("cluster.json"), CLUSTER).expect("a file of our own");
        let ran = folder.run("mt-cluster plan --effort 1 cluster.json");
        ran.assert_code(0);
        ran.stdout
    })
}

fn prepare(folder: &Path, row: &Row) {
    let job = row.job.replace("@GROUP@", &group(folder));
    let plan = format!(
        r#"{{"schema":"mt.plan/1","tasks":[{{"id":"a","batch":10,"share_percent":50,"samples":100}}],
        "workload":{{{WORKLOAD}}}}}"#
    );
    let files = [
        ("job.sh", format!("{FUNCTIONS}{job}\n")),
        ("save.py", SAVES.to_owned()),
        ("plan.json", plan),
        ("workload.json", format!("{{{WORKLOAD}}}")),
        ("schedule.json", schedule().to_owned()),
        ("old.ndjson", OLD_RUN.to_owned()),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("a file of our own");
    }
    for name in ["home", "tmp"] {
        fs::create_dir(folder.join(name)).expect("a folder of our own");
    }
}

/// Name of the control groups that a job of this cell may make.
fn group(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    format!("mt-table{name}")
}

/// State of the freezer group of this cell.
fn freezer(folder: &Path) -> String {
    format!("/sys/fs/cgroup/freezer/{}/freezer.state", group(folder))
}

/// Removes the control groups that a job of this cell has made.
fn remove_groups(folder: &Path) {
    for parent in [
        "/sys/fs/cgroup/freezer",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup",
    ] {
        fs::remove_dir(Path::new(parent).join(group(folder))).unwrap_or(());
    }
}

/// A cell that runs.
struct Playing<'a> {
    folder: &'a Folder,
    column: Column,
    libraries: &'a Libraries,
}

impl Playing<'_> {
    /// A line of bash in the folder, with an environment of its own, its output in files.
    fn spawn(&self, line: &str, name: &str, in_world: bool) -> Child {
        let path = self.folder.path();
        let file =
            |end: &str| fs::File::create(path.join(format!("tmp/{name}.{end}"))).expect("a file");
        let search = std::env::var("PATH").unwrap_or_default();
        // Cores of runners that SIGQUIT ends are of no use here.
        let line = format!("ulimit -c 0; {line}");
        // What a shell without job control, or nohup, has ignored would be ignored by the runner, too.
        let mut command = Command::new("env");
        command
            .args([
                "--default-signal=HUP,INT,QUIT,TERM,TSTP",
                "bash",
                "-c",
                &line,
            ])
            .env_clear()
            .env("PATH", format!("{}:{search}", mt_tests::tools().display()))
            .env("HOME", path.join("home"))
            .env("TMPDIR", path.join("tmp"))
            .env("TABLE_KEPT", "kept-by-name")
            .current_dir(path)
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            // A stop by SIGTSTP does nothing to a group without a parent in another group of its session.
            .process_group(0);
        if in_world {
            command.env("LD_PRELOAD", self.libraries.world());
        }
        command.spawn().expect("bash starts")
    }

    /// Runs a line to its end, but not longer than [`PATIENCE`].
    fn aside(&self, line: &str, name: &str) {
        let mut child = self.spawn(line, name, false);
        ended(&mut child, PATIENCE);
    }

    /// Processes of this cell: all have the folder for temporary files in their environment.
    fn processes(&self) -> Vec<(Pid, String)> {
        let mark = format!("TMPDIR={}\0", self.folder.path().join("tmp").display());
        let Ok(all) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let numbers = all
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
        let own = numbers.filter_map(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
            let has = environ
                .windows(mark.len())
                .any(|part| part == mark.as_bytes());
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            has.then(|| {
                (
                    Pid::from_raw(pid),
                    line.replace('\0', " ").trim().to_owned(),
                )
            })
        });
        own.collect()
    }

    /// What runs the jobs: the server of a queue, else the process that was started.
    fn runner(&self, child: &Child) -> Pid {
        let server = || {
            self.processes()
                .into_iter()
                .find(|(_, line)| line.contains("--serve"))
        };
        let server = if self.column == Column::Queue {
            server()
        } else {
            None
        };
        server.map_or(Pid::from_raw(child.id().cast_signed()), |(pid, _)| pid)
    }

    fn act(&self, act: Act, child: &Child) {
        let path = self.folder.path();
        let send = |pid: Pid, signal: Signal| kill(pid, signal).unwrap_or(());
        match act {
            Act::Wait => {}
            Act::Stop => self.stop(child),
            Act::Send(signals) => {
                let runner = self.runner(child);
                for signal in signals {
                    send(runner, *signal);
                    sleep(Duration::from_millis(500));
                }
            }
            Act::Pause(who) => {
                let runner = self.runner(child);
                let mut all: Vec<Pid> = self.processes().into_iter().map(|(pid, _)| pid).collect();
                if who == Paused::Runner {
                    all.retain(|pid| *pid == runner);
                }
                all.iter().for_each(|pid| send(*pid, Signal::SIGSTOP));
                sleep(Duration::from_secs(3));
                // They wake in any order. With the runner first, it may judge before a job can report.
                send(runner, Signal::SIGCONT);
                sleep(Duration::from_millis(500));
                all.iter().for_each(|pid| send(*pid, Signal::SIGCONT));
            }
            Act::Jump(seconds) => fs::write(path.join("tmp/jump"), seconds).expect("a file"),
            Act::Freeze => {
                fs::write(freezer(path), "FROZEN").unwrap_or(());
                self.stop(child);
            }
            Act::KillJob => {
                let text = fs::read_to_string(path.join("pid")).unwrap_or_default();
                let pid = text.trim().parse().map(Pid::from_raw);
                pid.into_iter().for_each(|pid| send(pid, Signal::SIGKILL));
            }
        }
    }

    fn stop(&self, child: &Child) {
        if self.column.has_server() {
            self.aside("mt cancel --queue q --all", "cancel");
        } else {
            kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap_or(());
        }
    }

    /// Waits until nothing of the cell runs; ends and returns what does.
    fn clean(&self) -> Vec<String> {
        let end = Instant::now() + CLEANING;
        while Instant::now() < end && !self.processes().is_empty() {
            sleep(Duration::from_millis(50));
        }
        let left = self.processes();
        for (pid, _) in &left {
            kill(*pid, Signal::SIGKILL).unwrap_or(());
        }
        left.into_iter().map(|(_, line)| line).collect()
    }
}

/// Whether a process ends in time.
fn ended(child: &mut Child, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if child.try_wait().expect("a child").is_some() {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    false
}

/// Runs the job of a row under a runner.
pub fn play(row: &Row, column: Column, libraries: &Libraries) -> Seen {
    let folder = Folder::new();
    prepare(folder.path(), row);
    let playing = Playing {
        folder: &folder,
        column,
        libraries,
    };
    let full = row.name == "log failed";
    if full {
        fs::write(folder.path().join("tmp/full"), "").expect("a file of our own");
    }
    let in_world = full || matches!(row.act, Act::Jump(_));
    let line = column.line(row.given, row.group == Group::Origin);
    let mut began = Instant::now();
    let mut child = playing.spawn(&line, "runner", in_world);
    if !matches!(row.act, Act::Wait) {
        let end = Instant::now() + PATIENCE;
        let up = folder.path().join("up");
        while !up.exists() && Instant::now() < end && child.try_wait().expect("a child").is_none() {
            sleep(Duration::from_millis(20));
        }
        // A runner reads the first reports of a job within this time.
        sleep(Duration::from_millis(200));
        began = Instant::now();
        playing.act(row.act, &child);
    }
    let late = !ended(&mut child, PATIENCE);
    let took = began.elapsed().as_secs_f64();
    if matches!(row.act, Act::Freeze) {
        fs::write(freezer(folder.path()), "THAWED").unwrap_or(());
    }
    if late {
        child.kill().unwrap_or(());
    }
    let status = child.wait().expect("a child");
    // As a shell says it.
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    if column.has_server() {
        playing.aside("mt queue --queue q --stop", "stop");
    }
    let left = playing.clean();
    remove_groups(folder.path());
    let told = |end: &str| {
        let bytes = fs::read(folder.path().join(format!("tmp/runner.{end}"))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (stdout, stderr) = (told("out"), told("err"));
    let mut text = format!("{stdout}{stderr}");
    show(folder.path(), folder.path(), &mut text);
    let given = row.given;
    Seen {
        given,
        code,
        stderr,
        text,
        took,
        late,
        left,
    }
}
