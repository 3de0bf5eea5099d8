//! Rounds in which some compute is deliberately held back.

use crate::brute::{brute_force_waiting, permutations, plain_makespan};
use crate::common::{co_run_rates, fixed_rates, never_waiting, rng, round};
use doc::{Hold, PhaseKind};
use overlap::{
    Instance, Link, Order, OrderOptions, RoundTask, Schedules, TableRates, Transfer,
    may_end_before, simulate_held, solve,
};
use proptest::prelude::*;
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

/// Rates for which co-running costs more than overlap gains: each further task makes all slower by the same factor,
/// up to five times.
fn hurting_rates(rng: &mut SmallRng, n: usize) -> TableRates {
    let solo: Vec<f64> = (0..n).map(|_| rng.random_range(300.0..2000.0)).collect();
    let factor: f64 = rng.random_range(1.2..5.0);
    let mut table = TableRates::new();
    for set in 1u64..1 << n {
        let slow = factor.powi(set.count_ones() as i32 - 1);
        table.insert(set, solo.iter().map(|s| s / slow).collect());
    }
    table
}

fn seconds(
    instance: &Instance,
    rates: &TableRates,
    options: &OrderOptions,
) -> overlap::SolvedRound {
    let found = solve(instance, rates, options).expect("a valid round");
    let replay =
        simulate_held(instance, rates, &[], &found.order, &found.holds).expect("a valid round");
    assert_eq!(replay, found.schedule);
    let compared = found.certificate.class > Schedules::NeverWaiting;
    assert!(found.holds.is_empty() || compared || !found.proven());
    if let Order::PerDirection { downloads, uploads } = &found.order {
        let orders = (&downloads[..], Some(&uploads[..]));
        let none = vec![0.0; instance.len()];
        let plain = plain_makespan(instance, rates, &[], orders, &found.holds, &none)
            .expect("a valid round");
        let s = found.schedule.makespan_s;
        assert!((plain - s).abs() <= 1e-9 * s, "{plain} is not {s}");
    }
    found
}

#[test]
fn the_best_waiting_schedule_is_found_and_proven() {
    let mut helped = 0;
    for case in 0..240 {
        // Four tasks take a tenth of a second or more each, fewer take milliseconds.
        let n = if case % 12 == 0 {
            4
        } else {
            2 + case as usize % 2
        };
        let mut rng = rng(case + 7_000);
        // Both kinds of rates for each number of tasks.
        let rates = if case / 12 % 3 == 0 {
            co_run_rates(&mut rng, n)
        } else {
            hurting_rates(&mut rng, n)
        };
        let instance = round(&mut rng, n, Link::Full);
        let found = seconds(&instance, &rates, &OrderOptions::default());
        let truth = brute_force_waiting(&instance, &rates, &[]).unwrap();
        let s = found.schedule.makespan_s;
        // Four tasks may also wait for later ones, and for transfers.
        let least = if n < 4 { truth } else { 0.0 };
        assert!(
            s <= truth * (1.0 + 2e-9) && s >= least * (1.0 - 2e-9),
            "case {case}: {s} not {truth}"
        );
        assert!(found.proven() && found.certificate.class >= Schedules::Alternating);
        assert!(found.lower_bound_s <= truth * (1.0 + 1e-9), "case {case}");
        let straight = solve(&instance, &rates, &never_waiting()).unwrap();
        helped += usize::from(s < straight.schedule.makespan_s * (1.0 - 1e-6));
    }
    assert!(helped > 15, "waiting must matter somewhere: {helped}");
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
        let s = solve(&instance, &rates, &OrderOptions::default())
            .unwrap()
            .schedule
            .makespan_s;
        let may = |part: f64| may_end_before(&instance, &rates, &[], part * s, 10_000).unwrap();
        let looked_at = [0.5, 0.9, 1.0 - 1e-7, 1.0 + 1e-7, 1.1, f64::INFINITY];
        let truth = looked_at.map(|part| part > 1.0);
        assert_eq!(looked_at.map(may), truth, "case {case}");
    }
}

