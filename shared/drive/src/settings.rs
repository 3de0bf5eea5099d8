use jobs::Care;

use crate::Where;

/// How a schedule is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// On what.
    pub place: Where,
    /// Restarts, logs and how tasks are ended.
    pub care: Care,
    /// Seed of new plans.
    pub seed: u64,
}
