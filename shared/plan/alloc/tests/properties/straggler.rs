//! The options of a late device, compared with every choice of batch sizes and shares, each with the largest part of
//! the samples that it has time for.

#![expect(clippy::unwrap_used, reason = "test data is valid or the test fails")]

use allocation::{Limits, Request, Targets, Worth, plan_workload, ways};
use doc::{
    DeviceFingerprint, DeviceKind, Documents, Frames, Method, Model, ObjectiveKind, Plan, Workload,
};
use overlap::{PlanRequest, order_plan, shorten};
use predict::{Dataset, FitOptions, Predictor, Sample, TaskSpec, fit};
use units::corun::Setting;
use units::{Batch, Samples, Share};

const BATCHES: [u64; 3] = [16, 32, 64];
const STEP: u32 = 2_500;

fn workload(samples: [u64; 2], noise: [f64; 2], bps: f64) -> Workload {
    let task = |i: usize| {
        format!(
            r#"{{"id":"t{i}","batch_sizes":[16,32,64],"batch":32,"samples":{},"rounds_to_target":{},
            "efficiency":{{"noise_scale":{},"source":"measured"}},
            "update_bytes":{{"down":20000000,"up":20000000}},"job":{{"argv":["true"]}}}}"#,
            samples[i],
            [8, 12][i],
            noise[i]
        )
    };
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"cuda"}},"link":{{"down_bps":{bps},"up_bps":{bps}}},
        "tasks":[{},{}]}}"#,
        task(0),
        task(1)
    );
    let text = text.replace('\n', " ");
    let frames = Frames::new(text.as_bytes(), "test");
    Documents::new(frames).next().unwrap().unwrap()
}

fn setting(task: usize, batch: u64, percent: f64) -> Setting {
    Setting {
        task,
        batch: Batch::new(batch).unwrap(),
        share: Share::from_percent(percent).unwrap(),
    }
}

/// Two tasks that slow each other down, and that gain by larger batches.
fn data() -> Dataset {
    let rate = |own: &Setting, other: Option<&Setting>| {
        let batch = own.batch.as_f64();
        let solo = [2_000.0, 1_200.0][own.task] * batch / (batch + 24.0);
        let free = 1.0 + 0.5 * other.map_or(0.0, |o| o.share.fraction());
        solo * own.share.fraction().powf(0.6) / free
    };
    let mut samples = Vec::new();
    for batch in BATCHES {
        for task in 0..2 {
            let alone = setting(task, batch, 100.0);
            samples.push(Sample {
                throughput: vec![rate(&alone, None)],
                active: vec![alone],
                stderr: None,
            });
        }
        for (p, q) in [(25.0, 75.0), (50.0, 50.0), (75.0, 25.0), (100.0, 100.0)] {
            let (a, b) = (setting(0, batch, p), setting(1, batch, q));
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
        batches: BATCHES.map(|b| Batch::new(b).unwrap()).to_vec(),
        copy_of: None,
    };
    Dataset {
        tasks: vec![spec.clone(), spec],
        samples,
    }
}

fn plan(predictor: &Predictor, model: &Model, kind: ObjectiveKind) -> Plan {
    let limits = Limits {
        step: Share::from_hundredths(STEP),
        ..Limits::default()
    };
    let request = Request {
        outside: true,
        ..Request::new(kind, limits)
    };
    let mut plan = plan_workload(predictor, &model.workload, &request, &[], None).unwrap();
    plan.model = Some(model.clone());
    plan
}

/// The plan with other batch sizes and shares, as if hand-written.
fn with(plan: &Plan, settings: [Setting; 2]) -> Plan {
    let mut text = plan.clone();
    let given = settings.map(|s| doc::Given {
        batch: Some(s.batch),
        share: Some(s.share),
        ..plan.given(s.task)
    });
    text.answer = doc::Answer::ByHand(doc::ByHand {
        given: given.to_vec(),
        rv: None,
    });
    text
}

#[test]
fn no_choice_of_a_late_device_brings_the_targets_much_sooner() {
    let fitted = fit(&data(), Method::Structured, &FitOptions::default()).unwrap();
    let (request, options) = (PlanRequest::default(), overlap::OrderOptions::default());
    let mut worst = 1.0_f64;
    let mut sooner = 0;
    for (case, (samples, noise, bps)) in [
        ([30_000, 30_000], [40.0, 200.0], 1e8),
        ([30_000, 10_000], [300.0, 20.0], 2e7),
        ([9_000, 40_000], [100.0, 100.0], 1e8),
    ]
    .into_iter()
    .enumerate()
    {
        let device = |samples: [u64; 2]| {
            let workload = workload(samples, noise, bps);
            Model {
                predictor: fitted.params(&workload),
                aim: None,
                measured: Vec::new(),
                workload,
                device: DeviceFingerprint {
                    kind: DeviceKind::Cuda,
                    name: "test".to_owned(),
                    simulated: false,
                    units: None,
                    detail: None,
                    noise_percent: None,
                },
                provenance: Vec::new(),
            }
        };
        let (late, other) = (device(samples), device(samples.map(|n| n / 3)));
        let predictor = Predictor::from_model(&late).unwrap();
        for kind in [ObjectiveKind::Progress, ObjectiveKind::ProgressLast] {
            let plans = [
                plan(&predictor, &other, kind),
                plan(&predictor, &late, kind),
            ];
            let timelines = plans
                .clone()
                .map(|plan| order_plan(plan, Some(&predictor), &request, &options).unwrap());
            let worths = plans.each_ref().map(|plan| Worth::of(plan, None).unwrap());
            let whole = |k: usize| {
                let timeline = &timelines[k];
                worths[k].way(None, &timeline.batches, None, timeline.makespan.get())
            };
            for part in [0.45, 0.7] {
                let deadline = part * timelines[1].makespan.get();
                if timelines[0].makespan.get() > deadline {
                    continue;
                }
                let found = ways(
                    &plans[1],
                    &worths[1],
                    Some(&predictor),
                    &request,
                    &options,
                    deadline,
                );
                let decide = |own| {
                    let mut targets = Targets::default();
                    targets.add(&worths[0], whole(0), Vec::new());
                    targets.add(&worths[1], whole(1), own);
                    targets.decide()
                };
                let decided = decide(found.unwrap());
                sooner += usize::from(decided.seconds < decided.own_s);
                let mut best = f64::INFINITY;
                let shares = [25.0, 50.0, 75.0, 100.0];
                for (b, c) in BATCHES.iter().flat_map(|b| BATCHES.map(|c| (*b, c))) {
                    for (p, q) in shares.iter().flat_map(|p| shares.map(|q| (*p, q))) {
                        let tried = with(&plans[1], [setting(0, b, p), setting(1, c, q)]);
                        let sizes = [b, c].map(|b| Batch::new(b).ok());
                        let end = order_plan(tried.clone(), Some(&predictor), &request, &options)
                            .unwrap()
                            .makespan
                            .get();
                        let less = (end > deadline).then(|| {
                            shorten(&tried, Some(&predictor), &request, &options, deadline).unwrap()
                        });
                        let end = if less.is_some() { deadline } else { end };
                        let way = worths[1].way(None, &sizes, less, end);
                        best = best.min(decide(vec![way]).seconds);
                    }
                }
                let off = decided.seconds / best;
                assert!(
                    off > 1.0 - 1e-9,
                    "{case} {kind:?} {part}: better than every choice"
                );
                worst = worst.max(off);
            }
        }
        assert!(samples.iter().all(|n| Samples::new(*n).is_ok()));
    }
    assert!(worst < 1.01, "{worst}");
    assert!(sooner > 0);
}
