use doc::{
    DeviceFingerprint, DeviceKind, Documents, Frames, Method, ObjectiveKind, ProcessEnd, Workload,
};
use predict::{Dataset, FitOptions, Sample, TaskSpec, fit};
use units::corun::Setting;
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

/// Two tasks with synthetic contention.
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
    let mut plan = plan_by_model(&predictor, &workload, &request).unwrap();
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

/// Predictions of a model for the plan of a launch.
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

/// The plan after a first correction, and its message.
fn adapted(
    launch: &Launch,
    measured: &[TaskSummary],
    part: f64,
) -> Result<(Launch, String), String> {
    match Correction::default().adapt(launch, measured, part)? {
        Adapted::Anew(launch, what) => Ok((*launch, what)),
        Adapted::Stays(why) => Err(why),
    }
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

/// A progress event with the norms of two steps at this noise scale, with a little noise.
fn told(task: &str, phi: f64, odd: f64) -> doc::RunEvent {
    let gradient = doc::GradientNoise {
        steps: 2,
        squared_norm: 1.0,
        variance: phi * (1.0 + odd),
    };
    doc::RunEvent {
        time: units::Seconds::new(1.0).unwrap(),
        payload: doc::EventPayload::Progress {
            task: units::TaskId::new(task).unwrap(),
            round: 0,
            progress: doc::TaskProgress {
                gradient: Some(gradient),
                ..doc::TaskProgress::default()
            },
        },
    }
}

/// Six events of each task.
fn hear(correction: &mut Correction, phi: f64) {
    for odd in [0.02, -0.01, 0.0, -0.02, 0.01, 0.0] {
        for task in ["a", "b"] {
            correction.noise.hear(&told(task, phi, odd));
        }
    }
}

fn noise_scale(model: &Model) -> f64 {
    match model.workload.tasks[0]
        .efficiency
        .as_ref()
        .map(|e| &e.curve)
    {
        Some(doc::EfficiencyCurve::NoiseScale { samples, .. }) => *samples,
        other => panic!("{other:?}"),
    }
}

/// A launch of a plan that maximises progress; its batches are small because the noise scale is
/// small.
fn towards_targets() -> Launch {
    let mut before = launch(Method::Structured);
    let mut model = before.plan.model.take().unwrap();
    let mut first = Correction::default();
    hear(&mut first, 8.0);
    assert_eq!(first.noise.correct(&mut model, 1.0).len(), 2);
    let request = Request {
        outside: true,
        ..Request::new(ObjectiveKind::Progress, allocation::Limits::default())
    };
    let predictor = Predictor::from_model(&model).unwrap();
    let mut plan = plan_by_model(&predictor, &model.workload, &request).unwrap();
    let workload = model.workload.clone();
    plan.model = Some(model);
    Launch::of(plan, None, workload).unwrap()
}

#[test]
fn a_noise_scale_that_grows_moves_the_model_by_parts_and_the_plan_once_it_matters() {
    let before = towards_targets();
    let sizes =
        |launch: &Launch| -> Vec<u32> { launch.assignments().map(|a| a.batch.get()).collect() };
    assert_eq!(sizes(&before), [16, 16]);
    let seen = measured(&before, [1.0, 1.0]);
    let mut correction = Correction::default();
    // No new measurements: plan and model are kept.
    hear(&mut correction, 8.0);
    let stays = correction.adapt(&before, &seen, 0.5).unwrap();
    assert!(matches!(stays, Adapted::Stays(_)), "{stays:?}");
    let phi = |correction: &Correction| noise_scale(correction.model.as_ref().unwrap());
    assert!((phi(&correction) - 8.0).abs() < 0.1);
    // A scale sixteen times as large, halfway in logarithms each round: 32, 64, 90.5.
    let mut anew = None;
    for wanted in [32.0, 64.0, 90.5, 107.6, 117.4] {
        correction.noise.next_round();
        hear(&mut correction, 128.0);
        let found = correction.adapt(&before, &seen, 0.5).unwrap();
        assert!(
            (phi(&correction) / wanted - 1.0).abs() < 0.02,
            "{correction:?}"
        );
        if let Adapted::Anew(launch, what) = found {
            anew = Some((launch, what));
            break;
        }
    }
    let (after, what) = anew.expect("four times as far to the targets, and no new plan");
    assert_eq!(sizes(&after), [16, 32], "{what}");
    assert!(
        what.contains("b: noise scale") && what.contains("b: batch 16 to 32"),
        "{what}"
    );
}

#[test]
fn norms_are_enough_where_tasks_never_ran_together() {
    let before = towards_targets();
    let mut seen = measured(&before, [1.0, 1.0]);
    seen[0].together = None;
    let mut correction = Correction::default();
    assert!(correction.adapt(&before, &seen, 1.0).is_err());
    hear(&mut correction, 1000.0);
    let found = correction.adapt(&before, &seen, 1.0).unwrap();
    assert!(matches!(found, Adapted::Anew(..)), "{found:?}");
}

#[test]
fn a_noise_scale_that_is_hardly_known_moves_no_plan() {
    let before = towards_targets();
    let seen = measured(&before, [1.0, 1.0]);
    let mut correction = Correction::default();
    // The mean is large; single events differ by more than ten times.
    for odd in [3.0, -0.6, -0.6, -0.5, 4.0, -0.6, -0.6] {
        for task in ["a", "b"] {
            correction.noise.hear(&told(task, 28.0, odd));
        }
    }
    let found = correction.adapt(&before, &seen, 1.0).unwrap();
    let Adapted::Stays(why) = found else {
        panic!("{found:?}");
    };
    assert!(why.contains("not known well enough"), "{why}");
}

#[test]
fn a_table_of_efficiencies_stays() {
    let before = towards_targets();
    let mut model = before.plan.model.clone().unwrap();
    let table = doc::EfficiencyCurve::Rounds(vec![
        doc::EfficiencyRow::of(Batch::new(16).unwrap(), 4.0),
        doc::EfficiencyRow::of(Batch::new(32).unwrap(), 5.0),
    ]);
    for task in &mut model.workload.tasks {
        task.efficiency.as_mut().unwrap().curve = table.clone();
    }
    let mut correction = Correction::default();
    hear(&mut correction, 50.0);
    assert_eq!(
        correction.noise.correct(&mut model, 1.0),
        Vec::<String>::new()
    );
    assert_eq!(
        model.workload.tasks[1].efficiency.as_ref().unwrap().curve,
        table
    );
}
