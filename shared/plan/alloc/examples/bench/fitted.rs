//! Models as `mt-fit` makes them, of profiles as `mt-profile` measures them on a simulated GPU.

use allocation::{Limits, Problem, Task, TaskProgress};
use doc::ObjectiveKind;
use gpusim::{Gpu, Network, SimOptions, SimTask, Simulator};
use predict::{Dataset, FitOptions, Predictor, Sample, TaskSpec, fit_by_merit};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use units::corun::Setting;
use units::{Batch, Samples, Share, UnitError, Weight};

use crate::rows::BenchError;

const GPUS: [&str; 5] = ["titan-v", "rtx-3080", "rtx-3090", "a100", "h100"];
/// Co-runs measured, as many as `mt-profile` measures by default. They have two tasks to all, as many of each number,
/// since a division has sets of every size.
const CO_RUNS: usize = 40;
/// Batch sizes of every task.
const SIZES: [u64; 2] = [32, 64];

/// A mix of different models of the catalogue on one of the simulated GPUs, and what was learnt of it.
pub struct Mix {
    pub predictor: Predictor,
    pub tasks: Vec<Task>,
}

impl Mix {
    /// This many models with their volumes, the GPU and the co-runs, drawn by `seed`.
    pub fn draw(tasks: usize, seed: u64) -> Result<Self, BenchError> {
        let mut rng = StdRng::seed_from_u64(seed);
        let gpu = GPUS[rng.random_range(0..GPUS.len())];
        let simulator = Simulator::new(Gpu::built_in(gpu)?);
        let mut models = Network::CATALOGUE.to_vec();
        models.shuffle(&mut rng);
        models.truncate(tasks);
        let sizes: Vec<Batch> = SIZES
            .map(Batch::new)
            .into_iter()
            .collect::<Result<_, _>>()?;
        let mut programs = Vec::new();
        let mut specs = Vec::new();
        for model in models {
            let network = Network::by_name(model)?;
            let programs_of = sizes.iter().map(|b| simulator.program(&network, *b, None));
            programs.push(programs_of.collect::<Result<Vec<_>, _>>()?);
            specs.push(TaskSpec {
                flops_per_sample: Some(network.flops_per_sample()),
                bytes_per_sample: Some(network.bytes_per_sample()),
                batches: sizes.clone(),
                copy_of: None,
            });
        }
        let measure = |active: Vec<(usize, usize, Share)>| {
            let run = |&(task, size, share): &(usize, usize, Share)| SimTask {
                program: &programs[task][size],
                share,
            };
            let runs: Vec<SimTask<'_>> = active.iter().map(run).collect();
            let options = SimOptions { seed, min_steps: 8 };
            let setting = |&(task, size, share): &(usize, usize, Share)| Setting {
                task,
                batch: sizes[size],
                share,
            };
            Sample {
                active: active.iter().map(setting).collect(),
                throughput: simulator.run(&runs, &options).samples_per_s,
                stderr: None,
            }
        };
        let mut samples = Vec::new();
        for task in 0..tasks {
            for size in 0..sizes.len() {
                samples.push(measure(vec![(task, size, Share::FULL)]));
            }
        }
        for k in 0..CO_RUNS {
            let mut members: Vec<usize> = (0..tasks).collect();
            members.shuffle(&mut rng);
            members.truncate(2 + k % (tasks - 1));
            members.sort_unstable();
            let each = members.into_iter().map(|task| {
                let share = Share::from_percent(5.0 * f64::from(rng.random_range(1..=20)))?;
                Ok((task, rng.random_range(0..sizes.len()), share))
            });
            samples.push(measure(each.collect::<Result<_, UnitError>>()?));
        }
        let tasks = (0..tasks).map(|_| {
            Ok(Task {
                id: units::TaskId::new("a")?,
                batches: sizes.clone(),
                samples: Some(Samples::new(10_f64.powf(rng.random_range(3.7..5.3)) as u64)?),
                weight: Weight::new(1.0)?,
                memory: None,
                work_per_sample: None,
                progress: TaskProgress::default(),
            })
        });
        let tasks = tasks.collect::<Result<_, UnitError>>()?;
        let data = Dataset {
            tasks: specs,
            samples,
        };
        let predictor = fit_by_merit(&data, &FitOptions::default())?.predictor;
        Ok(Self { predictor, tasks })
    }

    /// To choose shares in steps of 5 % and batch sizes, as `mt-solve` does by default.
    pub fn problem(&self, objective: ObjectiveKind) -> Problem {
        Problem {
            tasks: self.tasks.clone(),
            objective,
            limits: Limits::default(),
            round: None,
        }
    }
}
