//! Progress display of a running schedule.

use doc::Schedule;

/// Progress of a schedule.
#[derive(Debug)]
pub(crate) struct View {
    /// Number of completed tasks.
    pub done: usize,
    /// Number of tasks of the schedule.
    of: u64,
    /// Planned makespan, s.
    planned: f64,
}

impl View {
    /// The progress of a schedule at its start.
    pub fn of(schedule: &Schedule) -> Self {
        let ends = schedule
            .assignments
            .iter()
            .map(doc::ScheduledTask::last_synced);
        Self {
            done: 0,
            of: schedule.tasks(),
            planned: ends.fold(0.0, f64::max),
        }
    }

    /// The progress as a line; `now`: seconds since the start.
    pub fn line(&self, now: f64, running: usize) -> String {
        format!(
            "{} of {} tasks done, {running} running, {now:.0} s of {:.0} s planned",
            self.done, self.of, self.planned
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let view = View {
            done: 3,
            of: 20,
            planned: 61.2,
        };
        let line = view.line(12.3, 4);
        assert_eq!(line, "3 of 20 tasks done, 4 running, 12 s of 61 s planned");
    }
}
