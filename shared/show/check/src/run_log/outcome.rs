//! Checks whether the tasks finished as rounds and run claim.

use std::collections::BTreeMap;

use doc::{EventPayload, RunEvent, TaskSummary};
use units::TaskId;

use super::event::{at_event, plan_of, summaries};
use crate::judge::Judge;

/// Failures in the current round.
#[derive(Debug, Default)]
struct RoundFailures<'a> {
    /// Tasks that were given up.
    failed: Vec<&'a TaskId>,
    /// Whether the whole round was stopped.
    stopped: bool,
    /// Tasks that had been given up when the round was stopped, or that had uploaded by then.
    ended: Vec<&'a TaskId>,
}

/// Judges `ok` and `finished` of rounds and run, and whether each names every task once.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut trouble = RoundFailures::default();
    let mut rounds: u32 = 0;
    let (mut all_ok, mut ever_stopped) = (true, false);
    // Whether each task finished in every round.
    let mut finished: BTreeMap<&TaskId, bool> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        match &event.payload {
            EventPayload::Stop {
                task: Some(task), ..
            }
            | EventPayload::Phase {
                task,
                reason: Some(_),
                ..
            } => trouble.failed.push(task),
            EventPayload::Stop { task: None, .. } => {
                trouble.stopped = true;
                trouble.ended = trouble.failed.clone();
                ever_stopped = true;
            }
            EventPayload::Round { ok, tasks, .. } => {
                at_event(at, j, |j| {
                    j.same("ok", *ok, tasks.iter().all(|t| t.finished));
                    in_round(tasks, &trouble, j);
                });
                for task in tasks {
                    let before = finished.entry(&task.id).or_insert(true);
                    *before &= task.finished;
                }
                all_ok &= *ok;
                rounds += 1;
                trouble = RoundFailures::default();
            }
            EventPayload::Summary { ok, tasks, .. } if rounds > 0 => at_event(at, j, |j| {
                // A signal may arrive after all tasks of the last round have finished.
                if *ok != all_ok && (*ok || !ever_stopped) {
                    j.contradiction("ok", ok, all_ok);
                }
                of_run(tasks, &finished, j);
            }),
            // A launch of a plan runs at least one round, even if it is stopped.
            EventPayload::Summary { .. } if events[0].planned().is_some() => {
                at_event(at, j, |j| {
                    j.contradiction("event", "summary", "after the end of a round");
                });
            }
            // Without rounds: a schedule, or trainings that move between GPUs.
            EventPayload::Summary { ok, tasks, .. } => at_event(at, j, |j| {
                let finished = tasks.iter().all(|t| t.finished);
                if *ok != finished && (*ok || !ever_stopped) {
                    j.contradiction("ok", ok, finished);
                }
                told_of(&events[..at], tasks, j);
            }),
            _ => {}
        }
    }
    named(events, j);
}

/// Every task that an event names must be in the summary exactly once. Stops are excluded: a job of a schedule
/// that is given up is stopped under its own name, which is not the name of one of its tasks.
fn told_of(events: &[RunEvent], tasks: &[TaskSummary], j: &mut Judge) {
    let stops = |e: &&RunEvent| matches!(e.payload, EventPayload::Stop { .. });
    let others = events.iter().filter(|e| !stops(e));
    let mut told: Vec<&TaskId> = others.filter_map(RunEvent::task).collect();
    told.sort_unstable();
    told.dedup();
    for id in told {
        let times = tasks.iter().filter(|t| t.id == *id).count();
        if times != 1 {
            j.contradiction("tasks", format!("{id} {times} times"), "once");
        }
    }
}

/// In a round that was not stopped, a task has finished unless it was given up.
fn in_round(tasks: &[TaskSummary], trouble: &RoundFailures<'_>, j: &mut Judge) {
    for (i, task) in tasks.iter().enumerate() {
        let failed = trouble.failed.contains(&&task.id);
        let wrong = if task.finished {
            failed
        } else {
            !failed && !trouble.stopped
        };
        let field = |j: &mut Judge, name: &str, claimed: bool, truth: bool| {
            j.field("tasks", |j| {
                j.index(i, |j| j.contradiction(name, claimed, truth))
            });
        };
        if wrong {
            field(j, "finished", task.finished, !task.finished);
        }
        // A task that was given up before the round was stopped does not count as interrupted.
        let may = trouble.stopped && !task.finished && !trouble.ended.contains(&&task.id);
        if task.interrupted && !may {
            field(j, "interrupted", true, false);
        }
    }
}

/// A task has finished in the run if it has in every round.
fn of_run(tasks: &[TaskSummary], finished: &BTreeMap<&TaskId, bool>, j: &mut Judge) {
    for (i, task) in tasks.iter().enumerate() {
        if let Some(&truth) = finished.get(&task.id) {
            j.field("tasks", |j| {
                j.index(i, |j| j.same("finished", task.finished, truth));
            });
        }
    }
}

/// Summaries must name every task of the plan once.
fn named(events: &[RunEvent], j: &mut Judge) {
    let mut planned: Vec<&TaskId> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        if let Some(plan) = plan_of(event) {
            planned = plan.tasks.iter().map(|t| &t.id).collect();
            planned.sort_unstable();
        }
        let ends = matches!(
            event.payload,
            EventPayload::Round { .. } | EventPayload::Summary { .. }
        );
        if !ends || planned.is_empty() {
            continue;
        }
        let mut named: Vec<&TaskId> = summaries(event).iter().map(|t| &t.id).collect();
        named.sort_unstable();
        if named != planned {
            let list = |ids: &[&TaskId]| {
                let names: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
                names.join(", ")
            };
            at_event(at, j, |j| {
                j.contradiction("tasks", list(&named), list(&planned))
            });
        }
    }
}
