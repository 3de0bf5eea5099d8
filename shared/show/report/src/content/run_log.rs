use doc::{EventPayload, Plan, RunEvent, TaskSummary, Timeline};
use units::{SamplesPerSec, Seconds};

use super::timeline::bar;
use super::words::phase_name;
use super::workload::fingerprint;
use super::{learning, moves, pictures, seen, verdict};
use crate::number::{change, plain};
use crate::page::{Cell, Report, Table};

/// Reports a run: whether every task finished, and how it compares with the plan.
pub fn report(events: &[RunEvent]) -> Report {
    let launch = events.first();
    let device = match launch.map(|e| &e.payload) {
        Some(EventPayload::Launch { device, .. }) => Some(device),
        _ => None,
    };
    let planned = launch.and_then(RunEvent::planned);
    let (plan, timeline) = (
        planned.map(|p| p.plan()),
        planned.and_then(|p| p.timeline()),
    );
    let id = plan.and_then(|p| p.id.as_deref());
    let mut report = Report::new("Run", id, device.is_some_and(|d| d.simulated));
    report.headline = plan.map_or(String::new(), verdict::headline);
    if let Some(device) = device {
        report.fact("device", fingerprint(device));
    }
    match events.last().map(|e| &e.payload) {
        Some(EventPayload::Summary {
            ok,
            makespan,
            tasks: summaries,
        }) => {
            outcome(&mut report, *ok, *makespan, events);
            report.table(tasks(summaries, plan, events));
            pictures::predicted(&mut report, &pairs(summaries, plan));
        }
        _ => report.fact("finished", "no: the log has no summary"),
    }
    if let Some(verdict) = plan.and_then(|plan| seen::of_run(plan, events)) {
        report.fact("measured verdict", verdict);
    }
    if let Some(plan) = plan {
        pictures::round::of_run(&mut report, events, plan, timeline);
    }
    learning::add(&mut report, events);
    moves::add(&mut report, events);
    report.table(rounds(events));
    report.table(phases(events, timeline));
    report.table(trouble(events));
    report
}

/// Adds whether all tasks finished, the time of the run, and the time of a round compared with the
/// plan.
fn outcome(report: &mut Report, ok: bool, makespan: Seconds, events: &[RunEvent]) {
    let stopped = events.iter().find_map(|e| match &e.payload {
        EventPayload::Stop {
            task: None, reason, ..
        } => Some(format!("no, interrupted: {reason}")),
        _ => None,
    });
    let no = || stopped.unwrap_or_else(|| "no".to_owned());
    report.fact(
        "finished",
        if ok {
            "yes, every task".to_owned()
        } else {
            no()
        },
    );
    report.fact("makespan", format!("{} s", plain(makespan.get())));
    // The plan may change between rounds, so each round is compared with its own.
    let rounds: Vec<(f64, Option<f64>)> = events
        .iter()
        .filter_map(|e| match &e.payload {
            EventPayload::Round {
                makespan,
                planned_makespan,
                ..
            } => Some((makespan.get(), planned_makespan.map(Seconds::get))),
            _ => None,
        })
        .collect();
    if rounds.is_empty() {
        return;
    }
    let mean = |sum: f64| sum / rounds.len() as f64;
    let measured = mean(rounds.iter().map(|(m, _)| m).sum());
    let planned: Option<f64> = rounds.iter().map(|(_, p)| *p).sum();
    let against = planned
        .map(mean)
        .filter(|p| *p > 0.0)
        .map_or(String::new(), |p| {
            format!(", planned {} s ({})", plain(p), change(measured / p))
        });
    let label = match rounds.len() {
        1 => "round",
        _ => "mean of the rounds",
    };
    report.fact(label, format!("{} s{against}", plain(measured)));
}

/// Predicted throughput of a task: from its summary, otherwise from the plan.
fn predicted(task: &TaskSummary, plan: Option<&Plan>) -> Option<f64> {
    let of_plan = || plan?.given_of(&task.id).throughput.map(|t| t.mean);
    task.predicted.or_else(of_plan).map(SamplesPerSec::get)
}

/// Measured throughput of a task while all computed, if that is above 0.
fn measured(task: &TaskSummary) -> Option<f64> {
    task.rate_together()
        .map(SamplesPerSec::get)
        .filter(|m| *m > 0.0)
}

/// Name, predicted and measured throughput of every task.
fn pairs(summaries: &[TaskSummary], plan: Option<&Plan>) -> Vec<(String, f64, f64)> {
    let each = summaries.iter().filter_map(|task| {
        let name = task.id.as_str().to_owned();
        Some((name, predicted(task, plan)?, measured(task)?))
    });
    each.collect()
}

/// Samples of a task; `None` for a task that finished without reporting progress.
fn counted(task: &TaskSummary) -> Option<u64> {
    Some(task.samples).filter(|&n| n > 0 || !task.finished)
}

