//! Which device a workload runs on.

use doc::{DeviceKind, GpuSpec, Workload};

use crate::discovery::{self, Gpu, MpsSupport};

/// The device that a workload runs on, and in words which one `auto` chose and why.
#[must_use]
pub fn resolve(workload: &Workload) -> (DeviceKind, Option<String>) {
    if workload.device.kind != DeviceKind::Auto {
        return (workload.device.kind, None);
    }
    match shareable_gpu() {
        Ok(gpu) => {
            let unverified = gpu
                .unverified
                .map_or_else(String::new, |u| format!(" ({u})"));
            let note = format!("using the GPU of this machine, {}{unverified}", gpu.name);
            (DeviceKind::Cuda, Some(note))
        }
        // Nothing says what the simulator should do, and every task has a program.
        Err(reason) if workload.tasks.iter().all(is_a_program) => {
            let note = format!("sharing the processors of this machine, because {reason}");
            (DeviceKind::Cpu, Some(note))
        }
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

/// Whether a task has a program and nothing that the simulator could run.
fn is_a_program(task: &doc::Task) -> bool {
    let modelled =
        task.model.is_some() || !task.layers.is_empty() || task.flops_per_sample.is_some();
    task.job.is_some() && !modelled
}

/// The first GPU that MPS can share, or why there is none.
fn shareable_gpu() -> Result<Gpu, String> {
    let gpus = discovery::discover().map_err(|error| format!("there is {error}"))?;
    let mut reasons = Vec::new();
    for gpu in gpus {
        match gpu.mps {
            MpsSupport::Available { .. } => return Ok(gpu),
            MpsSupport::Unavailable { ref reason } => {
                reasons.push(format!("{}: {reason}", gpu.name))
            }
        }
    }
    Err(format!(
        "no GPU can be shared here ({})",
        reasons.join("; ")
    ))
}
