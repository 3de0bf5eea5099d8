//! Divisions of tasks over several GPUs against the best of all divisions and two rules that need no search.

use allocation::{
    Partition, Problem, SearchOptions, SearchOutcome, Subset, partition_by_model, solve,
    solve_partition,
};
use doc::ObjectiveKind;
use predict::Predictor;
use testkit::bench::Row;
use units::Batch;
use units::corun::Throughput;

use crate::fitted::Mix;
use crate::law::InterferenceLaw;
use crate::problems::{Recipe, drawn, plain};
use crate::rows::{BenchError, Opaque, median_ms};

const TASKS: usize = 8;
/// Draws of each number of GPUs and objective; no constant of the search was chosen by them.
const DRAWS: u64 = 3;
const OBJECTIVES: [(&str, ObjectiveKind); 3] = [
    ("max-min", ObjectiveKind::MaxMin),
    ("fairness", ObjectiveKind::Fairness),
    ("round", ObjectiveKind::Round),
];

/// Number of mixes of fitted models that `make bench` draws, each of which takes about two minutes, and their seed. No
/// constant was chosen by them either; whoever makes a choice does so on others, named on the command line.
const MIXES: u64 = 1;
const MIXES_SEED: u64 = 202_648;
const FITTED_OBJECTIVES: [(&str, ObjectiveKind); 4] = [
    ("max-min", ObjectiveKind::MaxMin),
    ("fairness", ObjectiveKind::Fairness),
    ("raw", ObjectiveKind::Raw),
    ("round", ObjectiveKind::Round),
];
/// Percent that a division of a fitted model may be behind the best.
const MOST_BEHIND: f64 = 1.0;
/// Percent within which two divisions count as equally good.
const ROUNDING: f64 = 1e-7;

/// One row for each number of GPUs and objective: how far our division is behind the best of all, as each GPU is solved
/// by the same search, and how far the rules are.
pub fn rows() -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    for (name, objective) in OBJECTIVES {
        let draw = |seed| -> Result<Draw<'static>, BenchError> {
            let recipe = Recipe {
                rv_percent: None,
                batches: 3,
                objective,
                ..plain("division", TASKS, 0)
            };
            let case = drawn(recipe, 77_000 + seed)?;
            Draw::new(Rates::Law(case.law), case.problem)
        };
        let draws = (0..DRAWS).map(draw).collect::<Result<Vec<_>, _>>()?;
        for gpus in [2, 4] {
            rows.push(row(name, &gaps(&draws, gpus)?, gpus));
        }
    }
    Ok(rows)
}

/// The same of fitted models of mixes, as many as `which` says and drawn by its seed and the numbers after it. An
/// error if a division is behind a rule, or more than [`MOST_BEHIND`] behind the best.
pub fn fitted_rows(which: Option<(u64, u64)>) -> Result<Vec<Row>, BenchError> {
    let (seed, count) = which.unwrap_or((MIXES_SEED, MIXES));
    let mixes = (seed..seed + count)
        .map(|seed| Mix::draw(TASKS, seed))
        .collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for (name, objective) in FITTED_OBJECTIVES {
        let each = mixes.iter().map(|mix| Draw::of_mix(mix, objective));
        let draws = each.collect::<Result<Vec<_>, _>>()?;
        for gpus in [2, 4] {
            let gaps = gaps(&draws, gpus)?;
            for (seed, gap) in (seed..).zip(&gaps) {
                if gap.ours > gap.rule() + ROUNDING || gap.ours > MOST_BEHIND {
                    return Err(format!("seed {seed}, {gpus} GPUs, {name}: {gap:?}").into());
                }
            }
            rows.push(row(&format!("{name}_fitted"), &gaps, gpus));
        }
    }
    Ok(rows)
}

/// How far divisions are behind the best of all, percent.
#[derive(Debug)]
struct Gap {
    ours: f64,
    round_robin: f64,
    longest_first: f64,
    ms: f64,
}

impl Gap {
    fn rule(&self) -> f64 {
        self.round_robin.min(self.longest_first)
    }
}

