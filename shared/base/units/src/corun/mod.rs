//! Vocabulary of a co-run, shared by planners, hosts and checkers.
//!
//! Tasks are numbered by their position in the workload. A [`Setting`] is a task with its batch size and share; the
//! settings of tasks that run together are a configuration. Anything that predicts or knows how fast a configuration
//! runs implements [`Throughput`].
//!
//! There is no arithmetic about throughput here: planners and checker share this module, and must not share that.

mod memory;
mod setting;
mod throughput;

pub use memory::shrink_to_fit;
pub use setting::{MAX_TASKS, Setting};
pub use throughput::{SampleTime, Throughput, look_at};
