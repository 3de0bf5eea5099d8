use doc::wire::{EventKind, TaskSummary};
use doc::{Plan, RunEvent, Timeline};

use super::pictures;
use super::timeline::{bar, phase_name};
use super::workload::fingerprint;
use crate::number::{change, plain};
use crate::page::{Cell, Report, Table};

/// A run: did every task finish, and what was planned against what happened.
pub fn report(events: &[RunEvent]) -> Report {
    let launch = events.first();
    let device = launch.and_then(|e| e.fields.device.as_ref());
    let timeline = launch.and_then(|e| e.timeline.as_ref());
    let plan = timeline
        .map(|t| &t.plan)
        .or(launch.and_then(|e| e.plan.as_ref()));
    let id = plan.and_then(|p| p.id.as_deref());
    let mut report = Report::new("Run", id, device.is_some_and(|d| d.simulated));
    if let Some(device) = device {
        report.fact("device", fingerprint(device));
    }
    let last = events.last().filter(|e| e.kind() == EventKind::Summary);
    outcome(&mut report, last, timeline);
    if let Some(summary) = last {
        report.table(tasks(&summary.fields.tasks, plan, events));
        pictures::predicted(&mut report, &pairs(&summary.fields.tasks, plan));
    }
    if let Some(plan) = plan {
        pictures::round::of_run(&mut report, events, plan, timeline);
    }
    report.table(rounds(events));
    report.table(phases(events, timeline));
    report.table(trouble(events));
    report
}

fn outcome(report: &mut Report, summary: Option<&RunEvent>, timeline: Option<&Timeline>) {
    let Some(summary) = summary else {
        return report.fact("finished", "no: the log has no summary");
    };
    let f = &summary.fields;
    let ok = if f.ok == Some(true) {
        "yes, every task"
    } else {
        "no"
    };
    report.fact("finished", ok);
    if let Some(makespan) = f.makespan_s {
        let planned = f.planned_makespan_s.or(timeline.map(|t| t.makespan.get()));
        let against = planned.filter(|p| *p > 0.0).map_or(String::new(), |p| {
            format!(", planned {} s ({})", plain(p), change(makespan / p))
        });
        report.fact("makespan", format!("{} s{against}", plain(makespan)));
    }
}

/// Name, predicted and measured throughput of every task.
fn pairs(summaries: &[TaskSummary], plan: Option<&Plan>) -> Vec<(String, f64, f64)> {
    let each = summaries.iter().filter_map(|task| {
        let planned = plan.and_then(|p| p.tasks.iter().find(|t| t.id.as_str() == task.id));
        let predicted = task
            .predicted_samples_per_s
            .or_else(|| planned?.throughput.map(|t| t.mean.get()))?;
        let measured = task.samples_per_s.filter(|m| *m > 0.0)?;
        Some((task.id.clone(), predicted, measured))
    });
    each.collect()
}

fn tasks(summaries: &[TaskSummary], plan: Option<&Plan>, events: &[RunEvent]) -> Table {
    let mut table = Table::new(
        "tasks",
        "Predicted against measured throughput while all tasks computed",
    )
    .column("task", "task", "")
    .column("batch", "batch", "samples")
    .column("share_percent", "share", "%")
    .measured("predicted_samples_per_s", "predicted", "samples/s")
    .measured("measured_samples_per_s", "measured", "samples/s")
    .column("error_percent", "error", "%")
    .column("samples", "trained on", "samples")
    .column("first_loss", "first loss", "")
    .column("last_loss", "last loss", "")
    .column("restarts", "restarts", "")
    .column("finished", "finished", "")
    .column("end", "ended with", "");
    for task in summaries {
        let planned = plan.and_then(|p| p.tasks.iter().find(|t| t.id.as_str() == task.id));
        let predicted = task
            .predicted_samples_per_s
            .or_else(|| planned?.throughput.map(|t| t.mean.get()));
        let error = predicted.zip(task.samples_per_s).filter(|(_, m)| *m > 0.0);
        let mut starts = events
            .iter()
            .rev()
            .filter(|e| e.kind() == EventKind::Start && e.fields.task.as_deref() == Some(&task.id));
        let planned_batch = planned.and_then(|t| t.batch).map(|b| u64::from(b.get()));
        let end = match (task.code, task.signal) {
            (_, Some(signal)) => Some(format!("signal {signal}")),
            (Some(code), None) => Some(format!("exit code {code}")),
            (None, None) => None,
        };
        table.rows.push(vec![
            task.id.clone().into(),
            Cell::count(starts.find_map(|e| e.fields.batch).or(planned_batch)),
            Cell::number(planned.and_then(|t| t.share).map(units::Share::percent)),
            Cell::number(predicted),
            Cell::number(task.samples_per_s),
            Cell::number(error.map(|(p, m)| 100.0 * (p / m - 1.0))),
            Cell::Count(task.samples),
            Cell::number(task.first_loss),
            Cell::number(task.last_loss),
            Cell::Count(u64::from(task.restarts)),
            Cell::Flag(task.finished),
            Cell::text(end),
        ]);
    }
    table.without_empty_columns()
}

