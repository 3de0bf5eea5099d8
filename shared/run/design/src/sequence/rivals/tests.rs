use std::collections::{BTreeMap, BTreeSet};

use doc::{BatchPolicy, Documents, Frames, ObjectiveKind, Workload};
use units::corun::Setting;
use units::{SamplesPerSec, Share, TotalShare};

use super::*;
use crate::sequence::{Conditions, Sequence};
use crate::settings::{DesignSettings, Strategy};

/// Three tasks; the first trains longer than the other two together.
fn workload() -> Workload {
    read(
        r#"{"schema":"mt.workload/1","device":{"kind":"sim"},
        "tasks":[{"id":"a","model":"vgg16","batch_sizes":[32],"samples":9000},
        {"id":"b","model":"alexnet","batch_sizes":[64],"samples":2000},
        {"id":"c","model":"resnet18","batch_sizes":[128],"samples":1000}]}"#,
    )
}

fn read(text: &str) -> Workload {
    let frames = Frames::new(text.as_bytes(), "test");
    Documents::new(frames).next().unwrap().unwrap()
}

fn settings(objective: ObjectiveKind, budget: u64) -> DesignSettings {
    DesignSettings {
        strategy: Strategy::Adaptive,
        budget: Some(budget),
        step: Share::from_percent(20.0).unwrap(),
        rv_min: TotalShare::ZERO,
        rv_max: TotalShare::from_hundredths(30_000),
        subsets: 0.2,
        tolerance: 0.0,
        batch: Some(BatchPolicy::Free),
        objective: Some(objective),
        floor: 0.0,
    }
}

/// All co-runs that are measured on a synthetic device whose rates have a new relative error of `noise` each time;
/// it reports this error.
fn coruns(objective: ObjectiveKind, budget: u64, noise: f64) -> Vec<Configuration> {
    let settings = settings(objective, budget);
    let mut all = measured(&workload(), &settings, noise, |_| ());
    all.retain(|runs| runs.len() > 1);
    all
}

/// Everything that is measured; `look` sees the sequence after each choice.
fn measured(
    workload: &Workload,
    settings: &DesignSettings,
    noise: f64,
    mut look: impl FnMut(&Sequence),
) -> Vec<Configuration> {
    let conditions = Conditions {
        only: None,
        drifts: false,
        earlier: None,
        seed: 3,
    };
    let mut plan = Sequence::designed(workload, settings, conditions).unwrap();
    let mut all: Vec<Configuration> = Vec::new();
    while let Some(runs) = plan.next_configuration().unwrap() {
        look(&plan);
        let total: f64 = runs.iter().map(|r| r.share.fraction()).sum();
        let rate = |run: &Setting| {
            let alone = run.batch.as_f64() * run.share.fraction().sqrt();
            let clean = 10.0 * alone / (1.0 + 0.5 * total * total);
            // A number between -1.7 and 1.7, with variance 1.
            let place = (all.len() * 31 + run.task * 7) as f64 * 0.618_034;
            let drawn = 12_f64.sqrt() * (place.fract() - 0.5);
            let per_s = |v| SamplesPerSec::new(v).unwrap();
            device::Rate {
                throughput: per_s(clean * (1.0 + noise * drawn)),
                stderr: Some(per_s(noise * clean)),
                gradient: None,
                launch: doc::Launch::default(),
            }
        };
        let rates: Vec<device::Rate> = runs.iter().map(rate).collect();
        plan.observe(&runs, Some(&rates));
        all.push(runs);
    }
    all
}

/// With more than eight tasks, a model chooses two sets of the rounds, and the device is told the second in
/// advance.
#[test]
fn a_model_chooses_several_sets_of_many_tasks() {
    let task = |i: usize| {
        let samples = 1_000 * (i + 1);
        format!(r#"{{"id":"t{i}","model":"vgg16","batch_sizes":[32],"samples":{samples}}}"#)
    };
    let tasks: Vec<String> = (0..9).map(task).collect();
    let workload = read(&format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim"}},"tasks":[{}]}}"#,
        tasks.join(",")
    ));
    let settings = DesignSettings {
        rv_max: TotalShare::from_hundredths(90_000),
        subsets: 0.0,
        ..settings(ObjectiveKind::Round, STARTS as u64 + 4)
    };
    let mut told: BTreeSet<Configuration> = BTreeSet::new();
    let all = measured(&workload, &settings, 1e-5, |plan| {
        told.extend(plan.coming())
    });
    told.retain(|runs| (2..9).contains(&runs.len()));
    assert!(!told.is_empty());
    assert!(told.iter().all(|runs| all.contains(runs)), "{told:?}");
}

