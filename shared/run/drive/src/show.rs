//! Shows people how far a schedule is.

use std::time::Instant;

use crate::driver::Driver;
use crate::view::{LINE, REDRAW};

impl Driver<'_> {
    /// Shows how far it is: on a terminal with what each GPU does, else a line now and then.
    pub fn show(&mut self) {
        let redraws = self.console.can_redraw() && !self.settings.supervision.follow;
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
