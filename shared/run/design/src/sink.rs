//! Where a session writes measurements and reports progress.

use doc::{Failure, Header, ProfileEnd, Sample};
use predict::design::Progress;

/// One record of a profile, in this order: a header, samples and failures, an end.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// The first.
    Header(&'a Header),
    /// A measured configuration.
    Sample(&'a Sample),
    /// A failed configuration.
    Failure(&'a Failure),
    /// The last.
    End(&'a ProfileEnd),
}

/// Receives the measurements of a session.
pub trait Sink {
    /// Why it accepts no more: a full disk, a reader that has gone.
    type Error;

    /// Takes a record.
    ///
    /// # Errors
    /// If it accepts no more; the session then ends.
    fn record(&mut self, record: Record<'_>) -> Result<(), Self::Error>;

    /// All known results have been written; from now on configurations are measured.
    ///
    /// # Errors
    /// If nothing should be measured any more: a signal came, or as for [`Sink::record`].
    fn settle(&mut self) -> Result<(), Self::Error>;

    /// The configuration that is being measured, for the user.
    fn measuring(&mut self, configuration: &str);

    /// `done` of about `length` configurations, and the state of an adaptive design.
    fn progress(&mut self, done: u64, length: u64, design: Option<&Progress>);

    /// No more configurations follow, after success or failure.
    fn ended(&mut self, design: Option<&Progress>);

    /// A note for the user.
    fn note(&mut self, text: &str);

    /// A warning for the user.
    fn warn(&mut self, text: &str);
}
