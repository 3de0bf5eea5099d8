//! Checks any document independently of the tools that wrote it.
//!
//! It recomputes the figures of a document with its own arithmetic: it does not call the planner
//! (`allocation`), the ordering (`overlap`) or the launcher. It shares three things with them: the
//! document types, the predictor that a model describes, and the simulator.

mod allocations;
mod efficiency;
mod falling;
mod inspector;
mod judge;
mod model;
mod plan;
mod profile;
mod rates;
mod round_task;
mod run_log;
mod schedule;
mod status;
mod timeline;
mod verdict;
mod workload;

pub use inspector::Inspector;
pub use judge::{Lie, Remark};
pub use verdict::Verdict;
