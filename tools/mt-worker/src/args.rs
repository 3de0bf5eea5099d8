use std::num::NonZero;
use std::thread::available_parallelism;

use clap::{Parser, ValueEnum};
use cli::Failure;
use training::{Config, Device, Network};
use units::{Samples, UnitError};

use crate::elastic_args::ElasticArgs;

/// Train a network and report progress, one JSON line for each step
///
/// A real training job without Python. On the CPU it trains a fully connected network on synthetic,
/// separable data by stochastic gradient descent with momentum, and its loss falls. With --device cuda it
/// runs the kernels of a catalogue model's layers on an NVIDIA GPU.
///
/// It trains until --samples or --steps is reached, or for ever. With --pool it obeys lines on standard
/// input: `run`, `park`, `batch N`, `quit`.
///
/// With --processes N, N processes share every step and sum their gradients; the losses are those of one
/// process, to rounding. On SIGTERM all stop after the same step; the first writes --checkpoint and prints
/// `parked`. Started again with any number of processes, the training continues after that step, so
/// `mt-launch --controller` can move it. With --pool its processes load while their predecessors train.
#[derive(Debug, Clone, Parser)]
#[command(version, after_help = include_str!("help.txt").trim_end())]
pub struct Args {
    /// Where to train
    #[arg(long, value_enum, default_value_t = DeviceChoice::Cpu)]
    device: DeviceChoice,
    /// Model of the catalogue for --device cuda; default: resnet18
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Side of the square input images for --device cuda; default: 32
    #[arg(long, value_name = "N")]
    input_pixels: Option<u32>,
    #[command(flatten)]
    network: NetworkArgs,
    /// Learning rate
    #[arg(long, value_name = "X", default_value_t = 0.01)]
    learning_rate: f32,
    /// Momentum
    #[arg(long, value_name = "X", default_value_t = 0.9)]
    momentum: f32,
    /// Samples per step, over all processes; default: 64
    #[arg(long, value_name = "N", env = "MT_BATCH_SIZE")]
    batch: Option<u64>,
    /// Stop after this many samples, including those before a checkpoint
    #[arg(long, value_name = "N", env = "MT_SAMPLES")]
    samples: Option<u64>,
    /// Stop after this many steps, including those before a checkpoint
    #[arg(long, value_name = "N", env = "MT_STEPS", value_parser = clap::value_parser!(u64).range(1..))]
    steps: Option<u64>,
    /// Round of the federation: each round has its own data
    #[arg(long, value_name = "N", env = "MT_ROUND", default_value_t = 0)]
    round: u64,
    /// Obey `run`, `park`, `batch N` and `quit` on standard input, parked at first. With several processes or
    /// a checkpoint it prints `loaded` and waits for `run` before it reads the checkpoint
    #[arg(long, env = "MT_POOL", value_parser = clap::builder::FalseyValueParser::new())]
    pool: bool,
    #[command(flatten)]
    elastic: ElasticArgs,
    #[command(flatten)]
    seed: cli::SeedArgs,
}

/// The network on the CPU; a model of the catalogue has its own, so none of these options may be given with it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Network (--device cpu)")]
struct NetworkArgs {
    /// Threads of a process that share each step; default, or 0: one for each core that it may use, or
    /// one where several processes train
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Neurons of each hidden layer; default: 256
    #[arg(long, value_name = "N")]
    width: Option<usize>,
    /// Hidden layers; default: 3
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Features of a sample; default: 64
    #[arg(long, value_name = "N")]
    features: Option<usize>,
    /// Classes to tell apart; default: 10
    #[arg(long, value_name = "N")]
    classes: Option<usize>,
}

/// Where to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    /// This machine's processor
    Cpu,
    /// The first GPU that CUDA_VISIBLE_DEVICES shows
    Cuda,
}

impl From<DeviceChoice> for Device {
    fn from(choice: DeviceChoice) -> Self {
        match choice {
            DeviceChoice::Cpu => Self::Cpu,
            DeviceChoice::Cuda => Self::Cuda,
        }
    }
}

