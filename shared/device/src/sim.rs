//! The GPU simulator as a device.

mod noise;

use std::collections::BTreeMap;

use doc::{Code, DeviceFingerprint, DeviceKind, Task, Workload};
use gpusim::{
    GpuError, Network, NetworkError, Outcome, Program, SimTask, Simulator, TaskError, Trace,
};
use units::{Batch, Bytes, SamplesPerSec, Seconds};

use crate::{Device, MeasureError, Measurement, OpenError, Options, Rate, Run, Window};

/// The tasks of one workload on a simulated GPU. Nothing that it says was measured.
#[derive(Debug)]
pub struct Sim {
    simulator: Simulator,
    tasks: Vec<Task>,
    programs: BTreeMap<(usize, Batch), Program>,
    memory: Option<Bytes>,
    seed: u64,
    noise_percent: f64,
}

/// The simulator of a workload, and the memory of its GPU where that is known.
pub(crate) fn simulator(workload: &Workload) -> Result<(Simulator, Option<Bytes>), OpenError> {
    let device = &workload.device;
    let simulator = Simulator::of_device(device).map_err(|error| {
        let (code, field, advice) = match &error {
            GpuError::UnknownName { .. } => (Code::UnknownName, "gpu", "name one of these"),
            _ => (Code::OutOfRange, "gpu_description", "correct the figure"),
        };
        let path = format!("$.device.{field}");
        OpenError::workload(code, &path, error.to_string(), advice)
    })?;
    let built_in = simulator.gpu().memory_bytes();
    let built_in = built_in.and_then(|bytes| Bytes::new(bytes).ok());
    Ok((simulator, device.memory.or(built_in)))
}

impl Sim {
    /// Builds the simulated GPU and looks at the networks of every task.
    ///
    /// # Errors
    /// [`OpenError::Workload`] if the GPU or a model is not known, or a task says nothing of what
    /// it trains.
    pub fn open(workload: &Workload, options: &Options) -> Result<Self, OpenError> {
        let (simulator, memory) = simulator(workload)?;
        for (index, task) in workload.tasks.iter().enumerate() {
            Network::of_task(task).map_err(|error| task_fault(index, task, &error))?;
        }
        Ok(Self {
            simulator,
            tasks: workload.tasks.clone(),
            programs: BTreeMap::new(),
            memory,
            seed: options.seed,
            noise_percent: options.noise_percent,
        })
    }

    /// What the simulated GPU does in a configuration, kernel by kernel.
    ///
    /// # Errors
    /// As [`Device::measure`].
    pub fn trace(&mut self, configuration: &[Run]) -> Result<Trace, MeasureError> {
        self.check_memory(configuration)?;
        self.compile(configuration)?;
        let options = gpusim::Options {
            seed: self.seed,
            ..gpusim::Options::default()
        };
        let tasks = self.sim_tasks(configuration)?;
        Ok(self.simulator.trace(&tasks, &options).1)
    }

    fn check_memory(&self, configuration: &[Run]) -> Result<(), MeasureError> {
        let Some(memory) = self.memory else {
            return Ok(());
        };
        let need: f64 = configuration
            .iter()
            .filter_map(|run| self.tasks[run.task].memory.map(|m| m.at(run.batch)))
            .sum();
        if need <= memory.get() as f64 {
            return Ok(());
        }
        Err(MeasureError::Failed(format!(
            "out of memory: the tasks need {:.2} GB of the GPU's {:.2} GB",
            need * 1e-9,
            memory.get() as f64 * 1e-9
        )))
    }

    fn compile(&mut self, configuration: &[Run]) -> Result<(), MeasureError> {
        for run in configuration {
            let key = (run.task, run.batch);
            if !self.programs.contains_key(&key) {
                let program = self
                    .simulator
                    .task_program(&self.tasks[run.task], run.batch)
                    .map_err(|error| MeasureError::Failed(error.to_string()))?;
                self.programs.insert(key, program);
            }
        }
        Ok(())
    }

    fn sim_tasks(&self, configuration: &[Run]) -> Result<Vec<SimTask<'_>>, MeasureError> {
        let program = |run: &Run| {
            let program = self.programs.get(&(run.task, run.batch))?;
            Some(SimTask {
                program,
                share: run.share,
            })
        };
        let all: Option<Vec<_>> = configuration.iter().map(program).collect();
        all.ok_or_else(|| MeasureError::Failed("a task has no program".to_owned()))
    }

    /// One simulated window of at least `least` seconds.
    fn window(&self, tasks: &[SimTask<'_>], least: Seconds, repeat: u32) -> Outcome {
        let options = gpusim::Options {
            seed: noise::of_repeat(self.seed, repeat),
            ..gpusim::Options::default()
        };
        self.simulator.run_for(tasks, least.get(), &options)
    }
}

fn task_fault(index: usize, task: &Task, error: &TaskError) -> OpenError {
    let (code, field, advice) = match error {
        TaskError::NoModel { .. } => (
            Code::NeedsMore,
            "",
            "or choose a device that runs the task's program",
        ),
        TaskError::Network {
            source: NetworkError::UnknownName { .. },
            ..
        } => (Code::UnknownName, ".model", "name one of these"),
        _ if task.model.is_some() => (Code::OutOfRange, ".model", "correct it"),
        _ if task.layers.is_empty() => (Code::OutOfRange, ".flops_per_sample", "correct it"),
        _ => (Code::OutOfRange, ".layers", "correct it"),
    };
    let path = format!("$.tasks[{index}]{field}");
    OpenError::workload(code, &path, error.to_string(), advice)
}

impl Device for Sim {
    fn fingerprint(&self) -> DeviceFingerprint {
        let gpu = self.simulator.gpu();
        DeviceFingerprint {
            kind: DeviceKind::Sim,
            name: gpu.name().to_owned(),
            simulated: true,
            units: Some(gpu.sms()),
            detail: Some(format!("simulator {}", env!("CARGO_PKG_VERSION"))),
            noise_percent: (self.noise_percent > 0.0).then(|| self.noise_percent.to_string()),
        }
    }

    fn measure(
        &mut self,
        configuration: &[Run],
        window: &Window,
    ) -> Result<Measurement, MeasureError> {
        self.check_memory(configuration)?;
        self.compile(configuration)?;
        let tasks = self.sim_tasks(configuration)?;
        let repeats = window.repeats.max(1);
        let sigma = self.noise_percent / 100.0;
        let mut rates = vec![Vec::with_capacity(repeats as usize); configuration.len()];
        let mut seconds = 0.0;
        for repeat in 0..repeats {
            let outcome = self.window(&tasks, window.least, repeat);
            seconds += outcome.window_s;
            let seed = noise::of_repeat(self.seed, repeat);
            for (position, rate) in outcome.samples_per_s.iter().enumerate() {
                let factor = noise::factor(seed, configuration, position, sigma);
                rates[position].push(rate * factor);
            }
        }
        let failed = |error: units::UnitError| MeasureError::Failed(error.to_string());
        let rates: Result<Vec<Rate>, MeasureError> =
            rates.iter().map(|r| mean_rate(r, sigma)).collect();
        Ok(Measurement {
            rates: rates?,
            window: Seconds::new(seconds / f64::from(repeats)).map_err(failed)?,
            repeats,
        })
    }
}

/// Mean and standard error: the larger of that of the spread and that of the noise asked for;
/// unknown where there is neither.
fn mean_rate(rates: &[f64], sigma: f64) -> Result<Rate, MeasureError> {
    let failed = |error: units::UnitError| MeasureError::Failed(error.to_string());
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
    })
}

#[cfg(test)]
mod tests;
