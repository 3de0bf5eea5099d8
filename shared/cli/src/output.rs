//! Destinations of documents. One policy for every output of every tool:
//!
//! - a file is written beside its target under a temporary name and then renamed, so that readers see either the old
//!   or the new file; a symbolic link is resolved first and stays in place;
//! - an output that is also an input, under any name, is rejected before anything is written;
//! - if input is rejected, the old file stays unchanged;
//! - an existing profile or run is replaced only on request;
//! - on a terminal, a summary replaces the document unless the whole document is requested
//!   ([`summarise_by`]).

mod existing;
mod file;

use std::borrow::Cow;
use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use doc::Document;
use signal_hook::iterator::Signals;

use crate::console::columns;
use crate::files::{self, Destination};
use crate::signals::ending_signals;
use crate::spool::{Spool, Worth};
use crate::{Console, Exit, Failure, startup, terminal};
pub use existing::Existing;
use existing::keep;
use file::{Appears, OutputFile};

/// A summary of documents for a terminal of a width; `None` if there is none.
type Summary = fn(&[u8], Option<u16>) -> Option<String>;

static SUMMARY: OnceLock<Summary> = OnceLock::new();

/// From now on, `summary` replaces documents on a terminal. A tool calls it before [`crate::run`]; without it, the
/// terminal shows the documents.
pub fn summarise_by(summary: Summary) {
    // Only the first call counts, and a program has one.
    let _ = SUMMARY.set(summary);
}

/// Documents to summarise at the end.
#[derive(Debug, Default)]
struct Held {
    documents: Vec<u8>,
    /// Whether records of profiles and runs are summarised, too. Tools that answer event by event cannot do that.
    records: bool,
}

impl Held {
    fn take<D: Document>(&mut self, document: &D) -> Result<(), Failure> {
        doc::write_line(&mut self.documents, document).map_err(|error| Failure::write(&error))
    }

    /// The summary; for documents without one, the documents themselves.
    fn summary(&self, width: Option<u16>) -> String {
        let summary = SUMMARY.get().and_then(|of| of(&self.documents, width));
        summary.unwrap_or_else(|| String::from_utf8_lossy(&self.documents).into_owned())
    }
}

/// Destination of documents: standard output or a file.
pub struct Output {
    target: Target,
    pretty: bool,
    /// Whether the output goes to a terminal, for which it is escaped.
    terminal: bool,
    /// Documents to summarise at the end instead of printing them.
    held: Option<Held>,
    /// Number of records that could not be written.
    lost: u64,
}

enum Target {
    Direct(Sink),
    Queued(Queue),
}

enum Sink {
    Stream(BufWriter<Box<dyn Write + Send>>),
    File(OutputFile),
}

/// A sink behind a [`Spool`].
struct Queue {
    spool: Spool,
    sink: Arc<Mutex<Sink>>,
    /// Set by a signal that asks this process to end.
    ended: Arc<AtomicBool>,
}

/// Maximum number of queued bytes of records: some forty thousand progress events.
const QUEUE_BYTES: usize = 8 << 20;
/// Maximum time that the tool waits for the reader after a signal has asked it to end.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

impl Output {
    /// Standard output, or a file that appears complete when [`Output::finish`] is called. Without that call it never
    /// appears, even if a signal ends the tool.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the file is an input; [`Failure::Input`] if it cannot be created;
    /// [`Failure::Environment`] if standard output is closed.
    pub fn open(path: Option<&Path>, pretty: bool) -> Result<Self, Failure> {
        let Some(path) = path.filter(|p| p.as_os_str() != "-") else {
            return Self::stdout(pretty);
        };
        let sink = match files::writes(path)? {
            Destination::Stream(path) => stream(files::open_stream(&path)?),
            Destination::File(target) => {
                let file = OutputFile::create(&target, Appears::Complete)?;
                if let Some(temporary) = file.temporary() {
                    // The file is fine, but the system cannot create another thread.
                    remove_on_signal(temporary.to_owned())
                        .map_err(|error| Failure::Environment(format!("no thread: {error}")))?;
                }
                Sink::File(file)
            }
        };
        Ok(Self::direct(sink, pretty))
    }

    /// A file that grows record by record, so that a valid prefix survives any failure. It appears under its name
    /// with the first record. `None` or `-` means standard output.
    ///
    /// # Errors
    /// Like [`Output::open`]; [`Failure::Usage`] if the file contains a profile or run that must be kept.
    pub fn progressive(path: Option<&Path>, existing: Existing<'_>) -> Result<Self, Failure> {
        let Some(path) = path.filter(|p| p.as_os_str() != "-") else {
            let mut output = Self::open(None, false)?;
            if let Some(held) = &mut output.held {
                held.records = true;
            }
            return Ok(output);
        };
        let sink = match files::writes(path)? {
            Destination::Stream(path) => stream(files::open_stream(&path)?),
            Destination::File(target) => {
                if !existing.replace && !existing.is(&target) {
                    keep(&target, path)?;
                }
                let appears = match existing.continues {
                    Some(_) => Appears::Settled,
                    None => Appears::FirstRecord,
                };
                Sink::File(OutputFile::create(&target, appears)?)
            }
        };
        Ok(Self::direct(sink, false))
    }

