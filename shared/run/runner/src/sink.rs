//! Receivers of the events and the state of a run.

use doc::RunEvent;

pub use crate::status::{Row, RunState};

/// Discards everything, for a policy that reports in its own way.
#[derive(Debug)]
pub struct Quiet;

impl Sink for Quiet {
    fn event(&mut self, _: &RunEvent) {}

    fn progress(&mut self, _: &RunEvent) -> bool {
        true
    }

    fn warn(&mut self, _: &str) {}

    fn note(&mut self, _: &str) {}

    fn is_closed(&self) -> bool {
        false
    }

    fn wants_state(&self, _: bool) -> bool {
        false
    }

    fn state(&mut self, _: &RunState) {}
}

/// Receives the events of a run. An error in it does not stop the jobs.
pub trait Sink {
    /// Something happened.
    fn event(&mut self, event: &RunEvent);

    /// A task has made progress. Returns whether the event was delivered. It is not if the reader does not read; then
    /// the next progress event of the task includes it.
    fn progress(&mut self, event: &RunEvent) -> bool;

    /// A warning that is not an event.
    fn warn(&mut self, text: &str);

    /// A decision, reported to the user.
    fn note(&mut self, text: &str);

    /// Whether the reader of the events has gone; then the jobs are stopped.
    fn is_closed(&self) -> bool;

    /// Whether the state of the tasks should be shown now; `last`: the loop ends.
    fn wants_state(&self, last: bool) -> bool;

    /// Shows the state of the tasks.
    fn state(&mut self, state: &RunState);
}
