//! Vocabulary of a co-run, shared by planners, hosts and checkers.
//!
//! Tasks are numbered by their position in the workload. A [`Setting`] is a task with its batch size and share; the
//! settings of tasks that run together are a configuration. Everything that predicts or knows the throughput of a
//! configuration implements [`Throughput`].
//!
//! This module contains no computation of throughput: planners and the checker share it, and the checker must
//! compute independently.

mod finish;
mod memory;
mod setting;
mod throughput;

pub use finish::seconds_to_finish;
pub use memory::shrink_to_fit;
pub use setting::{MAX_TASKS, Setting};
pub use throughput::{SampleTime, Throughput, look_at};
