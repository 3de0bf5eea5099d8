//! Trainings that are moved while they run: the launcher, the allocator and the built-in worker.

use std::fs;

use doc::{Any, AnyDocuments, EventPayload, Frames};
use mt_tests::Folder;

const WORKLOAD: &str = r#"{"schema":"mt.workload/1","device":{"kind":"cpu","gpus":4},"tasks":[
  {"id":"a","batch_sizes":[64],"job":{"argv":["mt-worker","--width","32","--seed","1",
   "--checkpoint","a.ckpt"]}},
  {"id":"b","batch_sizes":[64],"job":{"argv":["mt-worker","--width","32","--seed","2",
   "--processes","{processes}","--batches","{batches}","--checkpoint","b.ckpt"]}}]}"#;
const ARRIVALS: &str = r#"{"event":"arrive","time_s":0,"task":"a","total_steps":3000}
{"event":"arrive","time_s":1,"task":"b","total_steps":500,"batch_per_gpu":32}
"#;

/// Numbers of the steps in a log.
fn steps(folder: &Folder, task: &str) -> Vec<u64> {
    let log = fs::read_to_string(folder.path().join(format!("logs/{task}.log")))
        .expect("the log of a task");
    let number = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        value["step"].as_u64().filter(|_| value["mt"] == "step")
    };
    log.lines().filter_map(number).collect()
}

#[test]
fn a_launch_under_the_allocator_moves_trainings_and_loses_no_step() {
    let folder = Folder::new();
    fs::write(folder.path().join("workload"), WORKLOAD).unwrap();
    fs::write(folder.path().join("arrivals"), ARRIVALS).unwrap();
    folder
        .run(
            "mt-launch --runs runs --logs logs --progress-every 0.1 --arrivals arrivals -o run \
             workload --controller mt-elastic --gpus 4 --pause 0.5",
        )
        .assert_code(0);
    for (task, total) in [("a", 3000), ("b", 500)] {
        assert_eq!(
            steps(&folder, task),
            (1..=total).collect::<Vec<_>>(),
            "{task}"
        );
    }
    let bytes = fs::read(folder.path().join("run")).unwrap();
    let mut documents = AnyDocuments::new(Frames::new(bytes.as_slice(), "run"));
    let Some(Ok(Any::Run(events))) = documents.next() else {
        panic!("{}", String::from_utf8_lossy(&bytes));
    };
    let starts = |name: &str| {
        let of = |e: &&doc::RunEvent| matches!(&e.payload, EventPayload::Start { task, .. } if task.as_str() == name);
        events.iter().filter(of).count()
    };
    // When b arrives, a gives up GPUs.
    assert!(starts("a") >= 2, "{}", String::from_utf8_lossy(&bytes));
    let progress = events.iter().any(|e| {
        matches!(&e.payload, EventPayload::Progress { progress, .. }
            if progress.step.is_some() && progress.gpus.is_some() && progress.trained.is_some())
    });
    assert!(progress);
    folder.run("mt-check run").assert_code(0);
    let report = folder.run("mt-report run; mt-report --format html run -o page.html");
    report.assert_code(0);
    assert!(report.stdout.contains("GPUs given"), "{}", report.stdout);
    // Reading the same events again also leads to decisions.
    let again = folder.run("mt-elastic --gpus 4 --strict run");
    again.assert_code(0);
    assert!(again.stdout.contains("mt.allocation/1"));
}
