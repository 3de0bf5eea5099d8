//! The whole tool: on a fake GPU, and under signals.

mod cuda;
mod signals;
