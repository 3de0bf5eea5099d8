//! Which device a workload runs on.

use doc::{DeviceKind, GpuSpec, Workload};

use host::discovery::{self, MpsSupport};

use crate::real::Real;
use crate::replay::Replay;
use crate::sim::Sim;
use crate::{Device, OpenError, Options, facts};

/// A device that is ready to measure.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// The workload with its device resolved and the facts of the catalogue filled in.
    pub workload: Workload,
    /// Which device `auto` chose and why.
    pub note: Option<String>,
}

/// Opens the device that the workload names; `auto` is `cuda` where a GPU can be shared, else
/// `sim`.
///
/// # Errors
/// [`OpenError`] says whether the machine or the workload is the reason.
pub fn open(workload: &Workload, options: &Options) -> Result<Opened, OpenError> {
    let (kind, note) = resolve(workload);
    let workload = facts::complete(workload, kind)?;
    let device: Box<dyn Device> = match kind {
        DeviceKind::Auto | DeviceKind::Sim => Box::new(Sim::open(&workload, options)?),
        DeviceKind::Replay => {
            let recording = options.replay.as_ref().ok_or(OpenError::NoRecording)?;
            Box::new(Replay::open(&workload, recording)?)
        }
        DeviceKind::Cuda => Box::new(Real::cuda(&workload, options)?),
        DeviceKind::Cpu => Box::new(Real::cpu(&workload, options)?),
    };
    Ok(Opened {
        device,
        workload,
        note,
    })
}

/// The device that a workload runs on, and in words which one `auto` chose and why.
#[must_use]
pub fn resolve(workload: &Workload) -> (DeviceKind, Option<String>) {
    if workload.device.kind != DeviceKind::Auto {
        return (workload.device.kind, None);
    }
    match shareable_gpu() {
        Ok(name) => (
            DeviceKind::Cuda,
            Some(format!("using the GPU of this machine, {name}")),
        ),
        Err(reason) => {
            let gpu = match &workload.device.gpu {
                Some(GpuSpec::Named(name)) => name,
                Some(GpuSpec::Described(description)) => &description.name,
                None => gpusim::Gpu::DEFAULT_NAME,
            };
            let note = format!("simulating the GPU {gpu}, because {reason}");
            (DeviceKind::Sim, Some(note))
        }
    }
}

/// Name of the first GPU that MPS can share, or why there is none.
fn shareable_gpu() -> Result<String, String> {
    let gpus = discovery::discover().map_err(|error| format!("there is {error}"))?;
    let mut reasons = Vec::new();
    for gpu in gpus {
        match gpu.mps {
            MpsSupport::Available { .. } => return Ok(gpu.name),
            MpsSupport::Unavailable { reason } => reasons.push(format!("{}: {reason}", gpu.name)),
        }
    }
    Err(format!(
        "no GPU can be shared here ({})",
        reasons.join("; ")
    ))
}
