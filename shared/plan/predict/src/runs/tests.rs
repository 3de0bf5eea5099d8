use doc::{Any, AnyDocuments, Frames};
use proptest::prelude::*;

use super::*;

const LAUNCH: &str = r#"{"schema":"mt.run/1","event":"launch","time_s":0,"device":{"kind":"cpu","name":"two cores","simulated":false},"plan":{"schema":"mt.plan/1","tasks":[{"id":"a","batch":10,"share_percent":60,"samples":9000},{"id":"b","batch":10,"share_percent":40,"samples":9000}],"workload":{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[{"id":"a","batch_sizes":[10],"job":{"argv":["true"]}},{"id":"b","batch_sizes":[10],"job":{"argv":["true"]}}]}}}"#;

fn events(lines: &[String]) -> Vec<RunEvent> {
    let text = format!("{LAUNCH}\n{}", lines.join("\n"));
    let mut all = AnyDocuments::new(Frames::new(text.as_bytes(), "test"));
    match all.next().unwrap().unwrap() {
        Any::Run(events) => events,
        other => panic!("{other:?}"),
    }
}

fn event(kind: &str, time: f64, task: &str, more: &str) -> String {
    format!(
        r#"{{"schema":"mt.run/1","event":"{kind}","time_s":{time},"round":0,"task":"{task}"{more}}}"#
    )
}

fn start(time: f64, task: &str, share: u32) -> String {
    event(
        "start",
        time,
        task,
        &format!(r#","pid":1,"batch":10,"share_percent":{share}"#),
    )
}

fn progress(time: f64, task: &str, samples: u64, seconds: f64) -> String {
    event(
        "progress",
        time,
        task,
        &format!(r#","samples":{samples},"seconds":{seconds}"#),
    )
}

/// `a` trains at 200/s and `b` at 100/s together for 4 s; then `b` trains alone on the whole device
/// at 300/s.
fn run() -> Vec<String> {
    let mut all = vec![
        start(0.0, "a", 60),
        start(0.0, "b", 40),
        event("ready", 1.0, "a", ""),
        // Alone for 2 s while `b` starts: not steady.
        progress(2.9, "a", 4980, 1.9),
        event("ready", 3.0, "b", ""),
        progress(3.0001, "a", 5010, 2.0001),
    ];
    for k in 1..=4_u64 {
        let at = 3.0001 + k as f64;
        all.push(progress(at, "a", 5010 + 200 * k, 2.0001 + k as f64));
        all.push(progress(at, "b", 100 * k, k as f64));
    }
    all.extend([
        event("exit", 7.1, "a", r#","code":0"#),
        event(
            "reshare",
            7.1,
            "b",
            r#","share_percent":100,"reason":"ended: a""#,
        ),
        // Begins before the new share: not counted.
        progress(7.5, "b", 550, 4.4),
        progress(9.5, "b", 1150, 6.4),
        event("exit", 9.6, "b", r#","code":0"#),
    ]);
    all
}

/// Name, share and rate of each task, and the error of the first.
type Seen = (Vec<(String, f64, f64)>, Option<f64>);

fn found(events: &[RunEvent]) -> Vec<Seen> {
    let samples = samples(events).unwrap();
    let task = |m: &Measured| (m.id.to_string(), m.share.percent(), m.throughput.get());
    samples
        .iter()
        .map(|s| {
            let tasks = s.tasks.iter().map(task).collect();
            (tasks, s.tasks[0].stderr.map(SamplesPerSec::get))
        })
        .collect()
}

#[test]
fn steady_stretches_are_measurements() {
    let found = found(&events(&run()));
    assert_eq!(found.len(), 2, "{found:?}");
    let rates: Vec<f64> = found
        .iter()
        .flat_map(|(t, _)| t.iter().map(|t| t.2))
        .collect();
    for (rate, wanted) in rates.iter().zip([200.0, 100.0, 300.0]) {
        assert!((rate - wanted).abs() < 0.1, "{found:?}");
    }
    assert_eq!(found[0].0[1].1, 40.0);
    assert_eq!(found[1].0, [("b".to_owned(), 100.0, 300.0)]);
    // Four intervals at one rate; one interval.
    assert!(found[0].1.unwrap() < 0.1 && found[1].1.is_none());
}

#[test]
fn what_is_short_or_says_no_time_is_no_measurement() {
    let short: Vec<String> = run().into_iter().filter(|l| !l.contains("9.5")).collect();
    assert_eq!(found(&events(&short)).len(), 1);
    let silent: Vec<String> = run()
        .iter()
        .map(|l| {
            let cut = l.find(",\"seconds\"");
            cut.map_or(l.clone(), |at| format!("{}}}", &l[..at]))
        })
        .collect();
    assert_eq!(samples(&events(&silent)), Err(RunError::Nothing));
}

#[test]
fn a_process_that_was_started_again_counts_from_its_first_progress() {
    let mut again = run();
    // The stretch of `b` alone belongs to a second process.
    let at = again.iter().position(|l| l.contains("reshare")).unwrap();
    again.splice(
        at..,
        [
            event("exit", 7.2, "b", r#","code":1"#),
            start(7.3, "b", 100),
            event("ready", 7.4, "b", ""),
            progress(8.4, "b", 900, 5.0),
            progress(10.4, "b", 1500, 7.0),
            event("exit", 10.5, "b", r#","code":0"#),
        ],
    );
    let found = found(&events(&again));
    assert_eq!(found[1].0, [("b".to_owned(), 100.0, 300.0)]);
}

#[test]
fn a_run_joins_the_profile_of_its_device_and_tasks() {
    let events = events(&run());
    let mut whole = profile(&events).unwrap();
    assert_eq!(whole.header.workload.tasks.len(), 2);
    assert_eq!(join(&mut whole, &events), Ok(2));
    let configs: Vec<u64> = whole.samples.iter().map(|s| s.config).collect();
    assert_eq!(configs, [0, 1, 2, 3]);
    let mut other = whole.clone();
    "four cores".clone_into(&mut other.header.device.name);
    let refused = join(&mut other, &events).unwrap_err();
    assert!(matches!(refused, RunError::OtherDevice { .. }), "{refused}");
    let mut other = whole;
    other.header.workload.tasks.remove(1);
    let refused = join(&mut other, &events).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the run has the task b, which the profile before it does not have; it has a"
    );
    assert_eq!(other.samples.len(), 4);
}

proptest! {
    /// All rates are recovered, however often progress is reported.
    #[test]
    fn rates_are_found_again(
        rates in (50.0..2000.0_f64, 50.0..2000.0_f64),
        every in 0.3..2.0_f64,
    ) {
        let mut lines = vec![start(0.0, "a", 60), start(0.0, "b", 40)];
        lines.push(event("ready", 1.0, "a", ""));
        lines.push(event("ready", 1.0, "b", ""));
        for k in 1..=(12.0 / every) as u32 {
            let t = every * f64::from(k);
            for (task, rate) in [("a", rates.0), ("b", rates.1)] {
                lines.push(progress(1.0 + t, task, (rate * t).round() as u64, t));
            }
        }
        lines.push(event("exit", 30.0, "a", r#","code":0"#));
        let samples = samples(&events(&lines)).unwrap();
        prop_assert_eq!(samples.len(), 1);
        for (m, rate) in samples[0].tasks.iter().zip([rates.0, rates.1]) {
            prop_assert!((m.throughput.get() / rate - 1.0).abs() < 0.01, "{m:?} {rate}");
        }
    }
}
