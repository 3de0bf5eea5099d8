//! Which device a workload runs on.

use doc::{DeviceKind, Workload};

use crate::real::Real;
use crate::replay::Replay;
use crate::sim::Sim;
use crate::{Device, OpenError, Options};

/// A device that is ready to measure.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// The workload with its device resolved and the facts of the catalogue filled in.
    pub workload: Workload,
    /// Which device `auto` chose and why, and which programs already use it; one line each.
    pub note: Option<String>,
}

/// Opens the device of the workload; `auto` is `cuda` if a GPU can be shared, otherwise `sim`.
///
/// # Errors
/// [`OpenError`] says whether the machine or the workload is the reason.
pub fn open(workload: &Workload, options: &Options) -> Result<Opened, OpenError> {
    let (kind, note) = host::resolve(workload);
    if let Some(why) = host::unfit(kind, options.attach_mps, &options.cpus) {
        return Err(OpenError::Unfit(why));
    }
    let workload = host::complete(workload, kind)?;
    let real = |real: Real| {
        let others = real.others();
        (Box::new(real) as Box<dyn Device>, others)
    };
    let (device, others): (Box<dyn Device>, _) = match kind {
        DeviceKind::Auto | DeviceKind::Sim => (Box::new(Sim::open(&workload, options)?), None),
        DeviceKind::Replay => {
            let recording = options.replay.as_ref().ok_or(OpenError::NoRecording)?;
            (Box::new(Replay::open(&workload, recording)?), None)
        }
        DeviceKind::Cuda => real(Real::cuda(&workload, options)?),
        DeviceKind::Cpu => real(Real::cpu(&workload, options)?),
    };
    let notes: Vec<String> = note.into_iter().chain(others).collect();
    Ok(Opened {
        device,
        workload,
        note: (!notes.is_empty()).then(|| notes.join("\n")),
    })
}

/// [`host::complete`]: what the catalogue knows of a task, written into the workload.
///
/// # Errors
/// [`OpenError::Workload`] if the GPU of a simulated device is unknown.
pub fn complete(workload: &Workload, kind: DeviceKind) -> Result<Workload, OpenError> {
    Ok(host::complete(workload, kind)?)
}
