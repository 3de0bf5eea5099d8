//! A training job that the other tools start when there is no training script.
//!
//! [`run`] trains as a [`Config`] says: a fully connected network on the processor, split over
//! threads and over processes that can be stopped, moved and started again from a checkpoint; or a
//! model of the catalogue on a GPU, as the kernels of its layers. It speaks the worker protocol:
//! a line on standard output for each step, orders on standard input.

mod config;
mod cpu;
mod cuda;
mod elastic;
mod protocol;
mod session;
mod trainer;

pub use config::{Config, Device, Elastic, Network, Place, split};
pub use session::run;
