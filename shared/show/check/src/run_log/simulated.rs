//! Repeats a run on the simulator, which is deterministic.

use doc::{
    DeviceKind, Duplex, EventPayload, Phase, PhaseKind, Planned, ProcessEnd, RunEvent, Timeline,
};
use units::{SamplesPerSec, Seconds};

use super::event::{at_event, summaries};
use crate::judge::Judge;
use crate::rates::{Rates, everyone};
use crate::timeline::{self, Lane, compute, link};

/// Tolerance in seconds between two reports of the same moment: virtual time has whole nanoseconds, a few of which
/// may add up, and a document has 15 digits of a time since the launch.
fn rounding_of(time: f64) -> f64 {
    1e-8 + 4.0 * f64::EPSILON * time
}

/// Minimum scale in seconds of relative tolerances, so that 1e-9 of it is a few nanoseconds. Without it, the rounding
/// of virtual time would make the phases of a round of milliseconds look wrong.
const SHORTEST_SCALE: f64 = 4.0;

/// Checks every round of a run on the simulator.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let Some(EventPayload::Launch {
        device,
        planned,
        provenance,
    }) = events.first().map(|e| &e.payload)
    else {
        return;
    };
    let simulated = device.kind == DeviceKind::Sim;
    let seed = provenance.last().and_then(|p| p.seed);
    let (true, Some(seed), Some(Planned::Timeline(planned))) = (simulated, seed, planned) else {
        let why = "measured, or without a timeline: throughput is not recomputed";
        return j.unjudged("events", why);
    };
    if let Some(model) = &planned.plan.model {
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
    let mut planned = planned;
    for (at, event) in events.iter().enumerate() {
        // From this event on another plan is followed.
        if let (true, Some(Planned::Timeline(anew))) = (at > 0, event.planned()) {
            planned = anew;
            rates = match Rates::simulated(planned, seed) {
                Ok(rates) => rates,
                Err(why) => return j.unjudged("events", why),
            };
        }
        let EventPayload::Round { makespan, .. } = &event.payload else {
            continue;
        };
        let end = begin + makespan.get();
        at_event(at, j, |j| j.number("time_s", event.time.get(), end));
        let whole = RoundEvents {
            events: &events[from..=at],
            from,
            begin,
            end,
        };
        // A task that was given up has no phases to compare with.
        match summaries(event).iter().all(|task| task.finished) {
            true => whole.judge(planned, &mut rates, j),
            false => j.unjudged("events", "a task did not finish: it is not played again"),
        }
        // The next round starts at the time in the document, which was just checked. A sum of makespans, each rounded
        // to a few nanoseconds, would be off by a microsecond after a thousand rounds.
        begin = event.time.get();
        from = at + 1;
    }
    for (at, event) in events.iter().enumerate().skip(from) {
        if let EventPayload::Summary { makespan, .. } = &event.payload {
            at_event(at, j, |j| {
                j.number("time_s", event.time.get(), begin);
                j.number("makespan_s", makespan.get(), begin);
            });
        }
    }
    at_event(0, j, |j| j.same("time_s", events[0].time.get(), 0.0));
}

/// Tolerance for the samples of an interval: one at either end, and the rounding of long sums.
fn whole(samples: f64) -> f64 {
    2.0 + 1e-12 * samples
}

/// The events of one round.
struct RoundEvents<'a> {
    events: &'a [RunEvent],
    /// Index of the first event in the run.
    from: usize,
    /// Time since the launch at which the round begins.
    begin: f64,
    /// Time since the launch at which the round ends.
    end: f64,
}

