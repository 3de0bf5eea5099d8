use units::Seconds;

use crate::problem::Objective;
use crate::rule::Policy;

/// Fixed settings of an allocator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllocatorSettings {
    /// GPUs of the machine, 1 to [`crate::MOST_GPUS`].
    pub gpus: u32,
    /// Policy for giving GPUs.
    pub policy: Policy,
    /// The objective to minimise.
    pub objective: Objective,
    /// Expected pause when the processes of a training change; used until a pause has been
    /// measured.
    pub pause: Seconds,
    /// Steps for which a [`crate::Stuck`] training keeps its minimum of GPUs while others run; then it waits until no
    /// other training can use them.
    pub patience: u64,
}
