use doc::{AnyDocuments, Frames};

use crate::Inspector;

/// Two rounds of two tasks on CPUs; a signal ends the second round before `b` is started.
const INTERRUPTED: &str = r#"
{"schema":"mt.run/1","event":"launch","time_s":0,"device":{"kind":"cpu","name":"two cores","simulated":false}}
{"schema":"mt.run/1","event":"start","time_s":0,"round":0,"task":"a","pid":11}
{"schema":"mt.run/1","event":"start","time_s":0,"round":0,"task":"b","pid":12}
{"schema":"mt.run/1","event":"exit","time_s":1,"round":0,"task":"a","code":0}
{"schema":"mt.run/1","event":"exit","time_s":1,"round":0,"task":"b","code":0}
{"schema":"mt.run/1","event":"round","time_s":1,"round":0,"ok":true,"makespan_s":1,"tasks":[{"id":"a","finished":true,"samples":10,"restarts":0,"code":0},{"id":"b","finished":true,"samples":10,"restarts":0,"code":0}]}
{"schema":"mt.run/1","event":"start","time_s":1,"round":1,"task":"a","pid":13}
{"schema":"mt.run/1","event":"stop","time_s":1.5,"round":1,"reason":"signal 2"}
{"schema":"mt.run/1","event":"exit","time_s":1.5,"round":1,"task":"a","signal":15}
{"schema":"mt.run/1","event":"round","time_s":1.5,"round":1,"ok":false,"makespan_s":0,"tasks":[{"id":"a","finished":false,"samples":4,"restarts":0,"signal":15},{"id":"b","finished":false,"samples":0,"restarts":0}]}
{"schema":"mt.run/1","event":"summary","time_s":1.5,"ok":false,"makespan_s":1.5,"tasks":[{"id":"a","finished":false,"samples":14,"restarts":0,"signal":15},{"id":"b","finished":false,"samples":10,"restarts":0}]}
"#;

/// Paths of the wrong fields in a run.
fn lies(text: &str) -> Vec<String> {
    let documents = AnyDocuments::new(Frames::new(text.as_bytes(), "test"));
    let mut inspector = Inspector::default();
    let verdicts = documents.map(|d| inspector.judge(d.unwrap()));
    verdicts.flat_map(|v| v.lies).map(|lie| lie.path).collect()
}

/// The run with the n-th occurrence of a text replaced.
fn altered(from: &str, nth: usize, to: &str) -> String {
    let (at, _) = INTERRUPTED.match_indices(from).nth(nth).unwrap();
    format!(
        "{}{to}{}",
        &INTERRUPTED[..at],
        &INTERRUPTED[at + from.len()..]
    )
}

#[test]
fn an_interrupted_run_of_several_rounds_is_believed() {
    assert_eq!(lies(INTERRUPTED), [""; 0]);
}

#[test]
fn what_the_events_contradict_is_a_lie() {
    let ok = |nth, value: bool| {
        altered(
            &format!("\"ok\":{}", !value),
            nth,
            &format!("\"ok\":{value}"),
        )
    };
    assert_eq!(lies(&ok(0, false)), ["$.events[5].ok"]);
    // The round claims success although its tasks and the run do not.
    assert_eq!(lies(&ok(0, true)), ["$.events[9].ok"]);
    assert_eq!(lies(&ok(1, true)), ["$.events[10].ok"]);
    let unfinished = altered("\"finished\":true", 0, "\"finished\":false");
    let paths = lies(&unfinished);
    assert!(
        paths.contains(&"$.events[5].tasks[0].finished".to_owned()),
        "{paths:?}"
    );
    let finished = altered("\"finished\":false", 3, "\"finished\":true");
    assert_eq!(lies(&finished), ["$.events[10].tasks[1].finished"]);
}

#[test]
fn the_makespan_of_a_run_is_the_time_of_its_summary() {
    // The altered times are later than those of all earlier events.
    let earlier = altered("\"time_s\":1.5", 3, "\"time_s\":1.6");
    assert_eq!(lies(&earlier), ["$.events[10].makespan_s"]);
}

