//! All figures, and the summary of them.

use std::collections::BTreeMap;

use learning::{Point, Policy};
use serde_json::{Value, json};

use crate::clock::{self, Sharing};
use crate::forecast::{self, Score};
use crate::live::Runs;
use crate::machine::{Batch, Machine};
use crate::measured::{Measured, Policies};
use crate::paper::{self, Times};
use crate::phases::{POLICIES, Spread, over_optimum, over_ours};

/// Fractions of a training at which its remaining length is forecast.
pub const PARTS: [f64; 3] = [0.25, 0.5, 0.75];
/// Numbers of tasks on 8 GPUs.
pub const TASKS: [usize; 4] = [3, 4, 5, 6];

/// A policy relative to equal shares: medians of the changes in percent (total, older, younger).
pub struct Change {
    pub name: String,
    pub percent: [f64; 3],
    pub count: usize,
}

/// Two trainings, measured.
#[derive(Default)]
pub struct Pair {
    /// Total, older and younger of each repetition, seconds, by policy.
    pub times: BTreeMap<String, [Vec<f64>; 3]>,
    /// Changes of the medians relative to equal shares.
    pub changes: Vec<Change>,
}

/// Everything computed and measured.
pub struct Results {
    pub quick: bool,
    pub table: Vec<Row>,
    pub optimum: Vec<(Policy, Spread)>,
    pub many: Vec<(Policy, Vec<f64>)>,
    /// By forecast: name and score at each of [`PARTS`].
    pub forecasts: Vec<(&'static str, Vec<Score>)>,
    pub virtual_clock: Vec<Change>,
    pub live: Pair,
    pub models: Pair,
    pub pauses: Vec<f64>,
    pub broken_steps: u64,
    pub measured: Measured,
}

/// A line of the table of two trainings on the simulated machine.
pub struct Row {
    pub experiment: &'static str,
    pub older: u32,
    pub younger: u32,
    pub times: Times,
    /// Against 2-2, percent.
    pub change: [f64; 3],
}

impl Results {
    /// Computes what needs no machine, and summarises the measurements.
    pub fn compute(quick: bool, curves: Option<&[Vec<Point>]>, measured: Measured) -> Self {
        let cases = if quick { 40 } else { 120 };
        let many = TASKS.map(|tasks| over_ours(tasks, cases));
        let of_policy = |at: usize| many.iter().map(|ratios| ratios[at]).collect();
        let curves = curves.unwrap_or(&[]);
        Self {
            quick,
            table: table(),
            optimum: POLICIES.into_iter().zip(over_optimum(cases)).collect(),
            many: (0..POLICIES.len())
                .map(|at| (POLICIES[at], of_policy(at)))
                .collect(),
            forecasts: match curves.is_empty() {
                true => Vec::new(),
                false => forecast::FORECASTS
                    .map(|(name, f)| (name, PARTS.map(|p| forecast::judge(curves, f, p)).to_vec()))
                    .into(),
            },
            virtual_clock: on_virtual_clock(curves, if quick { 8 } else { 40 }),
            live: pair(&measured.live),
            models: pair(&measured.models),
            pauses: measured
                .live
                .values()
                .flat_map(|r| r.pauses.clone())
                .collect(),
            broken_steps: all_runs(&measured).map(|r| r.broken_steps).sum(),
            measured,
        }
    }

