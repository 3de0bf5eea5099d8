use std::path::PathBuf;

use jobs::Supervision;

use crate::Where;

/// How a schedule is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// On what.
    pub place: Where,
    /// Restarts, logs and how tasks are ended.
    pub supervision: Supervision,
    /// Seed of new plans.
    pub seed: u64,
    /// Where it is kept which tasks are done; `None`: nowhere.
    pub journal: Option<PathBuf>,
    /// Whether the run of the journal is gone on with.
    pub resume: bool,
}

impl Settings {
    /// As they are used: what is started behind a prefix gets this environment whole, since the prefix
    /// is a program of the user's, and every engine forwards of it what it is configured to.
    pub(crate) fn for_place(&self) -> Self {
        let mut own = self.clone();
        if let Where::Via(_) = own.place {
            own.supervision.passing = own.supervision.passing.everything();
        }
        own
    }
}
