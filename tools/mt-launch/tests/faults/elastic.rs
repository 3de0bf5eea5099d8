//! Trainings that a controller moves, with controllers and trainings that misbehave.

mod parts;
mod standby;

use std::fs;
use std::process::Command;

use doc::EventKind;

use crate::support::{Corner, Ran, needs_cgroups, ran};

/// A training with steps of 10 samples, 50 ms each, that follows the contract of an elastic job: rank 0 reports, and
/// saves the current step. It saves by renaming, as a training whose GPU is lost is killed at once. `SAVE` is replaced
/// by what it does before that, `START` by what it does when it starts, `LOAD` by how it stands by.
const TRAINING: &str = r#"[ "$RANK" = 0 ] || { trap 'exit 0' TERM; while :; do sleep 0.05; done; }
[ -z "$MT_POOL" ] || { LOAD; }
n=$(cat $MT_TASK.step 2>/dev/null || echo 0)
save() { SAVE; echo $n > $MT_TASK.new; mv $MT_TASK.new $MT_TASK.step; echo '{"mt":"parked","step":'$n'}'; exit 0; }
trap save TERM
START
echo $WORLD_SIZE >> $MT_TASK.sizes
echo '{"mt":"ready"}'
while [ $n -lt $((MT_SAMPLES / 10)) ]; do
  n=$((n+1)); echo '{"mt":"step","step":'$n',"samples":10,"loss":0.5}'; sleep 0.05
done
echo '{"mt":"done"}'"#;

/// A decision in the format of a controller.
fn decision(seq: u32, gpus: &[(&str, u32)]) -> String {
    let gpus: Vec<String> = gpus.iter().map(|(t, g)| format!(r#""{t}":{g}"#)).collect();
    format!(
        r#"echo '{{"schema":"mt.allocation/1","seq":{seq},"time_s":0,"total_gpus":4,"gpus":{{{}}},"reason":"test","pause_s":0}}'"#,
        gpus.join(",")
    )
}

struct Case<'a> {
    corner: Corner,
    save: &'static str,
    start: &'static str,
    /// For a program that takes orders.
    load: Option<&'static str>,
    /// Name, time of arrival, steps.
    tasks: &'static [(&'static str, f64, u32)],
    arguments: &'static [&'static str],
    /// Lines of invalid arrivals.
    refused: &'a str,
}

