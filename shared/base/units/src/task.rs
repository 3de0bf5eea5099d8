use std::fmt;
use std::sync::Arc;

use crate::UnitError;
use crate::value::document_value;

const TASK_ID: &str = "task id";
const TASK_IDS: &str = "1 to 64 letters, digits, '.', '_' or '-', not starting with '.' or '-'";
const BATCHES: &str = "an integer from 1 to 1048576";
const SAMPLES: &str = "an integer from 1 to 2^53";

document_value!(TaskId, String, |name| TaskId::new(&name), as_str, TASK_ID, TASK_IDS,
    {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$"});
document_value!(Batch, u64, Batch::new, get, "batch size", BATCHES,
    {"type": "integer", "minimum": 1, "maximum": Batch::MAX});
document_value!(Samples, u64, Samples::new, get, "sample count", SAMPLES,
    {"type": "integer", "minimum": 1, "maximum": 1_u64 << 53});

/// Name of a task: 1 to 64 of `A-Z a-z 0-9 . _ -`, not starting with `.` or `-`.
///
/// With these characters, a name can be used as a file name, a cgroup name, a metrics label and a CSV cell without
/// quoting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(Arc<str>);

impl TaskId {
    /// Checks and wraps a name.
    pub fn new(name: &str) -> Result<Self, UnitError> {
        let ok = (1..=64).contains(&name.len())
            && !name.starts_with(['.', '-'])
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if ok {
            Ok(Self(name.into()))
        } else {
            Err(UnitError::new(TASK_ID, format_args!("{name:?}"), TASK_IDS))
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Samples in one training step: 1 to 1,048,576.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Batch(u32);

impl Batch {
    /// Largest batch size.
    pub const MAX: u32 = 1 << 20;
    /// A batch of one sample.
    pub const ONE: Self = Self(1);

    /// Builds a batch size.
    pub fn new(value: u64) -> Result<Self, UnitError> {
        if (1..=u64::from(Self::MAX)).contains(&value) {
            Ok(Self(value as u32))
        } else {
            Err(UnitError::new("batch size", value, BATCHES))
        }
    }

    /// Samples per step.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Samples per step, for arithmetic.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0)
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Samples that a task trains on in one round (its local data volume): 1 to 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Samples(u64);

impl Samples {
    /// Builds a data volume.
    pub fn new(value: u64) -> Result<Self, UnitError> {
        if (1..=1u64 << 53).contains(&value) {
            Ok(Self(value))
        } else {
            Err(UnitError::new("sample count", value, SAMPLES))
        }
    }

    /// The count.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The count, for arithmetic.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_names_are_safe_as_file_names() {
        for bad in ["", ".", "..", "a/b", "a b", "-x", "ä", &"x".repeat(65)] {
            assert!(TaskId::new(bad).is_err(), "{bad:?}");
        }
        assert!(TaskId::new("d121_v2.0-a").is_ok());
    }

    #[test]
    fn batch_limits() {
        assert!(Batch::new(0).is_err());
        assert!(Batch::new(1 << 20).is_ok());
        assert!(Batch::new((1 << 20) + 1).is_err());
    }
}
