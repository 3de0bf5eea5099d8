use corun::Setting;
use doc::{
    DeviceFingerprint, DeviceKind, Documents, Frames, Method, ObjectiveKind, ProcessEnd, Workload,
};
use predict::{Dataset, FitOptions, Sample, TaskSpec, fit};
use units::{Batch, Share};

use super::*;

fn workload() -> Workload {
    let text = r#"{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
        {"id":"a","batch_sizes":[16,32],"samples":1000,"job":{"argv":["true"]}},
        {"id":"b","batch_sizes":[16,32],"samples":1000,"job":{"argv":["true"]}}]}"#;
    let frames = Frames::new(std::io::Cursor::new(text.replace('\n', " ")), "test");
    Documents::new(frames).next().unwrap().unwrap()
}

fn run(task: usize, batch: u64, percent: f64) -> Setting {
    Setting {
        task,
        batch: Batch::new(batch).unwrap(),
        share: Share::from_percent(percent).unwrap(),
    }
}

/// Two tasks that slow each other down by a law.
fn data() -> Dataset {
    let rate = |own: &Setting, other: Option<&Setting>| {
        let solo = [900.0, 400.0][own.task] * (own.batch.as_f64() / 32.0).sqrt();
        solo * own.share.fraction() / (1.0 + 0.4 * other.map_or(0.0, |o| o.share.fraction()))
    };
    let mut samples = Vec::new();
    for batch in [16, 32] {
        for task in 0..2 {
            let alone = run(task, batch, 100.0);
            samples.push(Sample {
                throughput: vec![rate(&alone, None)],
                active: vec![alone],
                stderr: None,
            });
        }
        for (p, q) in [
            (20.0, 80.0),
            (50.0, 50.0),
            (80.0, 20.0),
            (30.0, 40.0),
            (100.0, 100.0),
        ] {
            let (a, b) = (run(0, batch, p), run(1, batch, q));
            samples.push(Sample {
                throughput: vec![rate(&a, Some(&b)), rate(&b, Some(&a))],
                active: vec![a, b],
                stderr: None,
            });
        }
    }
    let spec = TaskSpec {
        flops_per_sample: None,
        bytes_per_sample: None,
        batches: vec![Batch::new(16).unwrap(), Batch::new(32).unwrap()],
        copy_of: None,
    };
    Dataset {
        tasks: vec![spec.clone(), spec],
        samples,
    }
}

fn launch(method: Method) -> Launch {
    let workload = workload();
    let fitted = fit(&data(), method, &FitOptions::default()).unwrap();
    let model = Model {
        predictor: fitted.params(&workload),
        aim: None,
        measured: Vec::new(),
        workload: workload.clone(),
        device: DeviceFingerprint {
            kind: DeviceKind::Cpu,
            name: "test".to_owned(),
            simulated: false,
            units: None,
            detail: None,
            noise_percent: None,
        },
        provenance: Vec::new(),
    };
    let request = Request {
        outside: true,
        ..Request::new(ObjectiveKind::Fairness, allocation::Limits::default())
    };
    let predictor = Predictor::from_model(&model).unwrap();
    let mut plan = plan_workload(&predictor, &workload, &request, &[], None).unwrap();
    plan.model = Some(model);
    Launch::of(plan, None, workload).unwrap()
}

fn measured(launch: &Launch, factors: [f64; 2]) -> Vec<TaskSummary> {
    let tasks = launch.assignments().zip(factors);
    tasks
        .map(|(task, factor)| TaskSummary {
            finished: true,
            samples: 1000,
            together: Some(units::Seconds::new(1.0).unwrap()),
            trained: Some(units::Seconds::new(1.0).unwrap()),
            rate: task
                .predicted
                .map(|p| SamplesPerSec::new(p.get() * factor).unwrap()),
            predicted: task.predicted,
            end: Some(ProcessEnd::Code(0)),
            ..TaskSummary::new(task.planned.id.clone())
        })
        .collect()
}

/// What a model predicts for the plan of a launch.
fn predictions(launch: &Launch, model: &Model) -> Vec<f64> {
    let active: Vec<Setting> = launch
        .assignments()
        .enumerate()
        .map(|(task, a)| Setting {
            task,
            batch: a.batch,
            share: a.share,
        })
        .collect();
    let predictor = Predictor::from_model(model).unwrap();
    let all = predictor.predict(&active);
    all.iter().map(|p| p.samples_per_s).collect()
}

#[test]
fn the_corrected_model_predicts_what_was_measured() {
    for method in [Method::Structured, Method::Gp] {
        let before = launch(method);
        let seen = measured(&before, [0.6, 1.2]);
        let (after, what) = adapted(&before, &seen, 1.0).unwrap();
        let now = predictions(&before, after.plan.model.as_ref().unwrap());
        for (now, seen) in now.iter().zip(&seen) {
            let wanted = seen.rate.unwrap().get();
            assert!(
                (now / wanted - 1.0).abs() < 0.02,
                "{method:?}: {now} for {wanted}"
            );
        }
        assert!(what.contains("a: "), "{what}");
    }
}

#[test]
fn a_part_of_the_correction_is_damped() {
    let before = launch(Method::Structured);
    let (after, _) = adapted(&before, &measured(&before, [0.25, 1.0]), 0.5).unwrap();
    let old = predictions(&before, before.plan.model.as_ref().unwrap());
    let now = predictions(&before, after.plan.model.as_ref().unwrap());
    assert!((now[0] / old[0] - 0.5).abs() < 0.02, "{now:?} {old:?}");
    assert!((now[1] / old[1] - 1.0).abs() < 0.02, "{now:?} {old:?}");
}

#[test]
fn nothing_to_compare_changes_nothing() {
    let before = launch(Method::Structured);
    let mut seen = measured(&before, [1.0, 1.0]);
    seen[1].together = None;
    assert!(adapted(&before, &seen, 1.0).is_err());
    let mut bare = before;
    bare.plan.model = None;
    assert!(adapted(&bare, &measured(&bare, [1.0, 1.0]), 1.0).is_err());
}
