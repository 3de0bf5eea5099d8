//! A model that is written and read again predicts the same, bit by bit.

use doc::Workload;
use doc::params::Matern;
use predict::{Dataset, FitOptions, Method, Predictor, Sample, TaskSpec, fit};
use units::corun::Setting;
use units::{Batch, Share};

const BATCHES: [u64; 3] = [16, 32, 64];

fn workload(tasks: usize) -> Workload {
    let task = |i| format!(r#"{{"id":"t{i}","batch_sizes":[16,32,64],"job":{{"argv":["x"]}}}}"#);
    let list: Vec<String> = (0..tasks).map(task).collect();
    crate::workload(&list)
}

fn active(task: usize, k: usize) -> Setting {
    let share = 20.0 + 10.0 * ((k * (3 + task)) % 9) as f64;
    Setting {
        task,
        batch: Batch::new(BATCHES[(k / 5 + task * k) % 3]).expect("a batch size"),
        share: Share::from_percent(share).expect("a share"),
    }
}

fn sample(active: Vec<Setting>) -> Sample {
    let rate = |a: &Setting| {
        let others: f64 = active.iter().map(|o| (1 + o.task) as f64).sum();
        let step = 0.004 + 1e-4 * a.batch.as_f64() * (1.0 + 0.1 * others) / a.share.fraction();
        a.batch.as_f64() / step
    };
    Sample {
        throughput: active.iter().map(rate).collect(),
        active,
        stderr: None,
    }
}

const TASKS: usize = 6;

/// The last task never runs among others, nor the first at its largest batch size.
fn data() -> Dataset {
    let tasks = TASKS;
    let mut samples: Vec<Sample> = Vec::new();
    for task in 0..tasks {
        for b in BATCHES {
            samples.push(sample(vec![Setting {
                task,
                batch: Batch::new(b).expect("a batch size"),
                share: Share::FULL,
            }]));
        }
    }
    for k in 0..60 {
        let (i, j) = (k % 5, (k + 1 + k / 5 % 4) % 5);
        let pair = vec![active(i, k), active(j, k + 1)];
        if !pair.iter().any(|a| a.task == 0 && a.batch.get() == 64) {
            samples.push(sample(pair));
        }
    }
    let spec = TaskSpec {
        flops_per_sample: None,
        bytes_per_sample: None,
        batches: BATCHES
            .map(|b| Batch::new(b).expect("a batch size"))
            .to_vec(),
        copy_of: None,
    };
    Dataset {
        tasks: vec![spec; tasks],
        samples,
    }
}

#[test]
fn every_family_is_read_as_it_was_written() {
    let (data, workload) = (data(), workload(TASKS));
    for method in [Method::Structured, Method::Gp, Method::Blend] {
        let fitted = fit(&data, method, &FitOptions::default()).expect("a fit");
        let params = fitted.params(&workload);
        let learnt = matches!(method, Method::Gp | Method::Blend);
        let unseen = params
            .unseen
            .as_ref()
            .map(|u| (u.batch.is_some(), u.task.is_some()));
        assert_eq!(unseen, learnt.then_some((true, true)), "{method:?}");
        let read = Predictor::from_params(&params, &workload).expect("a predictor");
        for k in 0..40 {
            let co_run = [active(k % 6, k), active((k + 1) % 6, k + 2)];
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

#[test]
fn a_process_of_all_tasks_without_two_groups_is_refused() {
    let fitted = fit(&data(), Method::Gp, &FitOptions::default()).expect("a fit");
    let workload = workload(TASKS);
    let refused = |own: Option<u32>, matern| {
        let mut params = fitted.params(&workload);
        let unseen = params.unseen.as_mut().expect("a process of all tasks");
        (unseen.gp.own_features, unseen.gp.matern) = (own, matern);
        let error = Predictor::from_params(&params, &workload).expect_err("a refusal");
        error.to_string()
    };
    let absent = refused(None, Matern::FiveHalves);
    assert!(
        absent.contains("unseen.gp.own_features: absent"),
        "{absent}"
    );
    let many = refused(Some(1_000), Matern::ThreeHalves);
    assert!(
        many.contains("unseen.gp.own_features: 1000 features"),
        "{many}"
    );
}

#[test]
fn a_rough_kernel_of_one_group_is_refused() {
    let fitted = fit(&data(), Method::Gp, &FitOptions::default()).expect("a fit");
    let workload = workload(TASKS);
    let mut params = fitted.params(&workload);
    params.tasks[0].gp.as_mut().expect("a process").matern = Matern::ThreeHalves;
    let error = Predictor::from_params(&params, &workload).expect_err("a refusal");
    assert!(
        error
            .to_string()
            .contains("gp.matern: 3/2 without own_features"),
        "{error}"
    );
}
