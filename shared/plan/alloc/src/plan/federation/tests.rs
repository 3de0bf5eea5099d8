use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;

fn part(part: f64) -> Option<Shortened> {
    Some(Shortened {
        part,
        makespan_s: 10.0,
    })
}

fn worth(tasks: &[(&str, f64)], last: bool) -> Worth {
    let own = |&(id, samples): &(&str, f64)| Own {
        id: TaskId::new(id).unwrap(),
        samples,
        weight: 1.0,
        progress: TaskProgress::default(),
    };
    Worth {
        tasks: tasks.iter().map(own).collect(),
        last,
    }
}

fn way(end_s: f64, progress: &[f64]) -> Way {
    Way {
        replanned: None,
        shortened: None,
        end_s,
        progress: progress.to_vec(),
    }
}

/// Random targets: 1 to `devices` devices with up to 4 ways each, and up to 3 tasks, some of which
/// a device may lack.
fn drawn(seed: u64, devices: usize) -> Targets {
    let mut rng = SmallRng::seed_from_u64(seed);
    let tasks = rng.random_range(1..=3);
    let last = rng.random_bool(0.5);
    let mut targets = Targets::default();
    for _ in 0..rng.random_range(1..=devices) {
        let own: Vec<(&str, f64)> = ["a", "b", "c"][..tasks]
            .iter()
            .filter_map(|id| {
                let has = *id == "a" || rng.random_bool(0.8);
                has.then(|| (*id, rng.random_range(1.0..100.0)))
            })
            .collect();
        let one = |scale: f64, rng: &mut SmallRng| {
            let progress: Vec<f64> = own
                .iter()
                .map(|(_, n)| scale * n * rng.random_range(0.02..0.2))
                .collect();
            way(rng.random_range(1.0..10.0), &progress)
        };
        let whole = one(1.0, &mut rng);
        let count = rng.random_range(0..=4);
        let ways = (0..count).map(|_| one(0.8, &mut rng)).collect();
        targets.add(&worth(&own, last), whole, ways);
    }
    targets
}

/// Reference: enumerates the combinations recursively and evaluates each by the definition.
fn slow(targets: &Targets, chosen: &mut Vec<usize>) -> f64 {
    if let Some(device) = targets.devices.get(chosen.len()) {
        let mut best = f64::INFINITY;
        for k in 0..device.ways.len() {
            chosen.push(k);
            best = best.min(slow(targets, chosen));
            chosen.pop();
        }
        return best;
    }
    let ways = || {
        let each = targets.devices.iter().zip(&*chosen);
        each.map(|(device, &k)| (device, &device.ways[k]))
    };
    let length = ways().map(|(_, w)| w.end_s).fold(0.0, f64::max);
    let time = |i: usize| {
        let mut share = 0.0;
        for (device, way) in ways() {
            if let Some(own) = device.places.iter().position(|&place| place == i) {
                share += way.progress[own] / targets.tasks[i].samples;
            }
        }
        length / share
    };
    let times: Vec<f64> = (0..targets.tasks.len()).map(time).collect();
    if targets.mean {
        times.iter().sum::<f64>() / times.len() as f64
    } else {
        times.into_iter().fold(0.0, f64::max)
    }
}

#[test]
fn the_mixture_is_the_best_of_all() {
    for seed in 0..300 {
        let targets = drawn(seed, 4);
        let found = targets.decide();
        let truth = slow(&targets, &mut Vec::new());
        let off = (found.seconds / truth - 1.0).abs();
        assert!(off < 1e-9, "{seed}: {} of {truth}", found.seconds);
        assert!(found.seconds <= found.own_s, "{seed}");
    }
}

/// The descent replaces the enumeration if there are too many combinations.
#[test]
fn a_descent_is_no_later_than_the_own_plans_and_mostly_the_best() {
    let (mut best, mut worst) = (0, 1.0_f64);
    for seed in 0..300 {
        let targets = drawn(seed, 6);
        let own = vec![0; targets.devices.len()];
        let from = targets.seconds(&own);
        let (_, found) = targets.descents(own);
        let truth = slow(&targets, &mut Vec::new());
        assert!(found <= from, "{seed}");
        worst = worst.max(found / truth);
        best += usize::from(found <= truth * (1.0 + 1e-9));
    }
    assert!(best >= 295 && worst < 1.2, "{best} of 300, worst {worst}");
}

#[test]
fn a_part_of_the_samples_makes_that_part_of_the_progress() {
    let mut targets = Targets::default();
    let whole = worth(&[("a", 100.0)], true);
    let on_time = whole.way(None, &[None], None, 8.0);
    targets.add(&whole, on_time, Vec::new());
    let late = worth(&[("a", 300.0)], true);
    let ways = vec![late.way(None, &[None], part(0.5), 10.0)];
    targets.add(&late, late.way(None, &[None], None, 20.0), ways);
    let found = targets.decide();
    // One round of 20 s, or 400 / 250 rounds of 10 s.
    assert_eq!((found.waiting_s, found.seconds), (20.0, 16.0));
    let id = TaskId::new("a").unwrap();
    assert_eq!(found.kept, [vec![(id.clone(), 1.0)], vec![(id, 0.5)]]);
}

#[test]
fn nobody_who_takes_part_is_never_there() {
    let mut targets = Targets::default();
    let late = worth(&[("a", 300.0)], false);
    let ways = vec![late.way(None, &[None], part(0.0), 10.0)];
    targets.add(&late, late.way(None, &[None], None, 20.0), ways);
    let found = targets.decide();
    assert_eq!((found.waiting_s, found.seconds), (20.0, f64::INFINITY));
    assert!(found.remark().unwrap().contains("nobody trains"));
}
