use std::io::{BufRead, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Longest line that is an order; more of it is cut off.
const LONGEST: u64 = 4096;

/// The lines of standard input as they come, read on a thread of their own, for a tool that is
/// directed while it works. The channel closes with standard input.
#[must_use]
pub fn control_lines() -> Receiver<String> {
    let (sender, receiver) = sync_channel(64);
    thread::spawn(move || {
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
    });
    receiver
}
