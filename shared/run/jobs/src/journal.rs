//! Times of the events of a run.

use std::time::{Duration, Instant};

use doc::{DeviceFingerprint, EventPayload, Planned, Provenance, RunEvent, TaskSummary};
use units::Seconds;

/// Creates the events of a run, with times that count from its launch.
///
/// Rounds, trainings and schedules all create their first and last events here. So in every run the launch is at second
/// 0 and the makespan is the time of the summary, as `mt-check` requires.
#[derive(Debug, Clone, Copy)]
pub struct Journal {
    launched: Instant,
}

impl Journal {
    /// The journal of a run whose launch was at `launched`, on the clock of its host.
    #[must_use]
    pub const fn new(launched: Instant) -> Self {
        Self { launched }
    }

    /// The moment of the launch.
    #[must_use]
    pub const fn launched(&self) -> Instant {
        self.launched
    }

    /// Time from the launch until `now`.
    #[must_use]
    pub fn time(&self, now: Instant) -> Seconds {
        as_seconds(now.saturating_duration_since(self.launched))
    }

    /// The first event of a run.
    #[must_use]
    pub fn launch(
        &self,
        device: DeviceFingerprint,
        planned: Option<Planned>,
        provenance: Provenance,
    ) -> RunEvent {
        let launch = EventPayload::Launch {
            device,
            planned,
            provenance: vec![provenance],
        };
        self.event(self.launched, launch)
    }

    /// An event that happens `now`.
    #[must_use]
    pub fn event(&self, now: Instant, payload: EventPayload) -> RunEvent {
        RunEvent {
            time: self.time(now),
            payload,
        }
    }

    /// The last event of a run, which ends `now`; `ok`: every task finished all of its work.
    #[must_use]
    pub fn summary(&self, now: Instant, ok: bool, tasks: Vec<TaskSummary>) -> RunEvent {
        let summary = EventPayload::Summary {
            ok,
            makespan: self.time(now),
            tasks,
        };
        self.event(now, summary)
    }
}

/// A duration in the unit of documents.
#[must_use]
pub fn as_seconds(duration: Duration) -> Seconds {
    // A duration is finite and not negative.
    Seconds::new(duration.as_secs_f64()).unwrap_or(Seconds::ZERO)
}

#[cfg(test)]
mod tests {
    use doc::DeviceKind;

    use super::*;

    #[test]
    fn a_launch_is_at_second_0_and_the_makespan_is_the_time_of_the_summary() {
        let start = Instant::now();
        let journal = Journal::new(start);
        let device = DeviceFingerprint {
            kind: DeviceKind::Cpu,
            name: "two cores".into(),
            simulated: false,
            units: None,
            detail: None,
            noise_percent: None,
        };
        let provenance = Provenance {
            tool: "test".into(),
            version: "0".into(),
            seed: None,
            device: None,
        };
        let launch = journal.launch(device, None, provenance);
        assert_eq!(launch.time, Seconds::ZERO);
        let end = start + Duration::from_millis(1500);
        let summary = journal.summary(end, true, Vec::new());
        let EventPayload::Summary { makespan, .. } = summary.payload else {
            panic!("a summary is one");
        };
        assert_eq!((summary.time, makespan.get()), (makespan, 1.5));
    }
}
