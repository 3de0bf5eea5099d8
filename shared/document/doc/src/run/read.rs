//! Converts the flat form of an event in a file to a typed event.

use units::{Batch, SamplesPerSec, Seconds, Share, TaskId, UnitError};

use super::{EventPayload, Learning, Planned, ProcessEnd, RunEvent, TaskProgress, TaskSummary};
use crate::checker::{optional, positive};
use crate::wire::{self, EventKind};
use crate::{Checker, Code, Document, Plan, Timeline};

impl Document for RunEvent {
    type Wire = wire::RunEvent;

    fn from_wire(wire: &wire::RunEvent, c: &mut Checker) -> Option<Self> {
        let time = c.unit("time_s", Seconds::new(wire.time_s));
        let mut fields = Fields {
            wire: wire.clone(),
            c,
        };
        let payload = payload(&mut fields);
        fields.nothing_is_left();
        Some(Self {
            time: time?,
            payload: payload?,
        })
    }

    fn to_wire(&self) -> wire::RunEvent {
        super::write::to_wire(self)
    }
}

/// The fields of an event that no reader has taken yet. A field that remains at the end does not
/// belong to this kind of event.
struct Fields<'c> {
    wire: wire::RunEvent,
    c: &'c mut Checker,
}

type Slot<T> = fn(&mut wire::RunEvent) -> &mut Option<T>;

impl Fields<'_> {
    /// Takes a field that the event must have.
    fn need<T>(&mut self, name: &str, slot: Slot<T>) -> Option<T> {
        let value = slot(&mut self.wire).take();
        if value.is_none() {
            let problem = format_args!("a {} event needs this field", self.wire.event.name());
            self.c.field(name, |c| {
                c.fault(Code::MissingField, problem, "give the whole event");
            });
        }
        value
    }

    /// Like [`Fields::need`], for a quantity.
    fn need_unit<W, T>(
        &mut self,
        name: &str,
        slot: Slot<W>,
        build: impl FnOnce(W) -> Result<T, UnitError>,
    ) -> Option<T> {
        let value = self.need(name, slot)?;
        self.c.unit(name, build(value))
    }

    /// Takes a quantity that the event may have; `None` only if it is invalid.
    fn may<W, T>(
        &mut self,
        name: &str,
        slot: Slot<W>,
        build: impl FnOnce(W) -> Result<T, UnitError>,
    ) -> Option<Option<T>> {
        let value = slot(&mut self.wire).take();
        self.c.optional_unit(name, value, build)
    }

    fn round(&mut self) -> Option<u32> {
        self.need("round", |w| &mut w.round)
    }

    fn reason(&mut self) -> Option<String> {
        self.need("reason", |w| &mut w.reason)
    }

    fn task(&mut self) -> Option<TaskId> {
        self.need_unit("task", |w| &mut w.task, |id| TaskId::new(&id))
    }

    fn optional_task(&mut self) -> Option<Option<TaskId>> {
        self.may("task", |w| &mut w.task, |id| TaskId::new(&id))
    }

    fn share(&mut self) -> Option<Option<Share>> {
        self.may(
            "share_percent",
            |w| &mut w.share_percent,
            Share::from_percent,
        )
    }

    fn rate(&mut self, name: &str, slot: Slot<f64>) -> Option<Option<SamplesPerSec>> {
        self.may(name, slot, SamplesPerSec::new)
    }

    fn tasks(&mut self) -> Option<Vec<TaskSummary>> {
        let tasks = std::mem::take(&mut self.wire.tasks);
        self.c.list("tasks", &tasks, summary)
    }

    fn planned(&mut self) -> Option<Option<Planned>> {
        let timeline = self.wire.timeline.take();
        let plan = self.wire.plan.take();
        match (timeline, plan) {
            (Some(_), Some(_)) => {
                self.c.field("plan", |c| {
                    let advice = "remove it: the timeline carries its plan";
                    c.fault(Code::Conflict, "`timeline` is given too", advice);
                });
                None
            }
            (Some(timeline), None) => {
                let timeline = self
                    .c
                    .field("timeline", |c| Timeline::from_nested(&timeline, c));
                timeline.map(|t| Some(Planned::Timeline(Box::new(t))))
            }
            (None, Some(plan)) => {
                let plan = self.c.field("plan", |c| Plan::from_nested(&plan, c));
                plan.map(|p| Some(Planned::Plan(Box::new(p))))
            }
            (None, None) => Some(None),
        }
    }

    fn nothing_is_left(self) {
        for (name, given) in self.wire.given() {
            if given {
                let problem = format_args!("a {} event has no such field", self.wire.event.name());
                self.c.field(name, |c| {
                    c.fault(Code::UnknownField, problem, "remove it");
                });
            }
        }
    }
}

