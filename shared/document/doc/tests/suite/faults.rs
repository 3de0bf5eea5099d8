//! Every fault of a document is reported, each at its position.

use std::collections::BTreeSet;

use doc::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::generate;

fn faults_of(value: &Value) -> Vec<Fault> {
    let text = value.to_string();
    match AnyDocuments::new(Frames::new(text.as_bytes(), "t")).next() {
        Some(Err(ReadError::Faults(faults))) => faults.faults,
        Some(Ok(_)) => Vec::new(),
        other => panic!("{other:?}"),
    }
}

/// Ways to break the meaning of one task of a workload, with the place and the code.
fn break_task(task: &mut Value, at: usize, how: usize) -> (String, Code) {
    let path = |field: &str| format!("$.tasks[{at}].{field}");
    let (field, value, code) = match how {
        0 => ("id", json!("not a name"), Code::OutOfRange),
        1 => ("samples", json!(0), Code::OutOfRange),
        2 => ("weight", json!(-1.0), Code::OutOfRange),
        3 => ("batch_sizes", json!([]), Code::NothingToDo),
        4 => ("host_us_per_step", json!(-3), Code::OutOfRange),
        _ => ("input_pixels", json!(1), Code::OutOfRange),
    };
    task[field] = value;
    (path(field), code)
}

