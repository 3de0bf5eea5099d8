//! Simulates configurations: computes throughputs from shares.

use units::{Batch, Share};

use crate::engine::{self, Blind, Machine, SimulatedTask};
use crate::gpu::{Gpu, GpuError, Host};
use crate::network::Network;
use crate::program::{Program, segments};
use crate::trace::{Trace, Tracer};
use crate::tuning::Tuning;

/// Minimum window, in simulated seconds, for the rate of a configuration wherever the simulator is fitted or tested.
/// This is about five hundred steps and gives a precision of about 0.2 %.
pub const RATE_WINDOW_S: f64 = 40.0;

/// Longest simulation of one configuration, in steps of its slowest task.
const MOST_STEPS: f64 = 4_096.0;

/// One task of a configuration.
#[derive(Debug, Clone, Copy)]
pub struct SimTask<'a> {
    /// Its program; compiled by [`Simulator::program`] of the same simulator.
    pub program: &'a Program,
    /// Maximum fraction of the SMs that it may use.
    pub share: Share,
}

/// Length and randomness of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimOptions {
    /// Seed of the host jitter.
    pub seed: u64,
    /// Number of training steps of the slowest task in the measured window; more steps are more precise.
    pub min_steps: u32,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            min_steps: 5,
        }
    }
}

/// Throughput of one configuration. Simulated, not measured.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct SimulatedRates {
    /// Samples per second of each task, in the order given.
    pub samples_per_s: Vec<f64>,
    /// Whole steps of each task in the window.
    pub steps: Vec<u32>,
    /// Length of the longest task's window in simulated seconds.
    pub window_s: f64,
    /// Events processed.
    pub events: u64,
    /// Whether every task made its steps. If not, the durations of steps differ by too many orders of magnitude, and
    /// the rates are meaningless.
    pub finished: bool,
}

impl SimulatedRates {
    /// Sum over the tasks.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.samples_per_s.iter().sum()
    }
}

/// A GPU with the constants of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulator {
    gpu: Gpu,
    tuning: Tuning,
}

impl Simulator {
    /// A simulator with the calibrated constants.
    #[must_use]
    pub fn new(gpu: Gpu) -> Self {
        Self::with_tuning(gpu, Tuning::default())
    }

    /// A simulator with other constants, for calibration and ablation.
    #[must_use]
    pub fn with_tuning(gpu: Gpu, tuning: Tuning) -> Self {
        Self { gpu, tuning }
    }

    /// The GPU.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The constants.
    #[must_use]
    pub fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Compiles a task; `host` replaces the host parameters of the GPU for it.
    pub fn program(
        &self,
        network: &Network,
        batch: Batch,
        host: Option<Host>,
    ) -> Result<Program, GpuError> {
        Program::new(network, batch, &self.gpu, host, &self.tuning)
    }

    /// Simulates the tasks together; all run for the whole window.
    ///
    /// Same tasks, options and constants give the same outcome, bit for bit.
    pub fn run(&self, tasks: &[SimTask<'_>], options: &SimOptions) -> SimulatedRates {
        self.run_for(tasks, 0.0, options)
    }

    /// Simulates a window of at least `least_s` simulated seconds, in at most 4,096 steps of the slowest task:
    /// the steps of [`Simulator::run`] if they take that long, otherwise as many as necessary.
    pub fn run_for(
        &self,
        tasks: &[SimTask<'_>],
        least_s: f64,
        options: &SimOptions,
    ) -> SimulatedRates {
        self.measure(tasks, &self.jobs(tasks), least_s, options, &mut Blind)
    }

    /// Like [`Simulator::run`], but records a trace.
    pub fn trace(&self, tasks: &[SimTask<'_>], options: &SimOptions) -> (SimulatedRates, Trace) {
        let jobs = self.jobs(tasks);
        let mut tracer = Tracer::new(&jobs);
        let outcome = self.measure(tasks, &jobs, 0.0, options, &mut tracer);
        (outcome, tracer.finish(self.gpu.sms()))
    }

    /// Throughput of one task alone on the whole GPU, samples per second.
    #[must_use]
    pub fn solo(&self, program: &Program, options: &SimOptions) -> f64 {
        let task = SimTask {
            program,
            share: Share::FULL,
        };
        self.run(&[task], options).total()
    }

    fn jobs(&self, tasks: &[SimTask<'_>]) -> Vec<SimulatedTask> {
        let crowd = 2.0 * (1.0 - 1.0 / tasks.len().max(1) as f64);
        tasks
            .iter()
            .map(|task| {
                let mut list = Vec::with_capacity(task.program.kernel_count());
                segments(task.program, task.share, &self.gpu, &self.tuning, &mut list);
                SimulatedTask {
                    segments: list,
                    host_us: task.program.host_us * (1.0 + task.program.contention * crowd),
                }
            })
            .collect()
    }

    fn measure<O: engine::Observer>(
        &self,
        tasks: &[SimTask<'_>],
        jobs: &[SimulatedTask],
        least_s: f64,
        options: &SimOptions,
        observer: &mut O,
    ) -> SimulatedRates {
        let machine = Machine {
            sms: f64::from(self.gpu.sms()),
            bytes_per_us: self.gpu.bytes_per_us(),
            tuning: &self.tuning,
            seed: options.seed,
            min_steps: options.min_steps.max(1),
            least_s,
            most_steps: MOST_STEPS,
        };
        let measured = engine::run(jobs, &machine, observer);
        SimulatedRates {
            samples_per_s: tasks
                .iter()
                .zip(&measured.steps_per_us)
                .map(|(task, steps)| steps * task.program.batch * 1e6)
                .collect(),
            steps: measured.steps,
            window_s: measured.window_us * 1e-6,
            events: measured.events,
            finished: measured.finished,
        }
    }
}

/// Total throughput of one task at a time on the whole GPU, each processing the same number of
/// samples: `n / sum(1 / S_i)` with solo rates `S_i`. Zero if a rate is zero or there is none.
#[must_use]
pub fn temporal(solos: &[f64]) -> f64 {
    let per_sample: f64 = solos.iter().map(|s| 1.0 / s).sum();
    if per_sample > 0.0 && per_sample.is_finite() {
        solos.len() as f64 / per_sample
    } else {
        0.0
    }
}