fn payload(f: &mut Fields<'_>) -> Option<EventPayload> {
    match f.wire.event {
        EventKind::Launch => {
            let device = f.need("device", |w| &mut w.device);
            let planned = f.planned();
            Some(EventPayload::Launch {
                provenance: std::mem::take(&mut f.wire.provenance),
                device: device?,
                planned: planned?,
            })
        }
        EventKind::Replan => {
            let (reason, planned) = (f.reason(), f.planned());
            Some(EventPayload::Replan {
                round: f.wire.round.take(),
                reason: reason?,
                planned: planned?,
            })
        }
        EventKind::Stop => {
            let (reason, task) = (f.reason(), f.optional_task());
            Some(EventPayload::Stop {
                round: f.wire.round.take(),
                task: task?,
                reason: reason?,
            })
        }
        EventKind::Fault => {
            let (reason, task) = (f.reason(), f.optional_task());
            Some(EventPayload::Fault {
                round: f.wire.round.take(),
                task: task?,
                reason: reason?,
            })
        }
        EventKind::Round | EventKind::Summary => ending(f),
        _ => of_task(f),
    }
}

/// Reads the events that end a round or a run.
fn ending(f: &mut Fields<'_>) -> Option<EventPayload> {
    let of_round = f.wire.event == EventKind::Round;
    let round = if of_round { f.round() } else { Some(0) };
    let ok = f.need("ok", |w| &mut w.ok);
    let makespan = f.need_unit("makespan_s", |w| &mut w.makespan_s, Seconds::new);
    let tasks = f.tasks();
    if !of_round {
        return Some(EventPayload::Summary {
            ok: ok?,
            makespan: makespan?,
            tasks: tasks?,
        });
    }
    let planned = f.may(
        "planned_makespan_s",
        |w| &mut w.planned_makespan_s,
        Seconds::new,
    );
    let written = f.wire.learning.take();
    let learning = optional(f.c, "learning", written.as_ref(), learning_of);
    Some(EventPayload::Round {
        round: round?,
        ok: ok?,
        makespan: makespan?,
        planned_makespan: planned?,
        tasks: tasks?,
        learning: learning?,
    })
}

fn learning_of(wire: &wire::Learning, c: &mut Checker) -> Option<Learning> {
    let mut deviation = |name, value| positive(c, name, value, "standard deviation", false);
    let (noise, drift) = (
        deviation("noise", wire.noise),
        deviation("drift", wire.drift),
    );
    let mut seconds = |name, value| c.optional_unit(name, value, Seconds::new);
    let (expected, best, first) = (
        seconds("expected_s", wire.expected_s),
        seconds("best_s", wire.best_s),
        seconds("first_s", wire.first_s),
    );
    Some(Learning {
        choice: wire.choice,
        earlier: wire.earlier,
        expected: expected?,
        best: best?,
        first: first?,
        saved_s: wire.saved_s,
        noise: noise?,
        drift: drift?,
    })
}

