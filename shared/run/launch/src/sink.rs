//! Where a launch reports events.

use doc::RunEvent;

pub use crate::status::Row;

/// Takes the events of a launch. Its handling does not stop the jobs.
pub trait Sink {
    /// Something happened.
    fn event(&mut self, event: &RunEvent);

    /// A task has trained. Returns whether that is told: it is not where the reader of the events does
    /// not read, and then the next progress of the task tells it.
    fn progress(&mut self, event: &RunEvent) -> bool;

    /// Something that is no event and that a person should know.
    fn warn(&mut self, text: &str);

    /// What was decided, for a person.
    fn note(&mut self, text: &str);

    /// Whether nobody takes the events any more; the jobs are stopped then.
    fn is_closed(&self) -> bool;

    /// Whether the state of the tasks should be shown now; `last`: the round ends.
    fn wants_state(&self, last: bool) -> bool;

    /// Shows the state of the tasks in a round.
    fn state(&mut self, round: u32, rows: &[Row]);
}
