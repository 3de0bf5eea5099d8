//! Processes that load while their predecessors train.

use doc::EventKind;

use super::{Case, case, decision, heard, most_held};
use crate::support::{Ran, needs_cgroups};

/// A second of imports.
const LOAD: &str = r#"sleep 1; echo '{"mt":"loaded"}'; read order"#;

fn times(ran: &Ran, kind: EventKind) -> Vec<f64> {
    let of = ran.events.iter().filter(|e| e.event == kind);
    of.map(|e| e.time_s).collect()
}

fn moves(case: &Case<'_>, to: u32) -> Ran {
    let script = [
        decision(1, &[("a", 2)]),
        "sleep 2".to_owned(),
        decision(2, &[("a", to)]),
        "cat > heard".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran
}

#[test]
fn a_training_goes_on_while_its_next_processes_load() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 60)]);
    case.load = Some(LOAD);
    let ran = moves(&case, 3);
    assert_eq!(case.sizes("a"), "2 3");
    case.assert_every_step_once("a", 60);
    let (starts, exits) = (times(&ran, EventKind::Start), times(&ran, EventKind::Exit));
    let decided = times(&ran, EventKind::Reshare)[1];
    assert!(exits[0] - decided > 0.9, "{decided}, {exits:?}");
    // Loading would take a second.
    assert!(starts[1] - exits[0] < 0.5, "{starts:?}, {exits:?}");
}

#[test]
fn who_cannot_load_leaves_the_training_as_it_was() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 60)]);
    case.load = Some(
        r#"[ $WORLD_SIZE = 3 ] && { echo 'out of memory' >&2; exit 1; }
           echo '{"mt":"loaded"}'; read order"#,
    );
    let ran = moves(&case, 3);
    assert_eq!(case.sizes("a"), "2");
    case.assert_every_step_once("a", 60);
    let why = ran.reasons(EventKind::Reshare);
    assert!(
        why.contains("not ready on 3 GPUs") && why.contains("stays on 2"),
        "{why}"
    );
}

#[test]
fn who_is_never_loaded_leaves_the_training_as_it_was() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 70)]);
    case.load = Some(
        r#"[ $WORLD_SIZE = 3 ] && exec sleep 100
           echo '{"mt":"loaded"}'; read order"#,
    );
    case.arguments = &["--ready-timeout", "0.8"];
    let ran = moves(&case, 3);
    assert_eq!(case.sizes("a"), "2");
    case.assert_every_step_once("a", 70);
    let why = ran.reasons(EventKind::Reshare);
    assert!(why.contains("not loaded after 0.8 s"), "{why}");
}

#[test]
fn a_program_that_does_not_wait_is_started_once_the_one_before_has_stopped() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 60)]);
    case.load = Some(":");
    let ran = moves(&case, 3);
    assert!(
        ran.stderr.contains("does not wait for `run`"),
        "{}",
        ran.stderr
    );
    assert_eq!(times(&ran, EventKind::Start).len(), 2);
    // What it reported while it should have waited does not count.
    assert_eq!(ran.summary().tasks[0].samples, 600);
}

#[test]
fn a_newcomer_loads_while_the_others_still_have_its_gpus() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 80), ("b", 1.8, 20)]);
    case.load = Some(LOAD);
    let script = [
        decision(1, &[("a", 4)]),
        heard("arrive", "b"),
        decision(2, &[("a", 3), ("b", 1)]),
        "cat > heard".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(
        (case.sizes("a"), case.sizes("b")),
        ("4 3".into(), "1".into())
    );
    case.assert_every_step_once("a", 80);
    case.assert_every_step_once("b", 20);
    let order: Vec<(&str, u32)> = ran
        .events
        .iter()
        .filter(|e| e.event == EventKind::Start)
        .map(|e| match e.task.as_deref() {
            Some("b") => ("b", 1),
            _ => ("a", if e.time_s < 1.0 { 4 } else { 3 }),
        })
        .collect();
    assert!(most_held(&ran, &order) <= 4);
    let (starts, exits) = (times(&ran, EventKind::Start), times(&ran, EventKind::Exit));
    assert!(starts[2] - exits[0] < 0.5, "{starts:?}, {exits:?}");
}

#[test]
fn who_waits_for_gpus_that_are_not_given_up_gets_them_at_the_end() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 60), ("b", 1.0, 10)]);
    case.load = Some(
        r#"[ $MT_TASK$WORLD_SIZE = a3 ] && { sleep 0.3; exit 1; }
           echo '{"mt":"loaded"}'; read order"#,
    );
    let script = [
        decision(1, &[("a", 4)]),
        heard("arrive", "b"),
        decision(2, &[("a", 3), ("b", 1)]),
        heard("done", "a"),
        decision(3, &[("b", 4)]),
        "cat > heard".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!((case.sizes("a"), case.sizes("b")), ("4".into(), "4".into()));
    let why = ran.reasons(EventKind::Reshare);
    assert!(why.contains("its GPUs were not given up"), "{why}");
}

#[test]
fn ctrl_c_while_processes_load_leaves_nothing() {
    needs_cgroups!();
    let mut case = case(&[("a", 0.0, 1000)]);
    case.load = Some(LOAD);
    let script = [
        decision(1, &[("a", 2)]),
        "sleep 2".to_owned(),
        decision(2, &[("a", 3)]),
        "sleep 0.4; kill -INT $PPID; cat > heard".to_owned(),
    ];
    let ran = case.run(&script.join("\n"));
    assert_eq!(ran.code, Some(130), "{}", ran.stderr);
    assert!(!case.corner.log("a.step").is_empty());
    assert_eq!(case.sizes("a"), "2");
}
