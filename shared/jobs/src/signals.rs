use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Signals that ask this process to end.
///
/// They no longer end it by themselves once this exists; whoever holds it must act on them.
#[derive(Debug)]
pub struct Signals {
    pipes: Vec<(i32, UnixStream)>,
    arrived: Arrived,
}

/// What has arrived so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrived {
    /// The first signal.
    pub first: Option<i32>,
    /// How many in all.
    pub count: u32,
}

impl Signals {
    /// Listens to the given signals.
    ///
    /// # Errors
    /// If the system has no room for another pipe.
    pub fn install(signals: &[i32]) -> io::Result<Self> {
        let pipes = signals
            .iter()
            .map(|&signal| Ok((signal, pipe_of(signal)?)))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            pipes,
            arrived: Arrived::default(),
        })
    }

    /// Takes note of what has arrived.
    pub fn arrived(&mut self) -> Arrived {
        for (signal, pipe) in &mut self.pipes {
            let count = drain(pipe);
            if count > 0 {
                self.arrived.first.get_or_insert(*signal);
                self.arrived.count = self.arrived.count.saturating_add(count);
            }
        }
        self.arrived
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pipes.iter().map(|(_, pipe)| pipe.as_fd())
    }
}

/// A pipe that gets a byte for every signal of one kind.
pub(crate) fn pipe_of(signal: i32) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal, write)?;
    Ok(read)
}

/// Empties a pipe; how many bytes there were.
pub(crate) fn drain(pipe: &mut UnixStream) -> u32 {
    let mut buffer = [0; 64];
    let mut count = 0u32;
    while let Ok(n @ 1..) = pipe.read(&mut buffer) {
        count = count.saturating_add(n as u32);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::SIGTERM;

    #[test]
    fn remembers_the_first_and_counts() {
        let mut signals = Signals::install(&[SIGTERM]).unwrap();
        assert_eq!(signals.arrived(), Arrived::default());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        let arrived = signals.arrived();
        assert_eq!((arrived.first, arrived.count), (Some(SIGTERM), 2));
    }
}
