//! The search against plain brute force.

use crate::brute::brute_force;
use crate::common::{co_run_rates, fixed_rates, never_waiting, rng, round};
use overlap::{Link, OrderOptions, Rates, lower_bounds, simulate, solve};

/// Solves and compares with all orders.
fn compare(case: u64, n: usize, link: Link, rates: &dyn Rates, single: bool) {
    let instance = round(&mut rng(case + 1000), n, link);
    let options = OrderOptions {
        single_order: single,
        ..never_waiting()
    };
    let found = solve(&instance, rates, &options).expect("a valid round");
    let truth = brute_force(&instance, rates, &[], single).expect("a valid round");
    let s = found.schedule.makespan_s;
    assert!(
        (s - truth).abs() <= 1e-9 * truth,
        "case {case}, {n} tasks, {link:?}, single {single}: {s} instead of {truth}"
    );
    assert!(found.proven(), "case {case}: {:?}", found.certificate.stop);
    let bounds = lower_bounds(&instance, rates, &[]).expect("a valid round");
    assert!(
        bounds.best() <= truth * (1.0 + 1e-9),
        "case {case}: {bounds:?}"
    );
    let replay = simulate(&instance, rates, &[], &found.order).expect("a valid round");
    assert_eq!(replay, found.schedule);
}

#[test]
fn full_duplex_equals_brute_force_on_200_rounds() {
    for case in 0..200 {
        // 50 rounds of each size, half of them with each kind of rates.
        let n = 3 + case as usize % 4;
        let mut rng = rng(case);
        if case / 4 % 2 == 0 {
            compare(
                case,
                n,
                Link::Full,
                &co_run_rates(&mut rng, n),
                case % 5 == 0,
            );
        } else {
            compare(
                case,
                n,
                Link::Full,
                &fixed_rates(&mut rng, n),
                case % 5 == 0,
            );
        }
    }
}

#[test]
fn half_duplex_equals_brute_force() {
    for case in 0..60 {
        let n = 2 + case as usize % 3;
        let mut rng = rng(case);
        if case % 2 == 0 {
            compare(
                case,
                n,
                Link::Half,
                &co_run_rates(&mut rng, n),
                case % 5 == 0,
            );
        } else {
            compare(
                case,
                n,
                Link::Half,
                &fixed_rates(&mut rng, n),
                case % 5 == 0,
            );
        }
    }
}

#[test]
fn a_shared_link_leaves_nothing_to_order() {
    for case in 0..20 {
        let rates = co_run_rates(&mut rng(case), 4);
        compare(case, 4, Link::Shared, &rates, false);
    }
}

#[test]
fn nine_tasks_are_proven_within_the_default_budget() {
    for case in 0..6 {
        let rates = co_run_rates(&mut rng(case), 9);
        let instance = round(&mut rng(case + 1000), 9, Link::Full);
        let found = solve(&instance, &rates, &never_waiting()).expect("a valid round");
        assert!(
            found.proven(),
            "case {case}: {:?} after {}",
            found.certificate.stop,
            found.points
        );
    }
}