/// How often each configuration was measured.
fn times(coruns: &[Configuration]) -> BTreeMap<&Configuration, u32> {
    let mut times = BTreeMap::new();
    for runs in coruns {
        *times.entry(runs).or_default() += 1;
    }
    times
}

#[test]
fn what_noise_leaves_open_is_measured_again_and_nothing_else() {
    let quiet = coruns(ObjectiveKind::Round, 20, 1e-5);
    assert_eq!(times(&quiet).len(), 20);
    let noisy = coruns(ObjectiveKind::Round, 30, 0.03);
    let again = noisy.len() - times(&noisy).len();
    assert!((1..=11).contains(&again), "{again}");
    let first: BTreeSet<_> = noisy[..STARTS].iter().collect();
    assert_eq!(first.len(), STARTS, "not before rates were seen");
    // For a choice that depends only on its own rates, searching is better than measuring again.
    let raw = coruns(ObjectiveKind::Raw, 20, 0.03);
    assert_eq!(times(&raw).len(), 20);
}

#[test]
fn a_larger_budget_only_adds_where_co_runs_are_repeated() {
    let of = |budget| coruns(ObjectiveKind::Round, budget, 0.03);
    let (few, many) = (of(14), of(20));
    assert_eq!(few[..], many[..14]);
}

/// For the best of equal shares, the whole round is measured, including the co-runs that remain as tasks leave.
#[test]
fn sets_that_rounds_leave_are_measured() {
    let all = coruns(ObjectiveKind::Round, 16, 1e-5);
    let seen: BTreeSet<&Configuration> = all.iter().collect();
    let whole = all.iter().filter(|runs| runs.len() == 3);
    // The last task of the round is `a`, and one other task runs with it before.
    let left = whole.filter(|runs| {
        let pair = |other: usize| vec![runs[0], runs[other]];
        seen.contains(&pair(1)) || seen.contains(&pair(2))
    });
    let known: BTreeSet<&Configuration> = left.collect();
    assert!(known.iter().any(|runs| is_equal(runs)), "{known:?}");
    assert!(known.len() > 1, "{known:?}");
}

/// The knowledge gradient compared with its definition: the expected maximum of two means after one of them is
/// measured once more, from many draws.
#[test]
fn the_knowledge_gradient_is_what_another_measurement_gains() {
    let (error, draws) = (0.8, 4_000_u32);
    for (gap, count) in [(0.0, 1), (0.3, 1), (0.9, 2), (0.3, 4)] {
        // Quantiles of the normal distribution at the midpoints of equally likely intervals.
        let z = |k: u32| {
            let part = (f64::from(k) + 0.5) / f64::from(draws);
            let (mut low, mut high) = (-9.0, 9.0);
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                match math::stats::normal_cdf(middle) < part {
                    true => low = middle,
                    false => high = middle,
                }
            }
            low
        };
        // `error` is that of the mean of `count` measurements; `single` is that of one. The errors of the old mean
        // and of the new measurement are independent, so the change of the mean is normal, with the standard
        // deviation of their sum divided by `count + 1`.
        let single = error * f64::from(count).sqrt();
        let spread = error.hypot(single) / (f64::from(count) + 1.0);
        let gains = (0..draws).map(|k| (spread * z(k) - gap).max(0.0));
        let slow = gains.sum::<f64>() / f64::from(draws);
        let fast = knowledge_gradient(gap, error, count);
        assert!((fast - slow).abs() < 1e-3, "{gap} {count}: {fast} {slow}");
    }
    assert_eq!(knowledge_gradient(0.5, 0.0, 1), 0.0);
}
