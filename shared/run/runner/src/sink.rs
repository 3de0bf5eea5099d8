//! Where a run reports its events and its state.

use doc::RunEvent;

pub use crate::status::{Row, State};

/// For a policy that reports in ways of its own.
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

    fn state(&mut self, _: &State) {}
}

/// Receives the events of a run. An error in it does not stop the jobs.
pub trait Sink {
    /// Something happened.
    fn event(&mut self, event: &RunEvent);

    /// A task has trained. Returns whether this is reported. It is not if the reader of the events does not read;
    /// then the next progress of the task includes it.
    fn progress(&mut self, event: &RunEvent) -> bool;

    /// A warning that is not an event.
    fn warn(&mut self, text: &str);

    /// What was decided, for a person.
    fn note(&mut self, text: &str);

    /// Whether there is no reader of the events any more; the jobs are then stopped.
    fn is_closed(&self) -> bool;

    /// Whether the state of the tasks should be shown now; `last`: the loop ends.
    fn wants_state(&self, last: bool) -> bool;

    /// Shows the state of the tasks.
    fn state(&mut self, state: &State);
}
