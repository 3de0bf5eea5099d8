//! What people see of a schedule under way.

use std::time::{Duration, Instant};

use doc::Schedule;

use crate::driver::Driver;

/// How far a schedule is.
#[derive(Debug)]
pub(crate) struct View {
    /// Tasks that are done.
    pub done: usize,
    /// Tasks of the schedule.
    of: usize,
    /// When all are planned to be done, s.
    planned: f64,
    shown: Instant,
}

/// How often a terminal is drawn anew.
const REDRAW: Duration = Duration::from_millis(500);
/// How often a log gets a line.
const LINE: Duration = Duration::from_secs(30);

impl View {
    /// Of a schedule of which nothing has happened.
    pub fn of(schedule: &Schedule, now: Instant) -> Self {
        let ends = schedule.assignments.iter().map(|a| a.synced.get());
        Self {
            done: 0,
            of: schedule.assignments.len(),
            planned: ends.fold(0.0, f64::max),
            shown: now,
        }
    }

    /// How far it is at a second, in a line.
    fn line(&self, now: f64, running: usize) -> String {
        format!(
            "{} of {} tasks done, {running} running, {now:.0} s of {:.0} s planned",
            self.done, self.of, self.planned
        )
    }
}

impl Driver<'_> {
    /// Shows how far it is: on a terminal with what each GPU does, else a line now and then.
    pub fn show(&mut self) {
        let redraws = self.console.can_redraw() && !self.settings.care.follow;
        let every = if redraws { REDRAW } else { LINE };
        if self.view.shown.elapsed() < every {
            return;
        }
        self.view.shown = Instant::now();
        let now = self.now();
        let mut text = self.view.line(now, self.running.len());
        if !redraws {
            return self.console.note(&text);
        }
        for running in self.running.values() {
            let gpu = &self.seats.all[running.gpu].name;
            let (name, since) = (self.name(running.place), now - running.since);
            let round = running.place.round;
            let line = format!("  {gpu}: {name}, round {round}, {since:.1} s");
            text += &format!("\n{}", self.console.cut(&line));
        }
        self.console.redraw(&text);
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
            shown: Instant::now(),
        };
        let line = view.line(12.3, 4);
        assert_eq!(line, "3 of 20 tasks done, 4 running, 12 s of 61 s planned");
    }
}
