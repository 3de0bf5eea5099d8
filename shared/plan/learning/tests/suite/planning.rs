//! Plans compared with the optimum over all allocations of all phases.

use learning::{Active, Objective, Policy, Problem, RemainingTraining, allocate, keeping, plan};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::exact;

fn rates(gpus: u32, c0: f64, c1: f64, v: f64) -> Vec<f64> {
    let time = |g: f64| c0 + c1 / g + 2.0 * v * (g - 1.0) / g;
    (0..=gpus)
        .map(|g| {
            if g == 0 {
                0.0
            } else {
                1.0 / time(f64::from(g))
            }
        })
        .collect()
}

fn random_problem(rng: &mut StdRng, n: usize, gpus: u32, objective: Objective) -> Problem {
    let mut log = |low: f64, high: f64| (rng.random_range(low.ln()..high.ln())).exp();
    let jobs = (0..n).map(|_| {
        let work = log(100.0, 5000.0);
        RemainingTraining {
            work,
            weight: log(0.5, 4.0),
            rates: rates(gpus, log(0.02, 0.7), log(0.1, 1.0), log(0.005, 0.3)),
            delta: 1.0 / work,
        }
    });
    Problem::new(gpus, objective, jobs.collect()).unwrap()
}

/// Mean, 95 % quantile and largest ratio to the optimum over 120 problems of 2 to 4 tasks on 4 to
/// 8 GPUs.
fn ratios(policy: Policy, objective: Objective) -> (f64, f64, f64) {
    let mut rng = StdRng::seed_from_u64(17);
    let mut all: Vec<f64> = (0..120)
        .map(|_| {
            let (n, gpus) = (rng.random_range(2..=4), rng.random_range(4..=8));
            let problem = random_problem(&mut rng, n, gpus, objective);
            let (best, _) = exact::optimum(&problem);
            let found = plan(&problem, policy).value;
            assert!(
                found >= best * (1.0 - 1e-9),
                "{found} beats the optimum {best}"
            );
            found / best
        })
        .collect();
    all.sort_by(f64::total_cmp);
    (all.iter().sum::<f64>() / 120.0, all[113], all[119])
}

#[test]
fn plans_are_close_to_the_optimum_for_every_objective() {
    for objective in [
        Objective::Completion,
        Objective::Weighted,
        Objective::Makespan,
    ] {
        let (mean, p95, worst) = ratios(Policy::Ours, objective);
        println!("{objective:?}: mean {mean:.5}, p95 {p95:.5}, worst {worst:.5}");
        assert!(
            mean <= 1.003 && p95 <= 1.004 && worst <= 1.05,
            "{objective:?}: {mean} {p95} {worst}"
        );
    }
}

#[test]
fn simple_rules_are_worse() {
    let ours = ratios(Policy::Ours, Objective::Completion).0;
    for policy in [
        Policy::Equal,
        Policy::Srpt,
        Policy::Optimus,
        Policy::Hesrpt,
        Policy::Paper,
    ] {
        let (mean, p95, worst) = ratios(policy, Objective::Completion);
        println!("{policy:?}: mean {mean:.4}, p95 {p95:.4}, worst {worst:.4}");
        assert!(mean > ours, "{policy:?}");
    }
}

/// Two trainings with the same speed-up exponent: what the paper splits 3:1, and where that changes on eight GPUs.
/// The exact optimum agrees with the rounded shares away from these limits.
#[test]
fn the_split_of_two_trainings_follows_the_exponent() {
    let split = |p: f64, gpus: u32| {
        let power = (0..=gpus)
            .map(|g| f64::from(g).powf(p))
            .collect::<Vec<f64>>();
        let job = |work| RemainingTraining {
            work,
            weight: 1.0,
            rates: power.clone(),
            delta: work,
        };
        let jobs = vec![job(1000.0), job(999.0)];
        let problem = Problem::new(gpus, Objective::Completion, jobs).unwrap();
        plan(&problem, Policy::Hesrpt).gpus
    };
    for (p, older) in [(0.28, 2), (0.30, 3), (0.5, 3), (0.66, 3), (0.68, 4)] {
        assert_eq!(split(p, 4), [4 - older, older], "p = {p}");
    }
    for (p, older) in [
        (0.15, 4),
        (0.17, 5),
        (0.40, 5),
        (0.41, 6),
        (0.58, 6),
        (0.59, 7),
        (0.74, 7),
    ] {
        assert_eq!(split(p, 8), [8 - older, older], "p = {p}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn plans_fit_the_machine_and_never_lose_to_a_rule(seed in any::<u64>(), n in 1usize..9, gpus in 1u32..17) {
        let mut rng = StdRng::seed_from_u64(seed);
        let problem = random_problem(&mut rng, n, gpus, Objective::Completion);
        let ours = plan(&problem, Policy::Ours);
        prop_assert!(ours.gpus.iter().sum::<u32>() <= gpus);
        prop_assert!(ours.completions.iter().all(|c| c.is_finite() && *c > 0.0));
        for policy in [Policy::Equal, Policy::Srpt, Policy::Optimus, Policy::Hesrpt, Policy::Paper] {
            let rule = plan(&problem, policy);
            prop_assert!(rule.gpus.iter().sum::<u32>() <= gpus);
            // The paper's rule is not among the starts, because it does not use speeds.
            if policy != Policy::Paper {
                prop_assert!(ours.value <= rule.value * (1.0 + 1e-9), "{policy:?}");
            }
        }
    }

    #[test]
    fn twice_the_work_takes_twice_the_time(seed in any::<u64>(), n in 1usize..5) {
        let mut rng = StdRng::seed_from_u64(seed);
        let problem = random_problem(&mut rng, n, 8, Objective::Weighted);
        let work: Vec<f64> = problem.jobs().iter().map(|j| 2.0 * j.work).collect();
        let (one, two) = (plan(&problem, Policy::Ours), plan(&problem.with_work(&work), Policy::Ours));
        prop_assert!((two.value / one.value - 2.0).abs() < 1e-9);
        prop_assert_eq!(one.gpus, two.gpus);
    }

    #[test]
    fn a_plan_that_keeps_the_best_start_is_as_good(seed in any::<u64>(), n in 2usize..5) {
        let mut rng = StdRng::seed_from_u64(seed);
        let problem = random_problem(&mut rng, n, 6, Objective::Completion);
        let free = plan(&problem, Policy::Ours);
        let kept = keeping(&problem, &free.gpus);
        prop_assert_eq!(&kept.gpus, &free.gpus);
        prop_assert!(kept.value <= free.value * 1.02, "{} after {}", kept.value, free.value);
        let mut equal = Vec::new();
        let left: Vec<f64> = problem.jobs().iter().map(|j| j.work).collect();
        allocate(Policy::Equal, &problem, Active::of(&problem), &left, &mut equal);
        prop_assert!(keeping(&problem, &equal).value >= exact::optimum(&problem).0 * (1.0 - 1e-9));
    }
}
