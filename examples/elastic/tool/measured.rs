//! All measurements on this machine.

use std::collections::BTreeMap;
use std::path::Path;

use crate::live::{self, Runs};
use crate::results::TASKS;
use crate::steps::{self, Steps};

/// By policy.
pub type Policies = BTreeMap<String, Runs>;

/// Programs whose reconfigurations were timed.
pub const PROGRAMS: [&str; 2] = ["mt-worker", "train.py"];

/// Folders of the output; missing ones are empty.
#[derive(Default)]
pub struct Measured {
    /// `live`: two trainings on 4 parts of the machine.
    pub live: Policies,
    /// `models`: two trainings of different models by train.py.
    pub models: Policies,
    /// `many/N`: N trainings on 8 parts.
    pub many: Vec<(usize, Policies)>,
    /// `moves/PROGRAM`: one training over 1, 2, 3 and 1 processes, `cold` and with `standby`.
    pub moves: Vec<(&'static str, Policies)>,
    /// `steps`: the losses of every step.
    pub steps: Option<Steps>,
}

impl Measured {
    /// Reads the folders of `out`.
    ///
    /// # Errors
    /// What exists but cannot be read, as a message.
    pub fn read(out: &Path) -> Result<Self, String> {
        let runs = |folder: &Path| match folder.join("arrivals.ndjson").exists() {
            true => live::read(folder),
            false => Ok(Policies::new()),
        };
        let mut many = Vec::new();
        for tasks in TASKS {
            many.push((tasks, runs(&out.join("many").join(tasks.to_string()))?));
        }
        let mut moves = Vec::new();
        for program in PROGRAMS {
            moves.push((program, runs(&out.join("moves").join(program))?));
        }
        Ok(Self {
            live: runs(&out.join("live"))?,
            models: runs(&out.join("models"))?,
            many: many.into_iter().filter(|m| !m.1.is_empty()).collect(),
            moves: moves.into_iter().filter(|m| !m.1.is_empty()).collect(),
            steps: steps::read(&out.join("steps")),
        })
    }
}
