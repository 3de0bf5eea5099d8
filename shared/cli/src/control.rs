use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use crate::{Exit, Failure};

/// Longest line that is an order; more of it is cut off.
const LONGEST: u64 = 4096;

/// The lines of standard input as they come, read on a thread of their own, for a tool that is
/// directed while it works. The channel closes with standard input.
///
/// # Errors
/// [`Failure::Environment`] if the system cannot create another thread.
pub fn control_lines() -> Result<Receiver<String>, Failure> {
    let (sender, receiver) = sync_channel(64);
    in_background(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match stdin.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line);
            if sender.send(text.trim_end().to_owned()).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// Starts a detached thread.
///
/// # Errors
/// [`Failure::Environment`] if the system cannot create another thread.
pub fn in_background(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = thread::Builder::new().spawn(work);
    started.map_err(|error| Failure::Environment(format!("no thread: {error}")))?;
    Ok(())
}

/// Work of a guard (a second process of a tool, started by it): waits until the tool has ended,
/// which closes its standard input, and cleans up.
///
/// # Errors
/// [`Failure::Input`] if the directory to clean up is not the tool's own; [`Failure::Environment`]
/// if it cannot be cleaned.
pub fn guard(clean_up: impl FnOnce() -> io::Result<()>) -> Result<Exit, Failure> {
    // Without a thread: where none can be made, a guard is needed most. A failure to read is an end.
    io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
    match clean_up() {
        Ok(()) => Ok(Exit::Done),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(Failure::Input(error.to_string()))
        }
        Err(error) => Err(Failure::Environment(error.to_string())),
    }
}

/// Says a word to the process that reads standard output, and lets go of it: from then on standard
/// output is `/dev/null`.
///
/// # Errors
/// If nobody reads.
pub fn last_word(word: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "{word}")?;
    stdout.flush()?;
    nix::unistd::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(())
}

/// Copies what a program writes to standard output as it comes, and shows it to `seen`, until the
/// program has closed its end. If the reader of standard output has gone, the copying ends, and the
/// program meets a closed pipe as it would without this process.
///
/// # Errors
/// If the program's output cannot be read, or standard output cannot be written.
pub fn pass_through(mut program: impl Read, mut seen: impl FnMut(&[u8])) -> io::Result<()> {
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let n = match program.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        seen(&chunk[..n]);
        let mut stdout = io::stdout().lock();
        stdout.write_all(&chunk[..n])?;
        stdout.flush()?;
    }
}