fn gaps(draws: &[Draw<'_>], gpus: usize) -> Result<Vec<Gap>, BenchError> {
    draws.iter().map(|draw| draw.gap(gpus)).collect()
}

fn row(name: &str, gaps: &[Gap], gpus: usize) -> Row {
    let mean = |of: fn(&Gap) -> f64| gaps.iter().map(of).sum::<f64>() / gaps.len() as f64;
    let worst = |of: fn(&Gap) -> f64| gaps.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    Row::new(
        format!("division_{TASKS}_tasks_{gpus}_gpus_{name}"),
        (mean(|g| g.ours), "%"),
        ("longest first or round robin", mean(Gap::rule)),
        format!(
            "behind the best of all divisions, mean of {} (worst {:.2} %); round robin {:.2} ({:.2}), longest first \
             {:.2} ({:.2}); {:.0} ms",
            gaps.len(),
            worst(|g| g.ours),
            mean(|g| g.round_robin),
            worst(|g| g.round_robin),
            mean(|g| g.longest_first),
            worst(|g| g.longest_first),
            mean(|g| g.ms),
        ),
    )
}

/// Where the rates of a draw are from.
enum Rates<'a> {
    /// Our division does not know that interference adds up.
    Law(InterferenceLaw),
    Fitted(&'a Predictor),
}

impl Rates<'_> {
    fn solo(&self, task: usize, batch: Batch) -> f64 {
        match self {
            Self::Law(law) => law.solo(task, batch),
            Self::Fitted(predictor) => predictor.solo(task, batch),
        }
    }

    fn divide(&self, problem: &Problem, gpus: usize) -> Result<Partition, BenchError> {
        let options = SearchOptions::default();
        Ok(match self {
            Self::Law(law) => solve_partition(&Opaque(law), problem, gpus, &options)?,
            Self::Fitted(predictor) => partition_by_model(predictor, problem, gpus, &options)?,
        })
    }

    /// The best of some tasks on one GPU.
    fn solve(&self, problem: &Problem, members: &[usize]) -> Result<SearchOutcome, BenchError> {
        let part = problem.restricted(members);
        let options = SearchOptions {
            reasons: false,
            ..SearchOptions::default()
        };
        Ok(match self {
            Self::Law(law) => solve(&Subset::new(law, members), &part, &options)?,
            Self::Fitted(predictor) => solve(&Subset::new(*predictor, members), &part, &options)?,
        })
    }
}

/// A case with the value of every set of its tasks on one GPU.
struct Draw<'a> {
    rates: Rates<'a>,
    problem: Problem,
    values: Vec<f64>,
}

impl<'a> Draw<'a> {
    fn new(rates: Rates<'a>, problem: Problem) -> Result<Self, BenchError> {
        let mut values = vec![f64::NEG_INFINITY; 1 << TASKS];
        for (set, value) in values.iter_mut().enumerate().skip(1) {
            let found = rates.solve(&problem, &members(set))?;
            *value = found.solutions.first().map_or(*value, |s| s.objective);
        }
        Ok(Self {
            rates,
            problem,
            values,
        })
    }

    fn of_mix(mix: &'a Mix, objective: ObjectiveKind) -> Result<Self, BenchError> {
        Self::new(Rates::Fitted(&mix.predictor), mix.problem(objective))
    }

    fn gap(&self, gpus: usize) -> Result<Gap, BenchError> {
        let (ms, found) = median_ms(1, || self.rates.divide(&self.problem, gpus));
        let sets: Vec<usize> = found?.groups.iter().map(|g| set_of(g)).collect();
        let best = self.best(gpus);
        let behind = |sets: &[usize]| 100.0 * (best - self.of(sets)) / best.abs();
        Ok(Gap {
            ours: behind(&sets),
            round_robin: behind(&round_robin(gpus)),
            longest_first: behind(&self.longest_first(gpus)),
            ms,
        })
    }

    fn of(&self, sets: &[usize]) -> f64 {
        let used = sets.iter().filter(|set| **set > 0);
        used.fold(start(&self.problem), |all, set| {
            join(&self.problem, all, self.values[*set])
        })
    }

    /// The best value of all divisions.
    fn best(&self, gpus: usize) -> f64 {
        let mut best = vec![f64::NEG_INFINITY; self.values.len()];
        best[0] = start(&self.problem);
        for _ in 0..gpus {
            let before = best.clone();
            for set in 1..best.len() {
                let mut part = set;
                while part > 0 {
                    let value = join(&self.problem, before[set ^ part], self.values[part]);
                    best[set] = best[set].max(value);
                    part = (part - 1) & set;
                }
            }
        }
        best[self.values.len() - 1]
    }

    /// The tasks that take longest alone first, each to the GPU with least to do.
    fn longest_first(&self, gpus: usize) -> Vec<usize> {
        let alone = |i: usize| {
            let task = &self.problem.tasks[i];
            let fastest = task.batches.iter().map(|&b| self.rates.solo(i, b));
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

fn members(set: usize) -> Vec<usize> {
    (0..TASKS).filter(|i| set >> i & 1 == 1).collect()
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
