//! The measurements.

use std::error::Error;
use std::time::Instant;

use allocation::{
    Effort, SearchOptions, SearchOutcome, Solution, Subset, mismatch_front, solve, solve_partition,
};
use doc::{ObjectiveKind, Proof};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::bench::Row;
use units::Batch;
use units::corun::{Setting, Throughput};

use crate::gp;
use crate::law::InterferenceLaw;
use crate::problems::{self, Answer, Case, FRONT, RECIPES, Recipe, case, plain};

#[path = "../../tests/properties/brute.rs"]
mod brute;

pub type BenchError = Box<dyn Error>;

/// The same rates without the knowledge that they are additive: every point is predicted.
pub struct Opaque<'a>(pub &'a InterferenceLaw);

impl Throughput for Opaque<'_> {
    fn task_count(&self) -> usize {
        self.0.task_count()
    }
    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.0.solo(task, batch)
    }
    fn covers(&self, setting: Setting, running: usize) -> bool {
        self.0.covers(setting, running)
    }
    fn means(&self, active: &[Setting], out: &mut [f64]) {
        self.0.means(active, out);
    }
}

/// Median milliseconds of `runs` runs, and the last result.
pub fn median_ms<T>(runs: usize, mut work: impl FnMut() -> T) -> (f64, T) {
    let mut times = Vec::with_capacity(runs);
    let started = Instant::now();
    let mut last = work();
    times.push(started.elapsed().as_secs_f64() * 1e3);
    for _ in 1..runs {
        let started = Instant::now();
        last = work();
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], last)
}

pub fn best(outcome: &SearchOutcome) -> Result<&Solution, BenchError> {
    let none = || format!("nothing is feasible: {:?}", outcome.infeasible);
    Ok(outcome.solutions.first().ok_or_else(none)?)
}

/// The named measurements, or all.
pub fn measure(names: &[String]) -> Result<Vec<Row>, BenchError> {
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let mut rows = Vec::new();
    for recipe in RECIPES {
        if wanted(recipe.name) {
            rows.extend(exact_and_local(recipe)?);
        }
    }
    if wanted("gp") {
        rows.push(learnt()?);
    }
    if wanted("many") {
        rows.extend(many()?);
    }
    if wanted("rounds") {
        rows.extend(crate::rounds::rows()?);
    }
    if wanted("front") {
        rows.push(front()?.0);
    }
    if wanted("gpus") {
        rows.push(several_gpus()?);
    }
    if wanted("divisions") {
        rows.extend(crate::divisions::rows()?);
    }
    if wanted("fitted") {
        rows.extend(crate::divisions::fitted_rows(None)?);
    }
    for name in names {
        // `fitted=SEED,MIXES`: other mixes than those that are reported.
        if let Some(which) = name.strip_prefix("fitted=") {
            let (seed, count) = which.split_once(',').unwrap_or((which, "5"));
            let which = (seed.parse()?, count.parse()?);
            rows.extend(crate::divisions::fitted_rows(Some(which))?);
        }
    }
    Ok(rows)
}

/// Solves a case by proof and by local search.
pub fn answer(case: &Case) -> Result<Answer, BenchError> {
    let Case { law, problem, .. } = case;
    let options = SearchOptions {
        max_points: 5_000_000,
        ..SearchOptions::default()
    };
    let (proven_ms, exact) = median_ms(9, || solve(law, problem, &options));
    let exact = exact?;
    let local_options = SearchOptions {
        effort: Effort::Local,
        ..SearchOptions::default()
    };
    let (local_ms, local) = median_ms(9, || solve(law, problem, &local_options));
    Ok(Answer {
        value: best(&exact)?.objective,
        proven: exact.report.proof != Proof::NotProven,
        points: exact.report.points,
        proven_ms,
        local_value: best(&local?)?.objective,
        local_ms,
    })
}

