//! Rounds in which some compute is held back on purpose.

use crate::common::{co_run_rates, fixed_rates, never_waiting, rng, round};
use overlap::{
    Instance, Link, Options, Schedules, TableRates, brute_force_waiting, may_end_before,
    plain_makespan, simulate_held, solve,
};
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// Rates that co-running hurts more than it overlaps: each further task makes all slower by the
/// same factor, up to five times.
fn hurting_rates(rng: &mut SmallRng, n: usize) -> TableRates {
    let solo: Vec<f64> = (0..n).map(|_| rng.random_range(300.0..2000.0)).collect();
    let factor: f64 = rng.random_range(1.2..5.0);
    let mut table = TableRates::new();
    for set in 1u32..1 << n {
        let slow = factor.powi(set.count_ones() as i32 - 1);
        table.insert(set, solo.iter().map(|s| s / slow).collect());
    }
    table
}

fn seconds(instance: &Instance, rates: &TableRates, options: &Options) -> overlap::Outcome {
    let found = solve(instance, rates, options).expect("a valid round");
    let replay =
        simulate_held(instance, rates, &[], &found.order, &found.holds).expect("a valid round");
    assert_eq!(replay, found.schedule);
    if instance.link() == Link::Full {
        let none = vec![0.0; instance.len()];
        let holds = if found.holds.is_empty() {
            vec![None; instance.len()]
        } else {
            found.holds.clone()
        };
        let plain = plain_makespan(
            instance,
            rates,
            &[],
            &found.order.downloads(),
            &holds,
            &none,
        )
        .expect("a valid round");
        let s = found.schedule.makespan_s;
        assert!((plain - s).abs() <= 1e-9 * s, "{plain} is not {s}");
    }
    found
}

#[test]
fn the_best_waiting_schedule_is_found_and_proven() {
    let mut helped = 0;
    for case in 0..48 {
        let n = 2 + case as usize % 3;
        let mut rng = rng(case + 7_000);
        let rates = if case % 3 == 0 {
            co_run_rates(&mut rng, n)
        } else {
            hurting_rates(&mut rng, n)
        };
        let instance = round(&mut rng, n, Link::Full);
        let found = seconds(&instance, &rates, &Options::default());
        let truth = brute_force_waiting(&instance, &rates, &[]).unwrap();
        let s = found.schedule.makespan_s;
        assert!(
            (s - truth).abs() <= 2e-9 * truth,
            "case {case}: {s} not {truth}"
        );
        assert!(found.proven() && found.certificate.class >= Schedules::Waiting);
        assert!(found.lower_bound_s <= truth * (1.0 + 1e-9), "case {case}");
        let straight = solve(&instance, &rates, &never_waiting()).unwrap();
        helped += usize::from(s < straight.schedule.makespan_s * (1.0 - 1e-6));
    }
    assert!(helped > 5, "waiting must matter somewhere: {helped}");
}

#[test]
fn a_round_may_end_before_what_it_exceeds_and_before_nothing_else() {
    for case in 0..90 {
        let (n, link) = (
            2 + case as usize % 2,
            [Link::Full, Link::Half][case as usize / 2 % 2],
        );
        let mut rng = rng(case + 7_500);
        let rates = match case % 3 {
            0 => co_run_rates(&mut rng, n),
            _ => hurting_rates(&mut rng, n),
        };
        let instance = round(&mut rng, n, link);
        let s = solve(&instance, &rates, &Options::default()).unwrap();
        let s = s.schedule.makespan_s;
        let may = |part: f64| may_end_before(&instance, &rates, &[], part * s, 10_000).unwrap();
        let looked_at = [0.5, 0.9, 1.0 - 1e-7, 1.0 + 1e-7, 1.1, f64::INFINITY];
        let truth = looked_at.map(|part| part > 1.0);
        assert_eq!(looked_at.map(may), truth, "case {case}");
    }
}

/// Whatever idles: random orders, and compute that starts at random times.
#[test]
fn lower_bounds_hold_for_any_idling() {
    for case in 0..60 {
        let n = 2 + case as usize % 4;
        let mut rng = rng(case + 8_000);
        let rates = hurting_rates(&mut rng, n);
        let instance = round(&mut rng, n, Link::Full);
        let found = seconds(&instance, &rates, &Options::default());
        for _ in 0..200 {
            let mut downloads: Vec<usize> = (0..n).collect();
            downloads.shuffle(&mut rng);
            let most = found.schedule.makespan_s;
            let earliest: Vec<f64> = (0..n).map(|_| rng.random_range(0.0..most)).collect();
            let holds = vec![None; n];
            let end =
                plain_makespan(&instance, &rates, &[], &downloads, &holds, &earliest).unwrap();
            assert!(
                end >= found.lower_bound_s * (1.0 - 1e-9),
                "case {case}: {end} is below {}",
                found.lower_bound_s
            );
        }
    }
}

