//! Hosts, which run jobs under shares.
//!
//! A [`Host`] admits a job with a [`Grant`], applies its share when it is ready, changes the share (at once, or at the
//! job's next start), reports the health of the device, recovers it after a fault, and reports [`jobs::Event`]s of the
//! jobs. The profiler measures on a host, and the launcher runs rounds on one; neither depends on the kind of host.
//!
//! | kind | a share is | it changes | time |
//! |---|---|---|---|
//! | [`ControlGroups`] | a CPU quota of a control group | at once | of the machine |
//! | [`PlainProcesses`] | a requested number of threads, which is not enforced | at the next start | of the machine |
//! | [`MpsHost`] | `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE` of an MPS client | at the next start | of the machine |
//! | [`CommonHost`] | none: programs are not limited, on GPUs they are clients of MPS | never | of the machine |
//! | [`WholeMachine`] | the share of an MPS client on one of its GPUs, each with its own daemon, or a share of the processors | at the next start | of the machine |
//! | [`SimHost`] | the cap of a simulated GPU on a task's SMs | at the next start | virtual |
//!
//! There is no separate fake host for tests: it is [`MpsHost`] with the control program, driver and workers of
//! `testkit::fakes` on `PATH`, which imitate the documented behaviour of the real ones, including faults. So a test of
//! faults runs the same code as a real GPU, even from the command line.
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

/// Observations about a settled job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Number of multiprocessors that the job reports it may use.
    pub sms: Option<u32>,
}

/// State of the device behind a host.
#[derive(Debug)]
pub enum Health {
    /// It serves jobs.
    Good,
    /// Each fault affects all jobs on its GPUs; call [`Host::recover`] for these GPUs when no job runs there any more.
    Faulted(Vec<Fault>),
    /// It did not answer in time, which is usually transient on a loaded machine.
    Unknown(HostError),
}

/// A fault of some GPUs of a host. Jobs on its other GPUs continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The GPUs.
    pub gpus: Gpus,
    /// The kind of fault.
    pub kind: FaultKind,
}

/// Kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// A job caused a fault of the MPS server, which ends all jobs of that server.
    Server,
    /// The MPS daemon has died, which no job caused.
    Daemon,
    /// The GPU has stopped working, and cannot recover; the reason.
    Lost(String),
}

/// Progress of the recovery from a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// It has not recovered yet; ask again.
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

    /// Current time on the host's clock, which is the machine's clock or virtual. Events carry times of this clock.
    fn now(&self) -> Instant;

    /// Starts the program of a task. `None`: the task has no program for this phase, and the phase takes no time.
    ///
    /// The phase `compute` runs under the grant. A transfer gets the values of the grant in its environment, but is not
    /// limited.
    ///
    /// # Errors
    /// [`HostError`]; nothing runs then.
    fn admit(&mut self, work: &Work<'_>, grant: &Grant) -> Result<Option<JobId>, HostError>;

    /// Starts a program that is no task of a workload, unchanged, under the grant.
    ///
    /// # Errors
    /// [`HostError`]; nothing runs then.
    fn enter(&mut self, _: JobSpec, _: &Grant) -> Result<JobId, HostError> {
        Err(HostError::NoPrograms)
    }

    /// Variables with which a program that another process starts runs under a grant.
    ///
    /// # Errors
    /// [`HostError`] if the host cannot provide the grant.
    fn lend(&mut self, _: &Grant) -> Result<Vec<(OsString, OsString)>, HostError> {
        Ok(Vec::new())
    }

    /// Ensures that a job that has become ready runs under its grant. It may be called again, as a check.
    ///
    /// # Errors
    /// [`HostError`] if the job is outside MPS, or has another share.
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

    /// Recovers GPUs after a [`Fault`]. No job may run there. After the first call, the host gives the daemon some time
    /// to recover by itself before it replaces it.
    ///
    /// # Errors
    /// [`HostError`] if they cannot be brought back.
    fn recover(&mut self, gpus: &Gpus) -> Result<Recovery, HostError>;

    /// Waits for events, at the latest until `until` (`None`: no limit), and returns them. A host on the machine's
    /// clock also returns after [`LOOK`] without an event, so that its caller can check signals and deadlines.
    fn poll(&mut self, until: Option<Instant>) -> Vec<Event>;

    /// Jobs that have not ended, in the order of their start.
    fn jobs(&self) -> Vec<JobId>;

    /// Process group of a job, if it has one.
    fn pid(&self, job: JobId) -> Option<i32>;

    /// `cgroup.procs` of the control group that contains all processes of a job, if there is one.
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

/// Maximum time for which a host on the machine's clock waits for an event: short compared with every deadline and with
/// the delay that a user notices after Ctrl-C, long compared with the cost of a check.
pub const LOOK: Duration = Duration::from_millis(100);

/// Maximum duration of a turn of a loop around [`Host::poll`], which takes [`LOOK`] and a moment of work, even when it
/// starts a job. If a turn took longer, this process was stopped (Ctrl-Z, SIGSTOP), or the machine slept.
pub const LONGEST_TURN: Duration = Duration::from_secs(1);
