use doc::{
    Answer, Candidate, Candidates, Chosen, Feasible, Infeasible, Objective, ObjectiveKind,
    ParetoPoint, Plan, Proof, Search,
};
use efficiency::Law;
use units::{SamplesPerSec, TotalShare};

use super::words::listed;
use super::{pictures, verdict};
use crate::number::{change, plain};
use crate::page::{Cell, Report, Table};

/// Reports a plan: the settings of each task, the gain over simpler schemes, and the fronts.
pub fn report(plan: &Plan) -> Report {
    let simulated = simulated(plan);
    let mut report = Report::new("Plan", plan.id.as_deref(), simulated);
    report.headline = verdict::headline(plan);
    add(&mut report, plan);
    pictures::of_plan(&mut report, plan);
    report
}

/// Whether the plan's predictions come from a simulator.
pub fn simulated(plan: &Plan) -> bool {
    plan.model.as_ref().is_some_and(|m| m.device.simulated)
}

/// Adds facts and tables of a plan.
pub fn add(report: &mut Report, plan: &Plan) {
    match &plan.answer {
        Answer::Infeasible(none) => {
            report.fact("feasible", "no");
            if let Some(search) = &none.search {
                report.fact("search", searched(search, ObjectiveKind::Raw));
            }
            report.table(infeasible(none));
        }
        Answer::ByHand(by_hand) => {
            total_share(report, by_hand.rv);
            report.table(tasks(plan));
        }
        Answer::Feasible(found) => feasible(report, plan, found),
    }
}

fn feasible(report: &mut Report, plan: &Plan, found: &Feasible) {
    if !found.baselines.is_empty() {
        report.legend = verdict::LEGEND.to_vec();
    }
    facts(report, found);
    report.table(tasks(plan));
    report.table(gpus(plan, found));
    report.table(baselines(found));
    let kind = found.objective.kind;
    let table = |key, title, rows: &[ParetoPoint]| points(key, title, kind, rows);
    let mismatch = "Front of mismatch against objective";
    report.table(table("pareto", mismatch, &found.pareto));
    let fair = "Front of total throughput against fairness";
    report.table(table("pareto_fairness", fair, &found.pareto_fairness));
    report.table(table(
        "alternatives",
        "Next best plans",
        &found.alternatives,
    ));
    report.table(explanation(found));
}

/// Unit of an objective.
fn unit(kind: ObjectiveKind, value: f64) -> &'static str {
    match kind {
        ObjectiveKind::Raw | ObjectiveKind::Weighted => "samples/s",
        ObjectiveKind::Fairness => "sum of P/S",
        ObjectiveKind::MaxMin => "least P/S",
        ObjectiveKind::Round => "s",
        ObjectiveKind::Progress if is_time(kind, value) => "s to target (mean)",
        ObjectiveKind::Progress => "of the most progress alone (mean)",
        ObjectiveKind::ProgressLast if is_time(kind, value) => "s to target (last)",
        ObjectiveKind::ProgressLast => "of the most progress alone (least)",
    }
}

/// Whether a value of an objective is a time, which documents store as a negative number. Progress is a time if the
/// tasks have rounds to a target.
fn is_time(kind: ObjectiveKind, value: f64) -> bool {
    match kind {
        ObjectiveKind::Round => true,
        ObjectiveKind::Progress | ObjectiveKind::ProgressLast => value < 0.0,
        _ => false,
    }
}

/// The value of an objective as users expect it: documents store a time as a negative number, so that larger is
/// always better.
fn told(kind: ObjectiveKind, value: f64) -> f64 {
    if is_time(kind, value) { -value } else { value }
}

/// How many times better a plan is than another in the plan's objective.
fn gain(kind: ObjectiveKind, plan: f64, other: f64) -> f64 {
    if is_time(kind, plan) {
        other / plan
    } else {
        plan / other
    }
}

fn total_share(report: &mut Report, rv: Option<TotalShare>) {
    if let Some(rv) = rv {
        report.fact("sum of shares R_v", format!("{} %", rv.percent()));
    }
}

