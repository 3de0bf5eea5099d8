//! Moves GPUs between running data-parallel trainings by their phase of learning, after Wei and
//! Shudo, generalised to any number of trainings and GPUs.
//!
//! [`Allocator`] takes events and returns decisions; it knows no process and no clock except that of the events, so a
//! recorded file always gives the same decisions. Its parts, each usable alone:
//!
//! - [`History`], the losses that a training has reported, in bounded memory, and [`remaining`], how
//!   many steps it still has, as a distribution;
//! - [`Speed`], the cost of a step on each number of GPUs;
//! - [`Problem`] and [`plan()`], which assign GPUs until all trainings are done.

mod accuracy;
mod allocator;
mod aside;
mod curve;
mod hesrpt;
mod history;
mod noise;
mod phases;
mod plan;
mod problem;
mod rule;
mod run_event;
mod settings;
mod shape;
mod snapshot;
mod speed;
mod stuck;
mod training;

pub use allocator::{Allocator, Refused};
pub use curve::{Point, REACHED_REPORTS, Remaining, WINDOW_STEPS, remaining};
pub use hesrpt::{round, shares};
pub use history::{Fall, History, Noted};
pub use phases::play;
pub use plan::{Plan, keeping, plan};
pub use problem::{Active, MOST_GPUS, MOST_TASKS, Objective, Problem, RemainingTraining};
pub use rule::{Policy, allocate};
pub use run_event::RunReader;
pub use settings::AllocatorSettings;
pub use speed::{Speed, exponent};
pub use stuck::{Stuck, trend};
pub use training::split_batch;
