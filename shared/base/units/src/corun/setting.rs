use crate::{Batch, Share};

/// Maximum number of tasks that share one device, so that a set of them fits into one machine word. MPS admits 48
/// clients per GPU up to CUDA 13.0 and 60 after, so no device reaches this limit.
pub const MAX_TASKS: usize = 64;

/// Batch size and share of one task of a co-run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setting {
    /// Index into the workload's tasks.
    pub task: usize,
    /// Samples per step.
    pub batch: Batch,
    /// Share of the device.
    pub share: Share,
}