/// Ways to break the shape of one task of a workload.
fn misshape_task(task: &mut Value, at: usize, how: usize) -> (String, Code) {
    let path = |field: &str| format!("$.tasks[{at}].{field}");
    match how {
        0 => {
            task["wieght"] = json!(1);
            (path("wieght"), Code::UnknownField)
        }
        1 => {
            task["samples"] = json!("many");
            (path("samples"), Code::WrongType)
        }
        _ => {
            task.as_object_mut().unwrap().remove("id");
            (format!("$.tasks[{at}]"), Code::MissingField)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn of_meaning(wire in generate::workload(), picks in prop::collection::vec((0..4_usize, 0..6_usize), 1..6), link in any::<bool>()) {
        let mut value = serde_json::to_value(&wire).unwrap();
        let mut expected = BTreeSet::new();
        for (at, how) in picks {
            let at = at % wire.tasks.len();
            expected.insert(break_task(&mut value["tasks"][at], at, how));
        }
        if link {
            value["link"] = json!({"down_bps": 0, "up_bps": -1});
            expected.insert(("$.link.down_bps".to_owned(), Code::OutOfRange));
            expected.insert(("$.link.up_bps".to_owned(), Code::OutOfRange));
        }
        let found: BTreeSet<_> = faults_of(&value)
            .iter()
            // Two broken tasks may now have the same name, which is a fault of its own.
            .filter(|f| f.code != Code::Duplicate)
            .map(|f| (f.path.clone(), f.code))
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn of_shape(wire in generate::workload(), picks in prop::collection::vec((0..4_usize, 0..3_usize), 1..6)) {
        let mut value = serde_json::to_value(&wire).unwrap();
        let mut expected = BTreeSet::new();
        for (at, how) in picks {
            let at = at % wire.tasks.len();
            expected.insert(misshape_task(&mut value["tasks"][at], at, how));
        }
        let found: BTreeSet<_> = faults_of(&value).into_iter().map(|f| (f.path, f.code)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn each_with_advice(wire in generate::plan(), at in any::<prop::sample::Index>()) {
        let mut value = serde_json::to_value(&wire).unwrap();
        let at = at.index(wire.tasks.len());
        value["tasks"][at]["share_percent"] = json!(101);
        value["tasks"][at]["batch"] = json!(0);
        value["rates"] = json!([{"active": ["nobody"], "samples_per_s": {"nobody": 1}}]);
        let faults = faults_of(&value);
        prop_assert_eq!(faults.len(), 3, "{:?}", faults);
        for fault in faults {
            prop_assert!(!fault.advice.is_empty() && !fault.problem.is_empty());
        }
    }
}

/// A plan is found by a search, infeasible or hand-written, and nothing in between.
#[test]
fn a_plan_is_one_of_three() {
    let plan = |fields: serde_json::Value| {
        let mut plan = json!({"schema": "mt.plan/1", "tasks": [{"id": "a", "batch": 8}]});
        let (all, fields) = (plan.as_object_mut().unwrap(), fields.as_object().unwrap());
        all.extend(fields.clone());
        let faults = faults_of(&plan).into_iter();
        faults.map(|f| (f.code, f.path)).collect::<Vec<_>>()
    };
    let reason = json!([{"constraint": "rv", "limit": 1, "best": 2, "advice": "ask for 2 %"}]);
    let missing = |path: &str| (Code::MissingField, path.to_owned());
    assert_eq!(plan(json!({"rv_percent": 100})), []);
    assert_eq!(
        plan(json!({"objective": {"kind": "raw", "value": 1}})),
        [
            missing("$.rv_percent"),
            missing("$.constraints"),
            missing("$.search"),
            missing("$.tasks[0].share_percent"),
            missing("$.tasks[0].throughput"),
            missing("$.tasks[0].solo_samples_per_s"),
        ]
    );
    assert_eq!(
        plan(json!({"infeasible": reason, "mismatch": 1})),
        [
            (Code::Conflict, "$.tasks".to_owned()),
            (Code::Conflict, "$.mismatch".to_owned()),
        ]
    );
    assert_eq!(
        plan(json!({"tasks": []})),
        [(Code::NothingToDo, "$.tasks".to_owned())]
    );
}

#[test]
fn a_nested_document_has_its_place() {
    let plan = json!({"schema": "mt.plan/1", "tasks": [{"id": "a", "batch": 0}]});
    let timeline = json!({
        "schema": "mt.timeline/1", "rates": "model", "download_order": ["a"],
        "upload_order": ["a"], "phases": [], "makespan_s": -1, "lower_bound_s": 1, "gap": 0,
        "proven": true, "overlap_off_s": 1, "search": {"points": 1, "proof": "bounded"},
        "plan": plan,
    });
    let run = json!({
        "schema": "mt.run/1", "event": "launch", "time_s": 0, "timeline": timeline,
        "device": {"kind": "sim", "name": "x", "simulated": true},
    });
    let faults = faults_of(&run);
    assert_eq!(faults[0].path, "$.timeline.plan.tasks[0].batch");
}

#[test]
fn a_number_in_place_of_a_word_is_no_fault_of_syntax() {
    let mut workload = json!({"schema": "mt.workload/1", "device": {"kind": 5},
        "tasks": [{"id": "a", "batch_sizes": [8], "model": "vgg16"}]});
    let [fault] = &faults_of(&workload)[..] else {
        panic!("one fault");
    };
    assert_eq!(fault.path, "$.device.kind");
    assert_ne!(fault.code, Code::Syntax);
    // Too large for reporting each deviation: the first is reported.
    workload["id"] = json!("x".repeat(3 << 20));
    let [fault] = &faults_of(&workload)[..] else {
        panic!("one fault");
    };
    assert_eq!(
        (fault.code, fault.path.as_str()),
        (Code::WrongType, "$.device.kind")
    );
}

#[test]
fn only_recorded_tasks_need_not_say_what_they_train() {
    let workload = |kind: &str| {
        json!({"schema": "mt.workload/1", "device": {"kind": kind},
               "tasks": [{"id": "a", "batch_sizes": [8]}]})
    };
    assert_eq!(faults_of(&workload("replay")), []);
    for kind in ["auto", "sim", "cpu", "cuda"] {
        let [fault] = &faults_of(&workload(kind))[..] else {
            panic!("{kind}");
        };
        assert_eq!(
            (fault.code, fault.path.as_str()),
            (Code::MissingField, "$.tasks[0]")
        );
    }
}

#[test]
fn every_code_can_be_looked_up() {
    let page = error_reference();
    for &code in Code::ALL {
        assert_eq!(Code::from_number(code.number()), Some(code));
        assert!(page.contains(&format!("## {code}: {}", code.title())));
    }
    assert_eq!(Code::from_number(0), None);
}

/// One task with an efficiency, and the first fault found in it.
fn efficiency_fault(efficiency: Value, more: Value) -> Option<(String, Code)> {
    let mut task =
        json!({"id":"a","model":"vgg16","batch_sizes":[8,32,128],"efficiency":efficiency});
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    let workload = json!({"schema":"mt.workload/1","tasks":[task]});
    let fault = faults_of(&workload).into_iter().next()?;
    let path = fault.path.replace("$.tasks[0].", "");
    Some((path, fault.code))
}

#[test]
fn of_an_efficiency() {
    let law = || json!({"noise_scale": 120});
    let rows = |rows: &[(u64, f64)]| -> Value {
        let row = |&(batch, rounds): &(u64, f64)| json!({"batch": batch, "rounds": rounds});
        json!({"table": rows.iter().map(row).collect::<Vec<_>>()})
    };
    let around = |first: Value, second: Value| {
        json!({"table": [{"batch": 8, "rounds": 4, "interval": first},
                         {"batch": 64, "rounds": 10, "interval": second}]})
    };
    let none = json!({});
    for (efficiency, more) in [
        (law(), none.clone()),
        (
            json!({"noise_scale": 120, "interval": [60, 240], "source": "measured"}),
            none.clone(),
        ),
        (law(), json!({"batch": 32, "rounds_to_target": 12.5})),
        // Measured on satellite images: 4 rounds, then 3; the rise of 1.33 is noise.
        (rows(&[(8, 4.0), (32, 3.0), (128, 10.0)]), none.clone()),
        (
            json!({"table": [{"batch": 64, "progress": 0.5}, {"batch": 8, "progress": 1}]}),
            none.clone(),
        ),
        (around(json!([3, 6]), json!([10, 10])), none.clone()),
    ] {
        let text = efficiency.to_string();
        assert_eq!(efficiency_fault(efficiency, more), None, "{text}");
    }
    let both = json!({"noise_scale": 120, "table": [{"batch": 8, "rounds": 1}]});
    let mixed = json!({"table": [{"batch": 8, "rounds": 1}, {"batch": 16, "progress": 1}]});
    let unnamed = json!({"table": [{"batch": 8}, {"batch": 16}]});
    for (efficiency, more, path, code) in [
        (
            json!({"noise_scale": 0}),
            none.clone(),
            "efficiency.noise_scale",
            Code::OutOfRange,
        ),
        (
            json!({"noise_scale": -3}),
            none.clone(),
            "efficiency.noise_scale",
            Code::OutOfRange,
        ),
        (
            json!({"noise_scale": 1e12}),
            none.clone(),
            "efficiency.noise_scale",
            Code::OutOfRange,
        ),
        (
            json!({"noise_scale": 5, "interval": [6, 7]}),
            none.clone(),
            "efficiency.interval",
            Code::OutOfRange,
        ),
        (
            json!({"noise_scale": 5, "interval": [0, 7]}),
            none.clone(),
            "efficiency.interval",
            Code::OutOfRange,
        ),
        (
            json!({"interval": [6, 7]}),
            none.clone(),
            "efficiency",
            Code::Conflict,
        ),
        (json!({}), none.clone(), "efficiency", Code::Conflict),
        (both, none.clone(), "efficiency", Code::Conflict),
        (
            rows(&[(8, 1.0)]),
            none.clone(),
            "efficiency.table",
            Code::TooFew,
        ),
        (
            rows(&[(8, 1.0), (16, 2.0), (8, 1.0)]),
            none.clone(),
            "efficiency.table[2]",
            Code::Duplicate,
        ),
        (
            rows(&[(8, 1.0), (16, -2.0)]),
            none.clone(),
            "efficiency.table[1].rounds",
            Code::OutOfRange,
        ),
        (
            rows(&[(0, 1.0), (16, 2.0)]),
            none.clone(),
            "efficiency.table[0].batch",
            Code::OutOfRange,
        ),
        (
            rows(&[(64, 1.0), (8, 4.0)]),
            none.clone(),
            "efficiency.table[0]",
            Code::NotMonotone,
        ),
        (mixed, none.clone(), "efficiency.table[1]", Code::Conflict),
        (
            around(json!([3, 6]), json!([12, 8])),
            none.clone(),
            "efficiency.table[1].interval",
            Code::OutOfRange,
        ),
        (
            around(json!([0, 6]), json!([8, 12])),
            none.clone(),
            "efficiency.table[0].interval",
            Code::OutOfRange,
        ),
        (
            around(json!([5, 6]), json!([8, 12])),
            none.clone(),
            "efficiency.table[0].interval",
            Code::OutOfRange,
        ),
        (
            around(json!([3, 6]), Value::Null),
            none.clone(),
            "efficiency.table[1].interval",
            Code::Conflict,
        ),
        (unnamed, none.clone(), "efficiency.table[0]", Code::Conflict),
        (law(), json!({"batch": 64}), "batch", Code::Conflict),
        (
            law(),
            json!({"rounds_to_target": 0}),
            "rounds_to_target",
            Code::OutOfRange,
        ),
    ] {
        let text = efficiency.to_string();
        let found = efficiency_fault(efficiency, more);
        assert_eq!(found, Some((path.to_owned(), code)), "{text}");
    }
}
