//! The simpler schemes, and the marginal changes.

use allocation::{Limits, Problem, Scheme, SearchOptions, marginals, solve};
use doc::ObjectiveKind;
use proptest::prelude::*;
use units::corun::Throughput;
use units::{Batch, Share};

use crate::cases::{case, close};

#[test]
fn shares_of_the_schemes() {
    let percent = |s: Scheme, n| s.share(n).percent();
    assert!(close(percent(Scheme::Isolated, 3), 33.33));
    assert!(close(percent(Scheme::Nvidia, 1), 100.0));
    assert!(close(percent(Scheme::Nvidia, 2), 100.0));
    assert!(close(percent(Scheme::Nvidia, 3), 66.66));
    assert!(close(percent(Scheme::Nvidia, 5), 40.0));
    assert!(close(percent(Scheme::Moderate, 4), 60.0));
    assert!(close(percent(Scheme::Aggressive, 4), 80.0));
}

fn largest(problem: &Problem) -> Vec<Batch> {
    problem
        .tasks
        .iter()
        .map(|t| t.batches[t.batches.len() - 1])
        .collect()
}

proptest! {
    #[test]
    fn temporal_shares_the_time((law, mut problem) in case()) {
        // At the reference sizes the solo rates would be different.
        problem.limits.policy = doc::BatchPolicy::Free;
        let batches = largest(&problem);
        let got = Scheme::Temporal.predict(&law, &problem, &batches).unwrap();
        let n = batches.len() as f64;
        let time: f64 = batches.iter().enumerate().map(|(i, &b)| 1.0 / law.solo(i, b)).sum();
        prop_assert!(close(got.raw, n / time));
        prop_assert!(close(got.fairness, 1.0));
    }

    #[test]
    fn a_plan_is_never_below_a_scheme_it_could_have_chosen((law, problem) in case()) {
        let open = Problem {
            limits: Limits { step: problem.limits.step, ..Limits::default() },
            ..problem
        };
        let plan = solve(&law, &open, &SearchOptions::default()).unwrap();
        let batches = largest(&open);
        for scheme in [Scheme::Sharing, Scheme::Isolated, Scheme::Nvidia] {
            let on_grid = scheme.share(batches.len()).hundredths() % 2500 == 0;
            let got = scheme.predict(&law, &open, &batches).unwrap();
            prop_assert!(got.feasible);
            if on_grid {
                let best = plan.solutions[0].objective;
                prop_assert!(best >= got.objective - 1e-9 * got.objective.abs());
            }
        }
    }

    #[test]
    fn more_share_helps_its_task_and_none_other((law, problem) in case()) {
        let open = Problem {
            objective: ObjectiveKind::Raw,
            limits: Limits { step: problem.limits.step, ..Limits::default() },
            ..problem
        };
        let plan = solve(&law, &open, &SearchOptions::default()).unwrap();
        let best = &plan.solutions[0];
        let delta = Share::from_hundredths(500);
        for change in marginals(&law, &open, best, delta).unwrap() {
            let more = change.share > best.settings[change.task].share;
            for (i, rate) in change.rates.iter().enumerate() {
                let helps = (i == change.task) == more;
                let signed = if helps { *rate } else { -*rate };
                prop_assert!(signed >= -1e-9, "{:?}", change);
            }
            let total: f64 = change.rates.iter().sum();
            prop_assert!((total - change.objective).abs() < 1e-6 * best.objective);
        }
    }
}
