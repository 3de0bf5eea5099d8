use units::{Seconds, TaskId};

use crate::wire::{self, Wire};
use crate::{Checker, Code, Document, Plan, Timeline};

pub use crate::wire::EventKind;

/// One event of a launched run.
///
/// `time` is finite; the fields that [`EventKind`] documents for the event are present; numbers
/// are finite and not negative. A run begins with a `launch` event.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEvent {
    /// The event's plain fields; `timeline` and `plan` in it are empty, they stand beside it.
    pub fields: wire::RunEvent,
    /// The timeline of a `launch` or `replan` event.
    pub timeline: Option<Timeline>,
    /// The plan of a `launch` or `replan` event without a timeline.
    pub plan: Option<Plan>,
}

impl RunEvent {
    /// An event of `kind` at `time` with no other fields.
    #[must_use]
    pub fn new(kind: EventKind, time: Seconds) -> Self {
        Self {
            fields: wire::RunEvent {
                schema: wire::RunEvent::SCHEMA.to_owned(),
                event: kind,
                time_s: time.get(),
                round: None,
                task: None,
                batch: None,
                share_percent: None,
                pid: None,
                samples: None,
                samples_per_s: None,
                predicted_samples_per_s: None,
                loss: None,
                phase: None,
                start_s: None,
                end_s: None,
                code: None,
                signal: None,
                restarts: None,
                reason: None,
                ok: None,
                makespan_s: None,
                planned_makespan_s: None,
                tasks: Vec::new(),
                device: None,
                timeline: None,
                plan: None,
                provenance: Vec::new(),
            },
            timeline: None,
            plan: None,
        }
    }

    /// What happened.
    #[must_use]
    pub const fn kind(&self) -> EventKind {
        self.fields.event
    }
}

impl Document for RunEvent {
    type Wire = wire::RunEvent;

    fn from_wire(wire: &wire::RunEvent, c: &mut Checker) -> Option<Self> {
        c.unit("time_s", Seconds::new(wire.time_s));
        let times = [
            ("start_s", wire.start_s),
            ("end_s", wire.end_s),
            ("makespan_s", wire.makespan_s),
            ("planned_makespan_s", wire.planned_makespan_s),
            ("samples_per_s", wire.samples_per_s),
            ("predicted_samples_per_s", wire.predicted_samples_per_s),
        ];
        for (name, value) in times {
            c.optional_unit(name, value, Seconds::new);
        }
        c.optional_unit("task", wire.task.as_deref(), TaskId::new);
        for name in missing_fields(wire) {
            c.field(name, |c| {
                let problem = format_args!("a {:?} event needs this field", wire.event);
                c.fault(Code::MissingField, problem, "give the whole event");
            });
        }
        let timeline = match &wire.timeline {
            Some(t) => Some(c.field("timeline", |c| Timeline::from_nested(t, c))?),
            None => None,
        };
        let plan = match &wire.plan {
            Some(p) => Some(c.field("plan", |c| Plan::from_nested(p, c))?),
            None => None,
        };
        let mut fields = wire.clone();
        fields.timeline = None;
        fields.plan = None;
        Some(Self {
            fields,
            timeline,
            plan,
        })
    }

    fn to_wire(&self) -> wire::RunEvent {
        let mut wire = self.fields.clone();
        wire.timeline = self.timeline.as_ref().map(|t| Box::new(t.to_wire()));
        wire.plan = self.plan.as_ref().map(|p| Box::new(p.to_wire()));
        wire
    }
}

fn missing_fields(wire: &wire::RunEvent) -> Vec<&'static str> {
    let has = [
        ("round", wire.round.is_some()),
        ("task", wire.task.is_some()),
        ("samples", wire.samples.is_some()),
        ("phase", wire.phase.is_some()),
        ("start_s", wire.start_s.is_some()),
        ("end_s", wire.end_s.is_some()),
        ("reason", wire.reason.is_some()),
        ("ok", wire.ok.is_some()),
        ("makespan_s", wire.makespan_s.is_some()),
        ("device", wire.device.is_some()),
    ];
    let needs: &[&str] = match wire.event {
        EventKind::Launch => &["device"],
        EventKind::Start | EventKind::Ready | EventKind::Exit => &["round", "task"],
        EventKind::Progress => &["round", "task", "samples"],
        EventKind::Phase => &["round", "task", "phase", "start_s", "end_s"],
        EventKind::Restart | EventKind::Reshare => &["round", "task", "reason"],
        EventKind::Replan | EventKind::Stop | EventKind::Fault => &["reason"],
        EventKind::Round => &["round", "ok", "makespan_s"],
        EventKind::Summary => &["ok", "makespan_s"],
    };
    has.iter()
        .filter(|(name, present)| !present && needs.contains(name))
        .map(|(name, _)| *name)
        .collect()
}
