//! Checks the processes of a run: at most one per task at a time, each start before its end, every retry counted,
//! each event reported once.

use std::collections::{BTreeMap, BTreeSet};

use doc::{EventPayload, PhaseKind, ProcessEnd, RunEvent, TaskSummary};
use units::TaskId;

use super::event::{at_event, plan_of};
use crate::judge::Judge;

/// State of a task in the current round.
#[derive(Debug, Default)]
struct Process {
    /// Whether a process computes.
    runs: bool,
    /// Whether the process has reported that it is ready.
    ready: bool,
    /// Samples that the process has reported.
    samples: u64,
    /// The transfer whose program has ended, until a retry of it is reported.
    transferred: Option<PhaseKind>,
    /// Phases that have ended.
    phases: Vec<PhaseKind>,
    /// Whether the task was given up.
    stopped: bool,
    /// Number of retries in this round.
    restarts: u32,
}

/// Judges starts, exits and restarts, and whether every named task is in the plan.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut planned: BTreeSet<&TaskId> = BTreeSet::new();
    // In a run of a schedule each task goes through its own rounds, in parallel.
    let mut tasks: BTreeMap<(&TaskId, Option<u32>), Process> = BTreeMap::new();
    let mut stopped = false;
    for (at, event) in events.iter().enumerate() {
        stopped |= matches!(event.payload, EventPayload::Stop { task: None, .. });
        if let Some(plan) = plan_of(event) {
            planned = plan.tasks.iter().map(|t| &t.id).collect();
        }
        if let EventPayload::Round { tasks: ends, .. } = &event.payload {
            at_event(at, j, |j| {
                end_of_round(ends, &tasks, !planned.is_empty(), j)
            });
            tasks.clear();
        }
        let Some(task) = event.task() else {
            continue;
        };
        at_event(at, j, |j| {
            if !planned.is_empty() && !planned.contains(task) {
                j.contradiction("task", task, "a task of the plan");
            }
            let process = tasks.entry((task, event.round())).or_default();
            one(event, process, j);
            // A process that is stopped with the run may end in any way.
            if !stopped {
                failed(event, j);
            }
            match planned.is_empty() {
                true => without_plan(event, j),
                false => of_plan(event, process, j),
            }
        });
    }
}

fn one(event: &RunEvent, process: &mut Process, j: &mut Judge) {
    match &event.payload {
        EventPayload::Start { .. } => {
            if process.runs {
                j.contradiction("event", "start", "the exit of its process before");
            }
            (process.runs, process.ready) = (true, false);
            process.samples = 0;
        }
        EventPayload::Ready { .. } => {
            if process.ready {
                j.contradiction("event", "ready", "once for each start");
            }
            process.ready = true;
        }
        // Starts of transfers are not reported, but their exits are.
        EventPayload::Exit { phase, .. }
            if *phase != Some(PhaseKind::Download) && *phase != Some(PhaseKind::Upload) =>
        {
            if !process.runs {
                j.contradiction("event", "exit", "after its start");
            }
            process.runs = false;
        }
        EventPayload::Restart { restarts, .. } => {
            process.transferred = None;
            process.restarts += 1;
            if process.runs {
                j.contradiction("event", "restart", "after the exit of its process");
            }
            if let Some(claimed) = restarts {
                j.same("restarts", *claimed, process.restarts);
            }
        }
        _ => {}
    }
}

/// A process that failed must have a reason.
fn failed(event: &RunEvent, j: &mut Judge) {
    if let EventPayload::Exit {
        end, reason: None, ..
    } = &event.payload
        && *end != ProcessEnd::Code(0)
    {
        j.contradiction("code", end, "0, or a reason why it failed");
    }
}

/// Without a plan there are no transfers: schedules, and trainings that move between GPUs.
fn without_plan(event: &RunEvent, j: &mut Judge) {
    if let EventPayload::Exit {
        phase: Some(phase @ (PhaseKind::Download | PhaseKind::Upload)),
        ..
    } = &event.payload
    {
        j.contradiction("phase", doc::name_of(phase), "compute: there is no plan");
    }
}

/// Checks launches of a plan: the end of a transfer is reported once, a task is ready before it makes progress, and a
/// progress event reports some progress.
fn of_plan(event: &RunEvent, process: &mut Process, j: &mut Judge) {
    match &event.payload {
        EventPayload::Ready { .. } if !process.runs => {
            j.contradiction("event", "ready", "after its start");
        }
        EventPayload::Progress { progress, .. } => {
            if !process.ready {
                j.contradiction("event", "progress", "after it was ready");
            }
            if progress.samples <= process.samples {
                let truth = format!("more than {}, which were reported", process.samples);
                j.contradiction("samples", progress.samples, truth);
            }
            process.samples = progress.samples;
        }
        EventPayload::Exit {
            phase: Some(phase @ (PhaseKind::Download | PhaseKind::Upload)),
            ..
        } => {
            if process.runs || process.phases.contains(phase) {
                let truth = "while its transfer is under way";
                j.contradiction(
                    "event",
                    format!("exit of its {}", doc::name_of(phase)),
                    truth,
                );
            }
            if process.transferred.replace(*phase) == Some(*phase) {
                j.contradiction("event", "exit", "once for each try");
            }
        }
        EventPayload::Phase { phase, reason, .. } => {
            if process.runs || process.phases.contains(phase) {
                let truth = "once, after the exit of its process";
                j.contradiction("event", format!("{} ended", doc::name_of(phase)), truth);
            }
            // A phase without a program takes no time and is not reported.
            let transfer = *phase != PhaseKind::Compute;
            if transfer && reason.is_none() && process.transferred != Some(*phase) {
                let claimed = format!("{} ended", doc::name_of(phase));
                j.contradiction("event", claimed, "after the exit of its process");
            }
            process.phases.push(*phase);
            process.stopped |= reason.is_some();
        }
        EventPayload::Stop { .. } => {
            let before = std::mem::replace(&mut process.stopped, true);
            if before {
                j.contradiction("event", "stop", "once");
            }
        }
        _ => {}
    }
}

/// At the end of a round no process runs, and a finished task has completed every phase for which a process ended.
fn end_of_round(
    ends: &[TaskSummary],
    tasks: &BTreeMap<(&TaskId, Option<u32>), Process>,
    planned: bool,
    j: &mut Judge,
) {
    for ((task, _), process) in tasks {
        if process.runs {
            j.contradiction("event", "round", format!("after the exit of {task}"));
        }
        let finished = ends.iter().any(|e| e.id == **task && e.finished);
        let told = tasks.values().any(|p| !p.phases.is_empty());
        let needs = process.transferred.into_iter().chain([PhaseKind::Compute]);
        for phase in needs.filter(|_| planned && finished && told) {
            if !process.phases.contains(&phase) {
                let truth = format!("after the end of the {} of {task}", doc::name_of(&phase));
                j.contradiction("event", "round", truth);
            }
        }
    }
}