fn case<'a>(tasks: &'static [(&'static str, f64, u32)]) -> Case<'a> {
    Case {
        corner: Corner::new(),
        save: ":",
        start: ":",
        load: None,
        tasks,
        arguments: &[],
        refused: "",
    }
}

impl Case<'_> {
    /// Runs it under a shell script as controller, on four parts of the processors.
    fn run(&self, controller: &str) -> Ran {
        let ran = ran(self.command(controller).output().unwrap());
        self.corner.nothing_is_left();
        ran
    }

    fn command(&self, controller: &str) -> Command {
        let script = TRAINING
            .replace("SAVE", self.save)
            .replace("START", self.start)
            .replace("LOAD", self.load.unwrap_or(":"));
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let task = |(id, _, _): &(&str, f64, u32)| {
            format!(
                r#"{{"id":"{id}","batch_sizes":[10],"job":{{"argv":["sh","-c",{}],"pool":{},"env":{{"CORNER":{}}}}}}}"#,
                quoted(&script),
                self.load.is_some(),
                quoted(self.corner.mark())
            )
        };
        let tasks: Vec<String> = self.tasks.iter().map(task).collect();
        let workload = format!(
            r#"{{"schema":"mt.workload/1","device":{{"kind":"cpu","gpus":4}},"tasks":[{}]}}"#,
            tasks.join(",")
        );
        fs::write(self.corner.path("plan.json"), workload).unwrap();
        let arrival = |(id, at, steps): &(&str, f64, u32)| {
            format!(r#"{{"event":"arrive","time_s":{at},"task":"{id}","total_steps":{steps}}}"#)
        };
        let known: Vec<String> = self.tasks.iter().map(arrival).collect();
        let arrivals = format!("{}\n{}", known.join("\n"), self.refused);
        fs::write(self.corner.path("arrivals"), arrivals).unwrap();
        let mut command = self.corner.command(self.arguments);
        command.args(["--logs", "logs", "--arrivals", "arrivals"]);
        command.args(["--controller", "sh", "-c", controller]);
        command
    }

    /// Every number of processes that a training was ready with.
    fn sizes(&self, task: &str) -> String {
        let text = self.corner.log(&format!("{task}.sizes"));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// How many GPUs a training had, one after another, according to the progress that the controller of
    /// [`three_of_four`] heard of.
    fn heard_gpus(&self, task: &str) -> Vec<u64> {
        let gpus = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            let progress = value["event"] == "progress" && value["task"] == task;
            value["gpus"].as_u64().filter(|_| progress)
        };
        let mut gpus: Vec<u64> = self.corner.log("heard").lines().filter_map(gpus).collect();
        gpus.dedup();
        gpus
    }

    /// Numbers of the steps that a training has reported, over all its processes.
    fn steps(&self, task: &str) -> Vec<u32> {
        let number = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            let step = value["step"].as_u64().filter(|_| value["mt"] == "step")?;
            u32::try_from(step).ok()
        };
        let log = self.corner.log(&format!("logs/{task}.log"));
        log.lines().filter_map(number).collect()
    }

    fn assert_every_step_once(&self, task: &str, steps: u32) {
        assert_eq!(self.steps(task), (1..=steps).collect::<Vec<_>>(), "{task}");
    }
}

/// A line of a controller's script that reads events until one of a given task arrives.
fn heard(event: &str, task: &str) -> String {
    format!("while read line; do case $line in *{event}*'\"{task}\"'*) break;; esac; done")
}

/// A controller's script: `a` has all four GPUs; after `first` three of them go to `b`, until `b` is done. `heard`
/// keeps all events.
fn three_of_four(first: String) -> String {
    let script = [
        decision(1, &[("a", 4)]),
        first,
        decision(2, &[("a", 1), ("b", 3)]),
        heard("done", "b"),
        decision(3, &[("a", 4)]),
        "cat > /dev/null".to_owned(),
    ];
    format!("tee heard | {{\n{}\n}}", script.join("\n"))
}

/// Maximum number of GPUs in use at one time, according to the starts and ends of processes; `sizes` in the order of
/// the starts.
fn most_held(ran: &Ran, sizes: &[(&str, u32)]) -> u32 {
    let mut starts = sizes.iter();
    let mut held: Vec<(String, u32)> = Vec::new();
    let mut most = 0;
    for event in &ran.events {
        let task = event.task.clone().unwrap_or_default();
        match event.event {
            EventKind::Start => {
                let (name, gpus) = starts.next().unwrap();
                assert_eq!(*name, task);
                held.push((task, *gpus));
            }
            EventKind::Exit => held.retain(|(t, _)| *t != task),
            _ => {}
        }
        most = most.max(held.iter().map(|h| h.1).sum());
    }
    most
}

#[test]
fn a_training_moves_and_repeats_no_step_and_the_events_hold_together() {
    needs_cgroups!();
    let case = case(&[("a", 0.0, 60), ("b", 0.5, 30)]);
    let ran = case.run(&three_of_four("sleep 1".to_owned()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(case.sizes("a"), "4 1 4");
    assert_eq!(case.sizes("b"), "3");
    case.assert_every_step_once("a", 60);
    case.assert_every_step_once("b", 30);
    let held = most_held(&ran, &[("a", 4), ("a", 1), ("b", 3), ("a", 4)]);
    assert_eq!(held, 4);
    let heard = case.corner.log("heard");
    for what in ["\"ack\"", "\"parked\""] {
        assert!(heard.contains(what), "{what}: {heard}");
    }
    assert_eq!(case.heard_gpus("a"), [4, 1, 4], "{heard}");
}

#[test]
fn a_controller_that_is_killed_harms_no_training() {
    needs_cgroups!();
    let case = case(&[("a", 0.0, 30), ("b", 0.0, 30), ("c", 0.8, 10)]);
    let script = [
        decision(1, &[("a", 2), ("b", 1)]),
        "sleep 0.5; kill -9 $$".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("the controller is gone").count(), 1);
    // Its last decision remains; later arrivals get free GPUs.
    assert_eq!((case.sizes("a"), case.sizes("b")), ("2".into(), "1".into()));
    assert_eq!(case.sizes("c"), "1");
    for (task, steps) in [("a", 30), ("b", 30), ("c", 10)] {
        case.assert_every_step_once(task, steps);
    }
}

#[test]
fn a_controller_that_babbles_or_decides_the_impossible_is_told_once_and_ignored() {
    needs_cgroups!();
    // Long enough to read everything that the controller writes in 1.5 s.
    let case = case(&[("a", 0.0, 60)]);
    let script = [
        "echo hello; echo again".to_owned(),
        decision(1, &[("a", 2)]),
        "sleep 0.5".to_owned(),
        decision(1, &[("a", 4)]),
        "sleep 0.3".to_owned(),
        decision(2, &[("a", 3), ("x", 1)]).replace("\"total_gpus\":4", "\"total_gpus\":9"),
        "sleep 0.7".to_owned(),
        decision(3, &[("a", 9)]).replace("\"total_gpus\":4", "\"total_gpus\":9"),
        "yes".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("is not an allocation").count(), 1);
    assert!(ran.stderr.contains("decision 1 has been taken already"));
    assert!(ran.stderr.contains("it allocates 9 GPUs, but there are 4"));
    assert!(ran.stderr.contains("lines were not allocations"));
    assert_eq!(case.sizes("a"), "2 3");
    case.assert_every_step_once("a", 60);
}

#[test]
fn a_controller_that_neither_reads_nor_decides_holds_nobody_up() {
    needs_cgroups!();
    let case = case(&[("a", 0.0, 20), ("b", 0.0, 20)]);
    let ran = case.run("exec sleep 100");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("the controller does not decide"));
    assert_eq!((case.sizes("a"), case.sizes("b")), ("2".into(), "2".into()));
}

#[test]
fn a_training_that_ignores_sigterm_is_killed_and_goes_on_from_its_last_checkpoint() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 40)]);
    case.start = "[ $WORLD_SIZE = 4 ] && trap '' TERM";
    case.arguments = &["--grace", "0.4"];
    let script = [
        decision(1, &[("a", 4)]),
        "sleep 0.8".to_owned(),
        decision(2, &[("a", 2)]),
        "cat > heard".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(case.sizes("a"), "4 2");
    let why = ran.reasons(EventKind::Restart);
    assert!(
        why.contains("stopped without saving") && why.contains("signal 9"),
        "{why}"
    );
    // It never saved, so it starts over, and this is reported.
    assert!(
        ran.stderr.contains("continues from an older checkpoint"),
        "{}",
        ran.stderr
    );
    assert_eq!(case.steps("a").last(), Some(&40));
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_told_and_the_old_one_counts() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 60)]);
    case.save = "[ -e a.step ] && { echo 'cannot write a.step: no space' >&2; exit 3; }";
    let script = [
        decision(1, &[("a", 1)]),
        "sleep 0.8".to_owned(),
        decision(2, &[("a", 2)]),
        "sleep 1.5".to_owned(),
        decision(3, &[("a", 3)]),
        "cat > heard".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(case.sizes("a"), "1 2 3");
    let why = ran.reasons(EventKind::Restart);
    assert!(why.contains("no space"), "{why}");
    let saved: u32 = case.corner.log("a.step").trim().parse().unwrap();
    let steps = case.steps("a");
    assert_eq!(steps.last(), Some(&60));
    // Only the steps since the one checkpoint are repeated.
    assert!(steps.iter().filter(|s| **s <= saved).count() == saved as usize);
}

