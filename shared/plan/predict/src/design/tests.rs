use units::corun::Setting;

use super::*;
use crate::{FitOptions, TaskSpec, fit};
use doc::Method;
use units::Batch;

/// A device whose best total is neither full sharing nor an even split.
fn device(active: &[Setting]) -> Vec<f64> {
    active
        .iter()
        .map(|a| {
            let r = a.share.fraction();
            let others: f64 = active
                .iter()
                .filter(|o| o.task != a.task)
                .map(|o| o.share.fraction())
                .sum();
            let step = 0.004 + 1e-4 * a.batch.as_f64() / r.min(0.6) * (1.0 + 0.8 * others * r);
            a.batch.as_f64() / step
        })
        .collect()
}

fn run(
    tolerance: f64,
    budget: usize,
    admissible: &(dyn Fn(&[Setting]) -> bool + Sync),
) -> (Dataset, Step) {
    run_for(Goal::Raw, 0.0, tolerance, budget, admissible)
}

fn run_for(
    goal: Goal,
    floor: f64,
    tolerance: f64,
    budget: usize,
    admissible: &(dyn Fn(&[Setting]) -> bool + Sync),
) -> (Dataset, Step) {
    let batches: Vec<Batch> = [32, 64].map(|b| Batch::new(b).unwrap()).to_vec();
    let design = Design {
        batches: vec![batches.clone(); 3],
        shares: (1..=10)
            .map(|k| Share::from_percent(10.0 * f64::from(k)).unwrap())
            .collect(),
        goal,
        rounds: &|_| 1.0,
        floor,
        admissible,
        shrink: &|_| {},
        tolerance,
        starts: 5,
        earlier: None,
        fitted: None,
        seed: 3,
    };
    let spec = TaskSpec {
        flops_per_sample: None,
        bytes_per_sample: None,
        batches,
        copy_of: None,
    };
    let mut data = Dataset {
        tasks: vec![spec; 3],
        samples: Vec::new(),
    };
    for _ in 0..budget {
        let step = design.next(&data).unwrap();
        let Step::Measure { active, .. } = &step else {
            return (data, step);
        };
        data.samples.push(Sample {
            throughput: device(active),
            active: active.clone(),
            stderr: None,
        });
    }
    let last = design.next(&data).unwrap();
    (data, last)
}

/// A choice that needs twice as many rounds has half the value, and half the expected gain.
#[test]
fn rounds_divide_what_a_choice_is_worth() {
    let rates = [30.0, 50.0];
    let errors = [3.0, 4.0];
    let solo = [100.0, 100.0];
    for goal in [
        Goal::Raw,
        Goal::Fairness,
        Goal::Round(vec![100.0, 200.0]),
        Goal::MaxMin,
    ] {
        let best = 1.01 * goal.value(&rates, &solo);
        let once = goal.expected_improvement(&rates, &errors, &solo, best);
        let halved = rates.map(|r| r / 2.0);
        let half = goal.expected_improvement(&halved, &errors.map(|e| e / 2.0), &solo, best / 2.0);
        assert!(
            (half - once / 2.0).abs() < 1e-9 * once,
            "{goal:?}: {half} {once}"
        );
    }
}

#[test]
fn finds_a_configuration_near_the_best_and_stops() {
    let (data, step) = run(0.001, 60, &|_| true);
    let Step::Stop(progress) = step else {
        panic!("still going after {} samples", data.samples.len());
    };
    let total = |a: &[Setting]| device(a).iter().sum::<f64>();
    let mut best = 0.0_f64;
    for k in 0..1000_u32 {
        for b in [32, 64] {
            let active: Vec<Setting> = (0..3)
                .map(|task| Setting {
                    task: task as usize,
                    batch: Batch::new(b).unwrap(),
                    share: Share::from_percent(f64::from(10 * (k / 10_u32.pow(task) % 10 + 1)))
                        .unwrap(),
                })
                .collect();
            best = best.max(total(&active));
        }
    }
    assert!(
        total(&progress.best) > 0.95 * best,
        "{progress:?} of {best}"
    );
    assert!(progress.expected_gain < 0.001);
}

#[test]
fn begins_with_solos_keeps_to_constraints_and_repeats_itself() {
    let half = |a: &[Setting]| {
        a.iter()
            .map(|a| a.share)
            .sum::<units::TotalShare>()
            .percent()
            <= 100.0
    };
    let (data, _) = run(0.0, 15, &half);
    assert!(data.samples[..6].iter().all(|s| s.active.len() == 1));
    assert!(
        data.samples[6..]
            .iter()
            .all(|s| s.active.len() == 3 && half(&s.active))
    );
    assert_eq!(run(0.0, 15, &half).0, data);
}

