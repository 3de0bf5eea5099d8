//! Selects the device of a workload.

use doc::{DeviceKind, GpuSpec, Workload};
use jobs::Cpus;

use crate::{discovery, word};

/// An error message if an option for jobs on GPUs was given for a device of another kind. `--cpus` without a list of
/// processors is accepted, because a script may give the default for every device.
#[must_use]
pub fn unfit(kind: DeviceKind, attach_mps: bool, cpus: &Cpus) -> Option<String> {
    let given = [
        ("--attach-mps", attach_mps),
        ("--cpus", matches!(cpus, Cpus::List(_))),
    ];
    let (option, _) = given.into_iter().find(|(_, given)| *given)?;
    let kind = word(kind);
    (kind != word(DeviceKind::Cuda)).then(|| {
        format!("{option}: it is for jobs on a GPU, and the device is {kind}; leave it out, or give --device cuda")
    })
}

/// The device that a workload runs on, and, for `auto`, a message with the choice and the reason.
#[must_use]
pub fn resolve(workload: &Workload) -> (DeviceKind, Option<String>) {
    if workload.device.kind != DeviceKind::Auto {
        return (workload.device.kind, None);
    }
    match discovery::shareable(&[], 1).map(|mut gpus| gpus.swap_remove(0)) {
        Ok(gpu) => {
            let unverified = gpu
                .unverified
                .map_or_else(String::new, |u| format!(" ({u})"));
            let note = format!("using the GPU of this machine, {}{unverified}", gpu.name);
            (DeviceKind::Cuda, Some(note))
        }
        // The simulator cannot run any of these tasks, but every task has a program.
        Err(error) if workload.tasks.iter().all(is_a_program) => {
            let note = format!("sharing the processors of this machine, because there is {error}");
            (DeviceKind::Cpu, Some(note))
        }
        Err(error) => {
            let gpu = match &workload.device.gpu {
                Some(GpuSpec::Named(name)) => name,
                Some(GpuSpec::Described(description)) => &description.name,
                None => gpusim::Gpu::DEFAULT_NAME,
            };
            let note = format!("simulating the GPU {gpu}, because there is {error}");
            (DeviceKind::Sim, Some(note))
        }
    }
}

/// Whether a task has a program and nothing that the simulator could run.
fn is_a_program(task: &doc::Task) -> bool {
    let modelled =
        task.model.is_some() || !task.layers.is_empty() || task.flops_per_sample.is_some();
    task.job.is_some() && !modelled
}