fn facts(report: &mut Report, found: &Feasible) {
    let Objective { kind, value } = found.objective;
    let (value, unit) = (plain(told(kind, value)), unit(kind, value));
    report.fact(
        "objective",
        format!("{}: {value} {unit}", doc::name_of(&kind)),
    );
    total_share(report, Some(found.rv));
    if let Some(mismatch) = found.mismatch {
        report.fact("mismatch", plain(mismatch));
    }
    if let Some(told) = &found.prediction {
        let error = told.error_percent.map_or_else(
            || "error not known".to_owned(),
            |error| format!("mean error {} % ({} held out)", plain(error), told.cases),
        );
        report.fact("predictions", format!("{}: {error}", told.kind.words()));
    }
    if let Some(open) = found.unconstrained_objective {
        let open = plain(told(kind, open));
        report.fact("with free batch sizes", format!("{open} {unit}"));
    }
    report.fact("search", searched(&found.search, kind));
    if let Some(candidates) = &found.candidates {
        report.fact("chosen", chosen(candidates, kind));
    }
}

/// The two candidates between which the plan was chosen.
fn chosen(candidates: &Candidates, kind: ObjectiveKind) -> String {
    let text = |c: &Candidate| {
        let unit = unit(kind, c.objective);
        let low = (c.low).map_or("no limit".to_owned(), |low| plain(told(kind, low)));
        format!("{} {unit} (95 %: {low})", plain(told(kind, c.objective)))
    };
    let config = candidates.measured.config;
    let number = config.map_or(String::new(), |c| format!(", configuration {c}"));
    let measured = format!("measured{number}: {}", text(&candidates.measured));
    let Some(predicted) = &candidates.predicted else {
        return format!("{measured}; by the model nothing is feasible");
    };
    let predicted = format!("best by the model: {}", text(predicted));
    match candidates.chosen {
        Chosen::Measured => format!("{measured}; {predicted}"),
        Chosen::Predicted => format!("{predicted}; {measured}"),
    }
}

/// How a search ended, and what its proof excludes.
fn searched(search: &Search, kind: ObjectiveKind) -> String {
    let proof = match search.proof {
        Proof::Enumerated => "optimal under the model: every point was evaluated",
        Proof::Bounded => "optimal under the model: the rest was excluded by a bound",
        Proof::WithinNoise => "measured, and within its noise of the optimum under the model",
        Proof::NotProven => "not proven optimal",
    };
    let bound = search.bound.filter(|_| !search.proof.is_proven());
    let limit = if bound.is_some_and(|bound| is_time(kind, bound)) {
        "none can be below"
    } else {
        "none can exceed"
    };
    let bound = bound.map_or(String::new(), |b| {
        format!(", {limit} {}", plain(told(kind, b)))
    });
    let seconds = search
        .seconds
        .map_or(String::new(), |s| format!(" in {} s", plain(s)));
    format!("{proof}{bound}; {} points{seconds}", search.points)
}

fn tasks(plan: &Plan) -> Table {
    let mut table = Table::new("tasks", "What each task gets")
        .column("task", "task", "")
        .column("gpu", "GPU", "")
        .column("batch", "batch", "samples")
        .column("share_percent", "share", "%")
        .column("progress_percent", "a sample's progress", "%")
        .measured("predicted_samples_per_s", "predicted", "samples/s")
        .measured("low_samples_per_s", "95 % from", "samples/s")
        .measured("high_samples_per_s", "to", "samples/s")
        .measured("solo_samples_per_s", "alone", "samples/s")
        .measured("part_of_solo_percent", "of alone", "%");
    for (i, task) in plan.tasks.iter().enumerate() {
        let given = plan.given(i);
        let mean = given.throughput.map(|t| t.mean.get());
        let solo = given.solo.map(SamplesPerSec::get);
        // Efficiency at the chosen batch size, relative to the reference size.
        let workload = plan.workload();
        let spec = workload.and_then(|w| Some(&w.tasks[w.task_index(&task.id)?]));
        let known = spec.and_then(Law::of_task);
        table.rows.push(vec![
            task.id.as_str().into(),
            Cell::count(task.gpu.map(u64::from)),
            Cell::count(given.batch.map(|b| u64::from(b.get()))),
            Cell::number(given.share.map(units::Share::percent)),
            Cell::number(known.zip(given.batch).map(|(law, b)| 100.0 * law.at(b))),
            Cell::number(mean),
            Cell::number(given.throughput.map(|t| t.low.get())),
            Cell::number(given.throughput.map(|t| t.high.get())),
            Cell::number(solo),
            Cell::number(mean.zip(solo).map(|(m, s)| 100.0 * m / s)),
        ]);
    }
    table.without_empty_columns()
}