#[test]
fn an_arrival_during_a_reconfiguration_waits_for_its_end() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 50), ("b", 1.0, 20)]);
    // Saving takes longer than until b is here.
    case.save = "sleep 0.8";
    let script = [
        decision(1, &[("a", 4)]),
        "sleep 0.8".to_owned(),
        decision(2, &[("a", 3)]),
        heard("arrive", "b"),
        decision(3, &[("a", 2), ("b", 2)]),
        "cat > heard".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    // On a slow machine, b may arrive before the first reconfiguration has begun.
    let sizes = case.sizes("a");
    assert!(sizes == "4 3 2" || sizes == "4 2", "{sizes}");
    assert_eq!(case.sizes("b"), "2");
    let of_a = sizes.split(' ').map(|s| ("a", s.parse().unwrap()));
    let starts: Vec<(&str, u32)> = of_a.chain([("b", 2)]).collect();
    assert!(most_held(&ran, &starts) <= 4);
    case.assert_every_step_once("a", 50);
    case.assert_every_step_once("b", 20);
}

#[test]
fn of_decisions_in_a_row_the_newest_counts_and_every_training_steps_between() {
    needs_cgroups!();
    let case = case(&[("a", 0.0, 50)]);
    let script = [
        decision(1, &[("a", 4)]),
        "sleep 0.6".to_owned(),
        decision(2, &[("a", 3)]),
        "sleep 0.15".to_owned(),
        decision(3, &[("a", 2)]),
        decision(4, &[("a", 1)]),
        "cat > heard".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let sizes = case.sizes("a");
    assert!(sizes == "4 3 1" || sizes == "4 1", "{sizes}");
    case.assert_every_step_once("a", 50);
}

#[test]
fn a_training_that_fails_before_it_is_ready_returns_to_the_number_before() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 40)]);
    case.start = "[ $WORLD_SIZE = 3 ] && { echo 'out of memory' >&2; exit 1; }";
    let script = [
        decision(1, &[("a", 2)]),
        "sleep 0.6".to_owned(),
        decision(2, &[("a", 3)]),
        "cat > heard".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(case.sizes("a"), "2 2");
    let why = ran.reasons(EventKind::Restart);
    assert!(
        why.contains("not ready on 3 GPUs") && why.contains("back to 2"),
        "{why}"
    );
    case.assert_every_step_once("a", 40);
}