/// With any idling: random orders, and compute that starts at random times.
#[test]
fn lower_bounds_hold_for_any_idling() {
    for case in 0..60 {
        let n = 2 + case as usize % 4;
        let mut rng = rng(case + 8_000);
        let rates = hurting_rates(&mut rng, n);
        let instance = round(&mut rng, n, Link::Full);
        let found = seconds(&instance, &rates, &OrderOptions::default());
        for _ in 0..200 {
            let mut downloads: Vec<usize> = (0..n).collect();
            downloads.shuffle(&mut rng);
            let most = found.schedule.makespan_s;
            let earliest: Vec<f64> = (0..n).map(|_| rng.random_range(0.0..most)).collect();
            let orders = (&downloads[..], None);
            let end = plain_makespan(&instance, &rates, &[], orders, &[], &earliest).unwrap();
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
        let found = seconds(&instance, &rates, &OrderOptions::default());
        let straight = solve(&instance, &rates, &never_waiting()).unwrap();
        assert!(found.schedule.makespan_s <= straight.schedule.makespan_s * (1.0 + 1e-12));
        // The full-duplex link of a round is a relaxation.
        let full = Instance::new(instance.jobs().to_vec(), Link::Full).unwrap();
        let wider = seconds(&full, &rates, &OrderOptions::default());
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
    let jobs = plain.jobs().iter().map(|&j| overlap::RoundTask {
        work: 4.0 * j.work,
        ..j
    });
    let instance = Instance::new(jobs.collect(), Link::Full).unwrap();
    let straight = solve(&instance, &rates, &never_waiting()).unwrap();
    let found = seconds(&instance, &rates, &OrderOptions::default());
    assert!(found.schedule.makespan_s < straight.schedule.makespan_s);
    assert!(found.certificate.class < Schedules::Any || found.gap() < 1e-9);
    assert!(straight.lower_bound_s <= found.schedule.makespan_s);
}

#[test]
fn nothing_waits_where_corunners_do_not_matter() {
    for link in [Link::Full, Link::Half] {
        let instance = round(&mut rng(12_000), 5, link);
        let rates = fixed_rates(&mut rng(12_001), 5);
        let found = solve(&instance, &rates, &OrderOptions::default()).unwrap();
        assert!(found.proven() && found.holds.is_empty());
        assert_eq!(found.certificate.class, Schedules::Any);
        assert!(found.gap() == 0.0);
    }
}

/// 13 tasks that run faster together, so the solo rate is not the highest.
#[test]
fn corunners_that_speed_up_do_not_break_the_bound() {
    let mut rng = rng(13_000);
    let n = 13;
    let mut rates = TableRates::new();
    let solo: Vec<f64> = (0..n).map(|_| rng.random_range(300.0..1500.0)).collect();
    for set in 1u64..1 << n {
        let faster = 1.0 + 0.25 * f64::from(set.count_ones() - 1);
        rates.insert(set, solo.iter().map(|s| s * faster).collect());
    }
    let instance = round(&mut rng, n, Link::Full);
    let options = OrderOptions {
        nodes: 20_000,
        plays: 20_000,
        ..OrderOptions::default()
    };
    let found = seconds(&instance, &rates, &options);
    for _ in 0..500 {
        let mut downloads: Vec<usize> = (0..n).collect();
        downloads.shuffle(&mut rng);
        let none = vec![0.0; n];
        let orders = (&downloads[..], None);
        let end = plain_makespan(&instance, &rates, &[], orders, &[], &none).unwrap();
        assert!(end >= found.lower_bound_s * (1.0 - 1e-9));
    }
}

fn hold(task: usize, phase: PhaseKind, until: usize, end_of: PhaseKind) -> Hold {
    Hold {
        task,
        phase,
        until,
        end_of,
    }
}

/// Downloads and uploads in the order of the tasks.
fn in_order(n: usize) -> Order {
    Order::PerDirection {
        downloads: (0..n).collect(),
        uploads: (0..n).collect(),
    }
}

#[test]
fn a_phase_that_would_wait_for_itself_is_refused() {
    use PhaseKind::{Compute, Download, Upload};
    let rates = hurting_rates(&mut rng(14_000), 2);
    let instance = round(&mut rng(14_001), 2, Link::Full);
    let order = in_order(2);
    let play = |holds: &[Hold]| simulate_held(&instance, &rates, &[], &order, holds);
    let first = |phase, end_of| hold(0, phase, 1, end_of);
    let second = |phase, end_of| hold(1, phase, 0, end_of);
    for fine in [
        vec![second(Compute, Compute)],
        vec![first(Compute, Compute)],
        vec![second(Download, Upload), second(Compute, Compute)],
        vec![first(Upload, Download)],
    ] {
        assert!(play(&fine).is_ok(), "{fine:?}");
    }
    for wrong in [
        vec![hold(0, Compute, 0, Download)],
        vec![hold(0, Compute, 2, Compute)],
        vec![second(Compute, Compute); 2],
        vec![first(Compute, Compute), second(Compute, Compute)],
        vec![first(Download, Upload)],
        vec![first(Compute, Upload)],
        vec![second(Download, Upload), first(Upload, Download)],
    ] {
        assert!(play(&wrong).is_err(), "{wrong:?}");
    }
    let half = Instance::new(instance.jobs().to_vec(), Link::Half).unwrap();
    let transfers = [Transfer::Download, Transfer::Upload].map(|t| [t(0), t(1)]);
    let order = Order::OneByOne(transfers.concat());
    let play = |holds: &[Hold]| simulate_held(&half, &rates, &[], &order, holds);
    assert!(play(&[second(Compute, Compute)]).is_ok());
    assert!(play(&[first(Compute, Compute)]).is_err());
    assert!(play(&[second(Download, Upload)]).is_err());
}

/// Seconds by both simulations.
fn played(jobs: &[(f64, f64, f64)], rates: &TableRates, holds: &[Hold]) -> f64 {
    let job = |&(download_s, work, upload_s): &(f64, f64, f64)| RoundTask {
        download_s,
        work,
        upload_s,
    };
    let n = jobs.len();
    let instance =
        Instance::new(jobs.iter().map(job).collect(), Link::Full).expect("a valid round");
    let fast = simulate_held(&instance, rates, &[], &in_order(n), holds).expect("a valid round");
    let order: Vec<usize> = (0..n).collect();
    let (orders, none) = ((&order[..], Some(&order[..])), vec![0.0; n]);
    let plain = plain_makespan(&instance, rates, &[], orders, holds, &none).expect("a valid round");
    assert!((fast.makespan_s - plain).abs() <= 1e-12 * plain);
    plain
}

#[test]
fn held_transfers_start_at_the_end_that_they_wait_for() {
    use PhaseKind::{Compute, Download, Upload};
    let mut rates = TableRates::new();
    rates.insert(1, vec![1.0, 0.0]);
    rates.insert(2, vec![0.0, 1.0]);
    rates.insert(3, vec![0.5, 0.5]);
    let jobs = [(1.0, 4.0, 2.0), (3.0, 5.0, 1.0)];
    // 0 computes alone from 1 to 4, then half as fast with 1 until 6; 1 has 4 samples left at 6.
    assert_eq!(played(&jobs, &rates, &[]), 11.0);
    // 1 downloads from 7 to 10, computes to 15.
    assert_eq!(played(&jobs, &rates, &[hold(1, Download, 0, Upload)]), 16.0);
    // 1 computes from 7 to 12.
    assert_eq!(played(&jobs, &rates, &[hold(1, Compute, 0, Upload)]), 13.0);
    // 1 computes from 5 to 10.
    assert_eq!(played(&jobs, &rates, &[hold(1, Compute, 0, Compute)]), 11.0);
    assert_eq!(played(&jobs, &rates, &[hold(0, Upload, 1, Compute)]), 13.0);
    // Transfers that take no time.
    let jobs = [(0.0, 4.0, 0.0), (0.0, 5.0, 0.0)];
    assert_eq!(played(&jobs, &rates, &[hold(1, Download, 0, Upload)]), 9.0);
    assert_eq!(played(&jobs, &rates, &[]), 9.0);
}

fn full_and_half(seed: u64) -> (f64, f64, bool) {
    let mut rng = rng(seed);
    let n = rng.random_range(2..=4);
    let rates = match seed % 3 {
        0 => co_run_rates(&mut rng, n),
        _ => hurting_rates(&mut rng, n),
    };
    let half = round(&mut rng, n, Link::Half);
    let each_way = Instance::new(half.jobs().to_vec(), Link::Full).expect("a valid round");
    let full = seconds(&each_way, &rates, &OrderOptions::default());
    let half = seconds(&half, &rates, &OrderOptions::default());
    assert!(full.proven() && half.proven());
    let transfers = full.holds.iter().any(|h| h.phase != PhaseKind::Compute);
    (
        full.schedule.makespan_s,
        half.schedule.makespan_s,
        transfers,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Half duplex is a restriction: full duplex can play the same rounds by waiting.
    #[test]
    fn a_full_duplex_round_is_never_longer_than_a_half_duplex_one(seed in any::<u64>()) {
        let (full, half, _) = full_and_half(seed);
        prop_assert!(full <= half * (1.0 + 1e-9), "{full} is longer than {half}");
    }
}

#[test]
fn transfers_wait_where_that_ends_a_round_sooner() {
    let helped = (0..100).filter(|&seed| full_and_half(seed).2).count();
    assert!(helped > 0, "waiting of transfers must matter somewhere");
}

/// Six tasks of which at most two should compute together at first: with holds of compute alone the round takes
/// 56.498 s, on a half-duplex link 56.433 s.
#[test]
fn six_tasks_end_as_soon_as_on_half_duplex() {
    let job = |work: f64, down: f64, up: f64| RoundTask {
        download_s: down / 50.0,
        work,
        upload_s: up / 50.0,
    };
    let jobs = vec![
        job(19_000.0, 15.0, 15.0),
        job(19_000.0, 85.0, 15.0),
        job(19_000.0, 15.0, 85.0),
        job(19_000.0, 15.0, 15.0),
        job(38_000.0, 85.0, 85.0),
        job(38_000.0, 85.0, 85.0),
    ];
    let mut rates = TableRates::new();
    for set in 1u64..1 << 6 {
        let together = f64::from(set.count_ones());
        let slow = (together / 2.0).max(1.0).powf(0.75);
        let solo = [1000.0, 1000.0, 1000.0, 2000.0, 2000.0, 1000.0];
        rates.insert(set, solo.iter().map(|s| s / slow).collect());
    }
    let solve_on = |link| {
        let instance = Instance::new(jobs.clone(), link).unwrap();
        seconds(&instance, &rates, &OrderOptions::default())
    };
    let (full, half) = (solve_on(Link::Full), solve_on(Link::Half));
    assert!(full.schedule.makespan_s <= half.schedule.makespan_s * (1.0 + 1e-9));
    assert!(full.schedule.makespan_s < 56.434);
    assert!(full.lower_bound_s <= full.schedule.makespan_s);
}

/// Every order of four downloads, with every hold of compute until the compute or the upload of another task ends:
/// none of these `4! 7^4` rounds ends before the one that the search finds.
#[test]
fn four_tasks_wait_for_later_tasks_and_for_uploads() {
    const N: usize = 4;
    for case in 0..2 {
        let mut rng = rng(case + 15_000);
        let rates = hurting_rates(&mut rng, N);
        let instance = round(&mut rng, N, Link::Full);
        let found = seconds(&instance, &rates, &OrderOptions::default());
        let s = found.schedule.makespan_s;
        for code in 0..7_usize.pow(4) {
            // 0: no hold; 1 to 3: until the compute of one of the other three tasks; 4 to 6: until its upload.
            let digits = [1, 7, 49, 343].map(|place| code / place % 7);
            let until = |task: usize| Some((task + 1 + digits[task].checked_sub(1)? % 3) % N);
            let chain = |task| std::iter::successors(Some(task), |&t| until(t));
            if (0..N).any(|task| chain(task).nth(N).is_some()) {
                // These tasks wait for each other.
                continue;
            }
            let held = (0..N).filter_map(|task| {
                let end_of =
                    [PhaseKind::Compute, PhaseKind::Upload][digits[task].checked_sub(1)? / 3];
                Some(hold(task, PhaseKind::Compute, until(task)?, end_of))
            });
            let holds: Vec<Hold> = held.collect();
            for order in permutations(N) {
                let (orders, none) = ((&order[..], None), [0.0; N]);
                let end = plain_makespan(&instance, &rates, &[], orders, &holds, &none).unwrap();
                assert!(
                    s <= end * (1.0 + 1e-9),
                    "case {case}: {s}, but {end} by {holds:?}"
                );
            }
        }
    }
}
