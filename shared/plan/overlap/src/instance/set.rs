/// A set of tasks of one round: bit `i` stands for task `i`.
pub type Set = u64;

/// Maximum number of tasks in a round: the bits of a [`Set`], and the limit of a workload.
pub const MAX_TASKS: usize = Set::BITS as usize;