    /// The figures that are compared from run to run.
    pub fn summary(&self, inputs_sha256: Option<&str>) -> String {
        let ours = self.optimum.iter().find(|o| o.0 == Policy::Ours);
        let half = self.forecasts.iter().find(|f| f.0 == "ours");
        let of = |changes: &[Change], at: usize| -> Value {
            let each = changes
                .iter()
                .map(|c| (c.name.clone(), json!(c.percent[at])));
            Value::Object(each.collect())
        };
        let three_one = |experiment: &str, at: usize| {
            let row = self
                .table
                .iter()
                .find(|r| r.experiment == experiment && r.older == 3);
            row.map(|r| r.change[at])
        };
        let three = |at: usize| {
            json!({
                "simulated": {
                    "paper": three_one(PER_TASK, at),
                    "paper_two_models": three_one(TWO_MODELS, at),
                },
                "real_losses_virtual_clock": of(&self.virtual_clock, at),
                "live": of(&self.live.changes, at),
                "live_two_models": of(&self.models.changes, at),
            })
        };
        let moves = |(program, runs): &(&str, Policies)| {
            let each = runs
                .iter()
                .map(|(how, runs)| (how.clone(), json!(median(runs.pauses.clone()))));
            ((*program).to_owned(), Value::Object(each.collect()))
        };
        let summary = json!({
            "command": "make elastic",
            "inputs_sha256": inputs_sha256,
            "quick": self.quick,
            "phase_optimum_mean": ours.map(|o| o.1.mean),
            "phase_optimum_p95": ours.map(|o| o.1.p95),
            "phase_optimum_max": ours.map(|o| o.1.max),
            "remaining_within_factor_two_at_half": half.map(|f| f.1[1].part()),
            "pause_s": median(self.pauses.clone()),
            "pause_by_program_s": Value::Object(self.measured.moves.iter().map(moves).collect()),
            "older_percent": three(1),
            "younger_percent": three(2),
            "total_percent": three(0),
            "steps_repeated": self.broken_steps,
        });
        // Writing values of this kind cannot fail.
        serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n"
    }
}

fn all_runs(measured: &Measured) -> impl Iterator<Item = &Runs> {
    let many = measured.many.iter().flat_map(|m| m.1.values());
    let moves = measured.moves.iter().flat_map(|m| m.1.values());
    let pairs = measured.live.values().chain(measured.models.values());
    pairs.chain(many).chain(moves)
}

fn pair(policies: &Policies) -> Pair {
    let baseline = policies.get("equal").map(|r| medians(&r.times()));
    let mut pair = Pair::default();
    for (name, runs) in policies {
        let times = medians(&runs.times());
        let each = |part: fn(&Times) -> f64| runs.times().iter().map(part).collect();
        let all = [each(|t| t.total), each(|t| t.older), each(|t| t.younger)];
        pair.times.insert(name.clone(), all);
        if let Some(baseline) = baseline.filter(|_| name != "equal") {
            pair.changes.push(Change {
                name: name.clone(),
                percent: times.against(&baseline),
                count: runs.completions.len(),
            });
        }
    }
    pair
}

/// Names of the two batches in the table.
pub const PER_PROCESS: &str = "128 per process";
pub const PER_TASK: &str = "512 per task";
/// And the experiment with two models.
pub const TWO_MODELS: &str = "ResNet50 older and VGG16 younger";

fn table() -> Vec<Row> {
    const UNIT_S: f64 = 0.25;
    let vgg16 = Machine::vgg16(UNIT_S);
    let resnet50 = Machine::of("resnet50", UNIT_S).unwrap_or(vgg16);
    let mut rows = Vec::new();
    for (experiment, machines, batch) in [
        (PER_PROCESS, [&vgg16; 2], Batch::PerProcess),
        (PER_TASK, [&vgg16; 2], Batch::PerTask),
        (TWO_MODELS, [&resnet50, &vgg16], Batch::PerTask),
    ] {
        let equal = paper::run(machines, batch, 2, 2);
        for (older, younger) in [(2, 2), (3, 1), (1, 3)] {
            let times = paper::run(machines, batch, older, younger);
            rows.push(Row {
                experiment,
                older,
                younger,
                times,
                change: times.against(&equal),
            });
        }
    }
    rows
}

/// Every recorded training beside itself, as in the paper, and beside another one.
fn on_virtual_clock(curves: &[Vec<Point>], most: usize) -> Vec<Change> {
    let ways = [
        ("paper", Sharing::By(Policy::Paper)),
        ("ours", Sharing::By(Policy::Ours)),
        ("sequential", Sharing::Sequential),
    ];
    let mut changes: Vec<Vec<[f64; 3]>> = vec![Vec::new(); ways.len()];
    for i in 0..curves.len().min(most) {
        for other in [i, (i + 7) % curves.len()] {
            let pair = [&curves[i][..], &curves[other][..]];
            let play = |sharing| clock::play(pair, sharing);
            let Some(equal) = play(Sharing::By(Policy::Equal)) else {
                continue;
            };
            for ((_, sharing), all) in ways.iter().zip(&mut changes) {
                all.extend(play(*sharing).map(|t| t.against(&equal)));
            }
        }
    }
    let named = ways.iter().zip(changes).filter(|(_, c)| !c.is_empty());
    named
        .map(|((name, _), all)| Change {
            name: (*name).to_owned(),
            percent: [0, 1, 2].map(|k| median(all.iter().map(|c| c[k]).collect()).unwrap_or(0.0)),
            count: all.len(),
        })
        .collect()
}

fn medians(times: &[Times]) -> Times {
    let of = |pick: fn(&Times) -> f64| median(times.iter().map(pick).collect()).unwrap_or(f64::NAN);
    Times {
        total: of(|t| t.total),
        older: of(|t| t.older),
        younger: of(|t| t.younger),
    }
}

/// The middle value, or the lower of the two if the number of values is even.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}
