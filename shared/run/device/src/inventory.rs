//! Every device of this machine, usable or not, for users who want to choose one.

use doc::{DeviceKind, ListedDevice};
use gpusim::Gpu;
use host::Meter;
use host::discovery::{self, MpsSupport};
use jobs::RunDir;
use jobs::cgroup::{self, Cgroups};

/// Lists the GPUs (or the reason why there is none), the processor, and the GPUs that the simulator
/// knows.
#[must_use]
pub fn inventory() -> Vec<ListedDevice> {
    let mut all = gpus();
    all.push(processor());
    all.extend(Gpu::BUILT_IN.iter().filter_map(|name| simulated(name)));
    all
}

fn listed(kind: DeviceKind, name: &str, reason: Option<String>) -> ListedDevice {
    ListedDevice {
        kind,
        name: name.to_owned(),
        usable: reason.is_none(),
        reason,
        unverified: None,
        units: None,
        memory_bytes: None,
        used_bytes: None,
        utilisation_percent: None,
        uuid: None,
        compute_capability: None,
        driver: None,
        cuda_version: None,
        mps_clients: None,
    }
}

fn gpus() -> Vec<ListedDevice> {
    match discovery::discover() {
        Ok(gpus) => gpus.into_iter().map(gpu).collect(),
        Err(error) => vec![listed(DeviceKind::Cuda, "cuda", Some(error.to_string()))],
    }
}

fn gpu(gpu: discovery::Gpu) -> ListedDevice {
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let (clients, reason) = match gpu.mps {
        MpsSupport::Available { client_limit } => (u32::try_from(client_limit).ok(), None),
        MpsSupport::Unavailable { reason } => (None, Some(reason)),
    };
    let (used_bytes, utilisation_percent) =
        Meter::open(&gpu.uuid).map_or((None, None), |meter| meter.now());
    ListedDevice {
        units: Some(gpu.sms),
        used_bytes,
        utilisation_percent,
        memory_bytes: Some(gpu.memory.get()),
        uuid: Some(gpu.uuid),
        compute_capability: Some(version(gpu.compute_capability)),
        driver: gpu.driver,
        unverified: gpu.unverified,
        cuda_version: Some(version(gpu.cuda_version)),
        mps_clients: clients,
        ..listed(DeviceKind::Cuda, &gpu.name, reason)
    }
}

fn processor() -> ListedDevice {
    // Only a trial shows whether quotas can be set; it cleans up after itself.
    let tried = RunDir::create(&RunDir::default_base(), "inventory")
        .map_err(|e| e.to_string())
        .and_then(|(mut run, _)| Cgroups::create(&mut run).map_err(|e| e.to_string()));
    ListedDevice {
        units: u32::try_from(cgroup::cores()).ok(),
        ..listed(DeviceKind::Cpu, "processor", tried.err())
    }
}

fn simulated(name: &str) -> Option<ListedDevice> {
    let gpu = Gpu::built_in(name).ok()?;
    Some(ListedDevice {
        units: Some(gpu.sms()),
        memory_bytes: gpu.memory_bytes(),
        ..listed(DeviceKind::Sim, name, None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_listed_and_what_is_not_usable_has_a_reason() {
        let all = inventory();
        for kind in [DeviceKind::Cuda, DeviceKind::Cpu, DeviceKind::Sim] {
            assert!(all.iter().any(|d| d.kind == kind), "{kind:?}");
        }
        assert!(
            all.iter().all(|d| d.usable == d.reason.is_none()),
            "{all:?}"
        );
    }
}
