//! Profiles from a command line: for every workload of the input a device is opened, a design
//! measured on it, and a profile written, record by record.
//!
//! What is measured and in which order is `design`'s; this crate reads workloads, configurations
//! and profiles to continue with, writes records, shows the progress, and ends on signals after
//! the record at hand.

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
