//! The GPU simulator as a device.

mod noise;

use doc::{DeviceFingerprint, FailureCause, Launch, Workload};
use gpusim::Trace;
use host::{SimError, SimulatedGpu};
use math::{in_parallel, processors};
use units::corun::Setting;
use units::{SamplesPerSec, Seconds};

use crate::{Device, MeasureError, Measurement, OpenError, Options, Rate, Window};

/// The tasks of one workload on a simulated GPU. Its results are simulated and not measured.
#[derive(Debug)]
pub struct Sim {
    gpu: SimulatedGpu,
    seed: u64,
    noise_percent: f64,
    /// Announced configurations.
    coming: Vec<Vec<Setting>>,
    /// Configurations that were simulated ahead, in parallel with others.
    ahead: Vec<Ahead>,
}

/// A configuration that was simulated before it was requested.
#[derive(Debug)]
struct Ahead {
    configuration: Vec<Setting>,
    window: Window,
    result: Result<Measurement, MeasureError>,
}

impl Sim {
    /// Builds the simulated GPU and checks the network of every task.
    ///
    /// # Errors
    /// [`OpenError::Workload`] if the GPU or a model is unknown, or a task does not name its model.
    pub fn open(workload: &Workload, options: &Options) -> Result<Self, OpenError> {
        Ok(Self {
            gpu: SimulatedGpu::open(workload)?,
            seed: options.seed,
            noise_percent: options.noise_percent,
            coming: Vec::new(),
            ahead: Vec::new(),
        })
    }

    /// Simulates a configuration for the first time, and in parallel announced ones, one on each remaining processor.
    fn first_time(
        &mut self,
        configuration: &[Setting],
        window: &Window,
    ) -> Result<Measurement, MeasureError> {
        let known = |a: &Ahead| a.configuration == configuration && a.window == *window;
        if let Some(at) = self.ahead.iter().position(known) {
            return self.ahead.swap_remove(at).result;
        }
        let coming = std::mem::take(&mut self.coming).into_iter();
        let new = coming.filter(|next| {
            next != configuration && self.ahead.iter().all(|a| a.configuration != *next)
        });
        let now: Vec<Vec<Setting>> = std::iter::once(configuration.to_vec())
            .chain(new)
            .take(processors())
            .collect();
        let simulated = in_parallel(&now, |next| self.simulate(next, window, 0));
        let mut results = now.into_iter().zip(simulated);
        let asked = results.next();
        self.ahead
            .extend(results.map(|(configuration, result)| Ahead {
                configuration,
                window: *window,
                result,
            }));
        asked.map_or_else(
            || self.simulate(configuration, window, 0),
            |(_, result)| result,
        )
    }

    /// Trace of the kernels that the simulated GPU runs in a configuration.
    ///
    /// # Errors
    /// Like [`Device::measure`].
    pub fn trace(&mut self, configuration: &[Setting]) -> Result<Trace, MeasureError> {
        Ok(self.gpu.trace(configuration, self.seed)?)
    }
}

impl From<SimError> for MeasureError {
    fn from(error: SimError) -> Self {
        match error {
            SimError::OutOfMemory { .. } => Self::failed(FailureCause::Memory, error.to_string()),
            _ => Self::failed(FailureCause::Other, error.to_string()),
        }
    }
}

impl Device for Sim {
    fn fingerprint(&self) -> DeviceFingerprint {
        self.gpu.fingerprint(self.noise_percent)
    }

    fn measure(
        &mut self,
        configuration: &[Setting],
        window: &Window,
    ) -> Result<Measurement, MeasureError> {
        self.measure_again(configuration, window, 0)
    }

    fn measure_again(
        &mut self,
        configuration: &[Setting],
        window: &Window,
        before: u32,
    ) -> Result<Measurement, MeasureError> {
        match before {
            0 => self.first_time(configuration, window),
            _ => self.simulate(configuration, window, before),
        }
    }

    fn expect(&mut self, coming: Vec<Vec<Setting>>) {
        self.coming = coming;
    }
}

impl Sim {
    fn simulate(
        &self,
        configuration: &[Setting],
        window: &Window,
        before: u32,
    ) -> Result<Measurement, MeasureError> {
        let repeats = window.repeats.max(1);
        let sigma = self.noise_percent / 100.0;
        let mut rates = vec![Vec::with_capacity(repeats as usize); configuration.len()];
        let mut seconds = 0.0;
        for repeat in 0..repeats {
            let seed =
                host::of_repeat(self.seed, before.wrapping_mul(repeats).wrapping_add(repeat));
            let outcome = self.gpu.window(configuration, window.least, seed)?;
            seconds += outcome.window_s;
            for (position, rate) in outcome.samples_per_s.iter().enumerate() {
                let factor = noise::factor(seed, configuration, position, sigma);
                rates[position].push(rate * factor);
            }
        }
        let failed =
            |error: units::UnitError| MeasureError::failed(FailureCause::Other, error.to_string());
        let rates: Result<Vec<Rate>, MeasureError> =
            rates.iter().map(|r| mean_rate(r, sigma)).collect();
        Ok(Measurement {
            rates: rates?,
            window: Seconds::new(seconds / f64::from(repeats)).map_err(failed)?,
            repeats,
            gpu: None,
        })
    }
}

/// Mean and standard error. The error is the larger of the one from the spread and the one from the requested noise;
/// unknown if there is neither.
fn mean_rate(rates: &[f64], sigma: f64) -> Result<Rate, MeasureError> {
    let failed =
        |error: units::UnitError| MeasureError::failed(FailureCause::Other, error.to_string());
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let spread = if rates.len() > 1 {
        let squares: f64 = rates.iter().map(|r| (r - mean).powi(2)).sum();
        (squares / (n - 1.0) / n).sqrt()
    } else {
        0.0
    };
    let stderr = spread.max(sigma * mean / n.sqrt());
    let known = rates.len() > 1 || sigma > 0.0;
    Ok(Rate {
        throughput: SamplesPerSec::new(mean).map_err(failed)?,
        stderr: match known {
            true => Some(SamplesPerSec::new(stderr).map_err(failed)?),
            false => None,
        },
        gradient: None,
        launch: Launch::default(),
    })
}

#[cfg(test)]
mod tests;
