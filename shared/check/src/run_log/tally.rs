//! The summary against what the events add up to.

use std::collections::BTreeMap;

use doc::wire::{EventKind, TaskSummary};
use doc::{PhaseKind, RunEvent};

use super::at_event;
use crate::judge::Judge;

/// What the events say of one task.
#[derive(Debug, Default)]
struct Tally {
    restarts: u32,
    first_loss: Option<f64>,
    last_loss: Option<f64>,
    most_samples: u64,
    code: Option<i32>,
    signal: Option<i32>,
    exited: bool,
    /// Samples of the rounds that ended.
    of_rounds: Option<u64>,
    /// Throughput of the round, if there was one alone.
    of_round: Option<Option<f64>>,
}

/// Judges the summaries of rounds and of the run.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut run: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut round: BTreeMap<&str, Tally> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        match event.kind() {
            EventKind::Round => {
                compare(at, &event.fields.tasks, &round, j);
                round.clear();
                for task in &event.fields.tasks {
                    let tally = run.entry(&task.id).or_default();
                    tally.of_round = match tally.of_rounds {
                        None => Some(task.samples_per_s),
                        Some(_) => None,
                    };
                    tally.of_rounds = Some(tally.of_rounds.unwrap_or(0) + task.samples);
                }
            }
            EventKind::Summary => compare(at, &event.fields.tasks, &run, j),
            _ => {
                count(event, &mut run);
                count(event, &mut round);
            }
        }
    }
}

fn count<'a>(event: &'a RunEvent, tallies: &mut BTreeMap<&'a str, Tally>) {
    let f = &event.fields;
    let Some(task) = f.task.as_deref() else {
        return;
    };
    let tally = tallies.entry(task).or_default();
    match event.kind() {
        EventKind::Restart => tally.restarts += 1,
        EventKind::Progress => {
            tally.most_samples = tally.most_samples.max(f.samples.unwrap_or(0));
            tally.first_loss = tally.first_loss.or(f.loss);
            tally.last_loss = f.loss.or(tally.last_loss);
        }
        // The exits of transfers say nothing of the training.
        EventKind::Exit if matches!(f.phase, None | Some(PhaseKind::Compute)) => {
            (tally.code, tally.signal, tally.exited) = (f.code, f.signal, true);
        }
        _ => {}
    }
}

fn compare(at: usize, claimed: &[TaskSummary], tallies: &BTreeMap<&str, Tally>, j: &mut Judge) {
    for (i, task) in claimed.iter().enumerate() {
        let none = Tally::default();
        let tally = tallies.get(task.id.as_str()).unwrap_or(&none);
        at_event(at, j, |j| {
            j.field("tasks", |j| {
                j.index(i, |j| {
                    j.same("restarts", task.restarts, tally.restarts);
                    if task.samples < tally.most_samples {
                        let truth = format!("at least {}, which it reported", tally.most_samples);
                        j.lie("samples", task.samples, truth);
                    }
                    if let Some(sum) = tally.of_rounds {
                        j.same("samples", task.samples, sum);
                    }
                    if let Some(rate) = tally.of_round {
                        j.optional_number("samples_per_s", task.samples_per_s, rate);
                    }
                    if tally.exited {
                        j.same_option("code", task.code, tally.code);
                        j.same_option("signal", task.signal, tally.signal);
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
