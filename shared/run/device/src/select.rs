//! Selects and opens the device of a workload.

use doc::{DeviceKind, Workload};

use crate::real::Real;
use crate::replay::Replay;
use crate::sim::Sim;
use crate::{Device, OpenError, Options};

/// A device that is ready to measure.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// The workload with its device resolved and facts from the catalogue filled in.
    pub workload: Workload,
    /// Messages, one per line: the choice of `auto` with its reason, and programs that already use
    /// the device.
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

/// Calls [`host::complete`], which writes facts from the catalogue about tasks into the workload.
///
/// # Errors
/// [`OpenError::Workload`] if the GPU of a simulated device is unknown.
pub fn complete(workload: &Workload, kind: DeviceKind) -> Result<Workload, OpenError> {
    Ok(host::complete(workload, kind)?)
}
