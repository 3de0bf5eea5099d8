//! Checks whether the simulated device and models of a workload can be built at all.

use doc::{DeviceKind, GpuSpec, Workload};
use gpusim::{Gpu, Network};

use crate::judge::Judge;

/// Checks the names of GPUs and models, which the validation of documents does not know.
pub fn judge(workload: &Workload, j: &mut Judge) {
    j.field("device", |j| {
        let gpu = match &workload.device.gpu {
            None => Ok(()),
            Some(GpuSpec::Named(name)) => Gpu::built_in(name).map(drop),
            Some(GpuSpec::Described(description)) => Gpu::new(description).map(drop),
        };
        if let Err(error) = gpu {
            j.contradiction("gpu", "a GPU to simulate", error);
        }
    });
    for (i, task) in workload.tasks.iter().enumerate() {
        let simulated = matches!(workload.device.kind, DeviceKind::Sim | DeviceKind::Auto);
        let named = task.model.is_some() || !task.layers.is_empty();
        if !(named || simulated && task.job.is_none()) {
            continue;
        }
        if let Err(error) = Network::of_task(task) {
            j.field("tasks", |j| {
                j.index(i, |j| j.contradiction("model", "a model to train", error))
            });
        }
    }
}
