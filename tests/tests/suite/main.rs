//! Pipelines across the tools.

mod adapt_noise;
mod bad_input;
mod circles;
mod cpu;
mod dependencies;
mod elastic;
mod elastic_torch;
mod federation;
mod live_noise;
mod manual;
mod messages;
mod names;
mod options;
mod paper;
mod pipeline;
mod python;
mod readme;
mod screens;
mod smoke;
mod summaries;
mod torch;
mod verdict;
mod workspace;
