//! A bounded queue in front of a writer that may stall, so that a supervisor of processes never
//! waits for a reader.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Priority of a line when the queue fills up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// Dropped once the queue is half full, so that the other half stays free for important lines.
    Minor,
    /// Dropped only if the queue is full.
    Major,
}

/// Lines on their way to a writer in a separate thread.
#[derive(Debug, Clone)]
pub struct Spool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    change: Condvar,
    /// Maximum number of waiting bytes.
    room: usize,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether a line has been taken and is being written.
    writing: bool,
    /// Lines that were dropped or could not be written.
    lost: u64,
    /// The first failure of the writer that has not been reported.
    failure: Option<io::Error>,
}

impl Spool {
    /// Starts a thread that calls `write` for each line, in order. The queue holds at most `room` bytes.
    ///
    /// # Errors
    /// If the system cannot create another thread.
    pub fn start(
        room: usize,
        mut write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            change: Condvar::new(),
            room,
        });
        let worker = Arc::clone(&shared);
        // The thread is never joined, because it may be blocked in a write; it ends with the process.
        thread::Builder::new()
            .name("spool".to_owned())
            .spawn(move || {
                loop {
                    let line = worker.take();
                    let written = write(&line);
                    worker.wrote(written);
                }
            })?;
        Ok(Self { shared })
    }

    /// Queues a line, or drops it if there is no room. Never waits for the writer.
    ///
    /// # Errors
    /// The first unreported failure of the writer, or an error if there is no room.
    pub fn push(&self, line: Vec<u8>, worth: Worth) -> io::Result<()> {
        let mut state = self.shared.lock();
        let room = match worth {
            Worth::Minor => self.shared.room / 2,
            Worth::Major => self.shared.room,
        };
        let fits = self.add(&mut state, line, room);
        state.lost += u64::from(!fits);
        match state.failure.take() {
            Some(error) => Err(error),
            None if fits => Ok(()),
            None => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "the reader does not read",
            )),
        }
    }

    /// Queues a line if the queue is less than half full; returns whether it did. It is for lines that the next
    /// one of their kind supersedes, so a dropped line does not count as lost.
    ///
    /// # Errors
    /// The first unreported failure of the writer; the line is then dropped.
    pub(crate) fn offer(&self, line: Vec<u8>) -> io::Result<bool> {
        let mut state = self.shared.lock();
        if let Some(error) = state.failure.take() {
            return Err(error);
        }
        Ok(self.add(&mut state, line, self.shared.room / 2))
    }

    /// Appends a line if at most `room` bytes are queued; returns whether it did.
    fn add(&self, state: &mut State, line: Vec<u8>, room: usize) -> bool {
        // A line that is larger than the whole queue is accepted if the queue is empty, because it may be a
        // plan.
        let fits = state.bytes + line.len() <= room || state.lines.is_empty();
        if fits {
            state.bytes += line.len();
            state.lines.push_back(line);
            self.shared.change.notify_all();
        }
        fits
    }

    /// Lines that were dropped or could not be written.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lock().lost
    }

    /// Waits until everything has been written, or until `give_up` returns true (it is called every 50 ms).
    ///
    /// # Errors
    /// A failure of the writer, or the number of lines that are left.
    pub(crate) fn drain(&self, mut give_up: impl FnMut() -> bool) -> io::Result<()> {
        const LOOK: Duration = Duration::from_millis(50);
        let mut state = self.shared.lock();
        while state.writing || !state.lines.is_empty() {
            if give_up() {
                let left = state.lines.len() + usize::from(state.writing);
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("the reader does not read; {left} lines were not taken"),
                ));
            }
            let waited = self.shared.change.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Like [`Spool::drain`], for at most `patience`.
    ///
    /// # Errors
    /// Like [`Spool::drain`].
    pub(crate) fn drain_within(&self, patience: Duration) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        self.drain(|| Instant::now() >= deadline)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<u8> {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.lines.pop_front() {
                // The line being written does not count, because it may be a plan that is larger than the queue.
                state.bytes -= line.len();
                state.writing = true;
                return line;
            }
            state = self
                .change
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wrote(&self, written: io::Result<()>) {
        let mut state = self.lock();
        state.writing = false;
        if let Err(error) = written {
            state.lost += 1;
            state.failure.get_or_insert(error);
        }
        self.change.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn lines_come_out_in_order_and_failures_are_told_once() {
        let (sender, receiver) = mpsc::channel();
        let spool = Spool::start(1 << 20, move |line| {
            sender.send(line.to_vec()).ok();
            if line == b"bad" {
                Err(io::Error::other("no"))
            } else {
                Ok(())
            }
        })
        .unwrap();
        for line in ["a", "b", "bad"] {
            spool.push(line.into(), Worth::Major).unwrap();
        }
        let patience = Duration::from_secs(20);
        assert!(spool.drain_within(patience).is_err());
        assert_eq!(spool.lost(), 1);
        spool.push("c".into(), Worth::Major).unwrap();
        spool.drain_within(patience).unwrap();
        let got: Vec<Vec<u8>> = receiver.try_iter().collect();
        assert_eq!(got, [&b"a"[..], b"b", b"bad", b"c"]);
    }

    #[test]
    fn a_writer_that_stalls_holds_nobody_up() {
        let (go, wait) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let spool = Spool::start(1000, move |line| {
            wait.recv().ok();
            sender.send(line.len()).ok();
            Ok(())
        })
        .unwrap();
        let begun = Instant::now();
        // Larger than the queue, but accepted because the queue is empty.
        spool.push(vec![0; 5000], Worth::Major).unwrap();
        while spool.shared.lock().lines.len() == 1 {
            thread::yield_now();
        }
        let minor = (0..20)
            .filter(|_| spool.push(vec![0; 100], Worth::Minor).is_ok())
            .count();
        assert!(!spool.offer(vec![0; 100]).unwrap());
        let major = (0..20)
            .filter(|_| spool.push(vec![0; 100], Worth::Major).is_ok())
            .count();
        assert_eq!((minor, major, spool.lost()), (5, 5, 30));
        assert!(spool.drain_within(Duration::from_millis(20)).is_err());
        assert!(begun.elapsed() < Duration::from_secs(10));
        drop(go);
        spool.drain_within(Duration::from_secs(20)).unwrap();
        assert_eq!(receiver.try_iter().count(), 1 + minor + major);
    }
}
