//! Jobs that fail, stall, vanish or leave something behind.

use std::fs;

use doc::{EventKind, PhaseKind};
use jobs::process::Identity;

use crate::support::{Corner, ENDLESS, GOOD, ScriptedTask, job, needs_cgroups, ran};

#[test]
fn all_goes_well() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(&[job("a", GOOD), job("b", GOOD)], &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.summary().ok, Some(true));
    assert_eq!((ran.samples("a"), ran.samples("b")), (30, 30));
    assert!(
        ran.summary()
            .tasks
            .iter()
            .all(|t| t.finished && t.samples == 30)
    );
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_job_that_exits_at_once_is_restarted_and_given_up() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(&[job("a", "exit 0"), job("b", GOOD)], &["--restarts", "2"]);
    assert_eq!(ran.code, Some(1));
    let restarts: Vec<_> = ran.of(EventKind::Restart);
    assert_eq!(
        restarts
            .iter()
            .filter_map(|e| e.restarts)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert!(
        ran.reasons(EventKind::Stop)
            .contains("ended after 0 of 30 samples")
    );
    assert_eq!(ran.of(EventKind::Start).len(), 4);
    let tasks = &ran.summary().tasks;
    assert!(!tasks[0].finished && tasks[1].finished);
}

#[test]
fn a_job_that_fails_is_told_with_its_last_words() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = "echo CUDA out of memory >&2; exit 17";
    let ran = corner.launch(&[job("a", script)], &["--restarts", "0"]);
    assert_eq!(ran.code, Some(1));
    let exit = ran.first(EventKind::Exit);
    assert_eq!(
        (exit.code, exit.phase),
        (Some(17), Some(PhaseKind::Compute))
    );
    assert!(ran.reasons(EventKind::Stop).contains("CUDA out of memory"));
    assert_eq!(ran.summary().tasks[0].code, Some(17));
}

#[test]
fn a_program_that_does_not_exist() {
    needs_cgroups!();
    let corner = Corner::new();
    corner.plan(&[job("a", GOOD)]);
    let plan = fs::read_to_string(corner.path("plan.json")).unwrap();
    fs::write(
        corner.path("plan.json"),
        plan.replace(r#"["sh""#, r#"["mt-no-such""#),
    )
    .unwrap();
    let output = corner.command(&["--restarts", "1"]).output().unwrap();
    let ran = ran(output);
    corner.nothing_is_left();
    assert_eq!(ran.code, Some(1));
    assert!(ran.reasons(EventKind::Stop).contains("mt-no-such"));
}

#[test]
fn a_transient_fault_is_survived() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("if [ ! -e tried ]; then touch tried; exit 1; fi; {GOOD}");
    let ran = corner.launch(&[job("a", &script)], &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.reasons(EventKind::Restart));
    assert_eq!(ran.summary().tasks[0].restarts, 1);
}

#[test]
fn a_restart_uses_the_jobs_own_checkpoint_command() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job(
        "a",
        r#"echo '{"mt":"step","samples":10}'; sleep 0.1; kill -9 $$"#,
    );
    a.resume = r#"echo '{"mt":"step","samples":20}'; echo '{"mt":"done","samples":30}'"#.to_owned();
    let ran = corner.launch(&[a], &[]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.samples("a"), 30);
    assert!(ran.reasons(EventKind::Restart).contains("signal 9"));
}

#[test]
fn the_pause_before_restarts_doubles() {
    needs_cgroups!();
    let corner = Corner::new();
    let arguments = ["--restarts", "3", "--backoff", "0.2"];
    let ran = corner.launch(&[job("a", "exit 1")], &arguments);
    let starts: Vec<f64> = ran.of(EventKind::Start).iter().map(|e| e.time_s).collect();
    let gaps: Vec<f64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(gaps.len(), 3, "{}", ran.stderr);
    for (gap, least) in gaps.iter().zip([0.2, 0.4, 0.8]) {
        assert!(*gap >= least, "{gaps:?}");
    }
}

#[test]
fn a_job_that_never_gets_ready() {
    needs_cgroups!();
    let corner = Corner::new();
    let arguments = ["--ready-timeout", "0.3", "--restarts", "1"];
    let ran = corner.launch(&[job("a", "sleep 100")], &arguments);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.reasons(EventKind::Stop)
            .contains("not ready after 0.3 s")
    );
    assert_eq!(ran.of(EventKind::Restart).len(), 1);
}

#[test]
fn a_job_that_stalls() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = r#"echo '{"mt":"ready"}'; echo '{"mt":"step","samples":10}'; sleep 100"#;
    let arguments = ["--stall-timeout", "0.3", "--restarts", "0"];
    let ran = corner.launch(&[job("a", script)], &arguments);
    assert_eq!(ran.code, Some(1));
    assert!(ran.reasons(EventKind::Stop).contains("no step for 0.3 s"));
    assert_eq!(ran.samples("a"), 10, "what was trained before is not lost");
}

