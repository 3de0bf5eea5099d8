//! `mt-launch --adapt` moves the noise scales of a model according to its jobs' reports, and the plan with them. The
//! jobs are real processes, whose norms have a given noise scale.

#![expect(
    clippy::unwrap_used,
    reason = "what the tools write is valid or the test fails"
)]

use std::fs;

use mt_tests::Folder;
use serde_json::Value;

const WORKLOAD: &str = r#"{"schema":"mt.workload/1","device":{"kind":"sim"},"tasks":[
    {"id":"a","model":"resnet18","batch_sizes":[16,64],"samples":320,"rounds_to_target":5,
     "efficiency":{"noise_scale":10}},
    {"id":"b","model":"mobilenet_v3_large","batch_sizes":[16,64],"samples":320,"rounds_to_target":5,
     "efficiency":{"noise_scale":10}}]}"#;

/// Sixteen steps of a job whose gradient has a squared norm of 1 and a variance of `phi`, alternately 2 % more and
/// less.
fn job(phi: Option<u32>) -> String {
    let norms = phi.map_or(String::new(), |phi| {
        let of = |b: u32| format!("$((1000 + {} + k * {}))e-3", 1_000 * phi / b, 20 * phi / b);
        format!(
            r#",\"norms\":{{\"small\":8,\"small_sq\":{},\"large\":16,\"large_sq\":{}}}"#,
            of(8),
            of(16)
        )
    });
    format!(
        r#"echo '{{"mt":"ready"}}'; k=-1; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        echo "{{\"mt\":\"step\",\"samples\":20{norms}}}"; k=$((-k)); sleep 0.05; done; echo '{{"mt":"done"}}'"#
    )
}

/// Two rounds with `--adapt` of a plan for small batches, with jobs that report this noise scale; `None` without
/// control groups.
fn adapted(phi: Option<u32>) -> Option<Vec<Value>> {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("w"), WORKLOAD).unwrap();
    let fit =
        "mt-profile w --design random --budget 8 -o p && mt-fit -q --method structured p -o m";
    folder.run(fit).assert_code(0);
    let mut model: Value = serde_json::from_str(&fs::read_to_string(path("m")).unwrap()).unwrap();
    model["device"] = serde_json::json!({"kind": "cpu", "name": "test", "simulated": false});
    let workload = &mut model["workload"];
    workload["device"] = serde_json::json!({"kind": "cpu"});
    for task in workload["tasks"].as_array_mut().unwrap() {
        task["job"] = serde_json::json!({"argv": ["sh", "-c", job(phi)]});
    }
    fs::write(path("m"), model.to_string() + "\n").unwrap();
    folder
        .run("mt-solve --step 50 --outside m -o s && mt-check s")
        .assert_code(0);
    let plan: Value = serde_json::from_str(&fs::read_to_string(path("s")).unwrap()).unwrap();
    let sizes = |plan: &Value| -> Vec<u64> {
        let tasks = plan["tasks"].as_array().unwrap().iter();
        tasks.map(|t| t["batch"].as_u64().unwrap()).collect()
    };
    assert_eq!(
        sizes(&plan),
        [16, 16],
        "a noise scale of 10 wants small batches"
    );
    let launch = "mt-launch --rounds 2 --adapt --damping 0 --progress-every 0 s -o r";
    let ran = folder.run(launch);
    if ran.code == Some(3) {
        testkit::skipped("cgroups", ran.stderr);
        return None;
    }
    ran.assert_code(0);
    folder.run("mt-check r").assert_code(0);
    let text = fs::read_to_string(path("r")).unwrap();
    Some(
        text.lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect(),
    )
}

fn reasons(events: &[Value]) -> Vec<&str> {
    let replans = events.iter().filter(|e| e["event"] == "replan");
    replans.map(|e| e["reason"].as_str().unwrap()).collect()
}

#[test]
fn norms_that_jobs_tell_move_the_noise_scale_and_the_batch_sizes() {
    let Some(events) = adapted(Some(4_000)) else {
        return;
    };
    let reasons = reasons(&events);
    let [reason] = reasons[..] else {
        panic!("{reasons:?}");
    };
    for task in ["a", "b"] {
        let (moved, size) = (
            format!("{task}: noise scale "),
            format!("{task}: batch 16 to 64"),
        );
        assert!(reason.contains(&size), "{reason}");
        let told = reason.split(&moved).nth(1).expect(reason);
        let (now, rest) = told.split_once(" after ").expect(told);
        let now: f64 = now.parse().unwrap();
        assert!(
            (now / 4_000.0 - 1.0).abs() < 0.1 && rest.starts_with("10.0"),
            "{reason}"
        );
    }
    // The next round starts with them.
    let next = events
        .iter()
        .filter(|e| e["event"] == "start" && e["round"] == 1);
    let sizes: Vec<u64> = next.filter_map(|e| e["batch"].as_u64()).collect();
    assert_eq!(sizes, [64, 64]);
}

#[test]
fn without_norms_the_noise_scales_stay() {
    let Some(events) = adapted(None) else {
        return;
    };
    assert!(reasons(&events).iter().all(|r| !r.contains("noise scale")));
    let starts = events.iter().filter(|e| e["event"] == "start");
    assert!(starts.filter_map(|e| e["batch"].as_u64()).all(|b| b == 16));
}