    fn stdout(pretty: bool) -> Result<Self, Failure> {
        if startup::stdout_was_closed() {
            return Err(Failure::Environment(
                "standard output is closed, so there is nowhere to write; redirect it, or give \
                 --output FILE"
                    .to_owned(),
            ));
        }
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        Ok(Self {
            terminal,
            held: (terminal && !pretty).then(Held::default),
            ..Self::direct(stream(stdout), pretty)
        })
    }

    fn direct(sink: Sink, pretty: bool) -> Self {
        Self {
            target: Target::Direct(sink),
            pretty,
            terminal: false,
            held: None,
            lost: 0,
        }
    }

    /// Starts a separate thread that writes records from now on, so that [`Output::record`] never waits for a reader.
    /// Call this after the handlers of ending signals are installed, so that a signal can end an [`Output::finish`]
    /// that waits for a reader.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the system cannot create another thread.
    pub fn queue(&mut self) -> Result<(), Failure> {
        if matches!(self.target, Target::Queued(_)) {
            return Ok(());
        }
        let failed = |error: io::Error| Failure::Environment(format!("no thread: {error}"));
        let ended = Arc::new(AtomicBool::new(false));
        for signal in ending_signals() {
            signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(failed)?;
        }
        let placeholder = Target::Direct(stream(io::sink()));
        let Target::Direct(sink) = std::mem::replace(&mut self.target, placeholder) else {
            return Ok(());
        };
        let sink = Arc::new(Mutex::new(sink));
        let writer = Arc::clone(&sink);
        let spool = Spool::start(QUEUE_BYTES, move |line| {
            let mut sink = writer.lock().unwrap_or_else(PoisonError::into_inner);
            sink.record(line)
        })
        .map_err(failed)?;
        self.target = Target::Queued(Queue { spool, sink, ended });
        Ok(())
    }

    /// Makes a file appear under its name now, for an output that continues an earlier file (`--resume`); later
    /// records are appended. Does nothing for other outputs.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the file cannot be written or replaced.
    pub fn settle(&mut self) -> Result<(), Failure> {
        match &mut self.target {
            Target::Direct(Sink::File(file)) => file.settle().map_err(|e| Failure::write(&e)),
            _ => Ok(()),
        }
    }

    /// Columns of the output's terminal; `None` if it is not a terminal or has no width.
    #[must_use]
    pub fn width(&self) -> Option<u16> {
        columns(io::stdout()).filter(|_| self.terminal)
    }

