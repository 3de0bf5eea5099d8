//! A run on the simulator: nothing of it is chance, so that it can be played again.

use doc::wire::EventKind;
use doc::{DeviceKind, Phase, RunEvent, Timeline};
use units::Seconds;

use super::at_event;
use crate::judge::{Judge, close};
use crate::rates::{Rates, everyone};
use crate::timeline::{self, Lane, compute, link};

/// Judges every round of a run on the simulator.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let Some(launch) = events.first() else {
        return;
    };
    let f = &launch.fields;
    let simulated = f.device.as_ref().is_some_and(|d| d.kind == DeviceKind::Sim);
    let seed = f.provenance.last().and_then(|p| p.seed);
    let (true, Some(seed), Some(planned)) = (simulated, seed, &launch.timeline) else {
        let why = "measured, or without a timeline: throughput is not recomputed";
        return j.unjudged("events", why);
    };
    if let (Some(device), Some(model)) = (&f.device, &planned.plan.model) {
        at_event(0, j, |j| {
            j.field("device", |j| {
                let other = model.device.kind != device.kind;
                if !other && model.device.name == device.name {
                    j.same_option("units", device.units, model.device.units);
                }
            });
        });
    }
    let mut rates = match Rates::simulated(planned, seed) {
        Ok(rates) => rates,
        Err(why) => return j.unjudged("events", why),
    };
    let mut begin = 0.0;
    let mut from = 0;
    for (at, event) in events.iter().enumerate() {
        if event.kind() != EventKind::Round {
            continue;
        }
        let makespan = event.fields.makespan_s.unwrap_or(0.0);
        let whole = Round {
            events: &events[from..=at],
            from,
            begin,
            end: begin + makespan,
        };
        whole.judge(planned, &mut rates, j);
        begin += makespan;
        from = at + 1;
    }
    for (at, event) in events.iter().enumerate().skip(from) {
        at_event(at, j, |j| {
            if event.kind() == EventKind::Summary {
                j.number("time_s", event.fields.time_s, begin);
                j.number("makespan_s", event.fields.makespan_s.unwrap_or(0.0), begin);
            }
        });
    }
    at_event(0, j, |j| j.same("time_s", f.time_s, 0.0));
}

/// The events of one round.
struct Round<'a> {
    events: &'a [RunEvent],
    /// Place of the first in the run.
    from: usize,
    /// Time since the launch at which the round begins.
    begin: f64,
    /// Time since the launch at which the round ends.
    end: f64,
}