/// Reads the events of one task in one round.
fn of_task(f: &mut Fields<'_>) -> Option<EventPayload> {
    let (round, task) = (f.round(), f.task());
    match f.wire.event {
        EventKind::Start => {
            let batch = f.may("batch", |w| &mut w.batch, Batch::new);
            let share = f.share();
            let beside = f.may("beside", |w| &mut w.beside, |id| TaskId::new(&id));
            let predicted = f.rate("predicted_samples_per_s", |w| {
                &mut w.predicted_samples_per_s
            });
            Some(EventPayload::Start {
                gpu: f.wire.gpu.take(),
                beside: beside?,
                pid: f.wire.pid.take(),
                round: round?,
                task: task?,
                batch: batch?,
                share: share?,
                predicted: predicted?,
            })
        }
        EventKind::Progress => {
            let progress = progress(f);
            Some(EventPayload::Progress {
                round: round?,
                task: task?,
                progress: progress?,
            })
        }
        EventKind::Phase => {
            let (phase, start, end) = phase(f)?;
            Some(EventPayload::Phase {
                round: round?,
                task: task?,
                phase,
                start,
                end,
                reason: f.wire.reason.take(),
            })
        }
        EventKind::Exit => {
            let end = process_end(f.wire.code.take(), f.wire.signal.take(), f.c);
            if end == Some(None) {
                let advice = "give `code` or `signal`";
                f.c.fault(Code::MissingField, "an exit event says how", advice);
            }
            Some(EventPayload::Exit {
                phase: f.wire.phase.take(),
                reason: f.wire.reason.take(),
                round: round?,
                task: task?,
                end: end??,
            })
        }
        EventKind::Restart => {
            let reason = f.reason();
            Some(EventPayload::Restart {
                restarts: f.wire.restarts.take(),
                round: round?,
                task: task?,
                reason: reason?,
            })
        }
        EventKind::Reshare => {
            let (reason, share) = (f.reason(), f.share());
            let expected_end = f.may("expected_end_s", |w| &mut w.expected_end_s, Seconds::new);
            Some(EventPayload::Reshare {
                round: round?,
                task: task?,
                share: share?,
                gpus: f.wire.gpus.take(),
                expected_end: expected_end?,
                reason: reason?,
            })
        }
        _ => Some(EventPayload::Ready {
            round: round?,
            task: task?,
        }),
    }
}

fn progress(f: &mut Fields<'_>) -> Option<TaskProgress> {
    let samples = f.need("samples", |w| &mut w.samples);
    let rate = f.rate("samples_per_s", |w| &mut w.samples_per_s);
    let trained = f.may("seconds", |w| &mut w.seconds, Seconds::new);
    let batch = f.may("batch", |w| &mut w.batch, Batch::new);
    let written = f.wire.gradient.take();
    let gradient = optional(f.c, "gradient", written.as_ref(), crate::profile::gradient);
    Some(TaskProgress {
        gradient: gradient?,
        loss: f.wire.loss.take(),
        step: f.wire.step.take(),
        gpus: f.wire.gpus.take(),
        dropped: f.wire.dropped.take().unwrap_or(0),
        samples: samples?,
        rate: rate?,
        trained: trained?,
        batch: batch?,
    })
}

fn phase(f: &mut Fields<'_>) -> Option<(wire::PhaseKind, Seconds, Seconds)> {
    let phase = f.need("phase", |w| &mut w.phase);
    let start = f.need_unit("start_s", |w| &mut w.start_s, Seconds::new);
    let end = f.need_unit("end_s", |w| &mut w.end_s, Seconds::new);
    Some((phase?, start?, end?))
}

/// Reads how a process ended: `Some(None)` if neither value is given; `None` if both are.
fn process_end(
    code: Option<i32>,
    signal: Option<i32>,
    c: &mut Checker,
) -> Option<Option<ProcessEnd>> {
    match (code, signal) {
        (None, None) => Some(None),
        (Some(code), None) => Some(Some(ProcessEnd::Code(code))),
        (None, Some(signal)) => Some(Some(ProcessEnd::Signal(signal))),
        (Some(_), Some(_)) => {
            c.field("signal", |c| {
                let advice = "a process ends by one of the two: keep that one";
                c.fault(Code::Conflict, "`code` is given too", advice);
            });
            None
        }
    }
}

fn summary(wire: &wire::TaskSummary, c: &mut Checker) -> Option<TaskSummary> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let rate = c.optional_unit("samples_per_s", wire.samples_per_s, SamplesPerSec::new);
    let predicted = c.optional_unit(
        "predicted_samples_per_s",
        wire.predicted_samples_per_s,
        SamplesPerSec::new,
    );
    let end = process_end(wire.code, wire.signal, c);
    let batch = c.optional_unit("batch", wire.batch, Batch::new);
    let share = c.optional_unit("share_percent", wire.share_percent, Share::from_percent);
    let trained = c.optional_unit("seconds", wire.seconds, Seconds::new);
    let together = c.optional_unit("together_s", wire.together_s, Seconds::new);
    Some(TaskSummary {
        id: id?,
        finished: wire.finished,
        interrupted: wire.interrupted,
        samples: wire.samples,
        batch: batch?,
        share: share?,
        trained: trained?,
        together: together?,
        rate: rate?,
        predicted: predicted?,
        first_loss: wire.first_loss,
        last_loss: wire.last_loss,
        restarts: wire.restarts,
        dropped: wire.dropped,
        end: end?,
    })
}
