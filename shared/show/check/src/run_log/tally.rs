//! Compares the summary with the sums of the events.

use std::collections::BTreeMap;

use doc::{EventPayload, ProcessEnd, RunEvent, TaskSummary};
use units::TaskId;

use super::event::at_event;
use crate::judge::{Judge, shown};

/// Sums of the events of one task.
#[derive(Debug, Default)]
struct Tally {
    restarts: u32,
    first_loss: Option<f64>,
    last_loss: Option<f64>,
    most_samples: u64,
    /// Number of missing progress events, as reported by later events.
    dropped: u64,
    end: Option<ProcessEnd>,
    /// End of the last process in the last round that ended.
    of_last_round: Option<Option<ProcessEnd>>,
    /// Samples of the rounds that ended.
    of_rounds: Option<u64>,
}

/// Judges the summaries of rounds and of the run.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut run: BTreeMap<&TaskId, Tally> = BTreeMap::new();
    let mut round: BTreeMap<&TaskId, Tally> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        match &event.payload {
            EventPayload::Round { tasks, .. } => {
                compare(at, tasks, &round, j);
                round.clear();
                for task in tasks {
                    let tally = run.entry(&task.id).or_default();
                    // The last round decides: if a signal prevented a task from starting in it, the task has no
                    // end, whatever its end was in earlier rounds.
                    tally.of_last_round = Some(task.end);
                    tally.of_rounds =
                        Some(tally.of_rounds.unwrap_or(0).saturating_add(task.samples));
                }
            }
            EventPayload::Summary { tasks, .. } => compare(at, tasks, &run, j),
            _ => {
                count(event, &mut run);
                count(event, &mut round);
            }
        }
    }
}

fn count<'a>(event: &'a RunEvent, tallies: &mut BTreeMap<&'a TaskId, Tally>) {
    let Some(task) = event.task() else {
        return;
    };
    let tally = tallies.entry(task).or_default();
    match &event.payload {
        EventPayload::Restart { .. } => tally.restarts += 1,
        EventPayload::Progress { progress, .. } => {
            tally.most_samples = tally.most_samples.max(progress.samples);
            tally.dropped = tally.dropped.saturating_add(progress.dropped);
            tally.first_loss = tally.first_loss.or(progress.loss);
            tally.last_loss = progress.loss.or(tally.last_loss);
        }
        // Exits of any phase count: if the last process of a task was its upload, the exit of the upload is the end
        // of the task.
        EventPayload::Exit { end, .. } => tally.end = Some(*end),
        _ => {}
    }
}

fn compare(at: usize, claimed: &[TaskSummary], tallies: &BTreeMap<&TaskId, Tally>, j: &mut Judge) {
    for (i, task) in claimed.iter().enumerate() {
        let none = Tally::default();
        let tally = tallies.get(&task.id).unwrap_or(&none);
        at_event(at, j, |j| {
            j.field("tasks", |j| {
                j.index(i, |j| {
                    j.same("restarts", task.restarts, tally.restarts);
                    j.same("dropped", task.dropped, tally.dropped);
                    if task.samples < tally.most_samples {
                        let truth = format!("at least {}, which it reported", tally.most_samples);
                        j.contradiction("samples", task.samples, truth);
                    }
                    if let Some(sum) = tally.of_rounds {
                        j.same("samples", task.samples, sum);
                    }
                    let known = tally.of_last_round.or(tally.end.map(Some));
                    if let Some(end) = known.filter(|end| task.end != *end) {
                        let field = match end {
                            Some(ProcessEnd::Signal(_)) => "signal",
                            _ => "code",
                        };
                        j.contradiction(field, shown(task.end), shown(end));
                    }
                    if tally.first_loss.is_some() {
                        j.optional_number("first_loss", task.first_loss, tally.first_loss);
                        j.optional_number("last_loss", task.last_loss, tally.last_loss);
                    }
                });
            });
        });
    }
}