/// All co-runs of three tasks with two batch sizes and ten shares.
fn space() -> impl Iterator<Item = [Setting; 3]> {
    (0..8000_u32).map(|k| {
        [0, 1, 2].map(|task| Setting {
            task,
            batch: Batch::new(32 << (((k / 1000) >> task) & 1)).unwrap(),
            share: Share::from_percent(f64::from(10 * (k / 10_u32.pow(task as u32) % 10 + 1)))
                .unwrap(),
        })
    })
}

#[test]
fn begins_where_it_is_promising_with_co_runs_that_differ() {
    let (data, _) = run(0.0, 11, &|_| true);
    let total = |a: &[Setting]| device(a).iter().sum::<f64>();
    let starts: Vec<&[Setting]> = data.samples[6..].iter().map(|s| &s.active[..]).collect();
    assert_eq!(starts.iter().collect::<HashSet<_>>().len(), 5);
    let mut space: Vec<f64> = space().map(|active| total(&active)).collect();
    space.sort_by(f64::total_cmp);
    let better = starts
        .iter()
        .filter(|s| total(s) > space[space.len() * 9 / 10]);
    assert!(better.count() >= 3, "{starts:?}");
}

#[test]
fn the_best_keeps_the_floor() {
    let relative = |active: &[Setting]| {
        let alone = active.iter().map(|a| {
            let share = Share::FULL;
            device(&[Setting { share, ..*a }])[0]
        });
        let rates = device(active).into_iter().zip(alone);
        rates.map(|(p, s)| p / s).collect::<Vec<f64>>()
    };
    let least = |active: &[Setting]| relative(active).into_iter().fold(1.0, f64::min);
    let weights = [10.0, 1.0, 1.0];
    let value = |active: &[Setting]| Goal::Weighted(weights.to_vec()).value(&device(active), &[]);
    let best = |floor: f64| {
        let goal = Goal::Weighted(weights.to_vec());
        let (_, step) = run_for(goal, floor, 0.0, 36, &|_| true);
        let (Step::Measure {
            state: Some(state), ..
        }
        | Step::Stop(state)) = step
        else {
            panic!("{step:?}");
        };
        state.best
    };
    let (free, kept) = (best(0.0), best(0.6));
    assert!(least(&free) < 0.5, "{free:?} {}", least(&free));
    assert!(least(&kept) > 0.58, "{kept:?} {}", least(&kept));
    let feasible = space().filter(|active| least(active) >= 0.6);
    let most = feasible.map(|active| value(&active)).fold(0.0, f64::max);
    assert!(value(&kept) > 0.95 * most, "{} of {most}", value(&kept));
}

#[test]
fn a_small_space_is_measured_once_and_no_more() {
    let only = |a: &[Setting]| {
        a.iter()
            .all(|a| a.share == Share::FULL || a.share.fraction() == 0.5)
    };
    let (data, step) = run(0.0, 100, &only);
    let distinct: HashSet<&[Setting]> = data.samples.iter().map(|s| &s.active[..]).collect();
    assert_eq!(distinct.len(), data.samples.len());
    assert!(matches!(step, Step::Stop(_)));
    // Six solo runs, and two batch sizes and two shares of three tasks.
    assert!(data.samples.len() <= 6 + 64);
}

#[test]
fn values_of_goals() {
    let (rates, solo) = ([50.0, 30.0], [100.0, 100.0]);
    assert_eq!(Goal::Raw.value(&rates, &solo), 80.0);
    assert_eq!(Goal::Fairness.value(&rates, &solo), 0.8);
    assert_eq!(Goal::Weighted(vec![1.0, 2.0]).value(&rates, &solo), 110.0);
    assert_eq!(Goal::MaxMin.value(&rates, &solo), 0.3);
    assert_eq!(Goal::Round(vec![100.0, 15.0]).value(&rates, &solo), 0.5);
    let certain = Goal::MaxMin.expected_improvement(&rates, &[0.0, 0.0], &solo, 0.25);
    assert!((certain - 0.05).abs() < 1e-9, "{certain}");
}

