//! Fits the parameters of a simulated GPU to a profile that was measured on a real one.

use doc::{GpuDescription, GpuSpec, HostDescription, Profile, Workload};
use gpusim::{Gpu, Host};
use units::Seconds;
use units::corun::Setting;

use crate::sim::Sim;
use crate::{Device, OpenError, Options, Window};

/// Maximum number of samples of the profile that are simulated in one evaluation; if there are more, they are thinned
/// out evenly. Six parameters are fitted, so 60 samples are ten for each; more would mainly take time.
const MOST_SAMPLES: usize = 60;
/// Maximum number of simulations of the profile in one fit, which bounds the time: 24,000 co-runs. A pass over the six
/// parameters takes at most 12 simulations, so the fit ends after about 30 passes, unless it reaches the last factor
/// earlier; the best result so far is kept.
const EVALUATIONS: u32 = 400;
/// First and last factor by which a parameter is changed: two changes by the first factor double it, and the last one,
/// 1 %, is the precision of measured throughputs.
const FIRST_FACTOR: f64 = 1.5;
const LAST_FACTOR: f64 = 1.01;

/// A GPU description fitted to a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The fitted parameters. They describe GPU, host and training program together: the peak rate, for example, is the
    /// one for which the simulator's kernels are as fast as the measured ones.
    pub gpu: GpuDescription,
    /// Mean of `|ln(simulated / measured)|` over tasks and samples with the initial parameters.
    pub error_before: f64,
    /// The same with the fitted parameters.
    pub error_after: f64,
    /// Number of samples that were compared.
    pub samples: usize,
}

/// One measured co-run: its runs and their rates, all above 0.
type Measured = (Vec<Setting>, Vec<f64>);

/// The fitted parameters, each scaled by a factor: peak rate, bandwidth, and the host's costs.
const FIGURES: [fn(&mut GpuDescription, f64); 6] = [
    |gpu, factor| gpu.fp32_tflops *= factor,
    |gpu, factor| gpu.memory_gb_per_s *= factor,
    |gpu, factor| with_host(gpu, |host| host.us_per_step *= factor),
    |gpu, factor| with_host(gpu, |host| host.us_per_sample *= factor),
    |gpu, factor| with_host(gpu, |host| host.contention *= factor),
    |gpu, factor| with_host(gpu, |host| host.launch_us *= factor),
];

fn with_host(gpu: &mut GpuDescription, change: impl FnOnce(&mut HostDescription)) {
    let mut host = gpu.host.unwrap_or(Host::DEFAULT.description());
    change(&mut host);
    gpu.host = Some(host);
}

/// Fits a description to a profile, starting from `start`: pattern search (Hooke and Jeeves 1961) on the logarithm of
/// each parameter. Number of SMs and memory are unchanged.
///
/// # Errors
/// [`OpenError::Workload`] if a task or the start cannot be simulated, or no sample is usable.
pub fn calibrate(
    profile: &Profile,
    start: &GpuSpec,
    options: &Options,
) -> Result<Calibrated, OpenError> {
    let mut workload = profile.header.workload.clone();
    workload.device.gpu = Some(start.clone());
    workload.device.memory = None;
    let measured = measured(profile);
    if measured.is_empty() {
        return Err(OpenError::workload(
            doc::Code::NothingToDo,
            "$.tasks",
            "the profile has no sample with a throughput above 0".to_owned(),
            "give a profile that was measured",
        ));
    }
    let mut gpu = described(&workload, start)?;
    gpu.memory_bytes = None;
    let error_before = error(&workload, &gpu, &measured, options)?;
    let mut best = (error_before, gpu);
    let mut factor = FIRST_FACTOR;
    let mut evaluations = 0;
    while factor > LAST_FACTOR && evaluations < EVALUATIONS {
        let mut improved = false;
        for change in FIGURES {
            for by in [factor, 1.0 / factor] {
                let mut candidate = best.1.clone();
                change(&mut candidate, by);
                evaluations += 1;
                // A candidate out of range is skipped.
                if let Ok(found) = error(&workload, &candidate, &measured, options)
                    && found < best.0
                {
                    best = (found, candidate);
                    improved = true;
                    break;
                }
            }
        }
        if !improved {
            factor = factor.sqrt();
        }
    }
    let mut gpu = best.1;
    gpu.memory_bytes = described(&workload, start)?.memory_bytes;
    gpu.name = format!("{} as measured", profile.header.device.name)
        .chars()
        .take(64)
        .collect();
    Ok(Calibrated {
        gpu,
        error_before,
        error_after: best.0,
        samples: measured.len(),
    })
}

fn described(workload: &Workload, start: &GpuSpec) -> Result<GpuDescription, OpenError> {
    match start {
        GpuSpec::Described(description) => {
            let mut gpu = description.clone();
            with_host(&mut gpu, |_| {});
            Ok(gpu)
        }
        GpuSpec::Named(name) => Ok(match Gpu::built_in(name) {
            Ok(gpu) => gpu.description(),
            Err(_) => host::SimulatedGpu::simulator(workload)?
                .0
                .gpu()
                .description(),
        }),
    }
}

fn measured(profile: &Profile) -> Vec<Measured> {
    let workload = &profile.header.workload;
    let every = profile.samples.len().div_ceil(MOST_SAMPLES).max(1);
    let usable = profile.samples.iter().step_by(every).filter_map(|sample| {
        let mut pairs: Vec<(Setting, f64)> = sample
            .tasks
            .iter()
            .filter_map(|task| {
                let run = Setting {
                    task: workload.task_index(&task.id)?,
                    batch: task.batch,
                    share: task.share,
                };
                Some((run, task.throughput.get()))
            })
            .collect();
        pairs.sort_by_key(|(run, _)| *run);
        let above_zero = pairs.iter().all(|(_, rate)| *rate > 0.0);
        (above_zero && !pairs.is_empty()).then(|| pairs.into_iter().unzip())
    });
    usable.collect()
}

/// Mean of `|ln(simulated / measured)|`; infinite if a co-run cannot be simulated.
fn error(
    workload: &Workload,
    gpu: &GpuDescription,
    measured: &[Measured],
    options: &Options,
) -> Result<f64, OpenError> {
    let mut workload = workload.clone();
    workload.device.gpu = Some(GpuSpec::Described(gpu.clone()));
    let mut sim = Sim::open(&workload, options)?;
    let mut sum = 0.0;
    let mut count = 0.0;
    for (runs, rates) in measured {
        let Ok(simulated) = sim.measure(runs, &SHORT) else {
            return Ok(f64::INFINITY);
        };
        for (simulated, rate) in simulated.rates.iter().zip(rates) {
            sum += (simulated.throughput.get() / rate).ln().abs();
            count += 1.0;
        }
    }
    Ok(sum / count)
}

/// The shortest window that the simulator allows.
const SHORT: Window = Window {
    least: Seconds::ZERO,
    most: Seconds::ZERO,
    precision: 1.0,
    repeats: 1,
};

#[cfg(test)]
mod tests;
