//! Launching: a plan or a timeline becomes jobs under shares, round after round.
//!
//! A [`Rounds`] runs rounds on a [`host::Host`] and passes every event to a [`runner::Sink`]. A round is a policy of
//! [`runner`]: it decides the phase of each task, the order of transfers, and the time of retries. On the simulator the
//! same code runs in virtual time, so everything that can be launched can be simulated first.
//!
//! [`run`] is the launch from a command line: it opens the host that the workload names, with a
//! guard that cleans up if this process is killed, and records the events.

mod adapt;
mod elastic;
pub mod exec;
mod launch;
pub mod learn;
mod open;
mod round;
mod script;
mod session;
mod settings;
mod task;
mod turns;

pub use elastic::{Elastic, Others, run_elastic};
pub use launch::{Assignment, Launch, workload_of};
pub use open::run;
pub use script::shell_lines;
pub use session::{Played, Rounds};
pub use settings::LaunchSettings;
