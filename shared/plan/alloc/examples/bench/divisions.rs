//! Divisions of tasks over several GPUs against the best of all divisions.

use allocation::{Problem, SearchOptions, solve, solve_partition};
use doc::ObjectiveKind;
use testkit::bench::Row;
use units::corun::Throughput;

use crate::problems::{Case, Recipe, drawn, plain};
use crate::rows::{BenchError, Opaque, median_ms};

const TASKS: usize = 8;
/// Draws of each number of GPUs and objective; no constant of the search was chosen by them.
const DRAWS: u64 = 3;

const OBJECTIVES: [(&str, ObjectiveKind); 3] = [
    ("max-min", ObjectiveKind::MaxMin),
    ("fairness", ObjectiveKind::Fairness),
    ("round", ObjectiveKind::Round),
];

/// One row for each number of GPUs and objective: how far our division is behind the best of all, as each GPU is solved
/// by the same search, and how far the better of two simple rules is.
pub fn rows() -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for (name, objective) in OBJECTIVES {
        let draws: Vec<Draw> = (0..DRAWS)
            .map(|seed| Draw::new(objective, seed))
            .collect::<Result<_, _>>()?;
        for gpus in [2, 4] {
            rows.push(row(name, &draws, gpus)?);
        }
    }
    Ok(rows)
}

fn row(name: &str, draws: &[Draw], gpus: usize) -> Result<Row, BenchError> {
    let count = draws.len() as f64;
    let (mut mean, mut worst, mut simple, mut times) = (0.0, 0.0_f64, 0.0, 0.0);
    for draw in draws {
        let (rates, problem) = (Opaque(&draw.case.law), &draw.case.problem);
        let options = SearchOptions::default();
        let (ms, found) = median_ms(1, || solve_partition(&rates, problem, gpus, &options));
        let best = draw.best(gpus);
        let behind = |value: f64| 100.0 * (best - value) / best.abs();
        let sets = found?.groups.iter().map(|g| set_of(g)).collect::<Vec<_>>();
        let gap = behind(draw.of(&sets));
        let rules = [draw.longest_first(gpus), round_robin(gpus)];
        let rule = rules.iter().map(|sets| behind(draw.of(sets)));
        mean += gap / count;
        worst = worst.max(gap);
        simple += rule.fold(f64::INFINITY, f64::min) / count;
        times += ms / count;
    }
    Ok(Row::new(
        format!("division_{TASKS}_tasks_{gpus}_gpus_{name}"),
        (mean, "%"),
        ("longest first or round robin", simple),
        format!("behind the best of all divisions, worst {worst:.2} %, {times:.0} ms"),
    ))
}

/// A case with the value of every set of its tasks on one GPU.
struct Draw {
    case: Case,
    values: Vec<f64>,
}

impl Draw {
    fn new(objective: ObjectiveKind, seed: u64) -> Result<Self, BenchError> {
        let recipe = Recipe {
            rv_percent: None,
            batches: 3,
            objective,
            ..plain("division", TASKS, 0)
        };
        let case = drawn(recipe, 77_000 + seed)?;
        let options = SearchOptions {
            reasons: false,
            ..SearchOptions::default()
        };
        let mut values = vec![f64::NEG_INFINITY; 1 << TASKS];
        for (set, value) in values.iter_mut().enumerate().skip(1) {
            let members: Vec<usize> = (0..TASKS).filter(|i| set >> i & 1 == 1).collect();
            let part = case.problem.restricted(&members);
            let found = solve(&case.law.restricted(&members), &part, &options)?;
            *value = found.solutions.first().map_or(*value, |s| s.objective);
        }
        Ok(Self { case, values })
    }

    fn of(&self, sets: &[usize]) -> f64 {
        let used = sets.iter().filter(|set| **set > 0);
        used.fold(start(&self.case.problem), |all, set| {
            join(&self.case.problem, all, self.values[*set])
        })
    }

    /// The best value of all divisions.
    fn best(&self, gpus: usize) -> f64 {
        let problem = &self.case.problem;
        let mut best = vec![f64::NEG_INFINITY; self.values.len()];
        best[0] = start(problem);
        for _ in 0..gpus {
            let before = best.clone();
            for set in 1..best.len() {
                let mut part = set;
                while part > 0 {
                    let value = join(problem, before[set ^ part], self.values[part]);
                    best[set] = best[set].max(value);
                    part = (part - 1) & set;
                }
            }
        }
        best[self.values.len() - 1]
    }

    /// The tasks that take longest alone first, each to the GPU with least to do.
    fn longest_first(&self, gpus: usize) -> Vec<usize> {
        let Case { law, problem, .. } = &self.case;
        let alone = |i: usize| {
            let task = &problem.tasks[i];
            let fastest = task.batches.iter().map(|&b| law.solo(i, b));
            task.samples.map_or(1.0, units::Samples::as_f64) / fastest.fold(0.0, f64::max)
        };
        let mut order: Vec<usize> = (0..TASKS).collect();
        order.sort_by(|&a, &b| alone(b).total_cmp(&alone(a)));
        let mut loads = vec![(0.0, 0); gpus];
        for i in order {
            if let Some(least) = loads.iter_mut().min_by(|a, b| f64::total_cmp(&a.0, &b.0)) {
                *least = (least.0 + alone(i), least.1 | 1 << i);
            }
        }
        loads.into_iter().map(|(_, set)| set).collect()
    }
}

fn round_robin(gpus: usize) -> Vec<usize> {
    let on = |gpu: usize| (gpu..TASKS).step_by(gpus).map(|i| 1 << i).sum();
    (0..gpus).map(on).collect()
}

fn set_of(members: &[usize]) -> usize {
    members.iter().map(|i| 1 << i).sum()
}

fn is_least(problem: &Problem) -> bool {
    matches!(
        problem.objective,
        ObjectiveKind::MaxMin | ObjectiveKind::Round
    )
}

fn start(problem: &Problem) -> f64 {
    if is_least(problem) {
        f64::INFINITY
    } else {
        0.0
    }
}

fn join(problem: &Problem, a: f64, b: f64) -> f64 {
    if is_least(problem) { a.min(b) } else { a + b }
}
