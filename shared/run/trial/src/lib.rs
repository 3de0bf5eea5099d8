//! Is it worth it to run these commands together?
//!
//! Each command runs alone for some seconds, then all run together, as plain processes without shares. Progress is read
//! from their output ([`detect`]); a command that prints nothing is measured by its whole run. [`answer`] makes a fair
//! comparison: if the length of every run is known, it compares whole runs, including start-up on both sides; otherwise
//! the seconds for a fixed amount of work, without start-up on either side.
//!
//! - There is no verdict without evidence: every command ran alone, and all of them ran together.
//! - A stage ([`Stage`]) is independent of processes and clocks, so tests can simulate it.
//! - [`run()`] ends every process that it has started, even if it fails.

pub mod answer;
mod bench;
mod command;
mod comparing;
pub mod contrast;
pub mod detect;
mod error;
mod marks;
mod others;
mod paired;
mod playing;
mod run;
mod shared;
mod stage;
mod trial;
mod words;
mod work;
mod workload;

pub use command::{Command, CommandError, distinct};
pub use error::TrialError;
pub use marks::{Marks, Rate};
pub use run::{check, free_folder, run};
pub use shared::Waits;
pub use stage::{Ended, Fault, Stage, Track};
pub use trial::{Failed, Group, Pair, Told, Trial, TrialSettings, Work};
pub use words::{cost, next, table, told, verdict, worked};
pub use work::work;
pub use workload::workload;
