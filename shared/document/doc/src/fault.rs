use std::fmt;
use std::io;

use crate::Code;

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Stable number.
    pub code: Code,
    /// JSON path of the place, for example `$.tasks[1].weight`.
    pub path: String,
    /// What is wrong, with the value.
    pub problem: String,
    /// What would be right.
    pub advice: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.path.is_empty() {
            write!(f, " at {}", self.path)?;
        }
        write!(f, ": {}", self.problem)?;
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

/// Every fault of one document, with the place of the document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.lines().join("\n"))]
pub struct Faults {
    /// The file, or `<stdin>`.
    pub source_name: String,
    /// Line on which the document begins, from 1 (for a syntax fault the line of the fault).
    pub line: u64,
    /// Line of each fault, if known; if empty, `line` stands for all.
    pub lines: Vec<u64>,
    /// The faults, in the order of the document; never empty.
    pub faults: Vec<Fault>,
}

impl Faults {
    /// One line for each fault: `FILE:LINE: error E201 at $.path: problem; advice`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let places = self
            .lines
            .iter()
            .copied()
            .chain(std::iter::repeat(self.line));
        self.faults
            .iter()
            .zip(places)
            .map(|(fault, line)| format!("{}:{line}: error {fault}", self.source_name))
            .collect()
    }
}

/// Why a document could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes could not be read.
    #[error("{source_name}: {error}")]
    Io {
        /// The file, or `<stdin>`.
        source_name: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The bytes are not the requested document.
    #[error(transparent)]
    Faults(#[from] Faults),
}
