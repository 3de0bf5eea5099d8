//! Commands from a user during a run: events from a file, or from a program through a pipe.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use cli::{Console, Failure, each_event, in_background};
use doc::QueueEvent;

/// Events that were read but not handled yet.
pub(crate) struct Orders {
    receiver: Option<Receiver<Result<QueueEvent, String>>>,
    /// Events with a later time.
    later: VecDeque<QueueEvent>,
    /// An error of reading, until it is reported.
    wrong: Option<String>,
}

impl Orders {
    /// Reads events. A file is read completely at once, so that a continued run starts nothing on a GPU that an event
    /// reports as lost; a pipe is read in the background. Without a path there are no events.
    ///
    /// # Errors
    /// [`Failure::Input`] if the file does not exist; [`Failure::Environment`] if no thread can be created.
    pub fn open(path: Option<&Path>, console: &Console) -> Result<Self, Failure> {
        let mut own = Self {
            receiver: None,
            later: VecDeque::new(),
            wrong: None,
        };
        let Some(path) = path else {
            return Ok(own);
        };
        let is_file = path != Path::new("-")
            && fs::metadata(path)
                .map_err(|error| Failure::file(path, &error))?
                .is_file();
        if is_file {
            read(path, console, |read| own.take(read));
            return Ok(own);
        }
        let (sender, receiver) = sync_channel(64);
        let path = PathBuf::from(path);
        let console = console.clone();
        in_background(move || {
            // Sending fails after the run has ended.
            read(&path, &console, |read| drop(sender.send(read)));
        })?;
        own.receiver = Some(receiver);
        Ok(own)
    }

    fn take(&mut self, read: Result<QueueEvent, String>) {
        match read {
            Ok(event) => self.later.push_back(event),
            Err(problem) => self.wrong = Some(problem),
        }
    }

    /// Events that are due, and an error of reading. Events with a time in the past take effect now.
    pub fn due(&mut self, now: f64) -> (Vec<QueueEvent>, Option<String>) {
        while let Some(receiver) = &self.receiver {
            match receiver.try_recv() {
                Ok(read) => self.take(read),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.receiver = None,
            }
        }
        let ready = |e: &QueueEvent| e.time.get() <= now;
        let mut due = Vec::new();
        while self.later.front().is_some_and(ready) {
            due.extend(self.later.pop_front());
        }
        (due, self.wrong.take())
    }

    /// Whether no further events can come.
    pub fn is_over(&self) -> bool {
        self.receiver.is_none() && self.later.is_empty() && self.wrong.is_none()
    }
}

/// Passes on the events of a file or a pipe as they come, and at the end an error of reading.
fn read(path: &Path, console: &Console, mut pass: impl FnMut(Result<QueueEvent, String>)) {
    let read = each_event(path, "events", false, console, |frame| {
        let event = QueueEvent::read(frame).map_err(|error| error.to_string());
        Ok(event.map(|event| pass(Ok(event))))
    });
    if let Err(failure) = read {
        pass(Err(failure.to_string()));
    }
}
