//! The elastic training with real PyTorch: gloo on the processors, moved by mt-launch. Skipped if `$PYTHON` (or
//! /usr/bin/python3) cannot import torch.

use std::fs;
use std::process::Command;

use mt_tests::{Folder, example};
use serde_json::Value;

/// A Python that imports torch, or why the test is skipped.
fn python() -> Result<String, String> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "/usr/bin/python3".to_owned());
    let found = Command::new(&python).args(["-c", "import torch"]).output();
    match found.is_ok_and(|f| f.status.success()) {
        true => Ok(python),
        false => Err(format!(
            "{python} cannot import torch; name another by PYTHON"
        )),
    }
}

fn task(python: &str, id: &str, model: &str) -> Value {
    let script = example("elastic/train.py");
    let checkpoint = format!("{id}.ckpt");
    serde_json::json!({"id": id, "batch_sizes": [512], "job": {"pool": true, "argv": [
        python, script, "--model", model, "--width", "4", "--batches", "{batches}",
        "--checkpoint", checkpoint
    ]}})
}

fn workload(folder: &Folder, gpus: u32, tasks: &[Value]) {
    let device = serde_json::json!({"kind": "cpu", "gpus": gpus});
    let workload = serde_json::json!({"schema": "mt.workload/1", "device": device, "tasks": tasks});
    fs::write(folder.path().join("workload"), workload.to_string())
        .expect("the workload is written");
}

fn lines(text: &str, kind: &str) -> Vec<Value> {
    let parsed = text
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok());
    parsed.filter(|v| v["mt"] == kind).collect()
}

/// Number and loss of every step.
fn steps(text: &str) -> Vec<(u64, f64)> {
    let pair = |v: &Value| v["step"].as_u64().zip(v["loss"].as_f64());
    let pairs = lines(text, "step").iter().map(pair).collect();
    Option::expect(pairs, "every step has its number and its loss")
}

fn log(folder: &Folder, task: &str) -> String {
    fs::read_to_string(folder.path().join(format!("logs/{task}.log")))
        .expect("the log of the training")
}

fn assert_every_step_once(steps: &[(u64, f64)]) {
    let numbers: Vec<u64> = steps.iter().map(|s| s.0).collect();
    let wrong = (1..).zip(&numbers).find(|(n, found)| n != *found);
    assert!(wrong.is_none(), "(wanted, told): {wrong:?} in {numbers:?}");
}

#[test]
fn one_two_three_and_one_processes_lose_no_step_and_learn_the_same() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return testkit::skipped("torch", why),
    };
    for model in ["vgg", "resnet"] {
        let folder = Folder::new();
        workload(&folder, 3, &[task(&python, "a", model)]);
        let arrival = r#"{"event":"arrive","time_s":0,"task":"a"}"#;
        fs::write(folder.path().join("arrivals"), arrival).unwrap();
        let moves = example("elastic/moves.sh");
        folder
            .run(&format!(
                "mt-launch --progress-every 0.1 --runs runs --logs logs --arrivals arrivals -o run \
                 workload --controller sh {moves} 2"
            ))
            .assert_code(0);
        let log = log(&folder, "a");
        let batches: Vec<String> = lines(&log, "ready")
            .iter()
            .map(|ready| ready["batches"].to_string())
            .collect();
        assert_eq!(batches, ["[512]", "[256,256]", "[171,171,170]", "[512]"]);
        let moved = steps(&log);
        assert_every_step_once(&moved);
        // Alone, on one process.
        let script = example("elastic/train.py");
        let count = moved.len();
        let alone = folder.run(&format!(
            "{python} {script} --model {model} --width 4 --batch 512 --steps {count}"
        ));
        alone.assert_code(0);
        let alone = steps(&alone.stdout);
        let first_change = lines(&log, "parked")[0]["step"].as_u64().unwrap() as usize;
        assert_eq!(moved[..first_change], alone[..first_change], "{model}");
        for (there, here) in moved.iter().zip(&alone) {
            // Sums in another order, whose rounding affects later steps.
            assert!(
                (there.1 - here.1).abs() < 0.02 * here.1,
                "{there:?} {here:?}"
            );
        }
        folder.run("mt-check run").assert_code(0);
    }
}

#[test]
fn two_models_under_the_allocator_train_to_their_ends() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return testkit::skipped("torch", why),
    };
    let folder = Folder::new();
    let tasks = [
        task(&python, "older", "resnet"),
        task(&python, "younger", "vgg"),
    ];
    workload(&folder, 4, &tasks);
    let arrivals = r#"{"event":"arrive","time_s":0,"task":"older","total_steps":24}
{"event":"arrive","time_s":6,"task":"younger","total_steps":16}
"#;
    fs::write(folder.path().join("arrivals"), arrivals).unwrap();
    folder
        .run(
            "mt-launch --progress-every 0.1 --runs runs --logs logs --arrivals arrivals -o run \
             workload --controller mt-elastic --gpus 4 --pause 1",
        )
        .assert_code(0);
    for (name, count) in [("older", 24), ("younger", 16)] {
        let steps = steps(&log(&folder, name));
        assert_every_step_once(&steps);
        assert_eq!(steps.len(), count, "{name}");
    }
    // The younger arrived while the older trained, which gave up GPUs for it.
    assert!(lines(&log(&folder, "older"), "ready").len() >= 2);
    folder.run("mt-check run").assert_code(0);
}