fn baselines(found: &Feasible) -> Table {
    let objective = found.objective;
    let mut table = Table::new(
        "baselines",
        "Against simpler schemes, predicted in the same way",
    )
    .column("scheme", "scheme", "")
    .measured("total_samples_per_s", "throughput", "samples/s")
    .measured("fairness", "fairness", "sum of P/S")
    .measured(
        "objective",
        "objective",
        unit(objective.kind, objective.value),
    )
    .column("plan_gain", "plan gains", "")
    .column("shares_percent", "shares", "%")
    .column("feasible", "feasible", "");
    if found.baselines.is_empty() {
        return table;
    }
    let shares = found.decisions.iter().map(|d| d.share.percent());
    table.rows.push(vec![
        "this plan".into(),
        Cell::Number(found.total()),
        Cell::Number(found.fairness()),
        Cell::Number(told(objective.kind, objective.value)),
        Cell::Empty,
        listed(shares).into(),
        Cell::Flag(true),
    ]);
    for b in &found.baselines {
        let shares = b.tasks.iter().map(|t| t.share.percent());
        let gain = gain(objective.kind, objective.value, b.objective);
        table.rows.push(vec![
            b.name.name().into(),
            Cell::Number(b.total_samples_per_s),
            Cell::Number(b.fairness),
            Cell::Number(told(objective.kind, b.objective)),
            change(gain).into(),
            listed(shares).into(),
            Cell::Flag(b.feasible),
        ]);
    }
    table
}

fn points(key: &'static str, title: &str, kind: ObjectiveKind, points: &[ParetoPoint]) -> Table {
    let mut table = Table::new(key, title)
        .measured(
            "objective",
            "objective",
            unit(kind, points.first().map_or(0.0, |p| p.objective)),
        )
        .measured("total_samples_per_s", "throughput", "samples/s")
        .measured("fairness", "fairness", "sum of P/S")
        .measured("mismatch", "mismatch", "")
        .column("tasks", "task, batch size, share", "");
    for p in points {
        let tasks = p
            .tasks
            .iter()
            .map(|t| format!("{} {} at {} %", t.id, t.batch, t.share.percent()));
        table.rows.push(vec![
            Cell::Number(told(kind, p.objective)),
            Cell::Number(p.total_samples_per_s),
            Cell::Number(p.fairness),
            Cell::Number(p.mismatch),
            tasks.collect::<Vec<_>>().join("; ").into(),
        ]);
    }
    table
}

fn explanation(found: &Feasible) -> Table {
    let title = "Effect of another share, all else equal";
    let mut table = Table::new("explanation", title)
        .column("task", "task", "")
        .column("share_percent", "share", "%")
        .measured("objective_change", "objective changes by", "")
        .measured("samples_per_s_change", "throughput changes by", "samples/s");
    for m in &found.explanation {
        let changes = m
            .samples_per_s_change
            .iter()
            .map(|(id, by)| format!("{id} {by:+.1}"));
        table.rows.push(vec![
            m.id.as_str().into(),
            Cell::Number(m.share.percent()),
            Cell::Number(m.objective_change),
            changes.collect::<Vec<_>>().join(", ").into(),
        ]);
    }
    table
}

fn gpus(plan: &Plan, found: &Feasible) -> Table {
    let mut table = Table::new("gpus", "GPUs")
        .column("gpu", "GPU", "")
        .column("tasks", "tasks", "")
        .column("rv_percent", "sum of shares", "%")
        .measured("total_samples_per_s", "throughput", "samples/s")
        .measured("fairness", "fairness", "sum of P/S");
    let names = plan.workload().map_or(&[][..], |w| &w.device.gpu_names);
    for gpu in &found.gpus {
        table.rows.push(vec![
            names
                .get(gpu.gpu as usize)
                .map_or(Cell::Count(u64::from(gpu.gpu)), |name| name.clone().into()),
            listed(&gpu.tasks).into(),
            Cell::Number(gpu.rv.percent()),
            Cell::Number(gpu.total_samples_per_s),
            Cell::Number(gpu.fairness),
        ]);
    }
    table
}

fn infeasible(none: &Infeasible) -> Table {
    let mut table = Table::new("infeasible", "Why no plan is feasible")
        .column("constraint", "constraint", "")
        .column("limit", "demands", "")
        .column("best", "best that can be reached", "")
        .column("advice", "advice", "");
    for reason in &none.reasons {
        table.rows.push(vec![
            doc::name_of(&reason.constraint).into(),
            Cell::Number(reason.limit),
            Cell::Number(reason.best),
            reason.advice.clone().into(),
        ]);
    }
    table
}
