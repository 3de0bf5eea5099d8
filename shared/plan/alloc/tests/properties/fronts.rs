//! Fronts compared with a list of every point.

use allocation::{Effort, Problem, SearchOptions, Solution, fairness_front, mismatch_front};
use doc::{Balance, ObjectiveKind, Proof};
use proptest::prelude::*;
use units::corun::Throughput;

use crate::brute::{Feasible, every_feasible};
use crate::cases::{Opaque, case, close};

/// Every point without a mismatch bound: `(mismatch, objective, raw, fairness)`.
fn all_points<C: Throughput>(rates: &C, problem: &Problem) -> Vec<[f64; 4]> {
    let mut open = problem.clone();
    open.limits.mismatch = None;
    let mut found = Vec::new();
    every_feasible(rates, &open, &mut |c: Feasible| {
        let solo = |i: usize| problem.solo(rates, i, c.settings[i].batch);
        let relative = c.rates.iter().enumerate().map(|(i, p)| p / solo(i));
        found.push([
            c.mismatch,
            c.objective,
            c.rates.iter().sum(),
            relative.sum(),
        ]);
    });
    found
}

/// The front is right if no point beats all of its points, and none of its points is beaten.
fn check(
    front: &[Solution],
    points: &[[f64; 4]],
    front_axes: impl Fn(&Solution) -> (f64, f64),
    point_axes: impl Fn(&[f64; 4]) -> (f64, f64),
) -> Result<(), TestCaseError> {
    prop_assert_eq!(front.is_empty(), points.is_empty());
    for p in points {
        let (x, y) = point_axes(p);
        let slack = |v: f64| 1e-9 * v.abs().max(1.0);
        let covered = front.iter().any(|f| {
            let (fx, fy) = front_axes(f);
            fx >= x - slack(x) && fy >= y - slack(y)
        });
        prop_assert!(covered, "{:?} is not covered", p);
    }
    for pair in front.windows(2) {
        let (a, b) = (front_axes(&pair[0]), front_axes(&pair[1]));
        prop_assert!(a.0 > b.0 && a.1 < b.1, "{:?} {:?}", a, b);
    }
    for f in front {
        let (x, y) = front_axes(f);
        let exists = points.iter().any(|p| {
            let (px, py) = point_axes(p);
            close(px, x) && close(py, y)
        });
        prop_assert!(exists || x == 0.0, "{} {} is no point", x, y);
    }
    Ok(())
}

fn additive(mut problem: Problem) -> Problem {
    if problem.objective != ObjectiveKind::Raw {
        problem.objective = ObjectiveKind::Fairness;
    }
    problem
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn mismatch_fronts_are_exact((law, problem) in case()) {
        let problem = additive(problem);
        let points = all_points(&law, &problem);
        let options = SearchOptions::default();
        for front in [
            mismatch_front(&law, &problem, &options).unwrap(),
            mismatch_front(&Opaque(&law), &problem, &options).unwrap(),
        ] {
            prop_assert_eq!(front.proof, Proof::Enumerated);
            check(&front.points, &points, |s| (-s.mismatch, s.objective), |p| (-p[0], p[1]))?;
        }
    }

    #[test]
    fn fairness_fronts_are_exact((law, problem) in case()) {
        let mut problem = additive(problem);
        problem.limits.mismatch = None;
        let points = all_points(&law, &problem);
        let front = fairness_front(&law, &problem, &SearchOptions::default()).unwrap();
        prop_assert_eq!(front.proof, Proof::Enumerated);
        check(&front.points, &points, |s| (s.raw, s.fairness), |p| (p[2], p[3]))?;
    }

    #[test]
    fn traced_fronts_never_claim_more_than_exact_ones((law, problem) in case()) {
        let mut problem = additive(problem);
        problem.limits.balance = Balance::Time;
        let local = SearchOptions { effort: Effort::Local, ..SearchOptions::default() };
        let exact = mismatch_front(&Opaque(&law), &problem, &SearchOptions::default()).unwrap();
        let traced = mismatch_front(&law, &problem, &local).unwrap();
        prop_assert_eq!(traced.proof, Proof::NotProven);
        for t in &traced.points {
            let covered = exact.points.iter().any(|e| {
                e.mismatch <= t.mismatch + 1e-9 && e.objective >= t.objective * (1.0 - 1e-9)
            });
            prop_assert!(covered);
        }
    }
}
