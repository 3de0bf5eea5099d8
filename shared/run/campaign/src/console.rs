//! Reports of a measuring session, on a console and in an output.

use std::time::{Duration, Instant};

use cli::{Console, Failure, Output};
use design::{DesignError, Record, SessionError, Sink, describe_progress};
use doc::Workload;
use indicatif::ProgressBar;
use predict::design::DesignState;

use crate::interrupt::Signals;

/// Interval between progress lines if standard error is not a terminal: often enough to see in a log that the session
/// continues, and only 60 lines an hour.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// A design without a budget may have a huge number of configurations, so the number is not shown.
const MANY: u64 = 1 << 40;

/// Writes records, shows a bar, and ends the session after a signal.
pub struct Written<'a> {
    out: &'a mut Output,
    console: &'a Console,
    signals: &'a Signals,
    bar: ProgressBar,
    /// Workload of the profile, once its header was written.
    workload: Option<Workload>,
    /// The current measurement and the best so far, below the bar.
    below: [String; 2],
    /// Time of the last line, or of the start of the session.
    said: Instant,
    /// Time spent measuring so far.
    pace: Pace,
}

/// Estimate of the time per configuration, if it is worth reporting.
#[derive(Debug, Default)]
struct Pace {
    told: bool,
    begun: Option<Instant>,
    took: Duration,
    measured: u32,
}

/// Number of configurations after which the remaining time is estimated. Windows and start-ups differ by a factor of
/// two, so fewer configurations give no useful estimate.
const ENOUGH_MEASURED: u32 = 4;

/// A rounded duration for users: `40 s`, `9 min`.
fn about(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{:.0} s", seconds.max(1.0))
    } else if seconds < 5_400.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3_600.0)
    }
}

impl Pace {
    /// Records that a configuration was measured; returns, once, the estimated remaining time from the mean so far.
    fn note(&mut self, left: u64) -> Option<String> {
        // Recorded configurations take no time.
        self.took += self.begun.take()?.elapsed();
        self.measured += 1;
        if !self.told || self.measured != ENOUGH_MEASURED || left == 0 {
            return None;
        }
        let each = self.took.as_secs_f64() / f64::from(self.measured);
        let rest = about(each * left as f64);
        Some(format!(
            "{} configurations measured in {}; the other {left} take about {rest}",
            self.measured,
            about(self.took.as_secs_f64())
        ))
    }
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
            pace: Pace::default(),
        }
    }

    /// Reports the expected duration of the session, if that is useful on this device, and again after some
    /// configurations.
    pub fn expects(&mut self, window: &device::Window) {
        self.pace.told = true;
        let Some(length) = self.bar.length().filter(|n| *n < MANY) else {
            return;
        };
        let times = length as f64 * f64::from(window.repeats);
        let (least, most) = (window.least.get(), window.most.get());
        let again = match length > u64::from(ENOUGH_MEASURED) {
            true => format!(", more precisely after {ENOUGH_MEASURED}"),
            false => String::new(),
        };
        self.console.note(&format!(
            "{length} configurations, each {least} to {most} s and the start of its jobs: {} to \
             {}{again}",
            about(times * least),
            about(times * most)
        ));
    }

    /// Shows the lines below the bar, truncated to the width of the terminal: a wrapped line would count as one, and
    /// part of it would remain when the bar is redrawn.
    fn show(&self) {
        let lines = self
            .below
            .iter()
            .filter(|l| !l.is_empty())
            .map(|line| self.console.cut(line));
        self.bar.set_message(lines.collect::<Vec<_>>().join("\n"));
    }

    fn best(&self, design: Option<&DesignState>) -> Option<String> {
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
        self.pace.begun = Some(Instant::now());
        self.below[0] = format!("measuring {configuration}");
        self.show();
    }

    fn progress(&mut self, done: u64, length: u64, design: Option<&DesignState>) {
        self.bar.set_length(length);
        self.bar.set_position(done);
        if let Some(text) = self.pace.note(length.saturating_sub(done)) {
            self.note(&text);
        }
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

    fn ended(&mut self, design: Option<&DesignState>) {
        self.bar.finish_and_clear();
        if let Some(best) = self.best(design).filter(|_| self.console.is_terminal()) {
            self.console.note(&best);
        }
    }

    /// Prints a note above the bar; printed directly, it would leave an old bar behind.
    fn note(&mut self, text: &str) {
        self.bar.suspend(|| self.console.note(text));
    }

    fn warn(&mut self, text: &str) {
        self.bar.suspend(|| self.console.warn(text));
    }
}

/// Converts an error of a design to a failure of the tool.
pub fn failure(error: DesignError, signals: Option<&Signals>) -> Failure {
    let text = error.to_string();
    match error {
        DesignError::Interrupted => signals.map_or(Failure::Environment(text), Signals::failure),
        DesignError::Infeasible => Failure::Negative(text),
        DesignError::Grid(_) | DesignError::TotalShare { .. } | DesignError::RoundsOfSeveral => {
            Failure::Usage(text)
        }
        DesignError::Model(_) | DesignError::Device(_) | DesignError::Cost(_) => {
            Failure::Environment(text)
        }
        DesignError::Table(_)
        | DesignError::Given(_)
        | DesignError::NoPredictor(_)
        | DesignError::NoThroughput
        | DesignError::Samples(_)
        | DesignError::Rounds(_)
        | DesignError::OtherStart { .. }
        | DesignError::OtherDesign { .. }
        | DesignError::Unrecorded(_) => Failure::Input(text),
    }
}

/// Like [`failure`], for a session.
pub fn session_failure(error: SessionError<Failure>, signals: &Signals) -> Failure {
    match error {
        SessionError::Design(error) => failure(error, Some(signals)),
        SessionError::Sink(failure) => failure,
    }
}
