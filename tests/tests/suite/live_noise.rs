//! The complete path of a noise scale: mt-worker reports norms, mt-profile computes a noise scale from them, mt-fit
//! writes it into the model as `measured`, and the plan is one for progress.

#![expect(
    clippy::unwrap_used,
    reason = "what the tools write is valid or the test fails"
)]

use std::fs;

use mt_tests::Folder;
use serde_json::Value;

/// Two trainings that are far from their end, so that the gradient exceeds its noise: one whose single thread halves
/// its batches, and one whose parts are those of two threads.
const WORKLOAD: &str = r#"{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
    {"id":"halves","batch_sizes":[16,64],"samples":60000,"rounds_to_target":5,
     "job":{"argv":["mt-worker","--threads","1","--width","64","--depth","2","--learning-rate","1e-5"],"pool":true}},
    {"id":"threads","batch_sizes":[16,64],"samples":60000,"rounds_to_target":5,
     "job":{"argv":["mt-worker","--threads","2","--width","64","--depth","2","--learning-rate","1e-5"],"pool":true}}]}"#;

fn json(folder: &Folder, name: &str) -> Value {
    let text = fs::read_to_string(folder.path().join(name)).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn norms_of_a_worker_become_a_plan_for_progress() {
    let folder = Folder::new();
    fs::write(folder.path().join("w"), WORKLOAD).unwrap();
    let ran =
        folder.run("mt-profile w --budget 8 --share-step 25 --window 0.4 --max-window 0.5 -o p");
    if ran.code == Some(3) {
        testkit::skipped("cgroups", ran.stderr);
        return;
    }
    ran.assert_code(0);
    folder
        .run("set -e; mt-fit -q p -o m; mt-solve --step 25 m -o s; mt-check p m s")
        .assert_code(0);
    let scales: Vec<f64> = json(&folder, "p")["noise_scales"]
        .clone()
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["noise_scale"].as_f64().unwrap())
        .collect();
    // The same network on the same data, measured in two ways.
    let [halves, threads] = scales[..] else {
        panic!("{scales:?}");
    };
    assert!((halves / threads).ln().abs() < 2.0_f64.ln(), "{scales:?}");
    let model = json(&folder, "m");
    for (k, scale) in scales.iter().enumerate() {
        let learnt = &model["workload"]["tasks"][k]["efficiency"];
        assert_eq!(learnt["source"], "measured");
        assert_eq!(learnt["noise_scale"].as_f64(), Some(*scale));
    }
    let plan = json(&folder, "s");
    assert_eq!(plan["objective"]["kind"], "progress", "{plan}");
}
