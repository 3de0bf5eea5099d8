//! The nouns of a co-run, which planners, hosts and checkers share.
//!
//! Tasks are numbered by their place in the workload. A [`Setting`] says with which batch size
//! and share one of them runs, a [`Configuration`] which tasks run together and how, a
//! [`TaskSet`] only which. Who knows how fast a configuration runs implements [`Throughput`].
//!
//! No arithmetic about throughput lives here: the crate is shared by the planners and the
//! checker, which must not have that in common.

mod setting;
mod task_set;
mod throughput;

pub use setting::{Configuration, ConfigurationError, Setting};
pub use task_set::{MAX_TASKS, Members, TaskSet};
pub use throughput::{SampleTime, Throughput};
