use std::time::{Duration, Instant};

use cli::{Failure, Output};
use doc::{EventPayload, RunEvent};
use units::Seconds;

/// Where events go, with the clock of the run.
pub struct Journal<'a> {
    output: &'a mut Output,
    begun: Instant,
    /// Events of launches before that were lost.
    lost_before: u64,
    failure: Option<Failure>,
}

impl<'a> Journal<'a> {
    /// A journal that begins now.
    pub fn new(output: &'a mut Output) -> Self {
        Self {
            lost_before: output.lost(),
            output,
            begun: Instant::now(),
            failure: None,
        }
    }

    /// Time since the beginning.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Writes an event of now. A failure does not stop the jobs: the first is remembered, and
    /// events that cannot be written are counted.
    pub fn write(&mut self, payload: EventPayload) {
        // Progress is told again by the next progress; nothing else is.
        let minor = matches!(payload, EventPayload::Progress { .. });
        let event = RunEvent {
            time: as_seconds(self.elapsed()),
            payload,
        };
        let written = if minor {
            self.output.minor_record(&event)
        } else {
            self.output.record(&event)
        };
        if let Err(failure) = written {
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
                self.output.lost() - self.lost_before
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
