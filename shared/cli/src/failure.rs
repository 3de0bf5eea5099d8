use std::io;
use std::path::Path;

use doc::ReadError;

use crate::{Exit, terminal};

/// Why a tool could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The input is invalid; the message has a line for each fault.
    #[error("{0}")]
    Input(String),
    /// The combination of arguments is invalid.
    #[error("{0}")]
    Usage(String),
    /// The environment lacks something: a device, a permission.
    #[error("{0}")]
    Environment(String),
    /// The answer is no: nothing feasible, or a check failed.
    #[error("{0}")]
    Negative(String),
    /// A signal ended the work.
    #[error("stopped by signal {0}")]
    Signal(u8),
    /// The reader of standard output has gone.
    #[error("the reader of the output has gone")]
    ClosedPipe,
}

impl Failure {
    /// The exit for this failure.
    pub const fn exit(&self) -> Exit {
        match self {
            Failure::Input(_) | Failure::Usage(_) => Exit::BadInput,
            Failure::Environment(_) => Exit::Environment,
            Failure::Negative(_) => Exit::Negative,
            Failure::Signal(number) => Exit::Signal(*number),
            Failure::ClosedPipe => Exit::Done,
        }
    }

    /// The same failure with the name of the document's source before each line.
    #[must_use]
    pub fn of_source(self, source: &str) -> Self {
        let named = |text: String| {
            let lines: Vec<String> = text.lines().map(|l| format!("{source}: {l}")).collect();
            lines.join("\n")
        };
        match self {
            Failure::Input(text) => Failure::Input(named(text)),
            Failure::Negative(text) => Failure::Negative(named(text)),
            other => other,
        }
    }

    /// A file that could not be opened, read or written.
    #[must_use]
    pub fn file(path: &Path, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::ClosedPipe;
        }
        let shown = terminal(&path.display().to_string()).into_owned();
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such file; check the name".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "permission denied; check its owner and mode (ls -l)".to_owned()
            }
            io::ErrorKind::IsADirectory => "is a directory; give a file".to_owned(),
            io::ErrorKind::NotADirectory => {
                "a part of the path is a file, not a folder; check the name".to_owned()
            }
            _ => error.to_string(),
        };
        Failure::Input(format!("{shown}: {why}"))
    }

    /// A failed write to standard output or an output file.
    #[must_use]
    pub fn write(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            io::ErrorKind::FileTooLarge => Failure::Environment(format!(
                "cannot write the output: {error}; the limit on file sizes is in the way (ulimit -f)"
            )),
            _ => Failure::Environment(format!("cannot write the output: {error}")),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Failure::Input(error.to_string())
    }
}
