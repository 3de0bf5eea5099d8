//! Profiling from a command line: for every workload of the input, opens a device, measures a
//! design on it, and writes a profile record by record.
//!
//! `design` decides what is measured in which order; this crate reads workloads, configurations and
//! profiles to resume, writes records, shows progress, and on a signal ends after the current
//! record.

mod console;
mod failed;
mod interrupt;
mod resume;
mod run;
mod settings;
mod source;
mod trace;

pub use run::{list_devices, run};
pub use settings::ProfileSettings;
