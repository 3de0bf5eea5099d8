use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use doc::Provenance;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::spool::{Spool, Worth};
use crate::{Failure, terminal};

/// Standard error: notes, tables for people, progress bars. Text is escaped for a terminal.
#[derive(Debug, Clone)]
pub struct Console {
    tool: &'static str,
    /// Shared by all clones; absent: text is written at once.
    queue: Arc<OnceLock<Spool>>,
    /// Lines at the bottom of the terminal that are redrawn; shared by all clones.
    live: Arc<AtomicUsize>,
}

/// Maximum number of bytes queued for the reader of standard error.
const QUEUE_BYTES: usize = 1 << 20;
/// Maximum time that the tool waits at its end for the reader of standard error.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

impl Console {
    /// The console of the tool with the given name.
    #[must_use]
    pub fn new(tool: &'static str) -> Self {
        Self {
            tool,
            queue: Arc::default(),
            live: Arc::default(),
        }
    }

    /// Name of the tool.
    #[must_use]
    pub const fn tool(&self) -> &'static str {
        self.tool
    }

    /// The tool's entry in the provenance of its documents. All tools have the version of the workspace.
    #[must_use]
    pub fn provenance(&self, seed: Option<u64>, device: Option<String>) -> Provenance {
        Provenance {
            tool: self.tool.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            device,
        }
    }

    /// Starts a separate thread that writes all text from now on, so that nothing waits for a reader. Text that does
    /// not fit into the queue is dropped.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the system cannot create another thread.
    pub fn queue(&self) -> Result<(), Failure> {
        if self.queue.get().is_some() {
            return Ok(());
        }
        let spool = Spool::start(QUEUE_BYTES, |text| io::stderr().lock().write_all(text))
            .map_err(|error| Failure::Environment(format!("no thread: {error}")))?;
        // If another clone has created a queue first, that one is used.
        self.queue.set(spool).ok();
        Ok(())
    }

    /// Waits a moment for the reader to take the queued text, and reports how much was dropped.
    pub(crate) fn finish(&self) {
        let Some(spool) = self.queue.get() else {
            return;
        };
        let read = spool.drain_within(LAST_PATIENCE).is_ok();
        if read && spool.lost() > 0 {
            self.warn(&format!(
                "{} lines were not shown here: they came faster than they were read",
                spool.lost()
            ));
            // A reader that has caught up reads this line, too.
            spool.drain_within(LAST_PATIENCE).ok();
        }
    }

    /// Prints `TOOL: note: TEXT`.
    pub fn note(&self, text: &str) {
        self.lines("note: ", text);
    }

    /// Prints `TOOL: warning: TEXT`.
    pub fn warn(&self, text: &str) {
        self.lines("warning: ", text);
    }

    /// Prints `TOOL: TEXT`, a line for each line of the text.
    pub fn error(&self, text: &str) {
        self.lines("", text);
    }

    /// Prints text, for example a table.
    pub fn say(&self, text: &str) {
        self.write(format!("{}\n", terminal(text)), Worth::Minor);
    }

    /// Prints text in the place of the previous call's text. Any other output replaces these lines: below them, the
    /// next call would overwrite it and leave old lines above.
    pub fn redraw(&self, text: &str) {
        let above = self.above();
        // Lines that have scrolled off the top of the terminal cannot be overwritten.
        let most = self
            .height()
            .map_or(usize::MAX, |rows| usize::from(rows).max(3) - 2);
        let text = terminal(text);
        let all = text.lines().count();
        let mut lines: Vec<&str> = text.lines().take(most).collect();
        let rest = format!("… {} more lines", all.saturating_sub(most) + 1);
        if all > most {
            lines[most - 1] = &rest;
        }
        self.live.store(lines.len(), Ordering::Relaxed);
        self.push(format!("{above}{}\n", lines.join("\n")), Worth::Minor);
    }

    /// Leaves the text of the last [`Console::redraw`] in place: the next output goes below it.
    pub fn settle(&self) {
        self.live.store(0, Ordering::Relaxed);
    }

    /// Escape codes that move back over the live lines and clear them; to be written before the next output.
    fn above(&self) -> String {
        match self.live.swap(0, Ordering::Relaxed) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }

    /// Lines of the terminal, if standard error is one.
    fn height(&self) -> Option<u16> {
        let size = terminal_size::terminal_size_of(io::stderr());
        size.map(|(_, height)| height.0).filter(|rows| *rows > 0)
    }

    /// Whether standard error is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Whether standard error is a terminal on which lines can be overwritten.
    #[must_use]
    pub fn can_redraw(&self) -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        self.is_terminal() && !dumb
    }

    /// Columns of the terminal, if standard error is one.
    #[must_use]
    pub fn width(&self) -> Option<u16> {
        columns(io::stderr())
    }

    /// A line that fits the terminal, with an ellipsis where it was cut.
    #[must_use]
    pub fn cut(&self, line: &str) -> String {
        // Leave the last column free, because some terminals move to the next line when it is used.
        let width = usize::from(self.width().unwrap_or(80)).saturating_sub(1);
        if line.chars().count() <= width {
            return line.to_owned();
        }
        let kept = line.chars().take(width.saturating_sub(1));
        kept.chain(['…']).collect()
    }

    /// A progress bar of `length` steps, with its message on the lines below; invisible unless standard error is a
    /// terminal on which lines can be overwritten.
    #[must_use]
    pub fn progress(&self, length: u64, unit: &str) -> ProgressBar {
        let target = if self.can_redraw() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        let template = format!("{{prefix}} [{{bar:30}}] {{pos}}/{{len}} {unit}{{left}}\n{{msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            // Before the first step, the remaining time is unknown.
            let left = |state: &ProgressState, out: &mut dyn fmt::Write| {
                if state.pos() > 0 {
                    let seconds = HumanDuration(state.eta());
                    // The bar is drawn into memory, so writing cannot fail.
                    write!(out, ", {seconds:#} left").ok();
                }
            };
            bar.set_style(style.with_key("left", left));
        }
        bar.with_prefix(self.tool)
    }

    fn lines(&self, label: &str, text: &str) {
        let tool = self.tool;
        let all: String = terminal(text)
            .lines()
            .map(|line| format!("{tool}: {label}{line}\n"))
            .collect();
        self.write(all, Worth::Major);
    }

    fn write(&self, text: String, worth: Worth) {
        self.push(self.above() + &text, worth);
    }

    fn push(&self, text: String, worth: Worth) {
        // A closed standard error ("2>&-", a terminal that has gone) means that messages are unwanted. The exit code
        // still reports the result, so the work continues.
        match self.queue.get() {
            Some(spool) => spool.push(text.into_bytes(), worth).ok(),
            None => io::stderr().lock().write_all(text.as_bytes()).ok(),
        };
    }
}

/// Columns of a stream; `None` if it is not a terminal or has no width.
pub(crate) fn columns(stream: impl AsFd) -> Option<u16> {
    let size = terminal_size::terminal_size_of(stream);
    size.map(|(width, _)| width.0).filter(|width| *width > 0)
}