    /// Records that could not be written so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match &self.target {
            Target::Direct(_) => self.lost,
            Target::Queued(queue) => queue.spool.lost(),
        }
    }

    /// Writes one complete document, and flushes it.
    ///
    /// # Errors
    /// [`Failure::ClosedPipe`] if the reader has gone, otherwise [`Failure::Environment`].
    pub fn document<D: Document>(&mut self, document: &D) -> Result<(), Failure> {
        if let Some(held) = &mut self.held {
            return held.take(document);
        }
        if self.terminal {
            let mut bytes = Vec::new();
            doc::write_pretty(&mut bytes, document).map_err(|error| Failure::write(&error))?;
            return self.text(&String::from_utf8_lossy(&bytes));
        }
        let pretty = self.pretty;
        self.write(|writer| {
            if pretty {
                doc::write_pretty(writer, document)
            } else {
                doc::write_line(writer, document)
            }
        })
    }

    /// Writes one record of a profile or a run on its own line, and flushes it.
    ///
    /// # Errors
    /// Like [`Output::document`]; if records are queued, also if an earlier write failed or the queue is full.
    pub fn record<D: Document>(&mut self, record: &D) -> Result<(), Failure> {
        self.line(record, |spool, line| {
            spool.push(line, Worth::Major).map(|()| true)
        })
        .map(drop)
    }

    /// Like [`Output::record`], for a record that the next one supersedes, such as progress. Returns whether it will
    /// be written. If the queue is half full, it is dropped, and does not count as lost.
    ///
    /// # Errors
    /// Like [`Output::record`], except that a full queue is no error.
    pub fn minor_record<D: Document>(&mut self, record: &D) -> Result<bool, Failure> {
        self.line(record, Spool::offer)
    }

    fn line<D: Document>(
        &mut self,
        record: &D,
        queued: impl FnOnce(&Spool, Vec<u8>) -> io::Result<bool>,
    ) -> Result<bool, Failure> {
        if let Some(held) = self.held.as_mut().filter(|held| held.records) {
            return held.take(record).map(|()| true);
        }
        let mut line = Vec::new();
        let written = doc::write_line(&mut line, record).and_then(|()| match &mut self.target {
            Target::Direct(sink) => sink.record(&line).map(|()| true),
            Target::Queued(queue) => queued(&queue.spool, line),
        });
        self.lost += u64::from(written.is_err());
        written.map_err(|error| Failure::write(&error))
    }

    /// Writes text that is the tool's result: a table, a picture, a schema.
    ///
    /// # Errors
    /// Like [`Output::document`].
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        let text = if self.terminal {
            terminal(text)
        } else {
            Cow::Borrowed(text)
        };
        self.write(|writer| writer.write_all(text.as_bytes()))
    }

    fn write(
        &mut self,
        product: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let written = match &mut self.target {
            Target::Direct(sink) => sink.write(product),
            Target::Queued(queue) => {
                let mut bytes = Vec::new();
                product(&mut bytes).and_then(|()| queue.spool.push(bytes, Worth::Major))
            }
        };
        written.map_err(|error| Failure::write(&error))
    }

    /// Like [`Output::finish`], for the events of jobs that ended with `exit`. A closed pipe does not change this
    /// exit, because it reports how the jobs ended. After a signal, the exit stays that of the signal, and events
    /// that could not be written are only reported.
    ///
    /// # Errors
    /// Like [`Output::finish`], except for a closed pipe and after a signal.
    pub fn finish_events(self, exit: Exit, console: &Console) -> Result<Exit, Failure> {
        match (self.finish(), exit) {
            (Err(Failure::ClosedPipe), _) => {}
            (Err(failure), Exit::Signal(_)) => console.error(&failure.to_string()),
            (finished, _) => finished?,
        }
        Ok(exit)
    }

    /// Makes a file appear under its name. It first waits until queued records are written, without a time limit;
    /// after a signal, at most two seconds.
    ///
    /// # Errors
    /// [`Failure::Environment`] if the last bytes cannot be written.
    pub fn finish(mut self) -> Result<(), Failure> {
        if let Some(held) = self.held.take() {
            let width = self.width();
            self.text(&held.summary(width))?;
        }
        let finished = match self.target {
            Target::Direct(mut sink) => sink.finish(),
            Target::Queued(queue) => queue.finish(),
        };
        finished.map_err(|error| Failure::write(&error))
    }
}

impl Sink {
    fn write(&mut self, product: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let writer: &mut dyn Write = match self {
            Sink::Stream(writer) => writer,
            Sink::File(file) => file.writer()?,
        };
        product(writer)?;
        writer.flush()
    }

    fn record(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Sink::Stream(writer) => writer.write_all(line).and_then(|()| writer.flush()),
            Sink::File(file) => file.record(line),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Sink::Stream(writer) => writer.flush(),
            Sink::File(file) => file.finish(),
        }
    }
}

impl Queue {
    fn finish(self) -> io::Result<()> {
        let mut asked = None;
        self.spool.drain(|| {
            self.ended.load(Ordering::Relaxed)
                && asked.get_or_insert_with(Instant::now).elapsed() >= LAST_PATIENCE
        })?;
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.finish()
    }
}

/// A small file that is rewritten repeatedly, each time as a whole.
#[derive(Debug, Clone)]
pub struct Replaced {
    destination: Destination,
}

impl Replaced {
    /// Registers the file at `path` as an output, without writing to it.
    ///
    /// # Errors
    /// Like [`Output::open`].
    pub fn claim(path: &Path) -> Result<Self, Failure> {
        let destination = files::writes(path)?;
        Ok(Self { destination })
    }

    /// Replaces the content of the file.
    ///
    /// # Errors
    /// Any error of writing to it.
    pub fn write(&self, content: &[u8]) -> io::Result<()> {
        match &self.destination {
            Destination::File(target) => file::replace(target, content),
            Destination::Stream(path) => {
                let mut stream = fs::OpenOptions::new().append(true).open(path)?;
                stream.write_all(content)
            }
        }
    }
}

fn stream(writer: impl Write + Send + 'static) -> Sink {
    Sink::Stream(BufWriter::with_capacity(1 << 16, Box::new(writer)))
}

/// Removes a temporary file when a signal ends the tool.
fn remove_on_signal(temporary: PathBuf) -> io::Result<()> {
    let mut signals = Signals::new(ending_signals())?;
    thread::Builder::new().spawn(move || {
        for signal in signals.forever() {
            // The file may already have been renamed; then there is nothing to remove.
            fs::remove_file(&temporary).ok();
            signal_hook::low_level::emulate_default_handler(signal).ok();
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_summary_is_shown_as_it_is() {
        let held = Held {
            documents: b"{\"schema\":\"mt.devices/1\"}\n".to_vec(),
            records: false,
        };
        assert_eq!(held.summary(None), "{\"schema\":\"mt.devices/1\"}\n");
        assert_eq!(Held::default().summary(None), "");
    }
}