#[test]
fn who_cannot_be_run_is_refused_and_the_others_train() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 10)]);
    case.refused = "{\"event\":\"arrive\",\"time_s\":0,\"task\":\"x\"}\n\
                    {\"event\":\"arrive\",\"time_s\":0,\"task\":\"a\"}\n\
                    {\"event\":\"done\",\"time_s\":0.1,\"task\":\"y\"}\n";
    let script = format!("{}\ncat > heard", decision(1, &[("a", 1)]));
    let ran = case.run(&script);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for why in [
        "x is refused: the workload has no such task",
        "a is refused: a training of this name is already here",
        "y is not here, so it cannot be taken away",
    ] {
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
}

#[test]
fn ctrl_c_lets_trainings_save_and_leaves_nothing() {
    needs_cgroups!();
    let case = case(&[("a", 0.0, 1000)]);
    // The controller signals the launcher, its parent.
    let script = format!(
        "{}\nsleep 1; kill -INT $PPID; cat > heard",
        decision(1, &[("a", 2)])
    );
    let ran = case.run(&script);
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(!case.corner.log("a.step").is_empty());
    assert_eq!(ran.summary().ok, Some(false));
}

#[test]
fn a_controller_that_cannot_be_started_is_an_error_before_anything_runs() {
    let case = case(&[("a", 0.0, 10)]);
    case.run("exit 0");
    let mut command = case.corner.command(&[]);
    command.args(["--controller", "/nowhere/controller"]);
    let ran = ran(command.output().unwrap());
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("cannot start"), "{}", ran.stderr);
    assert!(ran.events.is_empty());
    case.corner.nothing_is_left();
}

#[test]
fn a_controller_that_fails_before_it_decides_ends_the_launch() {
    needs_cgroups!();
    let case = case(&[("a", 0.0, 1000)]);
    let ran = case.run("echo 'usage: controller --gpus N' >&2; exit 2");
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    let told = "the controller has failed before its first decision (exit status: 2)";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert!(ran.stderr.contains("usage: controller --gpus N"));
    assert!(case.steps("a").is_empty());
}

#[test]
fn an_option_behind_the_controller_is_refused() {
    let case = case(&[("a", 0.0, 1)]);
    fs::write(case.corner.path("plan.json"), "").unwrap();
    for option in ["--parts", "--progress-every=1", "-o"] {
        let mut command = case
            .corner
            .command(&["--controller", "mt-elastic", "--gpus", "2"]);
        let ran = ran(command.args([option, "3"]).output().unwrap());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        let told = format!("{option} comes after --controller");
        assert!(ran.stderr.contains(&told), "{}", ran.stderr);
    }
}

