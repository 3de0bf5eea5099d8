use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Standard error: notes, tables for people, progress bars.
#[derive(Debug, Clone)]
pub struct Console {
    tool: &'static str,
}

impl Console {
    /// The console of the tool with the given name.
    #[must_use]
    pub const fn new(tool: &'static str) -> Self {
        Self { tool }
    }

    /// Name of the tool.
    #[must_use]
    pub const fn tool(&self) -> &'static str {
        self.tool
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

    /// Prints text as it is, for example a table.
    pub fn say(&self, text: &str) {
        // Nobody may be listening; the work goes on all the same.
        writeln!(io::stderr().lock(), "{text}").ok();
    }

    /// Whether a person is watching.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// A progress bar of `length` steps; invisible unless standard error is a terminal.
    #[must_use]
    pub fn progress(&self, length: u64, unit: &str) -> ProgressBar {
        let target = if self.is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        let template =
            format!("{{prefix}} [{{bar:30}}] {{pos}}/{{len}} {unit} {{eta}} left {{msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        bar.with_prefix(self.tool)
    }

    fn lines(&self, label: &str, text: &str) {
        let mut stderr = io::stderr().lock();
        for line in text.lines() {
            // Nobody may be listening; the work goes on all the same.
            writeln!(stderr, "{}: {label}{line}", self.tool).ok();
        }
    }
}
