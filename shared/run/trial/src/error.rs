//! Why there is no answer.

use units::TaskId;

use crate::answer::Unknown;
use crate::trial::{Failed, status};
use crate::words::pairs;
use crate::{CommandError, Fault};

/// Number of lines of a failed command's output that are shown: enough for the end of a traceback with its cause.
const TAIL_LINES: usize = 12;

/// Reason why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Commands that cannot be started; nothing was started.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Commands(Vec<CommandError>),
    /// A command failed.
    #[error("{}", failed(.0))]
    Failed(Box<Failed>),
    /// A command cannot be judged.
    #[error("{}", unknown(.id, *.why, *.beside, *.seconds))]
    Unknown {
        /// Which command.
        id: TaskId,
        /// Why.
        why: Unknown,
        /// Whether it ran with the others.
        beside: bool,
        /// Seconds of observation.
        seconds: f64,
    },
    /// A signal ended it.
    #[error("stopped by signal {0}")]
    Signal(i32),
    /// This machine does not support the trial; a message.
    #[error("{0}")]
    Environment(String),
}

impl TrialError {
    /// An error of this machine.
    pub(crate) fn environment(error: impl std::fmt::Display) -> Self {
        Self::Environment(error.to_string())
    }
}

/// Message about a failed command: its exit, its last lines, and advice.
fn failed(failed: &Failed) -> String {
    let Failed {
        id,
        text,
        beside,
        ended,
        log,
        pairs: in_pairs,
    } = failed;
    let what = if *beside {
        format!("Not together: beside the others {id} fails, and alone it did not")
    } else {
        format!("{id} fails")
    };
    let mut out = format!("{what}: {} after {:.1} s", status(ended.exit), ended.at);
    match ended.fault {
        Some(Fault::Caused) => out += "; it made the MPS server fault, which ends everybody",
        Some(Fault::Suffered) => {
            out += "; it was ended by a fault of the GPU that it did not cause"
        }
        None => {}
    }
    let lines: Vec<&str> = ended
        .tail
        .lines()
        .filter(|l| !l.trim().is_empty())
        .collect();
    if lines.is_empty() {
        out += "; it printed nothing";
    }
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        let shown = line
            .rsplit('\r')
            .find(|part| !part.is_empty())
            .unwrap_or(line);
        out += &format!("\n  | {shown}");
    }
    out += &format!(
        "\n{}\nall that it printed: {}",
        advice(failed),
        log.display()
    );
    if !beside {
        out += &format!("\nits command: {text}");
    }
    out + &pairs(in_pairs)
}

/// Advice derived from the last lines.
fn advice(failed: &Failed) -> String {
    let tail = failed.ended.tail.to_ascii_lowercase();
    let has = |word: &str| tail.contains(word);
    let id = &failed.id;
    if has("out of memory") || has("memoryerror") || has("cannot allocate memory") {
        return if failed.beside {
            "Their memory does not suffice for all at once: run them one after another, or give them smaller \
             batches or models and try again."
                .to_owned()
        } else {
            "Its memory does not suffice even alone: give it a smaller batch or model.".to_owned()
        };
    }
    if has("no module named") {
        return "Install the module, or name the python of the environment that has it \
                (venv/bin/python train.py)."
            .to_owned();
    }
    if has("usage:") || has("arguments are required") {
        return format!(
            "Give its arguments within the quotes: '{} --option value'.",
            failed.text
        );
    }
    if has("cuda_visible_devices") || has("invalid device ordinal") || has("no cuda gpus") {
        return "It requests GPUs that it does not see; this compares commands that share one device: request one GPU, or run it where there are more."
            .to_owned();
    }
    if has("address already in use") {
        return "Two of them use one port: give each its own.".to_owned();
    }
    if failed.beside {
        return format!(
            "They conflict over something that both use (a file, a port, memory); see what {id} says."
        );
    }
    "Fix that first: run the command by itself until it works, then try again.".to_owned()
}

/// Message about a command that cannot be judged, with advice.
fn unknown(id: &TaskId, why: Unknown, beside: bool, seconds: f64) -> String {
    let when = if beside { " beside the others" } else { "" };
    match why {
        Unknown::Silent => format!(
            "Cannot tell: {id} printed no progress in {seconds:.0} s{when} and did not end.\n\
             Print a line that counts, for example print(f\"step {{step}}\"), or give it as long as it takes to \
             end: --limit SECONDS."
        ),
        Unknown::Stuck => format!(
            "Cannot tell: {id} printed only one step of progress in {seconds:.0} s{when}.\nGive it the time of two epochs: --limit SECONDS, or print more often."
        ),
    }
}
