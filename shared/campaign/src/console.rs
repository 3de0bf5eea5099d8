//! What a session tells, on a console and in an output.

use std::time::{Duration, Instant};

use cli::{Console, Failure, Output};
use design::{DesignError, Record, SessionError, Sink, describe_progress};
use doc::Workload;
use indicatif::ProgressBar;
use predict::design::Progress;

use crate::interrupt::Signals;

/// How often a line says how far the session is, where standard error is no terminal: often enough to see
/// in a log that it goes on, and 60 lines an hour.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// Writes records, shows a bar, and ends the session after a signal.
pub struct Written<'a> {
    out: &'a mut Output,
    console: &'a Console,
    signals: &'a Signals,
    bar: ProgressBar,
    /// What is profiled, once its header was written.
    workload: Option<Workload>,
    /// What is measured now, and what is best so far, below the bar.
    below: [String; 2],
    /// When the last line was said, or the session began.
    said: Instant,
}

impl<'a> Written<'a> {
    /// A session of about `length` configurations.
    pub fn new(
        out: &'a mut Output,
        console: &'a Console,
        signals: &'a Signals,
        length: u64,
    ) -> Self {
        let bar = console.progress(length, "configurations");
        Self {
            out,
            console,
            signals,
            bar,
            workload: None,
            below: Default::default(),
            said: Instant::now(),
        }
    }

    /// Shows the lines below the bar, each cut to the terminal: one that it broke would be counted as one
    /// line, and left standing when the bar is drawn anew.
    fn show(&self) {
        let lines = self.below.iter().filter(|l| !l.is_empty());
        let lines = lines.map(|line| self.console.cut(line));
        self.bar.set_message(lines.collect::<Vec<_>>().join("\n"));
    }

    fn best(&self, design: Option<&Progress>) -> Option<String> {
        Some(describe_progress(self.workload.as_ref()?, design?))
    }
}

impl Sink for Written<'_> {
    type Error = Failure;

    fn record(&mut self, record: Record<'_>) -> Result<(), Failure> {
        match record {
            Record::Header(header) => {
                self.workload = Some(header.workload.clone());
                self.out.record(header)
            }
            Record::Sample(sample) => self.out.record(sample),
            Record::Failure(failure) => self.out.record(failure),
            Record::End(end) => self.out.record(end),
        }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        self.out.settle()?;
        self.signals.check()
    }

    fn measuring(&mut self, configuration: &str) {
        self.below[0] = format!("measuring {configuration}");
        self.show();
    }

    fn progress(&mut self, done: u64, length: u64, design: Option<&Progress>) {
        self.bar.set_length(length);
        self.bar.set_position(done);
        let best = self.best(design);
        if !self.console.can_redraw() && self.said.elapsed() >= LINE_EVERY {
            self.said = Instant::now();
            let best = best.as_ref().map_or_else(String::new, |b| format!("; {b}"));
            let text = format!("{done} of {length} configurations{best}");
            self.console.note(&text);
        }
        self.below[1] = best.unwrap_or_default();
        self.show();
    }

    fn ended(&mut self, design: Option<&Progress>) {
        self.bar.finish_and_clear();
        if let Some(best) = self.best(design).filter(|_| self.console.is_terminal()) {
            self.console.note(&best);
        }
    }

    /// Above the bar, which would be left standing otherwise.
    fn note(&mut self, text: &str) {
        self.bar.suspend(|| self.console.note(text));
    }

    fn warn(&mut self, text: &str) {
        self.bar.suspend(|| self.console.warn(text));
    }
}

/// The exit that an error of a design leads to.
pub fn failure(error: DesignError, signals: Option<&Signals>) -> Failure {
    let text = error.to_string();
    match error {
        DesignError::Interrupted => signals.map_or(Failure::Environment(text), Signals::failure),
        DesignError::Infeasible => Failure::Negative(text),
        DesignError::Grid(_) | DesignError::TotalShare { .. } => Failure::Usage(text),
        DesignError::Model(_) | DesignError::Device(_) | DesignError::Cost(_) => {
            Failure::Environment(text)
        }
        DesignError::Table(_)
        | DesignError::Given(_)
        | DesignError::NoPredictor(_)
        | DesignError::NoThroughput
        | DesignError::Samples(_)
        | DesignError::OtherStart { .. }
        | DesignError::OtherDesign { .. }
        | DesignError::Unrecorded(_) => Failure::Input(text),
    }
}

/// As [`failure`], of a session.
pub fn session_failure(error: SessionError<Failure>, signals: &Signals) -> Failure {
    match error {
        SessionError::Design(error) => failure(error, Some(signals)),
        SessionError::Sink(failure) => failure,
    }
}