#[test]
fn a_task_that_takes_too_long_in_all() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(
        &[job("a", ENDLESS), job("b", GOOD)],
        &["--task-timeout", "0.6"],
    );
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.reasons(EventKind::Stop)
            .contains("not done after 0.6 s")
    );
    assert!(ran.of(EventKind::Restart).is_empty());
}

#[test]
fn a_job_that_ignores_sigterm_is_killed_after_the_grace() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("trap '' TERM; {ENDLESS}");
    let arguments = ["--task-timeout", "0.4", "--grace", "0.3"];
    let ran = corner.launch(&[job("a", &script)], &arguments);
    assert_eq!(ran.first(EventKind::Exit).signal, Some(9));
}

#[test]
fn a_job_that_leaves_daemons() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("setsid sleep 300 & sleep 300 & {GOOD}");
    let ran = corner.launch(&[job("a", &script)], &[]);
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.reasons(EventKind::Exit)
            .contains("2 processes that it left were killed")
    );
}

#[test]
fn a_download_that_fails_keeps_its_turn_and_is_tried_again() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job("a", GOOD);
    let script = "if [ ! -e tried ]; then touch tried; exit 1; fi";
    a.download = ["sh", "-c", script].map(str::to_owned).to_vec();
    let mut b = job("b", GOOD);
    b.download = vec!["true".to_owned()];
    let ran = corner.launch(&[a, b], &[]);
    assert_eq!(ran.code, Some(0));
    let (first, second) = (
        ran.phase("a", PhaseKind::Download),
        ran.phase("b", PhaseKind::Download),
    );
    assert!(first.1 <= second.0, "{first:?} {second:?}");
    assert_eq!(ran.of(EventKind::Restart).len(), 1);
}

#[test]
fn an_upload_that_fails_fails_its_task_alone() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut a = job("a", GOOD);
    a.upload = vec!["false".to_owned()];
    let mut b = job("b", GOOD);
    b.upload = vec!["true".to_owned()];
    let ran = corner.launch(&[a, b], &["--restarts", "1"]);
    assert_eq!(ran.code, Some(1));
    let finished: Vec<bool> = ran.summary().tasks.iter().map(|t| t.finished).collect();
    assert_eq!(finished, [false, true]);
}

