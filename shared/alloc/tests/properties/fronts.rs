//! Fronts against a list of every point.

use allocation::{
    CoRun, Effort, Options, Problem, Setting, Solution, fairness_front, mismatch_front,
};
use doc::{Balance, BatchPolicy, ObjectiveKind, Proof};
use predict::Active;
use proptest::prelude::*;
use units::Share;

use crate::cases::{Opaque, case, close};

/// Every point without a mismatch bound, by problems that allow only one batch size each:
/// `(mismatch, objective, raw, fairness)`.
fn all_points<C: CoRun>(rates: &C, problem: &Problem) -> Vec<[f64; 4]> {
    let mut found = Vec::new();
    let mut settings = Vec::new();
    extend(rates, problem, &mut settings, &mut found);
    found
}

fn extend<C: CoRun>(
    rates: &C,
    problem: &Problem,
    settings: &mut Vec<Setting>,
    found: &mut Vec<[f64; 4]>,
) {
    let Some(task) = problem.tasks.get(settings.len()) else {
        found.extend(point(rates, problem, settings));
        return;
    };
    let step = problem.limits.step.hundredths();
    for &batch in &task.batches {
        for level in 1..=10_000 / step {
            let share = Share::from_hundredths(level * step);
            settings.push(Setting { batch, share });
            extend(rates, problem, settings, found);
            settings.pop();
        }
    }
}

fn point<C: CoRun>(rates: &C, problem: &Problem, settings: &[Setting]) -> Option<[f64; 4]> {
    let l = &problem.limits;
    let total: Share = settings.iter().map(|s| s.share).sum();
    let memory: f64 = problem
        .tasks
        .iter()
        .zip(settings)
        .map(|(t, s)| t.memory.map_or(0.0, |m| m.at(s.batch)))
        .sum();
    let policy = match l.policy {
        BatchPolicy::Free => true,
        BatchPolicy::Same => settings.iter().all(|s| s.batch == settings[0].batch),
        BatchPolicy::Fixed => problem
            .tasks
            .iter()
            .zip(settings)
            .all(|(t, s)| t.batches.last() == Some(&s.batch)),
    };
    let active: Vec<Active> = settings
        .iter()
        .enumerate()
        .map(|(task, s)| Active {
            task,
            batch: s.batch,
            share: s.share,
        })
        .collect();
    let mut p = vec![0.0; active.len()];
    rates.means(&active, &mut p);
    let relative: Vec<f64> = (0..p.len())
        .map(|i| p[i] / rates.solo(i, settings[i].batch))
        .collect();
    let ok = policy
        && l.rv.is_none_or(|rv| rv == total)
        && l.memory.is_none_or(|m| memory <= m.get() as f64)
        && relative.iter().all(|r| *r >= l.floor - 1e-9);
    let fairness = relative.iter().sum();
    let raw = p.iter().sum();
    let objective = if problem.objective == ObjectiveKind::Raw {
        raw
    } else {
        fairness
    };
    ok.then(|| [problem.mismatch(settings, &p), objective, raw, fairness])
}

/// The front is right if nothing found beats all points of it, and it holds no beaten point.
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
        let options = Options::default();
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
        let front = fairness_front(&law, &problem, &Options::default()).unwrap();
        prop_assert_eq!(front.proof, Proof::Enumerated);
        check(&front.points, &points, |s| (s.raw, s.fairness), |p| (p[2], p[3]))?;
    }

    #[test]
    fn traced_fronts_never_claim_more_than_exact_ones((law, problem) in case()) {
        let mut problem = additive(problem);
        problem.limits.balance = Balance::Time;
        let local = Options { effort: Effort::Local, ..Options::default() };
        let exact = mismatch_front(&Opaque(&law), &problem, &Options::default()).unwrap();
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
