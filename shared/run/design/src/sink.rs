//! Destination of a session's measurements, progress and messages.

use doc::{Failure, Header, ProfileEnd, Sample};
use predict::design::DesignState;

/// One record of a profile, in this order: a header, samples and failures, an end.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// The first record.
    Header(&'a Header),
    /// A measured configuration.
    Sample(&'a Sample),
    /// A failed configuration.
    Failure(&'a Failure),
    /// The last record.
    End(&'a ProfileEnd),
}

/// Receives the measurements of a session.
pub trait Sink {
    /// Why no more records are accepted: a full disk, a closed pipe.
    type Error;

    /// Takes a record.
    ///
    /// # Errors
    /// If no more records are accepted; the session then ends.
    fn record(&mut self, record: Record<'_>) -> Result<(), Self::Error>;

    /// Called when all known results have been written, before configurations are measured.
    ///
    /// # Errors
    /// If nothing more should be measured: a signal came, or as for [`Sink::record`].
    fn settle(&mut self) -> Result<(), Self::Error>;

    /// Shows the user the configuration that is being measured.
    fn measuring(&mut self, configuration: &str);

    /// Reports that `done` of about `length` configurations are finished, and the state of an
    /// adaptive design.
    fn progress(&mut self, done: u64, length: u64, design: Option<&DesignState>);

    /// Called after the last configuration, whether the session succeeded or failed.
    fn ended(&mut self, design: Option<&DesignState>);

    /// A note for the user.
    fn note(&mut self, text: &str);

    /// A warning for the user.
    fn warn(&mut self, text: &str);
}
