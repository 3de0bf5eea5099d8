//! `mt-cluster online --events`.

use std::path::Path;
use std::time::{Duration, Instant};

use cli::{Console, Existing, Exit, Failure, Input, Output, each_event};
use cluster::{Queue, Settings};
use doc::{Cluster, QueueEvent};

use crate::args::OnlineArgs;

/// Reads what a live system tells, and writes what it is to start, until the events end.
pub fn run(
    args: &OnlineArgs,
    events: &Path,
    settings: Settings,
    console: &Console,
) -> Result<Exit, Failure> {
    let [file] = &args.stream.files[..] else {
        let text = "--events: give the one FILE with the cluster, beside the events";
        return Err(Failure::Usage(text.to_owned()));
    };
    let mut clusters = Input::open(std::slice::from_ref(file), "a cluster", console)?.documents();
    let Some(cluster) = clusters.next() else {
        return Err(Failure::Input(format!(
            "{}: there is no cluster",
            file.display()
        )));
    };
    let cluster: Cluster = cluster?;
    let mut queue = Queue::new(cluster, settings);
    let existing = Existing {
        replace: false,
        continues: None,
    };
    let mut output = Output::progressive(args.stream.output.as_deref(), existing)?;
    let mut slowest = Duration::ZERO;
    each_event(events, "events", args.strict, console, |frame| {
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
        if let Some(late) = taken.late {
            console.warn(&format!(
                "{place}: {late} s before an event that came first; it counts as if it happened now"
            ));
        }
        for start in &taken.starts {
            output.record(start)?;
        }
        Ok(Ok(()))
    })?;
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
    Ok(Exit::Done)
}
