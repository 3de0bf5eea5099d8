//! Plans that are not in the order of their workload, or leave out one of its tasks, with `--adapt`: measurements are
//! attributed to the right task, and no other is started.

use std::collections::BTreeSet;
use std::fs;

use doc::{Any, AnyDocuments, EventPayload, Frames, RunEvent, TaskSummary};
use mt_tests::{Folder, Ran};
use serde_json::Value;

/// Three tasks whose throughputs are so different that each is recognised by its own.
const WORKLOAD: &str = r#"{"schema":"mt.workload/1","device":{"kind":"sim"},"tasks":[
    {"id":"a","model":"alexnet","batch_sizes":[64],"samples":30000},
    {"id":"b","model":"vgg16","batch_sizes":[32],"samples":9000},
    {"id":"c","model":"mobilenet_v3_large","batch_sizes":[64],"samples":12000}]}"#;
/// Factor by which the model of `b` is made too slow.
const WRONG: f64 = 2.0;

fn samples(task: &str) -> u64 {
    match task {
        "a" => 30_000,
        "b" => 9_000,
        _ => 12_000,
    }
}

/// A folder with a plan `s` by a model that is wrong about task `b`.
fn planned() -> Folder {
    let folder = Folder::new();
    fs::write(folder.path().join("w"), WORKLOAD).unwrap();
    let fit =
        "mt-profile w --design random --budget 8 -o p && mt-fit -q --method structured p -o m";
    folder.run(fit).assert_code(0);
    edit(&folder, "m", "wrong", |model| {
        // Measured co-runs would contradict it.
        model.as_object_mut().unwrap().remove("measured");
        let task = &mut model["predictor"]["tasks"][1];
        for solo in task["solo"].as_array_mut().unwrap() {
            scale(&mut solo["step_s"]);
        }
        scale(&mut task["solo_slope_s"]);
        scale(&mut task["law"]["fixed_s"]);
        scale(&mut task["law"]["per_sample_s"]);
    });
    let solve = "mt-solve --objective fairness --step 20 --outside wrong -o s && mt-check s";
    folder.run(solve).assert_code(0);
    folder
}

fn scale(seconds: &mut Value) {
    *seconds = Value::from(seconds.as_f64().unwrap() * WRONG);
}

/// Writes the document of a file to another, altered.
fn edit(folder: &Folder, from: &str, to: &str, alter: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(folder.path().join(from)).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    alter(&mut document);
    fs::write(folder.path().join(to), document.to_string() + "\n").unwrap();
}

/// Three rounds with `--adapt` of a plan or timeline; mt-check accepts every run.
fn adapted(folder: &Folder, options: &str, file: &str) -> (Ran, Vec<RunEvent>) {
    let line = format!("mt-launch --rounds 3 --adapt --damping 0 {options} {file} --force -o r");
    let ran = folder.run(&line);
    ran.assert_code(0);
    folder.run("mt-check r").assert_code(0);
    let bytes = fs::read(folder.path().join("r")).unwrap();
    match AnyDocuments::new(Frames::new(&bytes[..], "r")).next() {
        Some(Ok(Any::Run(events))) => (ran, events),
        other => panic!("{other:?}"),
    }
}

fn rounds(events: &[RunEvent]) -> Vec<&[TaskSummary]> {
    let of = |e: &RunEvent| matches!(e.payload, EventPayload::Round { .. });
    let tasks = events.iter().filter(|e| of(e)).map(|e| match &e.payload {
        EventPayload::Round { tasks, .. } => &tasks[..],
        _ => &[],
    });
    tasks.collect()
}

/// Predicted over measured throughput.
fn factor(task: &TaskSummary) -> f64 {
    task.predicted.unwrap().get() / task.rate.unwrap().get()
}

#[test]
fn in_whatever_order_samples_are_booked_to_the_task_that_trained_on_them() {
    let folder = planned();
    edit(&folder, "s", "turned", |plan| {
        plan["tasks"].as_array_mut().unwrap().reverse();
    });
    folder
        .run("mt-check turned && mt-overlap turned -o t")
        .assert_code(0);
    for file in ["turned", "t"] {
        let (_, events) = adapted(&folder, "", file);
        let rounds = rounds(&events);
        assert_eq!(rounds.len(), 3);
        for task in rounds.iter().copied().flatten() {
            assert_eq!(task.samples, samples(task.id.as_str()), "{task:?}");
        }
        // The model was wrong about one task, and is right about all after its correction.
        let of_b = rounds[0].iter().find(|t| t.id.as_str() == "b").unwrap();
        assert!(factor(of_b) < 0.7, "{file}: {of_b:?}");
        for task in rounds[2] {
            let off = (factor(task) - 1.0).abs();
            assert!(off < 0.1, "{file}: {task:?}, off by {off}");
        }
    }
}

#[test]
fn a_task_that_the_plan_leaves_out_is_never_started() {
    let folder = planned();
    let by_hand = |plan: &mut Value, out: &str| {
        let tasks = plan["tasks"].as_array().unwrap().clone();
        let kept = tasks.into_iter().filter(|t| t["id"] != out).map(|t| {
            serde_json::json!({"id": t["id"], "batch": t["batch"],
                "share_percent": t["share_percent"], "samples": samples(t["id"].as_str().unwrap())})
        });
        *plan = serde_json::json!({"schema": "mt.plan/1", "model": plan["model"],
            "tasks": kept.rev().collect::<Vec<_>>()});
    };
    for out in ["a", "b", "c"] {
        edit(&folder, "s", "fewer", |plan| by_hand(plan, out));
        let kept: Vec<&str> = ["a", "b", "c"]
            .into_iter()
            .filter(|id| *id != out)
            .collect();
        let only = format!("--only {}", kept.join(","));
        for (options, file) in [("", "fewer"), (only.as_str(), "s")] {
            let (ran, events) = adapted(&folder, options, file);
            assert!(ran.stderr.contains("the plan stays as it is"), "{ran:#?}");
            assert_eq!(rounds(&events).len(), 3);
            let named: BTreeSet<&str> = events
                .iter()
                .filter_map(|e| Some(e.task()?.as_str()))
                .collect();
            assert_eq!(named, kept.iter().copied().collect(), "{options} {file}");
            for task in rounds(&events).into_iter().flatten() {
                assert_eq!(task.samples, samples(task.id.as_str()), "{task:?}");
            }
        }
    }
}