#[test]
fn a_half_duplex_round_may_wait_too() {
    let mut helped = 0;
    for case in 0..20 {
        let mut rng = rng(case + 9_000);
        let rates = hurting_rates(&mut rng, 3);
        let instance = round(&mut rng, 3, Link::Half);
        let found = seconds(&instance, &rates, &Options::default());
        let straight = solve(&instance, &rates, &never_waiting()).unwrap();
        assert!(found.schedule.makespan_s <= straight.schedule.makespan_s * (1.0 + 1e-12));
        // The link of a full-duplex round is a relaxation.
        let full = Instance::new(instance.jobs().to_vec(), Link::Full).unwrap();
        let wider = seconds(&full, &rates, &Options::default());
        assert!(wider.schedule.makespan_s <= found.schedule.makespan_s * (1.0 + 1e-9));
        helped += usize::from(!found.holds.is_empty());
    }
    assert!(helped > 2, "{helped}");
}

#[test]
fn many_tasks_wait_by_descent_and_their_proof_says_what_it_is_about() {
    let mut rng = rng(11_000);
    let rates = hurting_rates(&mut rng, 11);
    // Enough compute that the links do not decide.
    let plain = round(&mut rng, 11, Link::Full);
    let jobs = plain.jobs().iter().map(|&j| overlap::Job {
        work: 4.0 * j.work,
        ..j
    });
    let instance = Instance::new(jobs.collect(), Link::Full).unwrap();
    let straight = solve(&instance, &rates, &never_waiting()).unwrap();
    let found = seconds(&instance, &rates, &Options::default());
    assert!(found.schedule.makespan_s < straight.schedule.makespan_s);
    assert!(found.certificate.class < Schedules::Any || found.gap() < 1e-9);
    assert!(straight.lower_bound_s <= found.schedule.makespan_s);
}

#[test]
fn nothing_waits_where_corunners_do_not_matter() {
    for link in [Link::Full, Link::Half] {
        let instance = round(&mut rng(12_000), 5, link);
        let rates = fixed_rates(&mut rng(12_001), 5);
        let found = solve(&instance, &rates, &Options::default()).unwrap();
        assert!(found.proven() && found.holds.is_empty());
        assert_eq!(found.certificate.class, Schedules::Any);
        assert!(found.gap() == 0.0);
    }
}

/// 13 tasks that run faster together: the rate alone is not the highest.
#[test]
fn corunners_that_speed_up_do_not_break_the_bound() {
    let mut rng = rng(13_000);
    let n = 13;
    let mut rates = TableRates::new();
    let solo: Vec<f64> = (0..n).map(|_| rng.random_range(300.0..1500.0)).collect();
    for set in 1u32..1 << n {
        let faster = 1.0 + 0.25 * f64::from(set.count_ones() - 1);
        rates.insert(set, solo.iter().map(|s| s * faster).collect());
    }
    let instance = round(&mut rng, n, Link::Full);
    let options = Options {
        nodes: 20_000,
        plays: 20_000,
        ..Options::default()
    };
    let found = seconds(&instance, &rates, &options);
    for _ in 0..500 {
        let mut downloads: Vec<usize> = (0..n).collect();
        downloads.shuffle(&mut rng);
        let none = vec![0.0; n];
        let holds = vec![None; n];
        let end = plain_makespan(&instance, &rates, &[], &downloads, &holds, &none).unwrap();
        assert!(end >= found.lower_bound_s * (1.0 - 1e-9));
    }
}

#[test]
fn a_hold_on_what_comes_later_is_refused() {
    let rates = hurting_rates(&mut rng(14_000), 2);
    let instance = round(&mut rng(14_001), 2, Link::Full);
    let order = overlap::Order::PerDirection {
        downloads: vec![0, 1],
        uploads: vec![0, 1],
    };
    let play = |holds: &[Option<usize>]| simulate_held(&instance, &rates, &[], &order, holds);
    assert!(play(&[None, Some(0)]).is_ok());
    for wrong in [vec![Some(1), None], vec![Some(0), None], vec![None]] {
        assert!(play(&wrong).is_err(), "{wrong:?}");
    }
}
