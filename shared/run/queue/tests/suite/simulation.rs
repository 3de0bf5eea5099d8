//! Thousands of queues on virtual time.

use std::collections::BTreeMap;

use queue::book::{Demand, Outcome};
use queue::explore::Learnt;
use queue::policy::{Limits, MOST_FAILURES};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

use crate::world::{Device, Plan, World};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// `MT_SIM_SEEDS=10000` for many, `MT_SIM_SEED=N` for one.
#[test]
fn nothing_is_lost_and_nothing_is_done_twice() {
    let seeds = match std::env::var("MT_SIM_SEED") {
        Ok(seed) => vec![seed.parse().expect("a seed")],
        Err(_) => (0..number("MT_SIM_SEEDS", 300)).collect::<Vec<u64>>(),
    };
    let (mut jobs, mut done, mut skipped) = (0, 0, 0);
    for seed in seeds {
        let mut world = World::random(seed);
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut rng = SmallRng::seed_from_u64(!seed);
            world.play(&mut rng, 0.005);
        }));
        if let Err(panic) = played {
            eprintln!("MT_SIM_SEED={seed} shows it");
            std::panic::resume_unwind(panic);
        }
        for (id, entry) in &world.book().entries {
            jobs += 1;
            let completions = world.completions.get(id).copied().unwrap_or(0);
            let starts = world.starts.get(id).copied().unwrap_or(0);
            assert_eq!(
                completions,
                u32::from(entry.outcome() == Some(&Outcome::Done)),
                "{seed} {id}"
            );
            assert_eq!(
                starts, entry.starts,
                "{seed} {id}: every start is in the book"
            );
            if world.book().demand(entry).once {
                assert!(starts <= 1, "{seed} {id}: started {starts} times");
            }
            match entry.outcome() {
                Some(Outcome::Done) => done += 1,
                Some(Outcome::Skipped(why)) => {
                    assert!(!why.is_empty());
                    skipped += 1;
                }
                _ => {}
            }
        }
    }
    assert!(
        done * 3 > jobs && skipped > 0,
        "{done} of {jobs} done, {skipped} skipped"
    );
}

fn plain(count: usize, tells: bool, seconds: (f64, f64)) -> Vec<Plan> {
    let plan = Plan {
        arrives: 0.0,
        template: 0,
        seconds,
        tells,
        fails: None,
        cancelled: None,
        demand: Demand::default(),
        needs: 0,
    };
    vec![plan; count]
}

const LIMITS: Limits = Limits {
    most: 16,
    memory: u64::MAX,
    total_share: 160_000,
    regrants: false,
};

fn device(free: f64, toll: f64) -> Device {
    Device {
        free,
        toll,
        memory: u64::MAX,
    }
}

/// Makespan, and the levels learnt.
fn makespan(
    plans: Vec<Plan>,
    device: Device,
    limits: Limits,
    learnt: BTreeMap<String, Learnt>,
) -> (f64, BTreeMap<String, Learnt>) {
    let mut world = World::new(plans, device, limits, learnt);
    let seconds = world.play(&mut SmallRng::seed_from_u64(1), 0.0);
    (seconds, world.learnt().clone())
}

/// The best fixed number of jobs at once, known only in hindsight.
fn best_fixed(plans: &[Plan], device: Device) -> f64 {
    let fixed = |most| {
        let known = Learnt {
            level: 16,
            step: 0,
            halving: true,
            speedup: 1.0,
        };
        let templates = plans
            .iter()
            .map(|p| (format!("t{}", p.template), known.clone()));
        makespan(
            plans.to_vec(),
            device,
            Limits { most, ..LIMITS },
            templates.collect(),
        )
        .0
    };
    (1..=16).map(fixed).fold(f64::INFINITY, f64::min)
}

/// Beside the best fixed number in hindsight: without knowledge, and with what the first queue learnt. On
/// processors shares move at once; on a GPU what a step too far has started runs on.
#[test]
fn the_level_that_does_most_is_found_and_kept() {
    for (regrants, first_most) in [(true, 1.07), (false, 1.25)] {
        let limits = Limits { regrants, ..LIMITS };
        for (free, toll) in [(1.0, 0.1), (2.0, 0.3), (4.0, 0.2), (6.0, 0.5), (9.0, 0.3)] {
            let device = device(free, toll);
            let plans = plain(60, true, (2.0, 60.0));
            let best = best_fixed(&plans, device);
            let (first, learnt) = makespan(plans.clone(), device, limits, BTreeMap::new());
            let (again, _) = makespan(plans, device, limits, learnt.clone());
            let (first, again) = (first / best, again / best);
            println!(
                "regrants {regrants} free {free} toll {toll}: {first:.3}, known {again:.3}, {learnt:?}"
            );
            assert!(first <= first_most, "free {free}, toll {toll}: {first}");
            assert!(again <= 1.03, "free {free}, toll {toll}: {again}");
        }
    }
}

#[test]
fn jobs_that_print_nothing_are_compared_by_their_whole_runs() {
    let device = device(4.0, 0.3);
    let plans = plain(200, false, (0.5, 10.0));
    let best = best_fixed(&plans, device);
    let (found, learnt) = makespan(plans, device, LIMITS, BTreeMap::new());
    println!("{:.3} {learnt:?}", found / best);
    assert!(found / best <= 1.2, "{found} of {best}");
    assert!(learnt["t0"].level >= 3, "{learnt:?}");
}

#[test]
fn a_template_that_always_fails_is_stopped() {
    let mut plans = plain(20, true, (1.0, 10.0));
    for plan in &mut plans {
        plan.fails = Some(0.5);
    }
    let mut world = World::new(
        plans,
        device(1.0, 0.1),
        Limits { most: 1, ..LIMITS },
        BTreeMap::new(),
    );
    world.play(&mut SmallRng::seed_from_u64(1), 0.0);
    let started = world
        .book()
        .entries
        .values()
        .filter(|e| e.starts > 0)
        .count();
    assert_eq!(started, MOST_FAILURES as usize);
}