/// Number of co-runs until the model's choice is near the best, on a device on which task 0 became slower.
fn coruns_until_near(earlier: Option<&Predictor>) -> usize {
    let changed = |active: &[Setting]| {
        let mut rates = device(active);
        for (rate, a) in rates.iter_mut().zip(active) {
            if a.task == 0 {
                *rate *= 0.9 - 0.05 * a.share.fraction();
            }
        }
        rates
    };
    let total = |a: &[Setting]| changed(a).iter().sum::<f64>();
    let batches: Vec<Batch> = [32, 64].map(|b| Batch::new(b).unwrap()).to_vec();
    let shares: Vec<Share> = (1..=10)
        .map(|k| Share::from_percent(10.0 * f64::from(k)).unwrap())
        .collect();
    let design = Design {
        batches: vec![batches.clone(); 3],
        shares,
        goal: Goal::Raw,
        rounds: &|_| 1.0,
        floor: 0.0,
        admissible: &|_| true,
        shrink: &|_| {},
        tolerance: 0.0,
        starts: 5,
        earlier,
        fitted: None,
        seed: 3,
    };
    let spec = TaskSpec {
        flops_per_sample: None,
        bytes_per_sample: None,
        batches,
        copy_of: None,
    };
    let mut data = Dataset {
        tasks: vec![spec; 3],
        samples: Vec::new(),
    };
    let mut rng = StdRng::seed_from_u64(0);
    let all: Vec<Vec<Setting>> = (0..4000).filter_map(|_| design.draw(&mut rng)).collect();
    let best = all.iter().map(|a| total(a)).fold(0.0, f64::max);
    let mut coruns = 0;
    while coruns < 60 {
        let Step::Measure { active, state, .. } = design.next(&data).unwrap() else {
            break;
        };
        if state.is_some_and(|s| total(&s.best) > 0.98 * best) {
            break;
        }
        coruns += usize::from(active.len() > 1);
        data.samples.push(Sample {
            throughput: changed(&active),
            active,
            stderr: None,
        });
    }
    coruns
}

#[test]
fn a_model_from_before_a_small_change_saves_measurements() {
    let (data, _) = run(0.0, 50, &|_| true);
    let options = FitOptions::default();
    let model = fit(&data, Method::Blend, &options).unwrap().predictor;
    let (cold, warm) = (coruns_until_near(None), coruns_until_near(Some(&model)));
    assert!(warm + 3 <= cold, "{warm} with the model, {cold} without");
}

/// A model of many tasks chooses several co-runs at once, all different and new, both spread ones and promising ones.
#[test]
fn one_model_of_many_tasks_chooses_a_lot() {
    const TASKS: usize = 17;
    let batches: Vec<Batch> = [32, 64].map(|b| Batch::new(b).unwrap()).to_vec();
    // Not all tasks fit at the larger batch size.
    let fits = |active: &[Setting]| {
        let sum: u32 = active.iter().map(|a| a.batch.get()).sum();
        sum <= 17 * 40
    };
    let small = |active: &mut [Setting]| {
        for at in 0..active.len() {
            if !fits(active) {
                active[at].batch = Batch::new(32).unwrap();
            }
        }
    };
    let design = Design {
        batches: vec![batches.clone(); TASKS],
        shares: (1..=10)
            .map(|k| Share::from_percent(10.0 * f64::from(k)).unwrap())
            .collect(),
        goal: Goal::Raw,
        rounds: &|_| 1.0,
        floor: 0.0,
        admissible: &fits,
        shrink: &small,
        tolerance: 0.0,
        starts: 3,
        earlier: None,
        fitted: None,
        seed: 1,
    };
    let spec = TaskSpec {
        flops_per_sample: None,
        bytes_per_sample: None,
        batches,
        copy_of: None,
    };
    let mut data = Dataset {
        tasks: vec![spec; TASKS],
        samples: Vec::new(),
    };
    let mut lots = Vec::new();
    while lots.len() < 2 {
        let Step::Measure {
            active, more, why, ..
        } = design.next(&data).unwrap()
        else {
            panic!("there is more to measure");
        };
        if why != Why::Solo {
            assert_eq!(more.len(), coruns_per_fit(TASKS) - 1, "{why:?}");
            lots.push(why);
        }
        for active in std::iter::once(active).chain(more) {
            assert!(active.len() == 1 || fits(&active), "{active:?}");
            assert!(data.samples.iter().all(|s| s.active != active));
            data.samples.push(Sample {
                throughput: device(&active),
                active,
                stderr: None,
            });
        }
    }
    assert_eq!(lots, [Why::Spread, Why::Improve]);
    assert_eq!(
        (
            coruns_per_fit(1),
            coruns_per_fit(8),
            coruns_per_fit(9),
            coruns_per_fit(64)
        ),
        (1, 1, 2, 8)
    );
}