/// Proof by bounds compared with predicting every point (if that is feasible) and with the local search.
fn exact_and_local(recipe: Recipe) -> Result<Vec<Row>, BenchError> {
    let case = case(recipe)?;
    let ours = answer(&case)?;
    let everything = SearchOptions {
        effort: Effort::Exact,
        ..SearchOptions::default()
    };
    let (baseline, baseline_ms) = if recipe.tasks <= 5 {
        let runs = if recipe.tasks == 3 { 5 } else { 1 };
        let (ms, all) = median_ms(runs, || {
            solve(&Opaque(&case.law), &case.problem, &everything)
        });
        let check = best(&all?)?.objective;
        if (check - ours.value).abs() > 1e-9 * ours.value.abs() {
            return Err(format!("{}: {check} is not {}", recipe.name, ours.value).into());
        }
        ("every point predicted", ms)
    } else {
        ("local search", ours.local_ms)
    };
    let proof = if ours.proven { "proven" } else { "NOT proven" };
    Ok(vec![
        Row::new(
            format!("solve_{}_proven_ms", recipe.name),
            (ours.proven_ms, "ms"),
            (baseline, baseline_ms),
            format!(
                "optimum {:.3} {proof} by {} nodes and points{}",
                ours.value,
                ours.points,
                price(&case, ours.value)?
            ),
        ),
        Row::new(
            format!("solve_{}_local_ms", recipe.name),
            (ours.local_ms, "ms"),
            ("proof by bounds", ours.proven_ms),
            format!(
                "local search reaches {:.6} of the optimum",
                ours.local_value / ours.value
            ),
        ),
    ])
}

/// The cost of the constraints, relative to the best without them; an error if they cost nothing.
fn price(case: &Case, value: f64) -> Result<String, BenchError> {
    let mut free = case.problem.clone();
    if free.limits.floor == 0.0 && free.limits.mismatch.is_none() {
        return Ok(String::new());
    }
    free.limits.floor = 0.0;
    free.limits.mismatch = None;
    let options = SearchOptions {
        effort: Effort::Local,
        ..SearchOptions::default()
    };
    let free = best(&solve(&case.law, &free, &options)?)?.objective;
    if value >= free * (1.0 - 1e-6) {
        return Err(format!("{}: the constraints do not bind", case.name).into());
    }
    let less = 100.0 * (1.0 - value / free);
    Ok(format!("; {less:.1} % less than without constraints"))
}

/// Enumeration with batched prediction of a Gaussian process.
fn learnt() -> Result<Row, BenchError> {
    let case = case(plain("gp", 3, 200))?;
    let predictor = gp::learn(&case)?;
    let (ms, found) = median_ms(15, || {
        solve(&predictor, &case.problem, &SearchOptions::default())
    });
    let found = found?;
    let (one_ms, all) = median_ms(3, || brute::brute_force(&predictor, &case.problem));
    let (value, _) = all.ok_or("nothing is feasible")?;
    let objective = best(&found)?.objective;
    if found.report.proof == Proof::NotProven || (objective / value - 1.0).abs() > 1e-9 {
        return Err(format!("gp: {objective} is not {value}, or is not proven").into());
    }
    Ok(Row::new(
        "solve_n3_gp_proven_ms",
        (ms, "ms"),
        ("brute force, a prediction for each", one_ms),
        format!(
            "{} points predicted by a Gaussian process of 125 co-runs, proven",
            found.report.points
        ),
    ))
}

