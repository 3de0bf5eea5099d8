//! Launching: a plan or a timeline becomes jobs under shares, round after round.
//!
//! A [`Rounds`] plays rounds on a [`host::Host`] and tells every event to a [`Sink`]. A round has
//! its own state: the phase of each task, whose turn it is to transfer, deadlines, restarts. It
//! starts what may start, waits for events on the host, and checks deadlines by the host's clock.
//! On the simulator the same code runs in virtual time, so everything that can be launched can be
//! simulated first, and events are emitted in one place.
//!
//! [`run`] is the launch from a command line: it opens the host that the workload names, with a
//! guard that cleans up if this process is killed, and records the events.

mod adapt;
mod elastic;
pub mod exec;
mod launch;
mod open;
mod recorder;
mod round;
mod script;
mod session;
mod settings;
mod sink;
mod status;
mod supervision;
mod task;
mod turns;

pub use elastic::{Elastic, Others, run_elastic};
pub use launch::{Assignment, Launch, workload_of};
pub use open::run;
pub use script::shell_lines;
pub use session::{Played, Rounds};
pub use settings::LaunchSettings;
pub use sink::{Row, Sink};
pub use supervision::SupervisionArgs;
