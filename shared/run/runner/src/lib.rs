//! The common event loop of all tools that run jobs.
//!
//! Rounds, elastic trainings, schedules, queues and trials differ in what runs next. They share the supervision of
//! jobs: time limits, signals, pauses of the machine, retries after failures, the effect of a device's fault on other
//! jobs, and the verdict on an end. This crate implements it once.
//!
//! A [`Policy`] decides what runs. It receives events, and asks the [`Runner`] to start and to end processes. It starts
//! no process itself and reads no clock: [`Runner::now`] is the time of the host, which is virtual on the simulator. So
//! every policy can be simulated.
//!
//! | rule | where |
//! |---|---|
//! | run folder, its guard, leftovers of killed runs | [`opening`] |
//! | signals: the first asks, the second kills | [`Runner::run`] |
//! | time limits, extended by pauses of the machine | [`Limits`] |
//! | verdict on the end of a process | [`Verdict`] |
//! | faults of a GPU, which end all jobs on it, and their causes | `faults.rs` |
//! | metrics, table and progress line | [`Recorder`] |

mod blame;
mod device;
mod faults;
mod happened;
pub mod opening;
mod policy;
mod recorder;
mod runner;
mod sink;
mod status;
mod turns;
mod watch;

pub use happened::{Ended, Happened, Stop, Verdict, process_end, reason};
pub use policy::Policy;
pub use recorder::Recorder;
pub use runner::{Over, Runner, Start};
pub use sink::{Quiet, Row, RunState, Sink};
pub use turns::TELLS_NONE;
pub use watch::{Limits, Reports};

/// Number and name of a signal.
#[must_use]
pub fn signal_text(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(known) => format!("signal {signal} ({known})"),
        Err(_) => format!("signal {signal}"),
    }
}
