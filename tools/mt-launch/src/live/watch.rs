//! Shows the state of a run: a table on a terminal, a file of metrics.

use std::time::{Duration, Instant};

use crate::live::Live;
use crate::status::{self, Row};

/// How often the state is shown anew.
const EVERY: Duration = Duration::from_secs(1);

/// What has been shown.
#[derive(Debug, Default)]
pub(super) struct Watch {
    shown: Option<Instant>,
    /// Lines of the table that stands on the terminal.
    lines: usize,
    /// A failure to write the metrics has been told.
    told: bool,
}

impl Live<'_> {
    /// Whether the state should be shown now.
    pub(super) fn is_due(&self, last: bool) -> bool {
        let wanted = self.settings.metrics.is_some() || self.shows_table();
        wanted && (last || self.watch.shown.is_none_or(|at| at.elapsed() >= EVERY))
    }

    fn shows_table(&self) -> bool {
        self.console.can_redraw() && !self.settings.follow
    }

    /// Shows the state.
    pub(super) fn show(&mut self, round: u32, rows: &[Row]) {
        self.watch.shown = Some(Instant::now());
        if let Some(path) = &self.settings.metrics {
            let text = status::metrics(round, rows);
            if let Err(error) = path.write(text.as_bytes())
                && !self.watch.told
            {
                self.watch.told = true;
                self.console
                    .warn(&format!("cannot write the metrics: {error}"));
            }
        }
        if self.shows_table() {
            let table = status::table(round, rows);
            self.console.redraw(self.watch.lines, &table);
            self.watch.lines = table.lines().count();
        }
    }
}
