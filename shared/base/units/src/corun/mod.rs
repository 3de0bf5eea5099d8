//! The nouns of a co-run, which planners, hosts and checkers share.
//!
//! Tasks are numbered by their place in the workload. A [`Setting`] says with which batch size
//! and share one of them runs; settings of tasks that run together are a configuration. Who knows
//! how fast a configuration runs implements [`Throughput`].
//!
//! No arithmetic about throughput lives here: the module is shared by the planners and the
//! checker, which must not have that in common.

mod memory;
mod setting;
mod throughput;

pub use memory::shrink_to_fit;
pub use setting::{MAX_TASKS, Setting};
pub use throughput::{SampleTime, Throughput, look_at};
