//! Judges any document independently of the tools that wrote it.
//!
//! What a document says is recomputed with arithmetic of this crate's own: the planner
//! (`allocation`), the ordering (`overlap`) and the launcher are not called. Shared with them are
//! the documents, the predictor that a model stands for, and the simulator.

mod allocations;
mod efficiency;
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