fn rounds(events: &[RunEvent]) -> Table {
    let mut table = Table::new("rounds", "Rounds")
        .column("round", "round", "")
        .column("ok", "finished", "")
        .measured("makespan_s", "makespan", "s")
        .measured("planned_makespan_s", "planned", "s")
        .column("difference_percent", "difference", "%");
    for event in events.iter().filter(|e| e.kind() == EventKind::Round) {
        let f = &event.fields;
        let pair = f
            .makespan_s
            .zip(f.planned_makespan_s)
            .filter(|(_, p)| *p > 0.0);
        table.rows.push(vec![
            Cell::count(f.round.map(u64::from)),
            f.ok.map_or(Cell::Empty, Cell::Flag),
            Cell::number(f.makespan_s),
            Cell::number(f.planned_makespan_s),
            Cell::number(pair.map(|(m, p)| 100.0 * (m / p - 1.0))),
        ]);
    }
    table.without_empty_columns()
}

/// Phases of the rounds, planned against measured.
fn phases(events: &[RunEvent], timeline: Option<&Timeline>) -> Table {
    let told = || events.iter().filter(|e| e.kind() == EventKind::Phase);
    let whole = told().filter_map(|e| e.fields.end_s).fold(0.0, f64::max);
    let mut table = Table::new("phases", "Phases, planned against measured")
        .column("round", "round", "")
        .column("task", "task", "")
        .column("phase", "phase", "")
        .measured("planned_start_s", "planned start", "s")
        .measured("planned_end_s", "planned end", "s")
        .measured("start_s", "start", "s")
        .measured("end_s", "end", "s")
        .drawing("from start to end");
    for event in told() {
        let f = &event.fields;
        let (Some(id), Some(kind)) = (f.task.as_deref(), f.phase) else {
            continue;
        };
        let planned = timeline.and_then(|t| {
            let of_task = |p: &&doc::Phase| t.plan.tasks[p.task].id.as_str() == id;
            t.phases.iter().filter(of_task).find(|p| p.kind == kind)
        });
        let drawn = f.start_s.zip(f.end_s).map(|(s, e)| bar(s, e, whole));
        table.rows.push(vec![
            Cell::count(f.round.map(u64::from)),
            id.into(),
            phase_name(kind).into(),
            Cell::number(planned.map(|p| p.start.get())),
            Cell::number(planned.map(|p| p.end.get())),
            Cell::number(f.start_s),
            Cell::number(f.end_s),
            Cell::text(drawn),
        ]);
    }
    table.without_empty_columns()
}

fn trouble(events: &[RunEvent]) -> Table {
    let mut table = Table::new("trouble", "Restarts, stops and faults")
        .measured("time_s", "time", "s")
        .column("event", "event", "")
        .column("task", "task", "")
        .column("reason", "reason", "");
    for event in events {
        let f = &event.fields;
        let what = match event.kind() {
            EventKind::Restart => "restart",
            EventKind::Stop => "stop",
            EventKind::Fault => "fault",
            EventKind::Replan => "new plan",
            EventKind::Reshare => "new shares",
            _ => continue,
        };
        table.rows.push(vec![
            Cell::Number(f.time_s),
            what.into(),
            Cell::text(f.task.clone()),
            Cell::text(f.reason.clone()),
        ]);
    }
    table.without_empty_columns()
}