impl Round<'_> {
    fn judge(&self, planned: &Timeline, rates: &mut Rates, j: &mut Judge) {
        let mut played = planned.clone();
        played.phases = self.phases(planned);
        let last = played
            .phases
            .iter()
            .map(|p| p.end.get())
            .fold(0.0, f64::max);
        if let Ok(last) = Seconds::new(last) {
            played.makespan = last;
        }
        let number = self.events.last().and_then(|e| e.fields.round).unwrap_or(0);
        let lanes = j.field("rounds", |j| {
            j.index(number as usize, |j| {
                let lanes = timeline::lanes(&played, j)?;
                timeline::order_of_phases(&played, &lanes, j);
                if let Ok(jobs) = timeline::jobs(&played) {
                    link::judge(&played, &jobs, &lanes, j);
                    compute::work(&played, &jobs, &lanes, rates, j);
                }
                Some(lanes)
            })
        });
        if let Some(lanes) = lanes {
            self.times(&played, &lanes, j);
            self.progress(&played, &lanes, rates, j);
            self.together(&played, &lanes, rates, j);
        }
    }

    /// The phases of the round as those of a timeline, by start.
    fn phases(&self, planned: &Timeline) -> Vec<Phase> {
        let told = self.events.iter().filter_map(|e| {
            let f = &e.fields;
            let id = f.task.as_deref()?;
            let task = planned
                .plan
                .tasks
                .iter()
                .position(|t| t.id.as_str() == id)?;
            Some(Phase {
                task,
                kind: f.phase.filter(|_| e.kind() == EventKind::Phase)?,
                start: Seconds::new(f.start_s?).ok()?,
                end: Seconds::new(f.end_s?).ok()?,
            })
        });
        let mut phases: Vec<Phase> = told.collect();
        phases.sort_by(|a, b| a.start.get().total_cmp(&b.start.get()));
        phases
    }

    fn task(event: &RunEvent, played: &Timeline) -> Option<usize> {
        let id = event.fields.task.as_deref()?;
        played.plan.tasks.iter().position(|t| t.id.as_str() == id)
    }

    /// Events stand at the time of what they tell of.
    fn times(&self, played: &Timeline, lanes: &[Lane], j: &mut Judge) {
        for (k, event) in self.events.iter().enumerate() {
            let f = &event.fields;
            let of_task = Self::task(event, played).map(|i| lanes[i].compute);
            let time = match event.kind() {
                EventKind::Phase => f.end_s.map(|end| self.begin + end),
                EventKind::Start | EventKind::Ready => of_task.map(|c| self.begin + c.start),
                EventKind::Exit => of_task.map(|c| self.begin + c.end),
                EventKind::Round => Some(self.end),
                _ => None,
            };
            if let Some(time) = time {
                at_event(self.from + k, j, |j| {
                    j.number_of("time_s", f.time_s, time, self.end);
                });
            }
        }
    }

    /// Samples and rates of progress: what the rates add up to until then.
    fn progress(&self, played: &Timeline, lanes: &[Lane], rates: &mut Rates, j: &mut Judge) {
        let mut times: Vec<f64> = lanes
            .iter()
            .flat_map(|l| [l.compute.start, l.compute.end])
            .collect();
        times.sort_by(f64::total_cmp);
        for (k, event) in self.events.iter().enumerate() {
            let f = &event.fields;
            let (EventKind::Progress, Some(i)) = (event.kind(), Self::task(event, played)) else {
                continue;
            };
            let until = f.time_s - self.begin;
            let Some(&now) = times.iter().find(|t| close(**t, until, self.end)) else {
                at_event(self.from + k, j, |j| {
                    j.lie("time_s", f.time_s, "when the tasks that compute change");
                });
                continue;
            };
            let room = 1e-9 * self.end;
            let before = times
                .iter()
                .copied()
                .filter(|t| *t < now - room)
                .fold(0.0, f64::max);
            let set = compute::computing(lanes, f64::midpoint(before, now));
            let (Ok(done), Ok(row)) = (compute::work_done(lanes, now, rates), rates.row(set))
            else {
                continue;
            };
            at_event(self.from + k, j, |j| {
                let samples = f.samples.unwrap_or(0) as f64;
                if (samples - done[i]).abs() > 0.5 + 1e-6 * done[i] {
                    j.lie("samples", samples, done[i].round());
                }
                if let Some(claimed) = f.samples_per_s {
                    j.number("samples_per_s", claimed, row[i]);
                }
            });
        }
    }

    /// Throughput while all tasks compute, and the samples of those that finished.
    fn together(&self, played: &Timeline, lanes: &[Lane], rates: &mut Rates, j: &mut Judge) {
        let last = lanes.iter().map(|l| l.compute.start).fold(0.0, f64::max);
        let all = everyone(lanes.len());
        let first_end = lanes
            .iter()
            .map(|l| l.compute.end)
            .fold(f64::INFINITY, f64::min);
        let meet = last < first_end;
        let Ok(row) = rates.row(all) else {
            return;
        };
        let place = self.from + self.events.len() - 1;
        let Some(round) = self.events.last() else {
            return;
        };
        for (k, summary) in round.fields.tasks.iter().enumerate() {
            let task = played
                .plan
                .tasks
                .iter()
                .position(|t| t.id.as_str() == summary.id);
            let Some(i) = task else {
                continue;
            };
            at_event(place, j, |j| {
                j.field("tasks", |j| {
                    j.index(k, |j| {
                        let truth = Some(row[i]).filter(|_| meet);
                        j.optional_number("samples_per_s", summary.samples_per_s, truth);
                        let samples = played.plan.tasks[i].samples.map(units::Samples::get);
                        if let Some(samples) = samples.filter(|_| summary.finished) {
                            j.same("samples", summary.samples, samples);
                        }
                    });
                });
            });
        }
    }
}
