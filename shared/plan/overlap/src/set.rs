/// A set of tasks of one round: bit `i` stands for task `i`.
pub type Set = u64;

/// Most tasks of one round: as many as a [`Set`] has bits, and as a workload may have.
pub const MAX_TASKS: usize = Set::BITS as usize;
