//! Pictures of plans, profiles, timelines and runs.

pub mod occupancy;
pub mod round;

use std::collections::BTreeMap;

use doc::{Feasible, ObjectiveKind, ParetoPoint, Plan, Profile};
use units::TotalShare;

use crate::number::change;
use crate::page::Report;
use crate::picture::{Bar, Bars, Drawing, Line, Mark, Plot, Points};

/// Adds `simulated` to a unit where it applies.
fn unit(report: &Report, unit: &str) -> String {
    let label = if report.simulated { ", simulated" } else { "" };
    format!("({unit}{label})")
}

/// Pictures of a plan.
pub fn of_plan(report: &mut Report, plan: &Plan) {
    let compared = plan.feasible().filter(|f| !f.baselines.is_empty());
    let timed = |found: &&Feasible| found.objective.kind == ObjectiveKind::Round;
    if let Some(found) = compared.filter(timed) {
        seconds(report, found);
    } else if let Some(found) = compared {
        let values = |of: fn(&doc::Baseline) -> f64| {
            let each = found.baselines.iter();
            each.map(move |b| (b.name.name().to_owned(), of(b)))
        };
        let axis = format!("predicted total throughput {}", unit(report, "samples/s"));
        let rows = bars(axis, found.total(), values(|b| b.total_samples_per_s));
        report.picture("throughput", "Throughput against simpler schemes", rows);
        let ratio = unit(report, "ratio");
        let axis = format!("predicted sum of throughput / solo throughput {ratio}");
        let rows = bars(axis, found.fairness(), values(|b| b.fairness));
        report.picture("fairness", "Fairness against simpler schemes", rows);
    }
    if let Some(found) = plan.feasible() {
        fronts(report, found);
    }
    occupancy::add(report, plan);
}

/// Bars of the time of the round with the plan and with every simpler scheme: a plan for rounds minimises this time.
/// Throughput and fairness, which it may sacrifice, are in the picture of every scheme.
fn seconds(report: &mut Report, found: &Feasible) {
    // Documents store times as negative numbers, so that larger is better.
    let plan = -found.objective.value;
    let mut rows = vec![Bar {
        name: "this plan".to_owned(),
        value: plan,
        note: String::new(),
        other: None,
        chosen: true,
    }];
    rows.extend(found.baselines.iter().map(|baseline| Bar {
        name: match baseline.name {
            doc::Scheme::Temporal => "one after another".to_owned(),
            other => other.name().to_owned(),
        },
        value: -baseline.objective,
        note: format!("plan {}", change(-baseline.objective / plan)),
        other: None,
        chosen: false,
    }));
    let axis = format!("predicted time of the round {}", unit(report, "s"));
    let title = "Time of the round against simpler schemes (shorter is better)";
    report.picture("round", title, Drawing::Bars(Bars { axis, rows }));
}

fn bars(axis: String, own: f64, others: impl Iterator<Item = (String, f64)>) -> Drawing {
    let mut rows = vec![Bar {
        name: "this plan".to_owned(),
        value: own,
        note: String::new(),
        other: None,
        chosen: true,
    }];
    rows.extend(others.map(|(name, value)| Bar {
        note: format!("plan {}", change(own / value)),
        name,
        value,
        other: None,
        chosen: false,
    }));
    Drawing::Bars(Bars { axis, rows })
}

fn fronts(report: &mut Report, plan: &Feasible) {
    let objective = plan.objective;
    if let Some(mismatch) = plan.mismatch.filter(|_| !plan.pareto.is_empty()) {
        let what = match objective.kind {
            ObjectiveKind::Raw => "total throughput",
            ObjectiveKind::Fairness => "sum of throughput / solo throughput",
            ObjectiveKind::Weighted => "weighted throughput",
            ObjectiveKind::MaxMin => "least throughput / solo throughput",
            ObjectiveKind::Round => "minus the time of the round",
            ObjectiveKind::Progress | ObjectiveKind::ProgressLast if objective.value < 0.0 => {
                "minus the time to target"
            }
            ObjectiveKind::Progress | ObjectiveKind::ProgressLast => {
                "progress / most progress alone"
            }
        };
        let measure = match objective.kind {
            ObjectiveKind::Raw | ObjectiveKind::Weighted => "samples/s",
            ObjectiveKind::Round => "s",
            ObjectiveKind::Progress | ObjectiveKind::ProgressLast if objective.value < 0.0 => "s",
            _ => "ratio",
        };
        let plot = Plot {
            x: "mismatch of batch sizes and data volumes (FedMT eq. 6, smaller is better)"
                .to_owned(),
            y: format!("{what} {}", unit(report, measure)),
            lines: vec![front(&plan.pareto, "front", true, |p| {
                (p.mismatch, p.objective)
            })],
            marks: vec![Mark {
                name: "this plan".to_owned(),
                colour: 1,
                at: (mismatch, objective.value),
            }],
            ..Plot::default()
        };
        report.picture(
            "pareto",
            "Pareto front of mismatch against objective",
            Drawing::Plot(plot),
        );
    }
    if !plan.baselines.is_empty() {
        let baseline = |b: &doc::Baseline| Mark {
            name: b.name.name().to_owned(),
            colour: 6,
            at: (b.total_samples_per_s, b.fairness),
        };
        let mut marks = vec![Mark {
            name: "this plan".to_owned(),
            colour: 1,
            at: (plan.total(), plan.fairness()),
        }];
        marks.extend(plan.baselines.iter().map(baseline));
        let line = front(&plan.pareto_fairness, "front", false, |p| {
            (p.total_samples_per_s, p.fairness)
        });
        let plot = Plot {
            x: format!("predicted total throughput {}", unit(report, "samples/s")),
            y: format!("fairness: sum of P/S {}", unit(report, "ratio")),
            lines: if line.at.len() < 2 {
                Vec::new()
            } else {
                vec![line]
            },
            marks,
            ..Plot::default()
        };
        report.picture(
            "schemes",
            "Throughput and fairness of every scheme",
            Drawing::Plot(plot),
        );
    }
}

