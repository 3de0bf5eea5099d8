use std::time::{Duration, Instant};

use cli::{Failure, Output};
use doc::{EventPayload, RunEvent};
use units::Seconds;

/// Where events go, with the clock of the run.
pub struct Journal<'a> {
    output: &'a mut Output,
    begun: Instant,
    lost: u64,
    failure: Option<Failure>,
}

impl<'a> Journal<'a> {
    /// A journal that begins now.
    pub fn new(output: &'a mut Output) -> Self {
        Self {
            output,
            begun: Instant::now(),
            lost: 0,
            failure: None,
        }
    }

    /// Time since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Writes an event of now. A failure does not stop the jobs: it is remembered, and the events
    /// after it are counted as lost unless writing works again.
    pub fn write(&mut self, payload: EventPayload) {
        let event = RunEvent {
            time: as_seconds(self.elapsed()),
            payload,
        };
        if let Err(failure) = self.output.record(&event) {
            self.lost += 1;
            self.failure.get_or_insert(failure);
        }
    }

    /// Whether the reader of the events has gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.failure, Some(Failure::ClosedPipe))
    }

    /// What became of the events.
    ///
    /// # Errors
    /// The first failure, with the number of events that were lost.
    pub fn finish(self) -> Result<(), Failure> {
        match self.failure {
            None => Ok(()),
            Some(Failure::ClosedPipe) => Err(Failure::ClosedPipe),
            Some(failure) => Err(Failure::Environment(format!(
                "{failure}; {} events were lost",
                self.lost
            ))),
        }
    }
}

/// A duration as a quantity of documents.
#[must_use]
pub fn as_seconds(duration: Duration) -> Seconds {
    // A duration is finite and not negative.
    Seconds::new(duration.as_secs_f64()).unwrap_or(Seconds::ZERO)
}
