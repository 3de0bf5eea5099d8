use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use crate::{Exit, Failure};

/// Maximum length of a line of standard input in bytes; the rest is cut off.
const LONGEST: u64 = 4096;

/// The lines of standard input as they arrive, read by a separate thread, for a tool that takes commands while it
/// works. The channel closes when standard input does.
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

/// Work of a guard (a second process of a tool, started by it): waits until the tool has ended, which closes its
/// standard input, and cleans up.
///
/// # Errors
/// [`Failure::Input`] if the directory to clean up is not the tool's own; [`Failure::Environment`]
/// if it cannot be cleaned.
pub fn guard(clean_up: impl FnOnce() -> io::Result<()>) -> Result<Exit, Failure> {
    // Use no thread, because a guard is needed most when none can be created. A read error also means that the tool
    // has ended.
    io::copy(&mut io::stdin().lock(), &mut io::sink()).ok();
    match clean_up() {
        Ok(()) => Ok(Exit::Done),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(Failure::Input(error.to_string()))
        }
        Err(error) => Err(Failure::Environment(error.to_string())),
    }
}

/// Writes a last message to standard output, then replaces it by `/dev/null`.
///
/// # Errors
/// If there is no reader.
pub fn last_word(word: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "{word}")?;
    stdout.flush()?;
    nix::unistd::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(())
}

/// Copies the output of a program to standard output as it arrives, and passes it to `seen`, until the program closes
/// its end. If the reader of standard output goes away, copying ends and the program sees a closed pipe, as it would
/// without this process.
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
