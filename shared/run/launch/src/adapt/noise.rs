//! Noise scales that the rounds of a launch report, and the corrections of the model by them.

use std::collections::BTreeMap;

use doc::{
    Efficiency, EfficiencyCurve, EfficiencySource, EventPayload, Model, RunEvent, Task, Workload,
};
use efficiency::{Moments, NoiseScale};
use runner::{RunState, Sink};
use units::TaskId;

use crate::learn::Course;

/// Gradient norms by task and round, one block for each progress event, the newest last.
#[derive(Debug, Default)]
pub(crate) struct LiveNoise {
    tasks: BTreeMap<TaskId, Vec<Vec<Moments>>>,
}

impl LiveNoise {
    /// Begins a new round: later reports belong to it.
    pub(crate) fn next_round(&mut self) {
        for rounds in self.tasks.values_mut() {
            rounds.push(Vec::new());
        }
    }

    /// Records the norms of an event.
    pub(crate) fn hear(&mut self, event: &RunEvent) {
        if let EventPayload::Progress { task, progress, .. } = &event.payload
            && let Some(gradient) = &progress.gradient
        {
            let rounds = self.tasks.entry(task.clone()).or_default();
            if rounds.is_empty() {
                rounds.push(Vec::new());
            }
            if let Some(round) = rounds.last_mut() {
                round.push(Moments::from(gradient));
            }
        }
    }

    /// The noise scale of the newest rounds. It uses the smallest number of rounds that gives an estimate with an
    /// error, because the scale grows during training and old values no longer apply.
    pub(crate) fn of(&self, task: &Task) -> Option<NoiseScale> {
        let rounds = self.tasks.get(&task.id)?;
        (0..rounds.len())
            .rev()
            .find_map(|first| NoiseScale::of(&rounds[first..].concat(), task.reference()).ok())
    }

    /// Moves the noise scale of each task with a new estimate by `part` of the way, in logarithms, so that one unusual
    /// round does not overturn the plan. A task without a known scale takes the new one. A table of noise scales is
    /// kept: it was written by hand or learnt from trainings at several batch sizes, while the norms come from one
    /// batch size. Returns messages about the changes.
    pub(crate) fn correct(&self, model: &mut Model, part: f64) -> Vec<String> {
        let mut moved = Vec::new();
        for task in &mut model.workload.tasks {
            let Some(live) = self.of(task) else {
                continue;
            };
            let before = match task.efficiency.as_ref().map(|known| &known.curve) {
                Some(EfficiencyCurve::NoiseScale { samples, .. }) => Some(*samples),
                Some(EfficiencyCurve::Progress(_) | EfficiencyCurve::Rounds(_)) => continue,
                None => None,
            };
            let samples = before.map_or(live.samples, |phi| phi * (live.samples / phi).powf(part));
            let curve = EfficiencyCurve::NoiseScale {
                samples,
                interval: Some(live.interval.map(|end| end * samples / live.samples)),
            };
            task.efficiency = Some(Efficiency {
                curve,
                source: EfficiencySource::Measured,
            });
            let was = before.map_or(String::new(), |phi| format!(" after {phi:.1}"));
            moved.push(format!("{}: noise scale {samples:.1}{was}", task.id));
        }
        moved
    }
}

/// A workload with every noise scale at the lower (0) or upper (1) end of its interval.
pub(crate) fn at_end(workload: &Workload, end: usize) -> Workload {
    let mut moved = workload.clone();
    let known = moved.tasks.iter_mut().filter_map(|t| t.efficiency.as_mut());
    for efficiency in known {
        if let EfficiencyCurve::NoiseScale {
            samples,
            interval: Some(ends),
        } = &mut efficiency.curve
        {
            *samples = ends[end];
        }
    }
    moved
}

/// A sink that learns from the events passed through it: norms of gradients, and lengths of phases.
pub(crate) struct Hearing<'a> {
    pub(crate) inner: &'a mut dyn Sink,
    pub(crate) noise: &'a mut LiveNoise,
    pub(crate) course: Option<&'a mut Course>,
}

impl Sink for Hearing<'_> {
    fn event(&mut self, event: &RunEvent) {
        self.noise.hear(event);
        if let Some(course) = &mut self.course {
            course.hear(&event.payload);
        }
        self.inner.event(event);
    }

    fn progress(&mut self, event: &RunEvent) -> bool {
        let told = self.inner.progress(event);
        // If the event was not delivered, the next progress event includes its norms.
        if told {
            self.noise.hear(event);
        }
        told
    }

    fn warn(&mut self, text: &str) {
        self.inner.warn(text);
    }

    fn note(&mut self, text: &str) {
        self.inner.note(text);
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    fn wants_state(&self, last: bool) -> bool {
        self.inner.wants_state(last)
    }

    fn state(&mut self, state: &RunState) {
        self.inner.state(state);
    }
}