#[test]
fn a_run_without_processes_is_not_of_a_real_device() {
    let mut text = INTERRUPTED.to_owned();
    for pid in 11..=13 {
        text = text.replace(&format!(",\"pid\":{pid}"), "");
    }
    assert_eq!(lies(&text), ["$.events[0].device.kind"]);
    let simulated = INTERRUPTED.replace("\"kind\":\"cpu\"", "\"kind\":\"sim\"");
    let paths = lies(&simulated);
    assert!(
        paths.contains(&"$.events[0].device.simulated".to_owned()),
        "{paths:?}"
    );
    assert!(paths.contains(&"$.events[1].pid".to_owned()), "{paths:?}");
}

/// Two tasks of a schedule that run one after another on a GPU: the first synchronises while the second
/// trains.
const ONE_GPU: &str = r#"
{"schema":"mt.run/1","event":"launch","time_s":0,"device":{"kind":"cpu","name":"1 part","simulated":false}}
{"schema":"mt.run/1","event":"start","time_s":0,"round":0,"task":"a","gpu":"g","pid":11}
{"schema":"mt.run/1","event":"phase","time_s":1,"round":0,"task":"a","phase":"compute","start_s":0,"end_s":1}
{"schema":"mt.run/1","event":"start","time_s":1,"round":0,"task":"b","gpu":"g","pid":12}
{"schema":"mt.run/1","event":"phase","time_s":1.5,"round":0,"task":"a","phase":"upload","start_s":1,"end_s":1.5}
{"schema":"mt.run/1","event":"exit","time_s":2,"round":0,"task":"b","code":0}
{"schema":"mt.run/1","event":"summary","time_s":2,"ok":true,"makespan_s":2,"tasks":[{"id":"a","finished":true,"samples":0,"restarts":0},{"id":"b","finished":true,"samples":0,"restarts":0,"code":0}]}
"#;

#[test]
fn a_gpu_trains_one_task_at_a_time() {
    assert_eq!(lies(ONE_GPU), [""; 0]);
    let untrained: String = ONE_GPU
        .lines()
        .filter(|l| !l.contains("compute"))
        .map(|l| format!("{l}\n"))
        .collect();
    let paths = lies(&untrained);
    assert!(paths.contains(&"$.events[2].gpu".to_owned()), "{paths:?}");
    let elsewhere = untrained.replacen("\"gpu\":\"g\"", "\"gpu\":\"h\"", 1);
    assert!(!lies(&elsewhere).contains(&"$.events[2].gpu".to_owned()));
}

