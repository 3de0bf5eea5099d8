use units::Seconds;

use crate::problem::Objective;
use crate::rule::Policy;

/// Fixed settings of an allocator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllocatorSettings {
    /// GPUs of the machine, 1 to [`crate::MOST_GPUS`].
    pub gpus: u32,
    /// How GPUs are given.
    pub policy: Policy,
    /// The objective to minimise.
    pub objective: Objective,
    /// Pause of a training whose processes change, until one has been measured.
    pub pause: Seconds,
    /// Steps for which a [`crate::Stuck`] training keeps its fewest GPUs beside others; then it waits
    /// until nobody else can use them.
    pub patience: u64,
}
