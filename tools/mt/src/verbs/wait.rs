//! Waits until jobs have ended.

use std::collections::BTreeSet;
use std::time::Duration;

use cli::{Console, Exit, Failure};
use jobs::Signals;

use super::args::WaitArgs;
use super::speak::{failure, open, say_json, unknown};
use queue::book::Id;
use queue::client::Queue;
use queue::message::{JobStatus, Status, Word};
use queue::show;

/// Polling interval of a waiting client.
const LOOK: Duration = Duration::from_millis(300);
/// Number of jobs per query; the ones with the lowest numbers come first. Asking about a hundred thousand jobs three
/// times a second would keep the server from starting any.
const WINDOW: usize = 1000;

/// Waits until jobs have ended, and reports each; `ended` is called for each as well.
pub(crate) fn wait_for(
    queue: &Queue,
    ids: &[Id],
    json: bool,
    console: &Console,
    mut ended: impl FnMut(&JobStatus) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut signals = Signals::install(&cli::ending_signals())
        .map_err(|error| Failure::Environment(error.to_string()))?;
    let mut left: BTreeSet<Id> = ids.iter().copied().collect();
    let all = left.len();
    let mut good = true;
    while !left.is_empty() {
        let window: Vec<Id> = left.iter().take(WINDOW).copied().collect();
        let status = queue.served_status(&window).map_err(failure)?;
        if !status.unknown.is_empty() {
            return Err(unknown(&status.unknown));
        }
        let before = left.len();
        for job in status.jobs.iter().filter(|job| job.state.is_ended()) {
            left.remove(&job.id);
            good &= job.state.is_good();
            ended(job)?;
            match json {
                true => say_json(job)?,
                false if job.state.is_good() => console.say(&show::ended(job)),
                false => console.warn(&show::ended(job)),
            }
        }
        if console.can_redraw() && !json {
            console.redraw(&far(all, &left, &status, console));
        }
        if let Some(signal) = signals.arrived().first {
            return Err(Failure::Signal(u8::try_from(signal).unwrap_or(u8::MAX)));
        }
        // If the whole window has ended, later jobs may have ended too.
        if before - left.len() < window.len() {
            std::thread::sleep(LOOK);
        }
    }
    Ok(if good { Exit::Done } else { Exit::Negative })
}

/// Progress of jobs, in one line.
fn far(all: usize, left: &BTreeSet<Id>, status: &Status, console: &Console) -> String {
    let running = status
        .jobs
        .iter()
        .filter(|job| job.state == Word::Running)
        .count();
    let line = format!(
        "{} of {all} ended, {running} running, {} waiting",
        all - left.len(),
        left.len().saturating_sub(running)
    );
    console.cut(&line)
}

/// Waits for jobs; without numbers, for all jobs, including those that failed earlier.
///
/// # Errors
/// [`Failure`] of the queue.
pub fn wait(args: &WaitArgs, console: &Console) -> Result<Exit, Failure> {
    let queue = open(&args.queue.dir)?;
    let mut ids = args.ids.ids();
    if ids.is_empty() {
        let status = queue.everything().map_err(failure)?;
        let covers = |job: &&JobStatus| !job.state.is_ended() || job.state.is_bad();
        ids = status
            .jobs
            .iter()
            .filter(covers)
            .map(|job| job.id)
            .collect();
    }
    wait_for(&queue, &ids, args.queue.json, console, |_| Ok(()))
}
