//! Measures GPU utilisation while jobs compute, with NVML.

use std::time::{SystemTime, UNIX_EPOCH};

use doc::GpuUse;
use jobs::process;
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};

use crate::sight::{computing, held};

/// Reads the counters of one GPU.
#[derive(Debug)]
pub struct Meter {
    nvml: Nvml,
    uuid: String,
}

/// State of the counters at the start of a measurement.
#[derive(Debug)]
pub struct Reading<'a> {
    meter: &'a Meter,
    /// Start time in microseconds since 1970, the clock of NVML's own samples.
    since: u64,
    /// Absent on GPUs before Hopper, and if users may not read these counters.
    gpm: Option<GpmSample<'a>>,
}

impl Meter {
    /// Opens the GPU with this UUID.
    ///
    /// # Errors
    /// The reason why NVML reports nothing about this GPU.
    pub fn open(uuid: &str) -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| error.to_string())?;
        nvml.device_by_uuid(uuid)
            .map_err(|error| error.to_string())?;
        let uuid = uuid.to_owned();
        Ok(Self { nvml, uuid })
    }

    /// Records the state of the counters.
    #[must_use]
    pub fn begin(&self) -> Reading<'_> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Reading {
            meter: self,
            since: now.map_or(0, |t| u64::try_from(t.as_micros()).unwrap_or(u64::MAX)),
            gpm: self.device().and_then(|device| counters(&device)),
        }
    }

    /// Bytes of memory in use, and the percentage of the recent past in which a kernel ran; each absent if the GPU does
    /// not report it.
    #[must_use]
    pub fn now(&self) -> (Option<u64>, Option<u32>) {
        let device = self.device();
        let memory = device.as_ref().and_then(|d| d.memory_info().ok());
        let rates = device.and_then(|d| d.utilization_rates().ok());
        (memory.map(|m| m.used), rates.map(|r| r.gpu))
    }

    fn device(&self) -> Option<Device<'_>> {
        self.nvml.device_by_uuid(self.uuid.as_str()).ok()
    }
}

impl Reading<'_> {
    /// GPU utilisation since the start of the measurement, and the memory that each of the process groups uses now.
    /// Values that GPU or driver cannot report are absent; `None` if they report nothing.
    #[must_use]
    pub fn end(self, groups: &[i32]) -> Option<GpuUse> {
        let device = self.meter.device()?;
        let [sm_active_percent, sm_occupancy_percent] = self.gpm(&device);
        let used = GpuUse {
            utilisation_percent: self.utilisation(&device),
            sm_active_percent,
            sm_occupancy_percent,
            memory_bytes: device.memory_info().ok().map(|memory| memory.used),
            tasks_memory_bytes: memory_of(&device, groups),
        };
        (used != GpuUse::default()).then_some(used)
    }

    /// Mean of the driver's samples, each of which is the fraction of about 0.2 s in which a kernel ran. The driver
    /// keeps only about the last hundred, so for longer measurements the mean covers only the end.
    fn utilisation(&self, device: &Device<'_>) -> Option<f64> {
        let samples = device.samples(Sampling::GpuUtilization, self.since).ok()?;
        let values: Vec<f64> = samples
            .iter()
            .map(|sample| match sample.value {
                SampleValue::U32(value) => Some(f64::from(value)),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        mean.is_finite().then_some(mean)
    }

    fn gpm(&self, device: &Device<'_>) -> [Option<f64>; 2] {
        const METRICS: [GpmMetricId; 2] = [GpmMetricId::SmUtil, GpmMetricId::SmOccupancy];
        let between = self.gpm.as_ref().and_then(|before| {
            let now = counters(device)?;
            gpm_metrics_get(&self.meter.nvml, before, &now, &METRICS).ok()
        });
        let mut values = between.into_iter().flatten();
        METRICS.map(|_| values.next()?.ok().map(|metric| metric.value))
    }
}

fn counters<'a>(device: &Device<'a>) -> Option<GpmSample<'a>> {
    device.gpm_support().ok().filter(|&supported| supported)?;
    device.gpm_sample().ok()
}

fn memory_of(device: &Device<'_>, groups: &[i32]) -> Option<Vec<u64>> {
    let processes = computing(device).ok()?;
    let of_group = |group: &i32| {
        let members = process::of_group(*group);
        let own = processes.iter().filter(|process| {
            members
                .iter()
                .any(|member| u32::try_from(member.pid) == Ok(process.pid))
        });
        own.map(held).sum::<Option<u64>>()
    };
    let memory: Option<Vec<u64>> = groups.iter().map(of_group).collect();
    memory.filter(|memory| memory.iter().any(|&bytes| bytes > 0))
}
