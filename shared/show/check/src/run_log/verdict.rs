//! Compares rounds with the verdict of the plan on sharing. A wrong prediction is not an error of the run, but its
//! reader should know.

use doc::{EventPayload, Planned, RunEvent, Verdict, WorkKind};

use super::event::at_event;
use crate::judge::Judge;

/// Factor by which a round may exceed the interval of the verdict before that is reported. Predictions exclude
/// starting and ending processes, and transfers on real links. Not measured but chosen with a margin: verdicts on
/// CPUs should be within 10 %.
const BEYOND: f64 = 1.1;

/// Compares every round in which all tasks finished with the verdict of its plan.
pub fn judge(events: &[RunEvent], j: &mut Judge) {
    let mut promised = None;
    for (at, event) in events.iter().enumerate() {
        if let Some(planned) = event.planned() {
            promised = promise(planned);
        }
        let EventPayload::Round {
            ok: true, makespan, ..
        } = &event.payload
        else {
            continue;
        };
        let Some((together, verdict)) = promised else {
            continue;
        };
        at_event(at, j, |j| of_round(makespan.get(), together, verdict, j));
    }
}

/// The promised time of a round, and the verdict. If a timeline has another order or link than the verdict assumed,
/// the promised time is its makespan.
fn promise(planned: &Planned) -> Option<(f64, &Verdict)> {
    let verdict = planned.plan().feasible()?.verdict.as_ref()?;
    let timeline = planned.timeline().map(|t| t.makespan.get());
    (verdict.work == WorkKind::Round)
        .then_some((timeline.unwrap_or(verdict.together.get()), verdict))
}

fn of_round(measured: f64, together: f64, verdict: &Verdict, j: &mut Judge) {
    let alone = verdict.one_after_another.get();
    if verdict.share && measured >= alone {
        let text = format!(
            "the plan says to share, but the round took {measured} s and one after another is \
             predicted to take {alone} s"
        );
        return j.doubt("makespan_s", text);
    }
    // The interval of the verdict, relative to its mean.
    let mean = verdict.together.get();
    let low = together * verdict.together_low.get() / mean / BEYOND;
    let high = verdict
        .together_high
        .map(|high| together * high.get() / mean * BEYOND);
    if measured < low || high.is_some_and(|high| measured > high) {
        let upper = high.map_or("more".to_owned(), |high| high.to_string());
        let text = format!(
            "the round took {measured} s; by the plan's verdict it takes {together} s, {low} to \
             {upper} with what no prediction counts"
        );
        j.doubt("makespan_s", text);
    }
}
