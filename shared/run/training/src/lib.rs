//! A built-in training job that the other tools start if there is no training script.
//!
//! [`run`] trains according to a [`Config`]: a fully connected network on the processor, split over threads and over
//! processes that can be stopped, moved and restarted from a checkpoint; or a model of the catalogue on a GPU, by the
//! kernels of its layers. It uses the worker protocol: a line on standard output for each step, orders on standard
//! input.

mod config;
mod cpu;
mod cuda;
mod elastic;
mod protocol;
mod session;
mod trainer;

pub use config::{Config, Device, Elastic, GroupRole, Network, split};
pub use session::run;
