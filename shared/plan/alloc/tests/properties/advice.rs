//! The advice if nothing is feasible, compared with the slow twin.

use crate::law::InterferenceLaw;
use allocation::{Effort, Limits, Problem, SearchOptions, Setting, Task, solve};
use doc::{BatchPolicy, ConstraintKind, Infeasibility};
use proptest::prelude::*;
use units::{Bytes, Share};

use crate::brute::{brute_force, every_feasible};
use crate::cases::{Opaque, case, law, limits, objective, task};

/// Least value of what `kind` bounds among all choices that keep the other constraints.
fn least_by_force(law: &InterferenceLaw, problem: &Problem, kind: ConstraintKind) -> f64 {
    let mut open = problem.clone();
    match kind {
        ConstraintKind::Mismatch => open.limits.mismatch = None,
        _ => open.limits.memory = None,
    }
    let mut least = f64::INFINITY;
    every_feasible(law, &open, &mut |choice| {
        let memory = |(t, s): (&Task, &Setting)| t.memory.map_or(0.0, |m| m.at(s.batch));
        least = least.min(match kind {
            ConstraintKind::Mismatch => choice.mismatch,
            _ => problem.tasks.iter().zip(&choice.settings).map(memory).sum(),
        });
    });
    least
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn relaxing_as_advised_makes_it_feasible((law, problem) in case()) {
        let outcome = solve(&law, &problem, &SearchOptions::default()).unwrap();
        for reason in &outcome.infeasible {
            let Some(relaxed) = following(&problem, reason) else {
                continue;
            };
            prop_assert!(brute_force(&law, &relaxed).is_some(), "{:?}", reason);
        }
    }

    /// The value named as reachable is the minimum, with additive interference and without.
    #[test]
    fn advice_names_the_least_bound((law, problem) in case()) {
        for infeasible in [
            solve(&law, &problem, &SearchOptions::default()).unwrap().infeasible,
            solve(&Opaque(&law), &problem, &SearchOptions::default()).unwrap().infeasible,
        ] {
            for reason in infeasible {
                let alone = reason.advice.ends_with("alone is enough");
                let quantity = matches!(reason.constraint, ConstraintKind::Mismatch | ConstraintKind::Memory);
                if alone && quantity {
                    let least = least_by_force(&law, &problem, reason.constraint);
                    let near = (reason.best - least).abs() <= 1e-9 * least + 1e-9;
                    prop_assert!(near, "{:?}, least {}", reason, least);
                }
            }
        }
    }

    /// If a search proves nothing, it still finds a plan at the value that it named.
    #[test]
    fn advice_of_a_local_search_can_be_followed((law, problem) in case()) {
        let options = SearchOptions { effort: Effort::Local, starts: 2, max_points: 300, ..SearchOptions::default() };
        let rates = Opaque(&law);
        for reason in solve(&rates, &problem, &options).unwrap().infeasible {
            if let Some(relaxed) = following(&problem, &reason) {
                let again = solve(&rates, &relaxed, &options).unwrap();
                prop_assert!(!again.solutions.is_empty(), "{:?}", reason);
            }
        }
    }
}

/// The problem with the one constraint relaxed as advised; `None` if others must be relaxed, too.
fn following(problem: &Problem, reason: &Infeasibility) -> Option<Problem> {
    if !reason.advice.ends_with("alone is enough") {
        return None;
    }
    let mut relaxed = problem.clone();
    let l = &mut relaxed.limits;
    match reason.constraint {
        ConstraintKind::StarvationFloor => l.floor = reason.best,
        ConstraintKind::Mismatch => l.mismatch = Some(reason.best),
        ConstraintKind::Memory => l.memory = Bytes::new(reason.best as u64).ok(),
        ConstraintKind::Rv => {
            let hundredths = (reason.best * 100.0).round() as u32;
            l.rv = Some(units::TotalShare::from_hundredths(hundredths));
        }
        ConstraintKind::Batch => l.policy = BatchPolicy::Free,
        ConstraintKind::Domain => unreachable!("a law covers everything"),
    }
    Some(relaxed)
}

/// A problem of 4 to 6 tasks with few choices for each: two shares, at most two batch sizes.
fn larger() -> impl Strategy<Value = (InterferenceLaw, Problem)> {
    (4_usize..=6).prop_flat_map(|n| {
        let tasks = prop::collection::vec(task(), n);
        let bounded = (0.0..0.3_f64, prop::option::of(0.0..30.0_f64));
        (law(n), tasks, objective(), limits(n), bounded).prop_map(
            |(law, mut tasks, objective, limits, (floor, mismatch))| {
                tasks.iter_mut().for_each(|t| t.batches.truncate(2));
                let limits = Limits {
                    step: Share::from_hundredths(5_000),
                    floor: limits.floor.min(floor),
                    mismatch,
                    // A sum that is no multiple of the step does not test the search.
                    rv: limits.rv.filter(|rv| rv.hundredths() % 5_000 == 0),
                    ..limits
                };
                let problem = Problem {
                    tasks,
                    objective,
                    limits,
                    round: None,
                };
                (law, problem)
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// With more tasks than the budget can enumerate, the named value is the minimum, and a problem with exactly that
    /// value has a plan.
    #[test]
    fn advice_on_many_tasks_is_the_least_and_can_be_followed((law, problem) in larger()) {
        let few = SearchOptions { max_points: 1_000, ..SearchOptions::default() };
        let opaque = Opaque(&law);
        let answers = [
            solve(&law, &problem, &few).unwrap().infeasible,
            solve(&opaque, &problem, &few).unwrap().infeasible,
        ];
        for (adds_up, reasons) in [true, false].into_iter().zip(answers) {
            for reason in reasons {
                let Some(relaxed) = following(&problem, &reason) else {
                    continue;
                };
                let again = match adds_up {
                    true => solve(&law, &relaxed, &few),
                    false => solve(&opaque, &relaxed, &few),
                };
                prop_assert!(!again.unwrap().solutions.is_empty(), "{:?} is refused again", reason);
                if matches!(reason.constraint, ConstraintKind::Mismatch | ConstraintKind::Memory) {
                    let least = least_by_force(&law, &problem, reason.constraint);
                    let near = (reason.best - least).abs() <= 1e-9 * least + 1e-9;
                    prop_assert!(near, "{:?}, least {}, adds up: {}", reason, least, adds_up);
                }
            }
        }
    }
}
