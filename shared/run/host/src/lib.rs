//! Hosts: where jobs run under shares.
//!
//! A [`Host`] admits a job with a [`Grant`], applies its share when it is ready, changes the share (at once, or at
//! the job's next start), reports whether the device is healthy, recovers it after a fault, and reports what happens
//! to the jobs as [`jobs::Event`]s. The profiler measures on a host, the launcher runs rounds on one; neither knows
//! its kind.
//!
//! | kind | a share is | it changes | time |
//! |---|---|---|---|
//! | [`ControlGroups`] | a CPU quota of a control group | at once | of the machine |
//! | [`PlainProcesses`] | a number of threads that is asked for, and not enforced | at the next start | of the machine |
//! | [`MpsHost`] | `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE` of an MPS client | at the next start | of the machine |
//! | [`CommonHost`] | none: whatever the program takes, on GPUs as a client of MPS | never | of the machine |
//! | [`WholeMachine`] | that of an MPS client on one of its GPUs, each with a daemon of its own, or of the processors | at the next start | of the machine |
//! | [`SimHost`] | the cap of a simulated GPU on a task's SMs | at the next start | virtual |
//!
//! The fake is not a fourth type: it is [`MpsHost`] with the control program, driver and workers of
//! `testkit::fakes` on `PATH`, which imitate the documented behaviour of the real ones, including
//! faults. So a fault test runs the same code as a real GPU, also from the command line.
//!
//! Every host guarantees: a job that was not admitted does not run; an event
//! [`jobs::Happening::Exited`] is the last of its job, and by then nothing of the job runs any
//! more; when the host is dropped, no job is left.

mod cgroups;
mod common;
pub mod discovery;
mod error;
mod facts;
mod grant;
mod machine;
mod meter;
mod mps;
mod parts;
mod plain;
mod processes;
mod select;
mod sight;
mod sim;

pub use cgroups::{ControlGroups, Quotas, cpu_fingerprint};
pub use common::{Common, CommonHost};
pub use error::{HostError, OpenError, word};
pub use facts::complete;
pub use grant::{Gpus, Grant, Work};
pub use machine::{Machine, WholeMachine};
pub use meter::{Meter, Reading};
pub use mps::{Daemons, MpsHost, MpsSetup};
pub use parts::Parts;
pub use plain::{Plain, PlainProcesses};
pub use processes::{Admitted, Processes, Shares};
pub use select::{resolve, unfit};
pub use sight::{OnGpu, Seen, Sight, SightError};
pub use sim::{
    STEADY_REPEATS, STEADY_WINDOW_S, SimError, SimHost, SimulatedGpu, of_repeat, scatter,
};

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use doc::DeviceFingerprint;
use jobs::{Arrived, Event, JobId, JobSpec, Order, OrderError};
use units::Share;

/// When a new share of a running job takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regrants {
    /// At once.
    Now,
    /// At the next start of the job: the running process keeps its share.
    NextStart,
}

/// Observations about a job that it settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Multiprocessors of the GPU that the job says it may use.
    pub sms: Option<u32>,
}

/// State of the device behind a host.
#[derive(Debug)]
pub enum Health {
    /// It serves jobs.
    Good,
    /// Each fault affects every job on its GPUs; call [`Host::recover`] for them when none runs there any more.
    Faulted(Vec<Fault>),
    /// It did not answer in time, which on a loaded machine is transient.
    Unknown(HostError),
}

/// A fault of some GPUs of a host. Those of its other GPUs go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The GPUs.
    pub gpus: Gpus,
    /// What has happened to them.
    pub kind: FaultKind,
}

/// What has happened to the GPUs of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// A job made the MPS server fault, which ends every job of that server.
    Server,
    /// The MPS daemon has gone. No job did that.
    Daemon,
    /// The GPU does not work any more, and why. It does not recover.
    Lost(String),
}

/// Progress of the recovery from a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Not yet; ask again.
    Pending,
    /// The device serves again.
    Recovered,
    /// The device was given a new daemon.
    Replaced,
}