/// Two tasks of a plan that train together from 1.5 s to 4 s.
const TRAINED: &str = r#"
{"schema":"mt.run/1","event":"launch","time_s":0,"device":{"kind":"cpu","name":"two cores","simulated":false},"plan":{"schema":"mt.plan/1","tasks":[{"id":"a","batch":10,"share_percent":60},{"id":"b","batch":10,"share_percent":40}]}}
{"schema":"mt.run/1","event":"start","time_s":0,"round":0,"task":"a","batch":10,"share_percent":60,"pid":11}
{"schema":"mt.run/1","event":"start","time_s":0,"round":0,"task":"b","batch":10,"share_percent":40,"pid":12}
{"schema":"mt.run/1","event":"ready","time_s":1,"round":0,"task":"a"}
{"schema":"mt.run/1","event":"ready","time_s":1.5,"round":0,"task":"b"}
{"schema":"mt.run/1","event":"progress","time_s":2,"round":0,"task":"a","samples":400,"seconds":1}
{"schema":"mt.run/1","event":"progress","time_s":4,"round":0,"task":"a","samples":800,"seconds":3}
{"schema":"mt.run/1","event":"progress","time_s":4,"round":0,"task":"b","samples":500,"seconds":2.5}
{"schema":"mt.run/1","event":"exit","time_s":4.1,"round":0,"task":"b","code":0}
{"schema":"mt.run/1","event":"phase","time_s":4.1,"round":0,"task":"b","phase":"compute","start_s":0,"end_s":4.1}
{"schema":"mt.run/1","event":"progress","time_s":5,"round":0,"task":"a","samples":1100,"seconds":4}
{"schema":"mt.run/1","event":"exit","time_s":5,"round":0,"task":"a","code":0}
{"schema":"mt.run/1","event":"phase","time_s":5,"round":0,"task":"a","phase":"compute","start_s":0,"end_s":5}
{"schema":"mt.run/1","event":"round","time_s":5,"round":0,"ok":true,"makespan_s":5,"tasks":[{"id":"a","finished":true,"samples":1100,"batch":10,"share_percent":60,"seconds":4,"together_s":2,"samples_per_s":200,"restarts":0,"code":0},{"id":"b","finished":true,"samples":500,"batch":10,"share_percent":40,"seconds":2.5,"together_s":2.5,"samples_per_s":200,"restarts":0,"code":0}]}
{"schema":"mt.run/1","event":"summary","time_s":5,"ok":true,"makespan_s":5,"tasks":[{"id":"a","finished":true,"samples":1100,"batch":10,"share_percent":60,"seconds":4,"together_s":2,"samples_per_s":200,"restarts":0,"code":0},{"id":"b","finished":true,"samples":500,"batch":10,"share_percent":40,"seconds":2.5,"together_s":2.5,"samples_per_s":200,"restarts":0,"code":0}]}
"#;

#[test]
fn seconds_and_throughput_of_summaries_are_those_of_the_events() {
    assert_eq!(lies(TRAINED), [""; 0]);
    for (from, to, field) in [
        (
            "\"seconds\":4,\"together",
            "\"seconds\":3,\"together",
            "seconds",
        ),
        ("\"together_s\":2,", "\"together_s\":4,", "together_s"),
        (
            "\"samples_per_s\":200",
            "\"samples_per_s\":275",
            "samples_per_s",
        ),
        (
            "\"batch\":10,\"share_percent\":60,\"seconds",
            "\"batch\":20,\"share_percent\":60,\"seconds",
            "batch",
        ),
        (
            "\"share_percent\":60,\"seconds",
            "\"share_percent\":100,\"seconds",
            "share_percent",
        ),
        (
            "\"restarts\":0",
            "\"interrupted\":true,\"restarts\":0",
            "interrupted",
        ),
    ] {
        let paths = lies(&TRAINED.replacen(from, to, 1));
        let path = format!("$.events[13].tasks[0].{field}");
        assert!(paths.contains(&path), "{field}: {paths:?}");
    }
}

/// Dropped progress events are counted both in the event that follows them and in the summaries.
#[test]
fn progress_that_is_missing_is_counted() {
    let missing = TRAINED
        .replacen("\"samples\":1100,", "\"samples\":1100,\"dropped\":3,", 1)
        .replace("\"id\":\"a\",", "\"id\":\"a\",\"dropped\":3,")
        .replace(
            "[{\"id\":\"a\",\"dropped\":3,\"batch\"",
            "[{\"id\":\"a\",\"batch\"",
        );
    assert_eq!(lies(&missing), [""; 0]);
    for (from, to, events) in [
        (
            "\"samples\":1100,\"dropped\":3",
            "\"samples\":1100",
            vec![13, 14],
        ),
        (
            "[{\"id\":\"a\",\"dropped\":3",
            "[{\"id\":\"a\",\"dropped\":2",
            vec![13],
        ),
        ("[{\"id\":\"a\",\"dropped\":3", "[{\"id\":\"a\"", vec![13]),
    ] {
        let expected: Vec<String> = events
            .iter()
            .map(|at| format!("$.events[{at}].tasks[0].dropped"))
            .collect();
        assert_eq!(lies(&missing.replacen(from, to, 1)), expected);
    }
}