fn front(
    points: &[ParetoPoint],
    name: &str,
    steps: bool,
    axes: impl Fn(&ParetoPoint) -> (f64, f64),
) -> Line {
    let mut at: Vec<(f64, f64)> = points.iter().map(axes).collect();
    at.sort_by(|a, b| a.0.total_cmp(&b.0));
    Line {
        name: name.to_owned(),
        colour: 0,
        steps,
        at,
    }
}

/// Total throughput of the co-runs of all tasks, over the sum of shares.
pub fn of_profile(report: &mut Report, profile: &Profile, plan: Option<&Plan>) {
    let everyone = profile.header.workload.tasks.len();
    let together = profile.samples.iter().filter(|s| s.tasks.len() == everyone);
    let points: Vec<(f64, f64)> = together
        .map(|s| {
            let sum: TotalShare = s.tasks.iter().map(|t| t.share).sum();
            (
                sum.percent(),
                s.tasks.iter().map(|t| t.throughput.get()).sum(),
            )
        })
        .collect();
    if everyone < 2 || points.len() < 4 {
        return;
    }
    let mut best: BTreeMap<u32, f64> = BTreeMap::new();
    for &(share, total) in &points {
        let entry = best.entry((share / 10.0).round() as u32).or_insert(0.0);
        *entry = entry.max(total);
    }
    let line = best
        .into_iter()
        .map(|(tens, total)| (f64::from(tens) * 10.0, total));
    let found = plan.and_then(Plan::feasible);
    let chosen = found.map(|found| (found.rv.percent(), found.total()));
    let marks = chosen.map(|at| Mark {
        name: "plan (predicted)".to_owned(),
        colour: 1,
        at,
    });
    let plot = Plot {
        x: "sum of shares R_v (% of the device)".to_owned(),
        y: format!("total throughput {}", unit(report, "samples/s")),
        from_zero: true,
        points: vec![Points {
            name: "co-run of all tasks".to_owned(),
            colour: None,
            at: points,
        }],
        lines: vec![Line {
            name: "best of each 10 %".to_owned(),
            colour: 0,
            steps: false,
            at: line.collect(),
        }],
        marks: marks.into_iter().collect(),
        ..Plot::default()
    };
    report.picture(
        "rv",
        "Throughput over the total virtual resource",
        Drawing::Plot(plot),
    );
}

/// Total throughput over the sum of shares. A row is R_v in percent, predicted throughput, measured throughput.
pub fn sweep(report: &mut Report, rows: &[(f64, f64, f64)]) {
    let line = |name: &str, colour, at: Vec<(f64, f64)>| Line {
        name: name.to_owned(),
        colour,
        steps: false,
        at,
    };
    let predicted = rows.iter().map(|r| (r.0, r.1)).collect();
    let measured = rows.iter().map(|r| (r.0, r.2)).collect();
    let plot = Plot {
        x: "sum of shares R_v (% of the device)".to_owned(),
        y: format!("total throughput {}", unit(report, "samples/s")),
        from_zero: true,
        lines: vec![
            line("measured", 0, measured),
            line("predicted", 1, predicted),
        ],
        ..Plot::default()
    };
    report.picture(
        "sweep",
        "Throughput over the total virtual resource",
        Drawing::Plot(plot),
    );
}

/// Plot of predicted against measured throughput. A pair is name, predicted, measured.
pub fn predicted(report: &mut Report, pairs: &[(String, f64, f64)]) {
    if pairs.is_empty() {
        return;
    }
    let marks = pairs
        .iter()
        .enumerate()
        .map(|(i, (name, predicted, measured))| Mark {
            name: {
                let error = 100.0 * (predicted / measured - 1.0);
                format!("{} {error:+.1} %", short(name))
            },
            colour: i,
            at: (*measured, *predicted),
        });
    let plot = Plot {
        x: format!("measured throughput {}", unit(report, "samples/s")),
        y: format!("predicted throughput {}", unit(report, "samples/s")),
        same: true,
        marks: marks.collect(),
        ..Plot::default()
    };
    let title = "Predicted against measured throughput (dashed: equal)";
    report.picture("predicted", title, Drawing::Plot(plot));
}

/// A shortened name, to leave room for a number after it.
fn short(name: &str) -> String {
    const MOST: usize = 24;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    let kept: String = name.chars().take(MOST - 1).collect();
    format!("{kept}…")
}

/// Measured total throughput of every scheme, beside the predictions.
pub fn measured_schemes(report: &mut Report, schemes: &[(String, Option<f64>, f64)]) {
    if schemes.len() < 2 {
        return;
    }
    let plan = schemes.iter().find(|s| s.0 == "plan").map(|s| s.2);
    let rows = schemes.iter().map(|(name, predicted, measured)| Bar {
        name: name.clone(),
        value: *measured,
        note: match plan {
            Some(plan) if name != "plan" => format!("plan {}", change(plan / measured)),
            _ => String::new(),
        },
        other: *predicted,
        chosen: name == "plan",
    });
    let drawing = Drawing::Bars(Bars {
        axis: format!("total throughput {}", unit(report, "samples/s")),
        rows: rows.collect(),
    });
    report.picture("throughput", "Measured throughput of every scheme", drawing);
}
