//! Writes events to the output, and the state to the terminal and to a file of metrics.

use std::time::{Duration, Instant};

use cli::{Console, Failure, Output, Replaced};
use doc::RunEvent;

use crate::sink::{RunState, Sink};
use crate::status;

/// Time between two displays of the state: nobody can read a table of numbers faster.
const EVERY: Duration = Duration::from_secs(1);
/// Time between two progress lines if standard error is not a terminal: often enough to see in a log that a run
/// continues, and only 60 lines an hour.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// The sink of a run from a command line.
pub struct Recorder<'a> {
    output: &'a mut Output,
    console: &'a Console,
    /// File of metrics.
    metrics: Option<&'a Replaced>,
    /// Number of events lost in earlier runs.
    lost_before: u64,
    failure: Option<Failure>,
    /// Number of progress events that did not fit into the reader's queue.
    dropped: u64,
    /// Whether the state is shown as a live table. Determined once, because every turn of the loop needs it.
    table: bool,
    /// Whether progress lines are printed, because lines cannot be overwritten: in a log or on a dumb terminal.
    lines_instead: bool,
    shown: Option<Instant>,
    /// Time of the last line, or of the launch.
    said: Instant,
    /// A failure to write the metrics has been reported.
    told: bool,
}

impl<'a> Recorder<'a> {
    /// A recorder that writes events to `output`, and the state to the terminal of `console` and to the file `metrics`.
    /// With `follow`, the terminal shows the output of jobs, so there is no table.
    pub fn new(
        output: &'a mut Output,
        console: &'a Console,
        metrics: Option<&'a Replaced>,
        follow: bool,
    ) -> Self {
        Self {
            lost_before: output.lost(),
            output,
            console,
            metrics,
            failure: None,
            dropped: 0,
            table: console.can_redraw() && !follow,
            lines_instead: !console.can_redraw(),
            shown: None,
            said: Instant::now(),
            told: false,
        }
    }

    /// Result of writing the events. Missing progress events are reported but are no failure: later events include the
    /// progress, and the number of missing events.
    ///
    /// # Errors
    /// The first failure, with the number of events that were lost.
    pub fn finish(self) -> Result<(), Failure> {
        self.console.settle();
        if self.dropped > 0 {
            self.console.warn(&format!(
                "{} progress events were left out because the events were not read",
                self.dropped
            ));
        }
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

impl Sink for Recorder<'_> {
    /// A failure does not stop the jobs: the first failure is remembered, and unwritten events are counted.
    fn event(&mut self, event: &RunEvent) {
        if let Err(failure) = self.output.record(event) {
            self.failure.get_or_insert(failure);
        }
    }

    fn progress(&mut self, event: &RunEvent) -> bool {
        match self.output.minor_record(event) {
            Ok(told) => {
                self.dropped += u64::from(!told);
                told
            }
            Err(failure) => {
                self.failure.get_or_insert(failure);
                true
            }
        }
    }

    fn warn(&mut self, text: &str) {
        self.console.warn(text);
    }

    fn note(&mut self, text: &str) {
        self.console.note(text);
    }

    fn is_closed(&self) -> bool {
        matches!(self.failure, Some(Failure::ClosedPipe))
    }

    fn wants_state(&self, last: bool) -> bool {
        let wanted = self.metrics.is_some() || self.table || self.says_a_line();
        wanted && (last || self.shown.is_none_or(|at| at.elapsed() >= EVERY))
    }

    fn state(&mut self, state: &RunState) {
        self.shown = Some(Instant::now());
        if let Some(path) = self.metrics {
            let text = status::metrics(state.round, &state.rows);
            if let Err(error) = path.write(text.as_bytes())
                && !self.told
            {
                self.told = true;
                self.console
                    .warn(&format!("cannot write the metrics: {error}"));
            }
        }
        if self.table {
            let table = status::table(state, self.console.width());
            self.console.redraw(&table);
        } else if self.says_a_line() {
            self.said = Instant::now();
            self.console.note(&status::line(state));
        }
    }
}

impl Recorder<'_> {
    fn says_a_line(&self) -> bool {
        self.lines_instead && self.said.elapsed() >= LINE_EVERY
    }
}
