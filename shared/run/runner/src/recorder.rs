//! Events to the output, the state to the terminal and to a file of metrics.

use std::time::{Duration, Instant};

use cli::{Console, Failure, Output, Replaced};
use doc::RunEvent;

use crate::sink::{Sink, State};
use crate::status;

/// How often the state is shown: a table of figures cannot be read faster.
const EVERY: Duration = Duration::from_secs(1);
/// How often a line reports progress, if standard error is not a terminal: often enough to see in a log that a run
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
    /// Progress events that did not fit into the reader's queue.
    dropped: u64,
    /// Whether the state is shown as a live table. Determined once, because every turn of a round asks.
    table: bool,
    /// Whether a line is printed now and then: if lines cannot be overwritten, in a log or on a dumb terminal.
    lines_instead: bool,
    shown: Option<Instant>,
    /// When the last line was printed, or the launch began.
    said: Instant,
    /// A failure to write the metrics has been reported.
    told: bool,
}

impl<'a> Recorder<'a> {
    /// Events go to `output`, the state to the terminal of `console` and to the file `metrics`. A terminal that
    /// shows what jobs print (`follow`) has no table.
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

    /// Result of writing the events. Missing progress is reported but is not a failure: later events contain it, and
    /// say how many are missing.
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
    /// A failure does not stop the jobs: the first is remembered, and events that cannot be written are counted.
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

    fn state(&mut self, state: &State) {
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