#[test]
fn shares_go_at_once_to_those_that_compute() {
    needs_cgroups!();
    let corner = Corner::new();
    let mut late = job("a", GOOD);
    late.download = vec!["sleep".to_owned(), "0.3".to_owned()];
    let script = format!("echo '{{\"mt\":\"ready\"}}'; sleep 0.8; {GOOD}");
    let ran = corner.launch(&[job("b", &script), late], &[]);
    let shares: Vec<_> = ran
        .of(EventKind::Reshare)
        .iter()
        .map(|e| {
            (
                e.task.clone().unwrap(),
                e.share_percent.unwrap(),
                e.reason.clone().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("b", 40.0, "begun: b"),
        ("b", 20.0, "begun: a"),
        ("b", 40.0, "ended: a"),
    ];
    assert_eq!(
        shares,
        expected.map(|(t, s, r)| (t.to_owned(), s, r.to_owned()))
    );
    let script = format!("echo '{{\"mt\":\"ready\"}}'; sleep 0.6; {GOOD}");
    let jobs = || [job("a", GOOD), job("b", &script)];
    let ran = corner.launch(&jobs(), &[]);
    let reshare = ran.first(EventKind::Reshare);
    assert_eq!(
        (reshare.task.as_deref(), reshare.share_percent),
        (Some("b"), Some(40.0))
    );
    let ran = corner.launch(&jobs(), &["--keep-shares"]);
    assert!(ran.of(EventKind::Reshare).is_empty());
}

#[test]
fn every_round_is_accounted_for() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("test $MT_ROUND != 1 || exit 1; {GOOD}");
    let arguments = ["--rounds", "3", "--restarts", "0"];
    let ran = corner.launch(&[job("a", &script)], &arguments);
    assert_eq!(ran.code, Some(1));
    let oks: Vec<_> = ran
        .of(EventKind::Round)
        .iter()
        .map(|e| e.ok.unwrap())
        .collect();
    assert_eq!(oks, [true, false, true]);
    assert_eq!(ran.summary().tasks[0].samples, 60);
}

#[test]
fn no_job_can_be_found_by_number_after_its_end() {
    needs_cgroups!();
    let corner = Corner::new();
    let ran = corner.launch(&[job("a", GOOD)], &[]);
    let pid = ran.first(EventKind::Start).pid.unwrap();
    assert!(Identity::of(pid.cast_signed()).is_none_or(|p| !p.is_alive()));
}

#[test]
fn a_job_that_is_done_and_does_not_end_is_done() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("{GOOD}; sleep 600");
    let ran = corner.launch(&[job("a", &script)], &["--stall-timeout", "1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.summary().tasks[0].finished);
    assert_eq!(ran.of(EventKind::Restart).len(), 0);
    assert!(
        ran.reasons(EventKind::Exit)
            .contains("it was done and did not end")
    );
}

#[test]
fn what_sheds_mark_group_and_session_is_found_all_the_same() {
    needs_cgroups!();
    let corner = Corner::new();
    let escape = format!("env -i CORNER='{}' setsid sleep 600 &", corner.mark());
    let mut a = job("a", &format!("{escape}\n{GOOD}"));
    a.download = ["sh", "-c", &escape].map(str::to_owned).to_vec();
    let ran = corner.launch(&[a], &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told = ran.reasons(EventKind::Exit);
    assert!(
        told.contains("processes that it left were killed"),
        "{told}"
    );
}

#[test]
fn jobs_get_what_they_are_kept_and_set_and_what_is_left_out_is_told() {
    needs_cgroups!();
    let corner = Corner::new();
    let script = format!("echo \"seen $SITE_A $SITE_B $WANDB_MODE $CORNER.\"; {GOOD}");
    corner.plan(&[job("a", &script)]);
    let folder = corner.path("logs");
    let logs = folder.to_str().unwrap();
    let mut command = corner.command(&[
        "--logs",
        logs,
        "--keep-env",
        "SITE_*",
        "--env",
        "CORNER=x=y",
    ]);
    command.envs([
        ("SITE_A", "1"),
        ("SITE_B", "2"),
        ("WANDB_MODE", "off"),
        ("MT_SAMPLES", "7"),
    ]);
    let ran = ran(command.output().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(
        ran.samples("a"),
        30,
        "the samples of the plan, not of a launch around"
    );
    let log = corner.log("logs/a.log");
    // `--env` overrides the workload, which has another CORNER.
    assert!(log.contains("seen 1 2  x=y."), "{log}");
    assert!(
        ran.stderr
            .contains("not passed on to the jobs: WANDB_MODE; --keep-env"),
        "{}",
        ran.stderr
    );
}

#[test]
fn without_progress_the_exit_status_decides() {
    needs_cgroups!();
    let silent = [job("good", "sleep 0.3"), job("bad", "sleep 0.1; exit 5")];
    let corner = Corner::new();
    let ran = corner.launch(
        &silent,
        &["--no-progress", "--ready-timeout", "0.1", "--restarts", "0"],
    );
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let finished: Vec<bool> = ran.summary().tasks.iter().map(|t| t.finished).collect();
    assert_eq!(finished, [true, false]);
    assert!(ran.reasons(EventKind::Exit).contains("exit code 5"));
    // The same jobs fail if they are required to report samples.
    let ran = corner.launch(&silent[..1], &["--restarts", "0"]);
    assert_eq!(ran.code, Some(1));
    let reasons = ran.reasons(EventKind::Exit);
    assert!(
        reasons.contains("0 of 30 samples (it reported nothing; "),
        "{reasons}"
    );
}

#[test]
fn a_job_that_says_that_it_tells_nothing_is_judged_by_its_exit_status_beside_one_that_tells() {
    needs_cgroups!();
    let silent = |id, script: &str| ScriptedTask {
        silent: true,
        ..job(id, script)
    };
    let jobs = [
        silent("good", "sleep 2"),
        silent("bad", "exit 5"),
        job("told", GOOD),
        job("hangs", "sleep 100"),
    ];
    let corner = Corner::new();
    let ran = corner.launch(&jobs, &["--ready-timeout", "1", "--restarts", "0"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let finished: Vec<bool> = ran.summary().tasks.iter().map(|t| t.finished).collect();
    assert_eq!(finished, [true, false, true, false]);
    let reasons = ran.reasons(EventKind::Exit);
    assert!(
        reasons.contains("not ready after 1 s (it reported nothing; "),
        "{reasons}"
    );
}

#[test]
fn only_some_tasks_are_launched_from_a_round_of_the_servers() {
    needs_cgroups!();
    let corner = Corner::new();
    let jobs = [job("a", GOOD), job("b", GOOD), job("c", GOOD)];
    let ran = corner.launch(&jobs, &["--only", "c,a", "--round", "7"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let started: Vec<_> = ran
        .of(EventKind::Start)
        .iter()
        .map(|e| (e.task.clone(), e.round))
        .collect();
    let named = |id: &str| (Some(id.to_owned()), Some(7));
    assert_eq!(started, [named("a"), named("c")]);
    assert_eq!(ran.summary().tasks.len(), 2);
}
