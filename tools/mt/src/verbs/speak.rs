//! Common parts of all queue commands: opening the queue of the arguments, and printing answers.

use cli::{Console, Exit, Failure, Output};
use serde::Serialize;

use super::args::QueueDir;
use queue::book::Id;
use queue::client::{ClientError, Queue};

/// Converts a failure of the queue into one of the tool, with its exit status.
#[must_use]
pub fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(why) => Failure::Usage(why),
        ClientError::Failed(_) | ClientError::Io { .. } | ClientError::Start(_) => {
            Failure::Environment(error.to_string())
        }
    }
}

/// The queue of the arguments.
///
/// # Errors
/// [`Failure`] if its folder cannot be used.
pub fn open(queue: &QueueDir) -> Result<Queue, Failure> {
    Queue::open(queue.folder.as_deref()).map_err(failure)
}

pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut output = Output::open(None, false)?;
    output.text(text)?;
    output.finish()
}

pub(crate) fn say_json<T: Serialize>(what: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(what).map_err(|e| Failure::Environment(e.to_string()))?;
    say(&(text + "\n"))
}

/// An action and the jobs that it changed, printed as JSON.
#[derive(Serialize)]
pub(crate) struct Changed {
    pub(crate) jobs: Vec<Id>,
}

/// Job numbers as ranges, as `mt cancel` reads them, so that 300 jobs need only a few words.
pub(crate) fn ranges(ids: &[Id]) -> String {
    let ranges = ids
        .chunk_by(|a, b| a.0 + 1 == b.0)
        .map(|range| match range {
            [first, .., last] => format!("{first}-{last}"),
            [id] => id.to_string(),
            [] => String::new(),
        });
    ranges.collect::<Vec<_>>().join(" ")
}

pub(crate) fn report(
    json: bool,
    changed: &[Id],
    what: &str,
    console: &Console,
) -> Result<Exit, Failure> {
    if json {
        say_json(&Changed {
            jobs: changed.to_vec(),
        })?;
    } else {
        console.say(&match changed.is_empty() {
            true => format!("no job was {what}"),
            false => format!("{what}: {}", ranges(changed)),
        });
    }
    Ok(Exit::Done)
}

/// The error for unknown job numbers.
pub(crate) fn unknown(ids: &[Id]) -> Failure {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    Failure::Usage(format!(
        "there is no job {}; `mt status` lists them",
        ids.join(", ")
    ))
}
