//! The figures of a study: what its tables show, and what is written as JSON.

use doc::ObjectiveKind;
use serde::Serialize;

use super::Study;
use super::chain::Row;
use super::rival::SAMPLERS;

/// The plan is worse than the best scheme where it lies further below than this, percent.
const WORSE: f64 = 0.5;
/// And much worse from here.
const MUCH_WORSE: f64 = 2.0;

/// All figures of a study.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    command: String,
    inputs_sha256: String,
    seed: u64,
    mixes: usize,
    /// One for each objective, budget and noise.
    pub cells: Vec<Cell>,
    /// All objectives together: one for each budget and noise.
    pub totals: Vec<Cell>,
    /// The two profiles of the twins.
    pub twins: Vec<Twins>,
}

/// The case that windows of five steps were worst for.
#[derive(Debug, Serialize)]
pub(crate) struct Twins {
    pub plan: f64,
    pub best_equal_shares: f64,
}

/// Chains of one kind.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    pub objective: String,
    pub samples: u64,
    pub noise_percent: f64,
    pub chains: usize,
    pub plan: Quantiles,
    pub by_model: Quantiles,
    pub best_equal_shares: Quantiles,
    pub full_sharing: Quantiles,
    pub one_after_another: Quantiles,
    /// Samplers of Optuna with as many samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<Beside>,
    /// Plans worse than the best scheme of equal shares by more than 0.5 %, and by more than 2 %.
    pub worse: usize,
    pub much_worse: usize,
    pub measured: usize,
    /// Percent of tasks whose true throughput lies in the interval of the plan.
    pub coverage_percent: f64,
    /// Mean of what the verdict promises too much, in points, and of its size.
    pub verdict_bias: f64,
    pub verdict_error: f64,
}

/// A rival beside the plan.
#[derive(Debug, Serialize)]
pub(crate) struct Beside {
    pub sampler: String,
    pub regret: Quantiles,
    /// Plans that are worse than what it found by more than 0.5 %, and better by more.
    pub worse: usize,
    pub better: usize,
}

/// Of regrets, percent: nearest ranks.
#[derive(Debug, Serialize)]
pub(crate) struct Quantiles {
    pub median: f64,
    pub p90: f64,
    pub worst: f64,
}

impl Summary {
    pub fn new(study: &Study, rows: &[Row], twins: &[Row]) -> Self {
        let (mut cells, mut totals) = (Vec::new(), Vec::new());
        for &noise in &study.noise_percent {
            for &budget in &study.budgets {
                let here = || {
                    let same = move |r: &&Row| r.noise_percent == noise && r.budget == budget;
                    rows.iter().filter(same)
                };
                for objective in &study.objectives {
                    let own: Vec<&Row> = here().filter(|r| r.objective == *objective).collect();
                    cells.extend(Cell::new(Some(*objective), &own));
                }
                totals.extend(Cell::new(None, &here().collect::<Vec<_>>()));
            }
        }
        let twins = twins.iter().map(|r| Twins {
            plan: rounded(r.plan),
            best_equal_shares: rounded(r.scheme),
        });
        Self {
            command: match study.python {
                Some(_) => "make rivals".to_owned(),
                None => "make regret".to_owned(),
            },
            inputs_sha256: study.inputs_sha256.clone(),
            seed: study.seed,
            mixes: study.mixes,
            cells,
            totals,
            twins: twins.collect(),
        }
    }
}

impl Cell {
    /// `None` of no rows.
    fn new(objective: Option<ObjectiveKind>, rows: &[&Row]) -> Option<Self> {
        let first = rows.first()?;
        let of = |f: &dyn Fn(&Row) -> f64| Quantiles::new(rows.iter().map(|r| f(r)).collect());
        let mean = |f: &dyn Fn(&Row) -> f64| {
            rounded(rows.iter().map(|r| f(r)).sum::<f64>() / rows.len() as f64)
        };
        let behind = |by: f64| rows.iter().filter(|r| r.plan > r.scheme + by).count();
        let beside = |position: usize| {
            let of = |r: &Row| r.rivals[position];
            let count =
                |is: &dyn Fn(f64) -> bool| rows.iter().filter(|r| is(r.plan - of(r))).count();
            Beside {
                sampler: SAMPLERS[position].to_owned(),
                regret: Quantiles::new(rows.iter().map(|r| of(r)).collect()),
                worse: count(&|by| by > WORSE),
                better: count(&|by| by < -WORSE),
            }
        };
        let held: usize = rows.iter().map(|r| r.held).sum();
        let tasks: usize = rows.iter().map(|r| r.tasks).sum();
        Some(Self {
            objective: objective.map_or_else(|| "all".to_owned(), |kind| doc::name_of(&kind)),
            samples: first.budget,
            noise_percent: first.noise_percent,
            chains: rows.len(),
            plan: of(&|r| r.plan),
            by_model: of(&|r| r.by_model),
            best_equal_shares: of(&|r| r.scheme),
            full_sharing: of(&|r| r.sharing),
            one_after_another: of(&|r| r.serial),
            rivals: (0..first.rivals.len()).map(beside).collect(),
            worse: behind(WORSE),
            much_worse: behind(MUCH_WORSE),
            measured: rows.iter().filter(|r| r.measured).count(),
            coverage_percent: rounded(100.0 * held as f64 / tasks as f64),
            verdict_bias: mean(&|r| r.promised),
            verdict_error: mean(&|r| r.promised.abs()),
        })
    }
}

impl Quantiles {
    fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let rank = |part: f64| {
            let rank = (part * values.len() as f64).ceil() as usize;
            rounded(values[rank.max(1) - 1])
        };
        Self {
            median: rank(0.5),
            p90: rank(0.9),
            worst: rank(1.0),
        }
    }
}

/// Hundredths: what a page shows.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