/// Runs jobs under shares.
pub trait Host {
    /// Identity of the device, for documents.
    fn fingerprint(&self) -> DeviceFingerprint;

    /// When [`Host::regrant`] takes effect.
    fn regrants(&self) -> Regrants;

    /// The host's clock: that of the machine, or virtual. Events carry times of it.
    fn now(&self) -> Instant;

    /// Starts the program of a task. `None`: the task has no program for this phase, and the phase takes no time.
    ///
    /// The phase `compute` runs under the grant. A transfer is told about it but not limited.
    ///
    /// # Errors
    /// [`HostError`]; nothing runs then.
    fn admit(&mut self, work: &Work<'_>, grant: &Grant) -> Result<Option<JobId>, HostError>;

    /// Starts a program as it is given, which is no task of a workload: it computes under the grant.
    ///
    /// # Errors
    /// [`HostError`]; nothing runs then.
    fn enter(&mut self, _: JobSpec, _: &Grant) -> Result<JobId, HostError> {
        Err(HostError::NoPrograms)
    }

    /// Variables by which a program that another process starts runs under a grant.
    ///
    /// # Errors
    /// [`HostError`] if it cannot be granted.
    fn lend(&mut self, _: &Grant) -> Result<Vec<(OsString, OsString)>, HostError> {
        Ok(Vec::new())
    }

    /// Ensures that a job that has become ready runs under its grant; call it again to check.
    ///
    /// # Errors
    /// [`HostError`] says why it does not: it is outside MPS, or has another share.
    fn settle(&mut self, job: JobId) -> Result<Settled, HostError>;

    /// Changes the share of a job, see [`Host::regrants`].
    ///
    /// # Errors
    /// [`HostError`]; the share is then unchanged.
    fn regrant(&mut self, job: JobId, share: Share) -> Result<(), HostError>;

    /// Sends an order to a job that was admitted with orders.
    ///
    /// # Errors
    /// [`OrderError`].
    fn order(&mut self, job: JobId, order: Order) -> Result<(), OrderError>;

    /// Ends a job: its work on the device first, then SIGTERM, and SIGKILL after `grace`.
    fn stop(&mut self, job: JobId, grace: Duration);

    /// State of the device.
    fn health(&mut self) -> Health;

    /// Recovers GPUs after a [`Fault`] of them. No job may run there. From the first call on, the host gives them some
    /// time before it replaces what does not recover by itself.
    ///
    /// # Errors
    /// [`HostError`] if they cannot be brought back.
    fn recover(&mut self, gpus: &Gpus) -> Result<Recovery, HostError>;

    /// Waits until something happens and returns it, at the latest at `until` (`None`: no limit). A host on the
    /// machine's clock also returns every [`LOOK`] without an event, so that its caller can check signals and
    /// deadlines.
    fn poll(&mut self, until: Option<Instant>) -> Vec<Event>;

    /// Jobs that have not ended, in the order of their start.
    fn jobs(&self) -> Vec<JobId>;

    /// Process group of a job, if it has one.
    fn pid(&self, job: JobId) -> Option<i32>;

    /// `cgroup.procs` of the control group that holds all processes of a job, if there is one.
    fn procs(&self, _: JobId) -> Option<&Path> {
        None
    }

    /// The end of a job's log.
    fn tail(&self, job: JobId) -> String;

    /// Signals for this process that arrived so far.
    fn arrived(&mut self) -> Arrived;

    /// Whether a job has not ended.
    fn is_running(&self, job: JobId) -> bool {
        self.jobs().contains(&job)
    }
}

/// Maximum time for which a host on the machine's clock waits for an event: short compared with every deadline and
/// with what a user notices after Ctrl-C, long compared with the cost of a check.
pub const LOOK: Duration = Duration::from_millis(100);

/// A turn of a loop around [`Host::poll`] takes [`LOOK`] and a moment of work, also where a job is started. If it took
/// longer, this process was stopped (Ctrl-Z, SIGSTOP), or the machine slept.
pub const LONGEST_TURN: Duration = Duration::from_secs(1);
