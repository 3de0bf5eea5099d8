//! Relations that must hold between the results for related rounds.

use crate::common::{co_run_rates, fixed_rates, never_waiting, rng, round};
use overlap::{
    FixedRates, Instance, Link, Rates, RoundTask, lower_bounds, overlap_off, simulate, solve,
};
use rand::Rng;
use rand::seq::SliceRandom;

fn best(instance: &Instance, rates: &dyn Rates) -> f64 {
    let found = solve(instance, rates, &never_waiting()).expect("a valid round");
    assert!(found.proven());
    found.schedule.makespan_s
}

fn change(instance: &Instance, f: impl Fn(RoundTask) -> RoundTask) -> Instance {
    let jobs = instance.jobs().iter().map(|&j| f(j)).collect();
    Instance::new(jobs, instance.link()).expect("a valid round")
}

const LINKS: [Link; 3] = [Link::Full, Link::Half, Link::Shared];

#[test]
fn scaling_all_times_scales_the_makespan() {
    for case in 0..30 {
        let n = 3 + case as usize % 3;
        let link = LINKS[case as usize % 3];
        let rates = co_run_rates(&mut rng(case), n);
        let one = round(&mut rng(case + 1), n, link);
        let three = change(&one, |j| RoundTask {
            download_s: 3.0 * j.download_s,
            work: 3.0 * j.work,
            upload_s: 3.0 * j.upload_s,
        });
        let (a, b) = (best(&one, &rates), best(&three, &rates));
        assert!((3.0 * a - b).abs() <= 1e-9 * b, "case {case}: {a} {b}");
    }
}

#[test]
fn renaming_tasks_changes_nothing() {
    for case in 0..20 {
        let n = 5;
        let rates = fixed_rates(&mut rng(case), n);
        let one = round(&mut rng(case + 1), n, Link::Full);
        let mut jobs = one.jobs().to_vec();
        jobs.reverse();
        let mut turned = rates.0.clone();
        turned.reverse();
        let other = Instance::new(jobs, Link::Full).expect("a valid round");
        let (a, b) = (best(&one, &rates), best(&other, &FixedRates(turned)));
        assert!((a - b).abs() <= 1e-9 * b, "case {case}: {a} {b}");
    }
}

#[test]
fn one_more_task_never_shortens_the_optimum() {
    for case in 0..60 {
        let n = 3 + case as usize % 3;
        let link = LINKS[case as usize % 3];
        let more = round(&mut rng(case + 1), n + 1, link);
        let fewer = Instance::new(more.jobs()[..n].to_vec(), link).expect("a valid round");
        let (a, b) = if case % 2 == 0 {
            let rates = co_run_rates(&mut rng(case), n + 1);
            (best(&fewer, &rates), best(&more, &rates))
        } else {
            let rates = fixed_rates(&mut rng(case), n + 1);
            (best(&fewer, &rates), best(&more, &rates))
        };
        assert!(a <= b * (1.0 + 1e-9), "case {case}: {a} then {b}");
    }
}

#[test]
fn more_bandwidth_never_lengthens_the_optimum() {
    for case in 0..60 {
        let n = 3 + case as usize % 3;
        let link = LINKS[case as usize % 3];
        let slow = round(&mut rng(case + 1), n, link);
        let factor = rng(case + 2).random_range(1.05..2.0);
        let fast = change(&slow, |j| RoundTask {
            download_s: j.download_s / factor,
            upload_s: j.upload_s / factor,
            ..j
        });
        let (a, b) = if case % 2 == 0 {
            let rates = co_run_rates(&mut rng(case), n);
            (best(&fast, &rates), best(&slow, &rates))
        } else {
            let rates = fixed_rates(&mut rng(case), n);
            (best(&fast, &rates), best(&slow, &rates))
        };
        assert!(a <= b * (1.0 + 1e-9), "case {case}: {a} then {b}");
    }
}

#[test]
fn no_schedule_ends_before_the_lower_bound() {
    use overlap::Order;
    for case in 0..300 {
        let mut rng = rng(case);
        let n = 2 + case as usize % 7;
        let rates = co_run_rates(&mut rng, n);
        let instance = round(&mut rng, n, Link::Full);
        let mut downloads: Vec<usize> = (0..n).collect();
        let mut uploads = downloads.clone();
        downloads.shuffle(&mut rng);
        uploads.shuffle(&mut rng);
        let order = Order::PerDirection { downloads, uploads };
        let bound = lower_bounds(&instance, &rates, &[])
            .expect("a valid round")
            .best();
        let s = simulate(&instance, &rates, &[], &order)
            .expect("a valid round")
            .makespan_s;
        assert!(bound <= s * (1.0 + 1e-9), "case {case}: {bound} above {s}");
        let off = overlap_off(&instance, &rates, &[]).expect("a valid round");
        assert!(
            bound <= off * (1.0 + 1e-9),
            "case {case}: {bound} above {off}"
        );
    }
}

#[test]
fn shared_and_half_duplex_rounds_respect_the_bounds_too() {
    for case in 0..60 {
        let mut rng = rng(case);
        let n = 2 + case as usize % 4;
        let rates = co_run_rates(&mut rng, n);
        let instance = round(&mut rng, n, LINKS[1 + case as usize % 2]);
        let bound = lower_bounds(&instance, &rates, &[])
            .expect("a valid round")
            .best();
        assert!(
            bound <= best(&instance, &rates) * (1.0 + 1e-9),
            "case {case}"
        );
    }
}