impl RoundEvents<'_> {
    fn judge(&self, planned: &Timeline, rates: &mut Rates, j: &mut Judge) {
        let mut played = planned.clone();
        played.phases = self.phases(planned);
        if planned.plan.known_link().map(|l| l.duplex) == Some(Duplex::Shared) {
            // Simultaneous transfers need no order.
            played.download_order.clear();
            played.upload_order.clear();
        }
        let last = played
            .phases
            .iter()
            .map(|p| p.end.get())
            .fold(0.0, f64::max);
        // Times are whole nanoseconds, so compare them relative to the length of the round, but at least
        // [`SHORTEST_SCALE`].
        if let Ok(scale) = Seconds::new(last.max(SHORTEST_SCALE)) {
            played.makespan = scale;
        }
        let number = self.events.last().and_then(RunEvent::round).unwrap_or(0);
        let lanes = j.field("rounds", |j| {
            j.index(number as usize, |j| {
                let lanes = timeline::lanes(&played, j)?;
                timeline::order_of_phases(&played, &lanes, j);
                match timeline::jobs(&played) {
                    Ok(jobs) => {
                        link::judge(&played, &jobs, &lanes, j);
                        compute::work(&played, &jobs, &lanes, rates, j);
                    }
                    Err(reason) => j.unjudged("", reason),
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

    /// The phases of the round in the form of a timeline's, by start time.
    fn phases(&self, planned: &Timeline) -> Vec<Phase> {
        let told = self.events.iter().filter_map(|e| match &e.payload {
            EventPayload::Phase {
                task,
                phase,
                start,
                end,
                ..
            } => Some(Phase {
                task: planned.plan.task_index(task)?,
                kind: *phase,
                start: *start,
                end: *end,
            }),
            _ => None,
        });
        let mut phases: Vec<Phase> = told.collect();
        phases.sort_by(|a, b| a.start.get().total_cmp(&b.start.get()));
        phases
    }

    fn task(event: &RunEvent, played: &Timeline) -> Option<usize> {
        played.plan.task_index(event.task()?)
    }

    /// The time of each event must be that of the moment that it reports.
    fn times(&self, played: &Timeline, lanes: &[Lane], j: &mut Judge) {
        for (k, event) in self.events.iter().enumerate() {
            let of_task = Self::task(event, played).map(|i| lanes[i].compute);
            if let EventPayload::Exit {
                end, reason: None, ..
            } = &event.payload
                && *end != ProcessEnd::Code(0)
            {
                at_event(self.from + k, j, |j| {
                    j.contradiction("code", format!("{end:?}"), 0)
                });
            }
            let time = match &event.payload {
                EventPayload::Phase { end, .. } => Some(self.begin + end.get()),
                EventPayload::Start { .. } | EventPayload::Ready { .. } => {
                    of_task.map(|c| self.begin + c.start)
                }
                EventPayload::Exit {
                    phase: None | Some(PhaseKind::Compute),
                    ..
                } => of_task.map(|c| self.begin + c.end),
                EventPayload::Exit {
                    phase: Some(PhaseKind::Download),
                    ..
                } => Self::task(event, played).map(|i| self.begin + lanes[i].download.end),
                EventPayload::Exit {
                    phase: Some(PhaseKind::Upload),
                    ..
                } => Self::task(event, played).map(|i| self.begin + lanes[i].upload.end),
                _ => None,
            };
            if let Some(time) = time {
                at_event(self.from + k, j, |j| {
                    j.number_of("time_s", event.time.get(), time, self.end);
                });
            }
        }
    }

    /// Judges the samples and rates of progress events: samples are the integral of the rates until the event.
    fn progress(&self, played: &Timeline, lanes: &[Lane], rates: &mut Rates, j: &mut Judge) {
        let mut times: Vec<f64> = lanes
            .iter()
            .flat_map(|l| [l.compute.start, l.compute.end])
            .collect();
        times.sort_by(f64::total_cmp);
        // Time and samples of each task's last report.
        let mut told: Vec<(f64, f64)> = lanes.iter().map(|l| (l.compute.start, 0.0)).collect();
        for (k, event) in self.events.iter().enumerate() {
            let EventPayload::Progress { task, progress, .. } = &event.payload else {
                continue;
            };
            let Some(i) = played.plan.task_index(task) else {
                continue;
            };
            let until = event.time.get() - self.begin;
            let samples = progress.samples as f64;
            let mean = (samples - told[i].1) / (until - told[i].0);
            told[i] = (until, samples);
            let room = rounding_of(event.time.get());
            let Some(&now) = times.iter().find(|t| (**t - until).abs() <= room) else {
                at_event(self.from + k, j, |j| {
                    let truth = "when the tasks that compute change";
                    j.contradiction("time_s", event.time.get(), truth);
                });
                continue;
            };
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
                if (samples - done[i]).abs() > 0.5 + 1e-6 * done[i] {
                    j.contradiction("samples", samples, done[i].round());
                }
                if let Some(claimed) = progress.rate {
                    // The rate must agree with the simulator's, up to the rounding to whole samples at either end of
                    // the interval, and with the events themselves. Event times are whole nanoseconds, which affects
                    // the sixth digit of a rate over a millisecond.
                    let off = (claimed.get() - row[i]).abs() * (now - before);
                    if off > whole(row[i] * (now - before))
                        || (claimed.get() - mean).abs() > 1e-5 * mean.abs()
                    {
                        j.contradiction("samples_per_s", claimed.get(), row[i]);
                    }
                }
            });
        }
    }

    /// Judges the throughput while all tasks compute, and the samples of the tasks that finished.
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
        for (k, summary) in summaries(round).iter().enumerate() {
            let Some(i) = played.plan.task_index(&summary.id) else {
                continue;
            };
            at_event(place, j, |j| {
                j.field("tasks", |j| {
                    j.index(k, |j| {
                        let truth = Some(row[i]).filter(|_| meet);
                        let claimed = summary.rate_together().map(SamplesPerSec::get);
                        // Samples are whole numbers at either end of the interval.
                        let off = |c: f64, t: f64| (c - t).abs() * (first_end - last);
                        match (claimed, truth) {
                            // Another check covers whether the events contain an interval with all tasks.
                            (None, _) => {}
                            (Some(c), Some(t)) if off(c, t) <= whole(t * (first_end - last)) => {}
                            _ => j.optional_number("samples_per_s", claimed, truth),
                        }
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
