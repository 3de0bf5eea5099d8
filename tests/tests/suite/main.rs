//! Pipelines across the tools.

mod bad_input;
mod cpu;
mod elastic;
mod paper;
mod pipeline;
mod smoke;
mod torch;
mod workspace;
