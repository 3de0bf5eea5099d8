//! The stages of a run; each stage runs a tool.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use cli::{Console, Failure};
use jobs::Signals;

use super::tools::{tool, unstarted};

/// Runs tools in numbered stages.
pub struct Stages<'a> {
    folder: &'a Path,
    signals: Signals,
    console: &'a Console,
    number: usize,
    of: usize,
    began: Instant,
}

impl<'a> Stages<'a> {
    /// `of` stages, whose documents are in `folder`.
    pub fn new(folder: &'a Path, signals: Signals, console: &'a Console, of: usize) -> Self {
        Self {
            folder,
            signals,
            console,
            number: 0,
            of,
            began: Instant::now(),
        }
    }

    /// Reports the start of the next stage.
    pub fn begin(&mut self, name: &str) {
        self.number += 1;
        let so_far = match self.number {
            1 => String::new(),
            _ => format!(" ({:.0} s so far)", self.began.elapsed().as_secs_f64()),
        };
        let (number, of) = (self.number, self.of);
        self.console.say(&format!("[{number}/{of}] {name}{so_far}"));
    }

    /// Runs one tool to its end, with this process's standard streams.
    ///
    /// # Errors
    /// The failure of the tool, by its exit code; its message has already been printed.
    pub fn run(&mut self, name: &str, arguments: &[&str]) -> Result<(), Failure> {
        let shown: Vec<_> = arguments.iter().map(|a| cli::shell_word(a)).collect();
        self.console
            .say(&format!("$ mt-{name} {}", shown.join(" ")));
        let child = tool(name)
            .args(arguments)
            .spawn()
            .map_err(|error| unstarted(name, &error))?;
        let status = self.wait(child)?;
        // The tool has printed the reason. An empty folder is removed, because it would prevent the
        // next attempt.
        let kept = fs::remove_dir(self.folder).is_err();
        let folder = self.folder.display();
        if let Some(signal) = self.signals.arrived().first.or(status.signal()) {
            if kept {
                self.console.note(&format!(
                    "the documents so far are in {folder}; continue with the same command and --resume"
                ));
            }
            return Err(Failure::Signal(u8::try_from(signal).unwrap_or(u8::MAX)));
        }
        let stopped = |what: &str| match kept {
            false => format!("mt-{name} {what}"),
            true => format!(
                "mt-{name} {what}; the documents so far are in {folder}; fix what it reports, and continue with the same command and --resume"
            ),
        };
        match status.code() {
            Some(0) => Ok(()),
            Some(1) => Err(Failure::Negative(stopped("answered no"))),
            Some(2) => Err(Failure::Input(stopped("refused its input"))),
            code => Err(Failure::Environment(stopped(&format!(
                "ended with {}",
                code.unwrap_or_default()
            )))),
        }
    }

    /// Waits for a tool, and forwards signals that end this process; Ctrl-C reaches the tool
    /// directly.
    fn wait(&mut self, mut child: Child) -> Result<ExitStatus, Failure> {
        const LOOK: Duration = Duration::from_millis(20);
        let failed = |error: std::io::Error| Failure::Environment(error.to_string());
        let pid = child.id().cast_signed();
        let mut passed = self.signals.arrived().count;
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok(status);
            }
            let arrived = self.signals.arrived();
            if arrived.count > passed {
                passed = arrived.count;
                if let Some(signal) = arrived.first {
                    jobs::pass_on(pid, signal);
                }
            }
            std::thread::sleep(LOOK);
        }
    }
}
