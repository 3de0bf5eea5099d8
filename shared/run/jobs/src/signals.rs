use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Signals that ask this process to end.
///
/// While this value exists, these signals do not end the process; the holder must react to them.
#[derive(Debug)]
pub struct Signals {
    pipes: Vec<(i32, UnixStream)>,
    arrived: Arrived,
}

/// Signals that have arrived so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrived {
    /// The first signal.
    pub first: Option<i32>,
    /// Number of signals in total.
    pub count: u32,
}

impl Signals {
    /// Listens to the given signals.
    ///
    /// # Errors
    /// If no pipe can be created.
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

    /// Reads the signals that have arrived.
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

/// Forwards signals to `child`, from its own thread, until this process ends. Ctrl-C and Ctrl-\\ reach every process
/// of the terminal's foreground group directly, so they are forwarded only if this process is not in that group: many
/// programs treat a second interrupt as a request to end at once.
///
/// # Errors
/// If no thread or pipe can be created.
pub fn relay(child: i32) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    let all = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
    let mut signals = signal_hook::iterator::Signals::new(all)?;
    std::thread::Builder::new().spawn(move || {
        for signal in signals.forever() {
            pass_on(child, signal);
        }
    })?;
    Ok(())
}

/// Forwards one signal to `child`, unless the terminal has already sent it (see [`relay`]).
pub fn pass_on(child: i32, signal: i32) {
    use signal_hook::consts::{SIGINT, SIGQUIT};
    if matches!(signal, SIGINT | SIGQUIT) && in_foreground() {
        return;
    }
    if let Ok(signal) = nix::sys::signal::Signal::try_from(signal) {
        // Fails if the process has just ended, which is harmless.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), signal).ok();
    }
}

/// Whether this process is in the foreground group of its terminal.
fn in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    let group = terminal.ok().and_then(|t| nix::unistd::tcgetpgrp(t).ok());
    group == Some(nix::unistd::getpgrp())
}

/// A pipe that gets a byte for every signal of one kind.
pub(crate) fn pipe_of(signal: i32) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal, write)?;
    Ok(read)
}

/// Empties a pipe; returns the number of bytes.
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
