//! Writes facts from the catalogue about tasks into the workload, for later tools.

use doc::{DeviceKind, GpuSpec, Memory, Task, UpdateBytes, Workload};
use gpusim::{Gpu, Network};

use units::{Bytes, Flops};

use crate::{OpenError, SimulatedGpu};

/// Fills in missing values from the catalogue: for every known model the operations and bytes per sample and the size
/// of an update, and on the simulator the memory of tasks and GPU. Existing values are kept. `kind` becomes the device
/// kind of the workload, except for a replay, because the tasks do not run there.
///
/// # Errors
/// [`OpenError::Workload`] if the GPU of a simulated device is unknown.
pub fn complete(workload: &Workload, kind: DeviceKind) -> Result<Workload, OpenError> {
    let mut workload = workload.clone();
    if kind != DeviceKind::Replay {
        workload.device.kind = kind;
    }
    let simulated = kind == DeviceKind::Sim;
    if simulated {
        workload
            .device
            .gpu
            .get_or_insert_with(|| GpuSpec::Named(Gpu::DEFAULT_NAME.to_owned()));
        workload.device.memory = SimulatedGpu::simulator(&workload)?.1;
    }
    for task in &mut workload.tasks {
        // The device that needs a missing or wrong value reports it.
        if let Ok(network) = Network::of_task(task) {
            fill(task, &network, simulated);
        }
    }
    Ok(workload)
}

fn fill(task: &mut Task, network: &Network, simulated: bool) {
    let both_absent = task.flops_per_sample.is_none() && task.bytes_per_sample.is_none();
    let bytes = network.bytes_per_sample();
    if let (true, Ok(flops)) = (both_absent, Flops::new(network.flops_per_sample()))
        && bytes.is_finite()
        && bytes > 0.0
    {
        task.flops_per_sample = Some(flops);
        task.bytes_per_sample = Some(bytes);
    }
    let size = |bytes: Option<u64>| bytes.and_then(|b| Bytes::new(b).ok());
    if let (None, Some(model)) = (task.update_bytes, size(network.model_bytes())) {
        task.update_bytes = Some(UpdateBytes {
            down: model,
            up: model,
        });
    }
    if let (true, None, Some(fixed), Some(per_sample)) = (
        simulated,
        task.memory,
        size(network.fixed_memory_bytes()),
        size(network.activation_bytes_per_sample()),
    ) {
        task.memory = Some(Memory { fixed, per_sample });
    }
}
