//! A run directory's record of its owner, and of what must be cleaned up.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::private::append_private;
use crate::process::{Identity, Lineage};

/// A resource that outlives a killed process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Resource {
    /// Processes that carry the signs of this run (the marks of its jobs, and their brands).
    Mark(String),
    /// A control group with those below it.
    Cgroup(PathBuf),
}

/// Owner of a directory that must be cleaned up after its death.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(super) tool: String,
    pub(super) process: Option<Identity>,
    /// Ancestors of the owner; one of them adopts the processes that a dead owner leaves running.
    #[serde(default)]
    pub(super) ancestors: Vec<Identity>,
}

impl Owner {
    /// Name of its file in the run directory.
    pub(crate) const FILE: &str = "owner.json";

    /// This process.
    pub(crate) fn this(tool: &str) -> Self {
        let process = Identity::own();
        Self {
            tool: tool.to_owned(),
            process,
            ancestors: process.map(Identity::ancestors).unwrap_or_default(),
        }
    }

    /// Writes the owner into its run directory.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let mut file = append_private(&dir.join(Self::FILE))?;
        file.write_all(&serde_json::to_vec(self)?)
    }

    /// The owner of a directory; `None` if it died before it recorded itself.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        let bytes = fs::read(dir.join(Self::FILE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.process.map(|process| process.pid)
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.process.is_some_and(Identity::is_alive)
    }

    /// The lineage that decides which processes belong to this owner.
    pub(crate) fn lineage(&self) -> Lineage {
        Lineage::of(self.process, self.ancestors.clone())
    }
}

/// Length of a run's token: long enough that tokens are unique, short enough for the path of a socket (108 bytes).
pub(super) const TOKEN: usize = 12;

/// Whether a name has the form of a token.
pub(crate) fn is_token(name: &str) -> bool {
    name.len() == TOKEN && name.bytes().all(|b| b.is_ascii_alphanumeric())
}