fn tasks(summaries: &[TaskSummary], plan: Option<&Plan>, events: &[RunEvent]) -> Table {
    let mut table = Table::new(
        "tasks",
        match plan {
            Some(_) => "Predicted against measured throughput while all tasks computed",
            None => "What became of each task",
        },
    )
    .column("task", "task", "")
    .column("batch", "batch", "samples")
    .column("share_percent", "share", "%")
    .measured("predicted_samples_per_s", "predicted", "samples/s")
    .measured("measured_samples_per_s", "measured", "samples/s")
    .column("error_percent", "error", "%")
    .column("samples", "trained on", "samples")
    .measured("trained_s", "for", "s")
    .measured("mean_samples_per_s", "on the average", "samples/s")
    .column("first_loss", "first loss", "")
    .column("last_loss", "last loss", "")
    .column("restarts", "restarts", "")
    .column("finished", "finished", "")
    .column("interrupted", "interrupted", "")
    .column("end", "ended with", "");
    for task in summaries {
        let planned = plan.map(|p| p.given_of(&task.id)).unwrap_or_default();
        let predicted = predicted(task, plan);
        let error = predicted.zip(measured(task));
        let started = events.iter().rev().find_map(|e| match &e.payload {
            EventPayload::Start {
                task: id, batch, ..
            } if *id == task.id => *batch,
            _ => None,
        });
        let batch = task.batch.or(started).or(planned.batch);
        let share = task.share.or(planned.share);
        let trained = task.trained.map(Seconds::get).filter(|s| *s > 0.0);
        table.rows.push(vec![
            task.id.as_str().into(),
            Cell::count(batch.map(|b| u64::from(b.get()))),
            Cell::number(share.map(units::Share::percent)),
            Cell::number(predicted),
            Cell::number(task.rate_together().map(SamplesPerSec::get)),
            Cell::number(error.map(|(p, m)| 100.0 * (p / m - 1.0))),
            Cell::count(counted(task)),
            Cell::number(trained),
            Cell::number(trained.zip(counted(task)).map(|(s, n)| n as f64 / s)),
            Cell::number(task.first_loss),
            Cell::number(task.last_loss),
            // In a schedule most programs report no progress, and restarts are rare.
            Cell::count(Some(u64::from(task.restarts)).filter(|&n| n > 0 || plan.is_some())),
            Cell::Flag(task.finished),
            Cell::text(task.interrupted.then_some("yes")),
            Cell::text(task.end.map(|end| end.to_string())),
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
    for event in events {
        let EventPayload::Round {
            round,
            ok,
            makespan,
            planned_makespan,
            ..
        } = &event.payload
        else {
            continue;
        };
        let planned = planned_makespan.map(Seconds::get);
        let ratio = planned.filter(|p| *p > 0.0).map(|p| makespan.get() / p);
        table.rows.push(vec![
            Cell::Count(u64::from(*round)),
            Cell::Flag(*ok),
            Cell::Number(makespan.get()),
            Cell::number(planned),
            Cell::number(ratio.map(|r| 100.0 * (r - 1.0))),
        ]);
    }
    table.without_empty_columns()
}

/// Phases of the rounds, compared with the plan.
fn phases(events: &[RunEvent], timeline: Option<&Timeline>) -> Table {
    let told = || {
        events.iter().filter_map(|e| match &e.payload {
            EventPayload::Phase {
                round,
                task,
                phase,
                start,
                end,
                ..
            } => Some((*round, task, *phase, start.get(), end.get())),
            _ => None,
        })
    };
    let whole = told().map(|(.., end)| end).fold(0.0, f64::max);
    let mut table = Table::new("phases", "Phases, planned against measured")
        .column("round", "round", "")
        .column("task", "task", "")
        .column("phase", "phase", "")
        .measured("planned_start_s", "planned start", "s")
        .measured("planned_end_s", "planned end", "s")
        .measured("start_s", "start", "s")
        .measured("end_s", "end", "s")
        .drawing("from start to end");
    for (round, id, kind, start, end) in told() {
        let planned = timeline.and_then(|t| {
            let of_task = |p: &&doc::Phase| t.plan.tasks[p.task].id == *id;
            t.phases.iter().filter(of_task).find(|p| p.kind == kind)
        });
        table.rows.push(vec![
            Cell::Count(u64::from(round)),
            id.as_str().into(),
            phase_name(kind).into(),
            Cell::number(planned.map(|p| p.start.get())),
            Cell::number(planned.map(|p| p.end.get())),
            Cell::Number(start),
            Cell::Number(end),
            bar(start, end, whole).into(),
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
        let what = match event.payload {
            EventPayload::Restart { .. } => "restart",
            EventPayload::Stop { .. } => "stop",
            EventPayload::Fault { .. } => "fault",
            EventPayload::Replan { .. } => "new plan",
            // Moves between GPUs are in a table of their own.
            EventPayload::Reshare { gpus: Some(_), .. } => continue,
            EventPayload::Reshare { .. } => "new shares",
            _ => continue,
        };
        table.rows.push(vec![
            Cell::Number(event.time.get()),
            what.into(),
            Cell::text(event.task().map(|id| id.as_str())),
            Cell::text(event.reason()),
        ]);
    }
    table.without_empty_columns()
}
