use doc::{ObjectiveKind, ParetoPoint, Plan, Proof};
use units::SamplesPerSec;

use super::{listed, pictures, verdict};
use crate::number::{change, plain};
use crate::page::{Cell, Report, Table};

/// A plan: what each task gets, what that gains over simpler schemes, and the fronts.
pub fn report(plan: &Plan) -> Report {
    let simulated = simulated(plan);
    let mut report = Report::new("Plan", plan.id.as_deref(), simulated);
    report.headline = verdict::headline(plan);
    add(&mut report, plan);
    pictures::of_plan(&mut report, plan);
    report
}

/// Whether the plan's predictions stem from a simulator.
pub fn simulated(plan: &Plan) -> bool {
    plan.model.as_ref().is_some_and(|m| m.device.simulated)
}

/// Adds facts and tables of a plan.
pub fn add(report: &mut Report, plan: &Plan) {
    if plan.tasks.is_empty() {
        report.fact("feasible", "no");
    }
    if !plan.baselines.is_empty() {
        report.legend = verdict::LEGEND.to_vec();
    }
    facts(report, plan);
    report.table(infeasible(plan));
    report.table(tasks(plan));
    report.table(gpus(plan));
    report.table(baselines(plan));
    report.table(points(
        "pareto",
        "Front of mismatch against objective",
        plan,
        &plan.pareto,
    ));
    let fair = "Front of total throughput against fairness";
    report.table(points("pareto_fairness", fair, plan, &plan.pareto_fairness));
    report.table(points(
        "alternatives",
        "Next best plans",
        plan,
        &plan.alternatives,
    ));
    report.table(explanation(plan));
}

/// Unit of an objective.
fn unit(kind: ObjectiveKind) -> &'static str {
    match kind {
        ObjectiveKind::Raw | ObjectiveKind::Weighted => "samples/s",
        ObjectiveKind::Fairness => "sum of P/S",
        ObjectiveKind::MaxMin => "least P/S",
        ObjectiveKind::Round => "s",
    }
}

/// The value of an objective as people say it: documents hold a time as a negative number, so
/// that more is always better.
fn told(kind: ObjectiveKind, value: f64) -> f64 {
    if kind == ObjectiveKind::Round {
        -value
    } else {
        value
    }
}

/// How many times better a plan is than another in the plan's objective.
fn gain(kind: ObjectiveKind, plan: f64, other: f64) -> f64 {
    if kind == ObjectiveKind::Round {
        other / plan
    } else {
        plan / other
    }
}