/// Local searches of 16 tasks of a Gaussian process, beside the prediction of as many points as they look at.
fn many() -> Result<Vec<Row>, BenchError> {
    let row = |(name, objective): (&str, ObjectiveKind)| -> Result<Row, BenchError> {
        let case = case(Recipe {
            batches: 3,
            step_percent: 5,
            rv_percent: None,
            objective,
            ..plain("many", 16, 0)
        })?;
        let predictor = gp::learn(&case)?;
        let mut problem = case.problem;
        if objective == ObjectiveKind::Round {
            problem.round = Some(crate::rounds::round(&problem, "sim")?);
        }
        let (ms, found) = median_ms(3, || solve(&predictor, &problem, &SearchOptions::default()));
        let found = found?;
        let best = best(&found)?;
        let (one_ms, ()) = median_ms(1_001, || {
            predictor.means(&best.settings, &mut [0.0; 16]);
        });
        let points = found.report.points;
        Ok(Row::new(
            format!("solve_n16_gp_{name}_ms"),
            (ms, "ms"),
            ("as many points predicted", one_ms * points as f64),
            format!("{points} points, {name} {:.6}", best.objective),
        ))
    };
    let objectives = [
        ("max-min", ObjectiveKind::MaxMin),
        ("fairness", ObjectiveKind::Fairness),
        ("raw", ObjectiveKind::Raw),
        ("round", ObjectiveKind::Round),
    ];
    objectives.into_iter().map(row).collect()
}

/// The row, and the milliseconds and points of the front.
fn front() -> Result<(Row, f64, usize), BenchError> {
    let Case { law, problem, .. } = case(FRONT)?;
    let options = SearchOptions {
        max_points: u64::MAX,
        ..SearchOptions::default()
    };
    let (ms, line) = median_ms(15, || mismatch_front(&law, &problem, &options));
    let points = line?.points.len();
    let (all_ms, all) = median_ms(3, || mismatch_front(&Opaque(&law), &problem, &options));
    if all?.points.len() != points {
        return Err("the two fronts differ".into());
    }
    let row = Row::new(
        "pareto_n3_12_batches_ms",
        (ms, "ms"),
        ("every point predicted", all_ms),
        format!("exact front of mismatch against throughput, {points} points on it"),
    );
    Ok((row, ms, points))
}

/// The problems as JSON for solvers in other languages, with our results.
pub fn problems() -> Result<String, BenchError> {
    let mut lines = Vec::new();
    for recipe in RECIPES {
        let case = case(recipe)?;
        lines.push(problems::json(&case, &answer(&case)?, None));
    }
    let case = case(FRONT)?;
    let (_, ms, points) = front()?;
    lines.push(problems::json(&case, &answer(&case)?, Some((ms, points))));
    Ok(format!("[{}]", lines.join(",\n")))
}

fn several_gpus() -> Result<Row, BenchError> {
    const GPUS: usize = 4;
    let recipe = Recipe {
        rv_percent: None,
        floor: 0.2,
        ..plain("gpus", 16, 0)
    };
    let Case { law, problem, .. } = case(recipe)?;
    let options = SearchOptions::default();
    let (ms, found) = median_ms(3, || solve_partition(&law, &problem, GPUS, &options));
    let found = found?;
    let mut rng = StdRng::seed_from_u64(4);
    let options = SearchOptions {
        effort: Effort::Local,
        reasons: false,
        ..options
    };
    let started = Instant::now();
    let mut best_random = f64::NEG_INFINITY;
    for _ in 0..1000 {
        let of: Vec<usize> = (0..16).map(|_| rng.random_range(0..GPUS)).collect();
        let mut total = 0.0;
        for gpu in 0..GPUS {
            let members: Vec<usize> = (0..16).filter(|&i| of[i] == gpu).collect();
            if !members.is_empty() {
                let part = problem.restricted(&members);
                let outcome = solve(&Subset::new(&law, &members), &part, &options)?;
                let best = outcome.solutions.first();
                total += best.map_or(f64::NEG_INFINITY, |s| s.objective);
            }
        }
        best_random = best_random.max(total);
    }
    Ok(Row::new(
        "solve_16_tasks_4_gpus_ms",
        (ms, "ms"),
        (
            "1,000 random partitions",
            started.elapsed().as_secs_f64() * 1e3,
        ),
        format!(
            "total throughput {:.4} times that of the best random partition",
            found.objective / best_random
        ),
    ))
}
