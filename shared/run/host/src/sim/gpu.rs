//! The tasks of a workload on the simulated GPU.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use doc::{Code, DeviceFingerprint, DeviceKind, Task, Workload};
use gpusim::{
    GpuError, Network, NetworkError, Program, SimTask, SimulatedRates, Simulator, TaskError, Trace,
};
use units::corun::Setting;
use units::{Batch, Bytes, Seconds};

use super::seeds::of_repeat;
use crate::error::{OpenError, SimError};

/// Default minimum window of the simulator, in seconds. Two trainings that start together may need seconds to reach a
/// steady state: two resnet34 at 80 % each reach 3,870 samples/s in the first five steps, 3,530 in 10 s and 3,440 in a
/// minute. A round lasts tens of seconds, and simulating 10 costs milliseconds.
pub const STEADY_WINDOW_S: f64 = 10.0;

/// Number of windows: three seeds of the jitter cover both steady states that tasks may reach (2,600 or 2,790 samples/s
/// for the same pair), and give the standard error that a model needs.
pub const STEADY_REPEATS: u32 = 3;

/// The tasks of one workload on a simulated GPU. Its results are simulated and not measured.
#[derive(Debug)]
pub struct SimulatedGpu {
    simulator: Simulator,
    tasks: Vec<Task>,
    programs: Mutex<BTreeMap<(usize, Batch), Arc<Program>>>,
    memory: Option<Bytes>,
}

impl SimulatedGpu {
    /// The simulator of a workload, and the memory of its GPU if known.
    ///
    /// # Errors
    /// [`OpenError::Workload`] if the GPU is unknown or described incorrectly.
    pub fn simulator(workload: &Workload) -> Result<(Simulator, Option<Bytes>), OpenError> {
        let device = &workload.device;
        let simulator = Simulator::of_device(device).map_err(|error| {
            let (code, field, advice) = match &error {
                GpuError::UnknownName { .. } => (Code::UnknownName, "gpu", "name one of these"),
                _ => (Code::OutOfRange, "gpu_description", "correct the figure"),
            };
            let path = format!("$.device.{field}");
            OpenError::workload(code, &path, error.to_string(), advice)
        })?;
        let built_in = simulator
            .gpu()
            .memory_bytes()
            .and_then(|bytes| Bytes::new(bytes).ok());
        Ok((simulator, device.memory.or(built_in)))
    }

    /// Builds the simulated GPU and checks the network of every task.
    ///
    /// # Errors
    /// [`OpenError::Workload`] if the GPU or a model is unknown, or a task does not name its model.
    pub fn open(workload: &Workload) -> Result<Self, OpenError> {
        let (simulator, memory) = Self::simulator(workload)?;
        for (index, task) in workload.tasks.iter().enumerate() {
            Network::of_task(task).map_err(|error| task_fault(index, task, &error))?;
        }
        Ok(Self {
            simulator,
            tasks: workload.tasks.clone(),
            programs: Mutex::default(),
            memory,
        })
    }

    /// Identity of the simulated GPU, for documents; `noise_percent` is the multiplicative noise of its results.
    #[must_use]
    pub fn fingerprint(&self, noise_percent: f64) -> DeviceFingerprint {
        let gpu = self.simulator.gpu();
        DeviceFingerprint {
            kind: DeviceKind::Sim,
            name: gpu.name().to_owned(),
            simulated: true,
            units: Some(gpu.sms()),
            detail: Some(format!("simulator {}", env!("CARGO_PKG_VERSION"))),
            noise_percent: (noise_percent > 0.0).then(|| noise_percent.to_string()),
        }
    }

    /// Index of a task in the workload.
    pub(super) fn task_index(&self, task: &Task) -> Option<usize> {
        self.tasks.iter().position(|t| t.id == task.id)
    }

    /// Trace of the kernels that the GPU runs in a configuration.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn trace(&self, configuration: &[Setting], seed: u64) -> Result<Trace, SimError> {
        let programs = self.programs(configuration)?;
        let tasks = tasks(configuration, &programs);
        let options = gpusim::SimOptions {
            seed,
            ..gpusim::SimOptions::default()
        };
        Ok(self.simulator.trace(&tasks, &options).1)
    }

    /// One simulated window of at least `least` seconds in which the tasks run together.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn window(
        &self,
        configuration: &[Setting],
        least: Seconds,
        seed: u64,
    ) -> Result<SimulatedRates, SimError> {
        self.run_for(configuration, least.get(), seed)
    }

    fn run_for(
        &self,
        configuration: &[Setting],
        least_s: f64,
        seed: u64,
    ) -> Result<SimulatedRates, SimError> {
        let programs = self.programs(configuration)?;
        let tasks = tasks(configuration, &programs);
        let options = gpusim::SimOptions {
            seed,
            ..gpusim::SimOptions::default()
        };
        let outcome = self.simulator.run_for(&tasks, least_s, &options);
        if !outcome.finished {
            return Err(SimError::Uneven);
        }
        Ok(outcome)
    }

    /// Throughput of each task of a configuration: the mean of [`STEADY_REPEATS`] windows.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn steady(&self, configuration: &[Setting], seed: u64) -> Result<Vec<f64>, SimError> {
        let mut rates = vec![0.0; configuration.len()];
        for repeat in 0..STEADY_REPEATS {
            let outcome = self.run_for(configuration, STEADY_WINDOW_S, of_repeat(seed, repeat))?;
            for (rate, one) in rates.iter_mut().zip(outcome.samples_per_s) {
                *rate += one / f64::from(STEADY_REPEATS);
            }
        }
        Ok(rates)
    }

    /// The compiled programs of a configuration, if it fits into memory; each is compiled only once.
    fn programs(&self, configuration: &[Setting]) -> Result<Vec<Arc<Program>>, SimError> {
        self.check_memory(configuration)?;
        // A poisoned lock is safe: programs are inserted atomically, so a thread that panicked cannot have left the
        // table inconsistent.
        let mut known = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut program = |run: &Setting| {
            let key = (run.task, run.batch);
            if let Some(program) = known.get(&key) {
                return Ok(Arc::clone(program));
            }
            let task = &self.tasks[run.task];
            let program = Arc::new(self.simulator.task_program(task, run.batch)?);
            known.insert(key, Arc::clone(&program));
            Ok(program)
        };
        configuration.iter().map(&mut program).collect()
    }

    fn check_memory(&self, configuration: &[Setting]) -> Result<(), SimError> {
        let Some(memory) = self.memory else {
            return Ok(());
        };
        let need_bytes: f64 = configuration
            .iter()
            .filter_map(|run| self.tasks[run.task].memory.map(|m| m.at(run.batch)))
            .sum();
        if need_bytes <= memory.get() as f64 {
            return Ok(());
        }
        Err(SimError::OutOfMemory { need_bytes, memory })
    }
}

/// The tasks of a configuration, with the program of each.
fn tasks<'p>(configuration: &[Setting], programs: &'p [Arc<Program>]) -> Vec<SimTask<'p>> {
    let all = configuration
        .iter()
        .zip(programs)
        .map(|(run, program)| SimTask {
            program,
            share: run.share,
        });
    all.collect()
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