#[test]
fn a_script_without_the_protocol_is_done_when_it_ends_with_0() {
    needs_cgroups!();
    for (script, code) in [("sleep 0.2; exit 0", 0), ("sleep 0.2; exit 4", 1)] {
        let corner = Corner::new();
        let workload = format!(
            r#"{{"schema":"mt.workload/1","device":{{"kind":"cpu","gpus":2}},"tasks":[{{"id":"a",
            "batch_sizes":[10],"job":{{"argv":["sh","-c","{script}"],"env":{{"CORNER":"{}"}}}}}}]}}"#,
            corner.mark()
        );
        fs::write(corner.path("plan.json"), workload).unwrap();
        let arrival = r#"{"event":"arrive","time_s":0,"task":"a","total_steps":5}"#;
        fs::write(corner.path("arrivals"), arrival).unwrap();
        let mut command = corner.command(&["--restarts", "1", "--backoff", "0.1"]);
        command.args(["--arrivals", "arrivals", "--controller", "sh", "-c"]);
        command.arg(format!("{}; cat >/dev/null", decision(1, &[("a", 2)])));
        let ran = ran(command.output().unwrap());
        assert_eq!(ran.code, Some(code), "{script}: {}", ran.stderr);
        let restarts = ran.reasons(EventKind::Restart);
        assert_eq!(restarts.is_empty(), code == 0, "{script}: {restarts}");
        corner.nothing_is_left();
    }
}

#[test]
fn arrivals_that_cannot_be_run_are_told_five_times_and_counted() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 5)]);
    let line = r#"{"event":"arrive","time_s":0,"task":"x"}"#;
    let lines = [line; 200].join("\n");
    case.refused = &lines;
    let ran = case.run(&format!("{}; cat >/dev/null", decision(1, &[("a", 1)])));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(
        ran.stderr.matches("x is refused").count(),
        5,
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("200 lines of the arrivals were refused")
    );
}

/// Processes that a controller starts, in a separate session, with a separate environment, or both.
const STARTS: &str = "setsid sleep 271828 & env -i setsid sleep 271828 & (setsid sleep 271828 &) &";

fn sleepers() -> usize {
    let is_one = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == b"sleep\x00271828\0"
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(is_one).count()
}

#[test]
fn what_a_controller_starts_ends_with_the_launch() {
    needs_cgroups!();
    let case = case(&[("a", 0.0, 10)]);
    let script = [
        STARTS.to_owned(),
        decision(1, &[("a", 1)]),
        "cat >/dev/null".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(sleepers(), 0);
    // When killed, it cannot clean up.
    let script = [
        STARTS.to_owned(),
        "sleep 0.5; kill -9 $PPID; sleep 100".to_owned(),
    ];
    let output = case.command(&script.join("\n")).output().unwrap();
    assert_eq!(output.status.code(), None);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while sleepers() > 0 || !case.corner.run_dirs().is_empty() {
        assert!(std::time::Instant::now() < deadline, "{} left", sleepers());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_training_of_long_steps_is_given_the_time_to_save() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 6)]);
    // A step that takes longer than the grace period: the shell notices SIGTERM when its `sleep` has ended.
    case.start = "sleep() { (trap '' TERM; exec sleep 1); }";
    case.arguments = &["--grace", "0.3"];
    let script = [
        decision(1, &[("a", 1)]),
        "sleep 2.2".to_owned(),
        decision(2, &[("a", 2)]),
    ];
    let ran = case.run(&format!("{}; cat >/dev/null", script.join("\n")));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(case.sizes("a"), "1 2");
    assert_eq!(ran.reasons(EventKind::Restart), "");
    case.assert_every_step_once("a", 6);
}

/// A GPU of a training is lost: it continues on the remaining ones, and gets the GPU back when it is found. Unsaved
/// steps are repeated.
#[test]
fn a_training_goes_on_without_a_lost_gpu_and_with_a_found_one() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 100)]);
    case.refused = r#"{"event":"lost","time_s":1.2,"gpu":3}
{"event":"found","time_s":2.2,"gpu":3}"#;
    let script = [
        decision(1, &[("a", 4)]),
        heard("lost", "x"),
        "cat > heard".to_owned(),
    ];
    // The controller makes no decision about the loss: the training keeps the remaining three.
    let script = script.join("\n").replace("*'\"x\"'*", "*").replace(
        "cat > heard",
        &[
            heard("found", "x").replace("*'\"x\"'*", "*"),
            decision(2, &[("a", 4)]),
            "cat > heard".to_owned(),
        ]
        .join("\n"),
    );
    let ran = case.run(&script);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(case.sizes("a"), "4 3 4", "{}", ran.stderr);
    let mut steps = case.steps("a");
    steps.sort_unstable();
    steps.dedup();
    assert_eq!(steps, (1..=100).collect::<Vec<_>>());
    let faults = ran.events.iter().filter(|e| e.event == EventKind::Fault);
    assert_eq!(faults.count(), 2);
}
