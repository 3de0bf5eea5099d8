//! A model says for every co-run how far it is from the measurements, and its error for that kind.

use doc::Workload;
use predict::{Dataset, FitOptions, Fitted, Kind, Predictor, Sample, TaskSpec, fit_by_merit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use units::corun::Setting;
use units::{Batch, Share};

const BATCHES: [u64; 3] = [16, 32, 64];

fn setting(task: usize, batch: u64, percent: f64) -> Setting {
    Setting {
        task,
        batch: Batch::new(batch).expect("a batch size"),
        share: Share::from_percent(percent).expect("a share"),
    }
}

/// The slow-down of each task in a co-run is the same up to a part of its own, which the measurements of other tasks
/// cannot show.
fn sample(active: Vec<Setting>) -> Sample {
    let own = |task: usize| [0.0, 0.3, -0.2, 0.25, -0.3, 0.1][task % 6];
    let rate = |a: &Setting| {
        let others = (active.len() - 1) as f64;
        let slow = (1.0_f64 + own(a.task)).powf(others) * (1.0 + 0.4 * others);
        let step = (0.004 + 1e-4 * a.batch.as_f64() / a.share.fraction()) * slow.max(1.0);
        a.batch.as_f64() / step
    };
    Sample {
        throughput: active.iter().map(rate).collect(),
        active,
        stderr: None,
    }
}

fn spec() -> TaskSpec {
    let batch = |b| Batch::new(b).expect("a batch size");
    TaskSpec {
        flops_per_sample: None,
        bytes_per_sample: None,
        batches: BATCHES.map(batch).to_vec(),
        copy_of: None,
    }
}

/// All `tasks` alone; pairs of all but the last at shares of 20 to 80 %, the first never at its largest size.
fn learnt(tasks: usize) -> Fitted {
    let mut samples = Vec::new();
    for task in 0..tasks {
        samples.extend(BATCHES.map(|b| sample(vec![setting(task, b, 100.0)])));
    }
    let known = tasks - 1;
    for k in 0..90 {
        let (i, j) = (k % known, (k + 1 + k / known % (known - 1)) % known);
        let one = |task, k: usize| {
            let sizes = if task == 0 { 2 } else { 3 };
            setting(
                task,
                BATCHES[(k / 5 + k * task) % sizes],
                [20.0, 40.0, 60.0, 80.0][k % 4],
            )
        };
        samples.push(sample(vec![one(i, k), one(j, k / 4)]));
    }
    let data = Dataset {
        tasks: (0..tasks).map(|_| spec()).collect(),
        samples,
    };
    fit_by_merit(&data, &FitOptions::default()).expect("a model")
}

fn workload(tasks: usize) -> Workload {
    let task = |i| format!(r#"{{"id":"t{i}","batch_sizes":[16,32,64],"job":{{"argv":["x"]}}}}"#);
    crate::workload(&(0..tasks).map(task).collect::<Vec<_>>())
}

#[test]
fn each_kind_has_the_error_of_parts_left_out_whole() {
    let fitted = learnt(6);
    let told = |active: &[Setting]| fitted.predictor.prediction_error(&[active.to_vec()]);
    let of = |kind| fitted.report.kinds.iter().find(|e| e.kind == kind).copied();
    let one = setting(1, 32, 20.0);
    for (active, kind) in [
        (vec![one, setting(2, 32, 40.0)], Kind::Within),
        (vec![one, setting(2, 32, 50.0)], Kind::Share),
        (vec![one, setting(0, 64, 40.0)], Kind::Batch),
        (vec![one, setting(5, 32, 40.0)], Kind::Task),
    ] {
        let (told, known) = (told(&active).expect("a kind"), of(kind).expect("its error"));
        assert_eq!(told.error_percent, Some(known.error_percent), "{kind:?}");
        assert!(told.cases > 2 * u64::from(told.parts), "{told:?}");
    }
    // Nothing was measured for three tasks together, so nothing could be held out.
    let three = [one, setting(2, 32, 40.0), setting(3, 32, 40.0)];
    let told_of_three = told(&three).expect("a kind");
    assert_eq!(
        (told_of_three.kind, told_of_three.error_percent),
        (Kind::Crowd, None)
    );
    assert_eq!(told(&[one]), None, "a task alone");

    // The claimed error for a task that never ran with others, compared with the real one.
    let mut errors = Vec::new();
    for (other, batch) in (0..5).flat_map(|t| BATCHES.map(|b| (t, b))) {
        let active = vec![setting(5, batch, 40.0), setting(other, 32, 60.0)];
        let measured = sample(active.clone()).throughput;
        let predicted = fitted.predictor.predict(&active);
        errors.push(100.0 * (predicted[0].samples_per_s / measured[0] - 1.0).abs());
        errors.push(100.0 * (predicted[1].samples_per_s / measured[1] - 1.0).abs());
    }
    let truth = errors.iter().sum::<f64>() / errors.len() as f64;
    let claimed = of(Kind::Task).expect("its error").error_percent;
    let within = of(Kind::Within).expect("its error").error_percent;
    assert!(claimed > 3.0 * within, "{claimed} {within}");
    assert!((0.3..3.0).contains(&(claimed / truth)), "{claimed} {truth}");
}

#[test]
fn of_several_kinds_the_worst_is_told_and_the_unknown_before_all() {
    let fitted = learnt(6);
    let model = &fitted.predictor;
    let size = |active: Vec<Setting>| model.prediction_error(&[active]).expect("a kind");
    let both = size(vec![setting(1, 32, 50.0), setting(5, 32, 40.0)]);
    let [share, task] = [
        size(vec![setting(1, 32, 50.0), setting(2, 32, 40.0)]),
        size(vec![setting(1, 32, 20.0), setting(5, 32, 40.0)]),
    ];
    assert_eq!(
        both,
        if share.error_percent > task.error_percent {
            share
        } else {
            task
        }
    );
    // With GPUs, too: three tasks on the second.
    let (pair, three) = (
        vec![setting(1, 32, 20.0), setting(2, 32, 40.0)],
        vec![
            setting(0, 32, 20.0),
            setting(3, 32, 20.0),
            setting(4, 32, 20.0),
        ],
    );
    let worst = model.prediction_error(&[pair, three]).expect("a kind");
    assert_eq!((worst.kind, worst.error_percent), (Kind::Crowd, None));
}

#[test]
fn a_model_that_is_read_tells_the_same_and_nothing_that_could_not_be_learnt() {
    // Only two of three tasks ran together: none can be left out.
    for tasks in [3, 6] {
        let (fitted, workload) = (learnt(tasks), workload(tasks));
        let read = Predictor::from_params(&fitted.params(&workload), &workload).expect("a model");
        let new_task = vec![setting(1, 32, 20.0), setting(tasks - 1, 32, 40.0)];
        let told = fitted
            .predictor
            .prediction_error(std::slice::from_ref(&new_task));
        assert_eq!(read.prediction_error(&[new_task]), told);
        assert_eq!(told.and_then(|t| t.error_percent).is_some(), tasks == 6);
    }
}

/// Pairs of two tasks at three batch sizes each, with a random slow-down that cannot be predicted.
fn coverage(learnt: usize) -> f64 {
    let (mut inside, mut all) = (0, 0);
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut samples: Vec<Sample> = (0..2)
            .flat_map(|t| BATCHES.map(|b| sample(vec![setting(t, b, 100.0)])))
            .collect();
        let mut pairs: Vec<Sample> = (0..9)
            .map(|k| {
                let mut pair = sample(vec![
                    setting(0, BATCHES[k / 3], 100.0),
                    setting(1, BATCHES[k % 3], 100.0),
                ]);
                for rate in &mut pair.throughput {
                    *rate *= rng.random_range(0.6..1.0);
                }
                pair
            })
            .collect();
        let held = pairs.split_off(learnt);
        samples.extend(pairs);
        let data = Dataset {
            tasks: vec![spec(), spec()],
            samples,
        };
        let model = fit_by_merit(&data, &FitOptions::default())
            .expect("a model")
            .predictor;
        for s in held {
            for (p, m) in model.predict(&s.active).iter().zip(&s.throughput) {
                inside += usize::from((p.samples_per_s - m).abs() <= 1.645 * p.std_error);
                all += 1;
            }
        }
    }
    f64::from(inside as u32) / f64::from(all as u32)
}

#[test]
fn intervals_of_two_or_three_co_runs_hold() {
    for learnt in [2, 3] {
        let held = coverage(learnt);
        // 80 % with three instead of the claimed 90: three values cannot show a uniform deviation that is as large as
        // the whole effect.
        assert!(held > 0.75, "{learnt} co-runs: {held}");
    }
}
