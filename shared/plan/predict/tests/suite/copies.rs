//! Tasks of the same model are learnt together.

use doc::Workload;
use predict::{Dataset, FitOptions, Method, Predictor, Sample, TaskSpec, fit, fit_by_merit};
use units::corun::Setting;
use units::{Batch, Share};

const BATCHES: [u64; 3] = [16, 32, 64];

fn workload() -> Workload {
    let task =
        |(id, model)| format!(r#"{{"id":"{id}","batch_sizes":[16,32,64],"model":"{model}"}}"#);
    let list = [
        ("a", "vgg16"),
        ("b", "alexnet"),
        ("c", "vgg16"),
        ("d", "vgg16"),
    ];
    crate::workload(&list.map(task))
}

fn setting(task: usize, batch: u64, percent: f64) -> Setting {
    Setting {
        task,
        batch: Batch::new(batch).expect("a batch size"),
        share: Share::from_percent(percent).expect("a share"),
    }
}

/// Task 1 has another model than the rest; the rates of copies differ only because of their settings.
fn sample(active: Vec<Setting>, slower: f64) -> Sample {
    let own = |task: usize| if task == 1 { 2.0 } else { 1.0 };
    let rate = |a: &Setting| {
        let others: f64 = active
            .iter()
            .filter(|o| o.task != a.task)
            .map(|o| 0.3 * own(o.task) * o.share.fraction())
            .sum();
        let device = own(a.task) * 1e-4 * a.batch.as_f64() / a.share.fraction();
        let step = (0.004 + device * (1.0 + others)) * if a.task == 3 { slower } else { 1.0 };
        a.batch.as_f64() / step
    };
    Sample {
        throughput: active.iter().map(rate).collect(),
        active,
        stderr: None,
    }
}

/// Solo runs of all tasks, and co-runs of all but the last.
fn data(slower: f64) -> Dataset {
    let mut samples = Vec::new();
    for task in 0..4 {
        samples.extend(BATCHES.map(|b| sample(vec![setting(task, b, 100.0)], slower)));
    }
    for k in 0..60_usize {
        let percent = |k: usize| 20.0 + 10.0 * (k % 9) as f64;
        let pair = [(0, 1), (1, 2), (0, 2)][k % 3];
        samples.push(sample(
            vec![
                setting(pair.0, BATCHES[k / 3 % 3], percent(k * 5)),
                setting(pair.1, BATCHES[k / 2 % 3], percent(k * 7)),
            ],
            slower,
        ));
    }
    Dataset {
        tasks: TaskSpec::all(&workload()),
        samples,
    }
}

fn co_runs() -> impl Iterator<Item = [Setting; 2]> {
    (0..30).map(|k| {
        let percent = |k: usize| 20.0 + 10.0 * (k % 9) as f64;
        [
            setting([0, 2, 3][k % 3], BATCHES[k / 3 % 3], percent(k * 4)),
            setting(1, BATCHES[k % 3], percent(k * 2)),
        ]
    })
}

#[test]
fn a_copy_that_never_ran_among_others_is_predicted_as_those_that_did() {
    let model = fit_by_merit(&data(1.0), &FitOptions::default()).expect("a fit");
    assert_eq!(model.report.tasks.len(), 4);
    let mut errors = Vec::new();
    for co_run in co_runs() {
        assert!(model.predictor.covers(&co_run), "{co_run:?}");
        let predicted = model.predictor.predict(&co_run);
        let truth = sample(co_run.to_vec(), 1.0).throughput;
        let both = predicted.iter().zip(&truth);
        errors.extend(both.map(|(p, t)| (p.samples_per_s / t - 1.0).abs()));
        let copy = [
            Setting {
                task: 0,
                ..co_run[0]
            },
            co_run[1],
        ];
        assert_eq!(predicted, model.predictor.predict(&copy));
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(mean < 0.05, "{mean}");
}

#[test]
fn a_task_whose_solo_runs_differ_is_no_copy() {
    let model = fit_by_merit(&data(1.5), &FitOptions::default()).expect("a fit");
    let solo = |task| {
        model
            .predictor
            .solo(task, Batch::new(32).expect("a batch size"))
    };
    assert!((solo(0) / solo(3) / 1.5 - 1.0).abs() < 1e-9);
    assert!(
        !model
            .predictor
            .covers(&[setting(3, 32, 50.0), setting(1, 32, 50.0)])
    );
}

#[test]
fn copies_are_read_as_they_were_written() {
    for method in [Method::Structured, Method::Gp, Method::Blend] {
        let fitted = fit(&data(1.0), method, &FitOptions::default()).expect("a fit");
        let params = fitted.params(&workload());
        let copy_of: Vec<Option<u32>> = params.tasks.iter().map(|t| t.copy_of).collect();
        assert_eq!(copy_of, [None, None, Some(0), Some(0)]);
        let read = Predictor::from_params(&params, &workload()).expect("a predictor");
        for co_run in co_runs() {
            let (a, b) = (fitted.predictor.predict(&co_run), read.predict(&co_run));
            for (a, b) in a.iter().zip(&b) {
                assert_eq!(a.samples_per_s, b.samples_per_s, "{method:?} {co_run:?}");
                assert!((a.std_error / b.std_error - 1.0).abs() < 1e-9);
            }
            let mut out = [0.0; 2];
            read.means_many(2, &co_run, &mut out);
            assert_eq!(out, [a[0].samples_per_s, a[1].samples_per_s]);
        }
    }
}
