//! The one loop of everything that runs jobs.
//!
//! Rounds, elastic trainings, schedules, queues and trials differ in what runs next. They are the same in how a job is
//! looked after: when it is late, what a signal does, what a pause of the machine means, when a failure is tried
//! again, what a fault of the device does to the others, how an end is judged. That is here, once.
//!
//! A [`Policy`] decides what runs. It is told what happens, and asks the [`Runner`] to start and to end processes. It
//! starts none itself and reads no clock: [`Runner::now`] is the time of the host, which is virtual on the
//! simulator. So each policy can be simulated.
//!
//! | rule | where |
//! |---|---|
//! | a run folder, its guard, what a killed run left | [`opening`] |
//! | signals: the first asks, the second kills | [`Runner::run`] |
//! | time limits, moved by pauses of the machine | [`Limits`] |
//! | how an end is judged | [`Verdict`] |
//! | a fault of a GPU ends all jobs on it, and who caused it | `faults.rs` |
//! | metrics, table and line | [`Recorder`] |

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
pub use sink::{Quiet, Row, Sink, State};
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
