//! Where a session writes measurements and reports progress.

use doc::{Failure, Header, ProfileEnd, Sample};
use predict::design::Progress;

/// One record of a profile, in their order: a header, samples and failures, an end.
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

/// Takes what a session measures.
pub trait Sink {
    /// Why it takes no more: a full disk, a reader that has gone.
    type Error;

    /// Takes a record.
    ///
    /// # Errors
    /// If it takes no more; the session ends.
    fn record(&mut self, record: Record<'_>) -> Result<(), Self::Error>;

    /// All that was known before has been written; what comes now is measured.
    ///
    /// # Errors
    /// If nothing is to be measured any more: a signal came, or as of [`Sink::record`].
    fn settle(&mut self) -> Result<(), Self::Error>;

    /// The configuration that is measured now, for a person.
    fn measuring(&mut self, configuration: &str);

    /// `done` of about `length` configurations, and how an adaptive design stands.
    fn progress(&mut self, done: u64, length: u64, design: Option<&Progress>);

    /// The configurations are at an end, successful or not.
    fn ended(&mut self, design: Option<&Progress>);

    /// Something to know, for a person.
    fn note(&mut self, text: &str);

    /// Something that is not as it should be, for a person.
    fn warn(&mut self, text: &str);
}