fn facts(report: &mut Report, plan: &Plan) {
    if let Some(objective) = plan.objective {
        let value = plain(told(objective.kind, objective.value));
        let unit = unit(objective.kind);
        report.fact(
            "objective",
            format!("{}: {value} {unit}", doc::name_of(&objective.kind)),
        );
    }
    if let Some(rv) = plan.rv {
        report.fact("sum of shares R_v", format!("{} %", rv.percent()));
    }
    if let Some(mismatch) = plan.mismatch {
        report.fact("mismatch", plain(mismatch));
    }
    if let (Some(open), Some(objective)) = (plan.unconstrained_objective, plan.objective) {
        let unit = unit(objective.kind);
        let open = plain(told(objective.kind, open));
        report.fact("with free batch sizes", format!("{open} {unit}"));
    }
    if let Some(search) = &plan.search {
        let proof = match search.proof {
            Proof::Enumerated => "best of the model: every point was looked at",
            Proof::Bounded => "best of the model: the rest was excluded by a bound",
            Proof::NotProven => "not proven to be the best",
        };
        let bound = search.bound.filter(|_| search.proof == Proof::NotProven);
        let kind = plan.objective.map_or(ObjectiveKind::Raw, |o| o.kind);
        let limit = if kind == ObjectiveKind::Round {
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
        report.fact(
            "search",
            format!("{proof}{bound}; {} points{seconds}", search.points),
        );
    }
}

fn tasks(plan: &Plan) -> Table {
    let mut table = Table::new("tasks", "What each task gets")
        .column("task", "task", "")
        .column("gpu", "GPU", "")
        .column("batch", "batch", "samples")
        .column("share_percent", "share", "%")
        .measured("predicted_samples_per_s", "predicted", "samples/s")
        .measured("low_samples_per_s", "95 % from", "samples/s")
        .measured("high_samples_per_s", "to", "samples/s")
        .measured("solo_samples_per_s", "alone", "samples/s")
        .measured("part_of_solo_percent", "of alone", "%");
    for task in &plan.tasks {
        let mean = task.throughput.map(|t| t.mean.get());
        let solo = task.solo.map(SamplesPerSec::get);
        table.rows.push(vec![
            task.id.as_str().into(),
            Cell::count(task.gpu.map(u64::from)),
            Cell::count(task.batch.map(|b| u64::from(b.get()))),
            Cell::number(task.share.map(units::Share::percent)),
            Cell::number(mean),
            Cell::number(task.throughput.map(|t| t.low.get())),
            Cell::number(task.throughput.map(|t| t.high.get())),
            Cell::number(solo),
            Cell::number(mean.zip(solo).map(|(m, s)| 100.0 * m / s)),
        ]);
    }
    table.without_empty_columns()
}

fn baselines(plan: &Plan) -> Table {
    let objective = plan.objective;
    let mut table = Table::new("baselines", "Against simpler schemes, predicted alike")
        .column("scheme", "scheme", "")
        .measured("total_samples_per_s", "throughput", "samples/s")
        .measured("fairness", "fairness", "sum of P/S")
        .measured(
            "objective",
            "objective",
            objective.map_or("", |o| unit(o.kind)),
        )
        .column("plan_gain", "plan gains", "")
        .column("shares_percent", "shares", "%")
        .column("feasible", "feasible", "");
    let rates: Option<Vec<f64>> = plan
        .tasks
        .iter()
        .map(|t| Some(t.throughput?.mean.get()))
        .collect();
    let Some(total) = rates.map(|r| r.iter().sum::<f64>()) else {
        return table;
    };
    if plan.baselines.is_empty() {
        return table;
    }
    let fairness: Option<Vec<f64>> = plan
        .tasks
        .iter()
        .map(|t| Some(t.throughput?.mean.get() / t.solo?.get()))
        .collect();
    let shares = plan
        .tasks
        .iter()
        .filter_map(|t| t.share)
        .map(units::Share::percent);
    table.rows.push(vec![
        "this plan".into(),
        Cell::Number(total),
        Cell::number(fairness.map(|f| f.iter().sum())),
        Cell::number(objective.map(|o| told(o.kind, o.value))),
        Cell::Empty,
        listed(shares).into(),
        Cell::Flag(true),
    ]);
    for b in &plan.baselines {
        let shares = b.tasks.iter().map(|t| t.share.percent());
        table.rows.push(vec![
            b.name.name().into(),
            Cell::Number(b.total_samples_per_s),
            Cell::Number(b.fairness),
            Cell::number(objective.map(|o| told(o.kind, b.objective))),
            Cell::text(objective.map(|o| change(gain(o.kind, o.value, b.objective)))),
            listed(shares).into(),
            Cell::Flag(b.feasible),
        ]);
    }
    table
}

fn points(key: &'static str, title: &str, plan: &Plan, points: &[ParetoPoint]) -> Table {
    let kind = plan.objective.map_or(ObjectiveKind::Raw, |o| o.kind);
    let mut table = Table::new(key, title)
        .measured("objective", "objective", unit(kind))
        .measured("total_samples_per_s", "throughput", "samples/s")
        .measured("fairness", "fairness", "sum of P/S")
        .measured("mismatch", "mismatch", "")
        .column("tasks", "task, batch size, share", "");
    for p in points {
        let tasks = p.tasks.iter();
        let tasks = tasks.map(|t| format!("{} {} at {} %", t.id, t.batch, t.share.percent()));
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

fn explanation(plan: &Plan) -> Table {
    let title = "What another share would change, all else as it is";
    let mut table = Table::new("explanation", title)
        .column("task", "task", "")
        .column("share_percent", "share", "%")
        .measured("objective_change", "objective changes by", "")
        .measured("samples_per_s_change", "throughput changes by", "samples/s");
    for m in &plan.explanation {
        let changes = m.samples_per_s_change.iter();
        let changes = changes.map(|(id, by)| format!("{id} {by:+.1}"));
        table.rows.push(vec![
            m.id.clone().into(),
            Cell::Number(m.share_percent),
            Cell::Number(m.objective_change),
            changes.collect::<Vec<_>>().join(", ").into(),
        ]);
    }
    table
}

fn gpus(plan: &Plan) -> Table {
    let mut table = Table::new("gpus", "GPUs")
        .column("gpu", "GPU", "")
        .column("tasks", "tasks", "")
        .column("rv_percent", "sum of shares", "%")
        .measured("total_samples_per_s", "throughput", "samples/s")
        .measured("fairness", "fairness", "sum of P/S");
    let names = plan.workload().map_or(&[][..], |w| &w.device.gpu_names);
    for gpu in &plan.gpus {
        table.rows.push(vec![
            names
                .get(gpu.gpu as usize)
                .map_or(Cell::Count(u64::from(gpu.gpu)), |name| name.clone().into()),
            listed(&gpu.tasks).into(),
            Cell::Number(gpu.rv_percent),
            Cell::Number(gpu.total_samples_per_s),
            Cell::Number(gpu.fairness),
        ]);
    }
    table
}

fn infeasible(plan: &Plan) -> Table {
    let mut table = Table::new("infeasible", "Why no plan is feasible")
        .column("constraint", "constraint", "")
        .column("limit", "demands", "")
        .column("best", "best that can be reached", "")
        .column("advice", "advice", "");
    for reason in &plan.infeasible {
        table.rows.push(vec![
            reason.constraint.clone().into(),
            Cell::Number(reason.limit),
            Cell::Number(reason.best),
            reason.advice.clone().into(),
        ]);
    }
    table
}