/// Largest number of neurons of a layer, hidden layers and threads.
const MOST_NEURONS: usize = 1 << 15;
const MOST_LAYERS: usize = 256;
const MOST_THREADS: usize = 1024;

impl NetworkArgs {
    /// The options by name, with their minimum and maximum.
    fn ranges(&self) -> [(&'static str, Option<usize>, usize, usize); 5] {
        [
            ("--width", self.width, 1, MOST_NEURONS),
            ("--features", self.features, 1, MOST_NEURONS),
            ("--classes", self.classes, 2, MOST_NEURONS),
            ("--depth", self.depth, 0, MOST_LAYERS),
            ("--threads", self.threads, 0, MOST_THREADS),
        ]
    }

    fn check(&self, device: DeviceChoice, faults: &mut Vec<String>) {
        let given = self
            .ranges()
            .into_iter()
            .filter_map(|(name, value, least, most)| {
                value.map(|value| (name, value, least..=most))
            });
        for (name, value, range) in given {
            if device == DeviceChoice::Cuda {
                faults.push(format!(
                    "{name} {value}: applies to the network of --device cpu only; a model of the catalogue has its own"
                ));
            } else if !range.contains(&value) {
                let (least, most) = range.into_inner();
                faults.push(format!("{name} {value}: give {least} to {most}"));
            }
        }
    }

    /// Neurons of the input, of each hidden layer and of the output.
    fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![self.width.unwrap_or(256); self.depth.unwrap_or(3)];
        sizes.insert(0, self.features.unwrap_or(64));
        sizes.push(self.classes.unwrap_or(10));
        sizes
    }
}

impl Args {
    /// Checks every value.
    pub fn config(&self) -> Result<Config, Failure> {
        let mut faults = Vec::new();
        self.network.check(self.device, &mut faults);
        if !(self.learning_rate > 0.0 && self.learning_rate <= 10.0) {
            faults.push("--learning-rate: give a number above 0, at most 10".to_owned());
        }
        if !(0.0..1.0).contains(&self.momentum) {
            faults.push("--momentum: give a number from 0 to below 1".to_owned());
        }
        let (batch, elastic) = self.elastic.check(self.batch, self.pool, &mut faults);
        if elastic.is_some() && self.device == DeviceChoice::Cuda {
            faults.push("processes, checkpoints and a target loss need --device cpu".to_owned());
        }
        let samples = match self.samples {
            Some(n) => noted(Samples::new(n), "--samples", &mut faults).map(Some),
            None => Some(None),
        };
        if self.device == DeviceChoice::Cpu && (self.model.is_some() || self.input_pixels.is_some())
        {
            faults.push("--model and --input-pixels need --device cuda".to_owned());
        }
        let name = self.model.as_deref().unwrap_or("resnet18");
        let model = gpusim::Network::catalogue(name, self.input_pixels.unwrap_or(32))
            .map_err(|error| faults.push(format!("--model {name}: {error}")))
            .ok();
        let (Some(batch), Some(samples), Some(model), true) =
            (batch, samples, model, faults.is_empty())
        else {
            return Err(Failure::Usage(faults.join("\n")));
        };
        let several = elastic.as_ref().is_some_and(|e| e.batches.len() > 1);
        let cores = || match several {
            true => NonZero::<usize>::MIN,
            false => available_parallelism().unwrap_or(NonZero::<usize>::MIN),
        };
        Ok(Config {
            device: self.device.into(),
            network: Network {
                threads: self
                    .network
                    .threads
                    .and_then(NonZero::new)
                    .unwrap_or_else(cores),
                sizes: self.network.sizes(),
                learning_rate: self.learning_rate,
                momentum: self.momentum,
                seed: self.seed.seed,
                round: self.round,
            },
            model,
            batch,
            samples,
            steps: self.steps,
            pool: self.pool,
            elastic,
        })
    }
}

fn noted<T>(value: Result<T, UnitError>, name: &str, faults: &mut Vec<String>) -> Option<T> {
    value
        .map_err(|error| faults.push(format!("{name}: {error}")))
        .ok()
}
