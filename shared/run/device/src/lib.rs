//! Devices that measure a co-run: the simulator, CPU quotas, NVIDIA MPS, and recorded samples.
//!
//! [`Device`] is the profiler's complete interface to the hardware. A configuration is a list of
//! [`units::corun::Setting`]s: which tasks run together, each with its batch size and its share. A measurement gives
//! the throughput of each task over a window in which *all* of them ran.
//!
//! There are two kinds of errors: a configuration that this device cannot run ([`MeasureError::Failed`], which is a
//! result and is recorded), and a device that can no longer be used ([`MeasureError::Unusable`], which ends the
//! session).

mod calibrate;
mod cause;
mod cost;
mod count;
mod effort;
mod error;
mod inventory;
mod measure;
mod pool;
mod real;
mod replay;
mod select;
mod sim;
mod track;

pub use calibrate::{Calibrated, calibrate};
pub use cost::{Costs, Tally, Way};
pub use error::{Failed, MeasureError, OpenError};
pub use host::{STEADY_REPEATS, STEADY_WINDOW_S, word};
pub use inventory::inventory;
pub use jobs::{Cpus, CpusError, Passing};
pub use measure::{Device, MOST_REPEATS, Measurement, Rate, Window};
pub use pool::{Capacity, Patience};
pub use real::{Real, Setup};
pub use replay::Replay;
pub use select::{Opened, complete, open};
pub use sim::Sim;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use doc::Profile;

/// Options for opening a device, besides the workload.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seed of all random choices: the simulator's jitter and its noise.
    pub seed: u64,
    /// Relative standard deviation of the noise by which the simulator multiplies every throughput, in percent;
    /// finite and 0 or more. Real devices ignore it.
    pub noise_percent: f64,
    /// The recorded samples of the replay device.
    pub replay: Option<Profile>,
    /// Set by a signal handler: a real device then stops its processes and soon returns
    /// [`MeasureError::Interrupted`].
    pub interrupted: Arc<AtomicBool>,
    /// How jobs on real devices are pinned to processors.
    pub cpus: Cpus,
    /// Use a running MPS daemon instead of starting a private one.
    pub attach_mps: bool,
    /// Variables that jobs on real devices get.
    pub passing: Passing,
    /// Start a guard (see [`jobs::Guard`]) for a real device. Only for programs that support [`jobs::Guard::OPTION`].
    pub guarded: bool,
}
