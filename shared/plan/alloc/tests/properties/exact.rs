//! The searches against the slow twin.

use allocation::{Effort, Limits, Problem, SearchOptions, SearchOutcome, solve};
use doc::{Balance, ObjectiveKind, Proof};
use proptest::prelude::*;

use crate::brute::brute_force;
use crate::cases::{Opaque, case, close, law, progress_by_rate, task};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn branch_and_bound_and_enumeration_find_the_optimum((law, problem) in prop_oneof![4 => case(), 1 => progress_by_rate()]) {
        let expected = brute_force(&law, &problem);
        let options = SearchOptions::default();
        let bounded = solve(&law, &problem, &options).unwrap();
        let listed = solve(&Opaque(&law), &problem, &options).unwrap();
        // Without combinations of batch sizes there is nothing to bound.
        if expected.is_some() {
            let progress = matches!(
                problem.objective,
                ObjectiveKind::Progress | ObjectiveKind::ProgressLast
            );
            let volumes = problem.tasks.iter().all(|t| t.samples.is_some());
            let proof = if problem.objective == ObjectiveKind::Round || (progress && volumes) {
                Proof::Enumerated
            } else {
                Proof::Bounded
            };
            prop_assert_eq!(bounded.report.proof, proof);
        }
        prop_assert_eq!(listed.report.proof, Proof::Enumerated);
        for outcome in [bounded, listed] {
            match (&expected, outcome.solutions.first()) {
                (Some((value, _)), Some(best)) => {
                    prop_assert!(close(*value, best.objective), "{} {}", value, best.objective);
                    prop_assert!(outcome.infeasible.is_empty());
                }
                (None, None) => prop_assert!(!outcome.infeasible.is_empty()),
                (e, s) => prop_assert!(false, "expected {:?}, found {:?}", e, s),
            }
        }
    }

    #[test]
    fn both_exact_searches_rank_alike((law, problem) in case()) {
        let options = SearchOptions { top: 5, ..SearchOptions::default() };
        let bounded = solve(&law, &problem, &options).unwrap().solutions;
        let listed = solve(&Opaque(&law), &problem, &options).unwrap().solutions;
        prop_assert_eq!(bounded.len(), listed.len());
        for (a, b) in bounded.iter().zip(&listed) {
            prop_assert!(close(a.objective, b.objective));
        }
        for pair in bounded.windows(2) {
            prop_assert!(pair[0].objective >= pair[1].objective * (1.0 - 1e-9 * pair[1].objective.signum()));
            prop_assert!(pair[0].settings != pair[1].settings);
        }
    }

    #[test]
    fn local_search_is_feasible_and_never_above_the_optimum((law, problem) in case()) {
        let expected = brute_force(&law, &problem);
        let options = SearchOptions { effort: Effort::Local, ..SearchOptions::default() };
        for outcome in [
            solve(&law, &problem, &options).unwrap(),
            solve(&Opaque(&law), &problem, &options).unwrap(),
        ] {
            if let Some(best) = outcome.solutions.first() {
                let (value, _) = expected.clone().unwrap();
                prop_assert!(best.objective <= value + 1e-9 * value.abs());
                // Proven only if it meets a bound, and then it is the optimum.
                match outcome.report.proof {
                    Proof::NotProven => {}
                    Proof::Bounded => prop_assert!(best.objective >= value - 1e-8 * value.abs()),
                    proof => prop_assert!(false, "{proof:?} of a local search"),
                }
            }
        }
    }

    #[test]
    fn twice_the_speed_gives_the_same_shares((law, problem) in case()) {
        prop_assume!(problem.limits.balance != Balance::Time);
        let mut fast = law.clone();
        for t in &mut fast.tasks {
            t.step_s *= 0.5;
            t.sample_s *= 0.5;
        }
        let options = SearchOptions::default();
        let a = solve(&law, &problem, &options).unwrap();
        let b = solve(&fast, &problem, &options).unwrap();
        let key = |o: &SearchOutcome| o.solutions.first().map(|s| s.settings.clone());
        prop_assert_eq!(key(&a), key(&b));
    }

    #[test]
    fn a_tighter_limit_is_never_better((law, problem) in case(), floor in 0.0..0.5_f64) {
        let options = SearchOptions::default();
        let mut tight = problem.clone();
        tight.limits.floor = tight.limits.floor.max(floor);
        let loose = solve(&law, &problem, &options).unwrap();
        let tight = solve(&law, &tight, &options).unwrap();
        if let Some(t) = tight.solutions.first() {
            let l = loose.solutions.first().unwrap();
            prop_assert!(t.objective <= l.objective + 1e-9 * l.objective.abs());
        }
    }
}

/// On most problems the local search itself finds the optimum.
#[test]
fn local_search_mostly_reaches_the_optimum() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let options = SearchOptions {
        effort: Effort::Local,
        ..SearchOptions::default()
    };
    let (mut feasible, mut additive, mut opaque) = (0, 0, 0);
    while feasible < 150 {
        let (law, problem) = case().new_tree(&mut runner).unwrap().current();
        let Some((value, _)) = brute_force(&law, &problem) else {
            continue;
        };
        feasible += 1;
        let hit = |o: SearchOutcome| {
            let best = o.solutions.first().map(|s| s.objective);
            i32::from(best.is_some_and(|b| close(b, value)))
        };
        additive += hit(solve(&law, &problem, &options).unwrap());
        opaque += hit(solve(&Opaque(&law), &problem, &options).unwrap());
    }
    assert!(additive >= 148, "{additive} of {feasible}");
    assert!(opaque >= 145, "{opaque} of {feasible}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn of_four_tasks_the_soonest_target_is_found(
        law in law(4),
        tasks in prop::collection::vec(task(), 4),
        last in any::<bool>(),
    ) {
        let objective = match last {
            true => ObjectiveKind::ProgressLast,
            false => ObjectiveKind::Progress,
        };
        let limits = Limits {
            step: units::Share::from_hundredths(5_000),
            ..Limits::default()
        };
        let problem = Problem { tasks, objective, limits, round: None };
        let (value, _) = brute_force(&law, &problem).unwrap();
        let found = solve(&Opaque(&law), &problem, &SearchOptions::default()).unwrap();
        prop_assert_eq!(found.report.proof, Proof::Enumerated);
        prop_assert!(close(value, found.solutions[0].objective));
    }
}
