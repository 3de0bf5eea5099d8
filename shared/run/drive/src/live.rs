//! Drives a live system: reads its events, and tells it which tasks to start.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cli::{Console, Existing, Failure, Input, Output, each_event};
use cluster::{OnlineSettings, Queue};
use doc::{Cluster, QueueEvent};

/// Number of late events that are reported individually; further ones are counted.
const TOLD: u64 = 5;

/// Reads the events of a live system about the jobs of the cluster in a file, one event per line, until the events end.
/// Writes the tasks that the system must start, as they are decided. Invalid lines are skipped, unless `strict` is set.
///
/// # Errors
/// [`Failure::Usage`] unless there is exactly one file; [`Failure::Input`] for a file without a cluster, for events
/// that cannot be read and, with `strict`, for the first invalid line; errors of writing.
pub fn live(
    files: &[PathBuf],
    settings: OnlineSettings,
    events: &Path,
    strict: bool,
    output: Option<&Path>,
    console: &Console,
) -> Result<(), Failure> {
    let [file] = files else {
        let text = "--events: give the one FILE with the cluster, beside the events";
        return Err(Failure::Usage(text.to_owned()));
    };
    let mut clusters = Input::open(files, "a cluster", console)?.documents();
    let nothing = || Failure::Input(format!("{}: there is no cluster", file.display()));
    let cluster: Cluster = clusters.next().ok_or_else(nothing)??;
    let mut output = Output::progressive(output, Existing::default())?;
    let mut queue = Queue::new(cluster, settings);
    let mut slowest = Duration::ZERO;
    let mut late = 0_u64;
    each_event(events, "events", strict, console, |frame| {
        let event = match QueueEvent::read(frame) {
            Ok(event) => event,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let place = format!("{}:{}", frame.source_name, frame.line);
        let before = Instant::now();
        let taken = match queue.take(&event) {
            Ok(taken) => taken,
            Err(refused) => return Ok(Err(format!("{place}: {refused}"))),
        };
        slowest = slowest.max(before.elapsed());
        if let Some(seconds) = taken.late {
            late += 1;
            if late <= TOLD {
                console.warn(&format!(
                    "{place}: {seconds} s earlier than an event before it; it counts as if it happened now"
                ));
            }
        }
        for start in &taken.starts {
            output.record(start)?;
        }
        if let Some(status) = &taken.status {
            output.record(status)?;
        }
        Ok(Ok(()))
    })?;
    if late > TOLD {
        console.warn(&format!("{late} events came after later ones in all"));
    }
    let (done, jobs) = queue.done();
    let rest = if done {
        "all are complete"
    } else {
        "not all are complete"
    };
    console.note(&format!(
        "{jobs} jobs arrived, {rest}; the slowest answer took {:.1} ms",
        1e3 * slowest.as_secs_f64()
    ));
    output.finish()?;
    Ok(())
}
