use std::net::IpAddr;
use std::num::NonZero;
use std::path::PathBuf;

use units::{Batch, Samples};

/// Where to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// This machine's processor.
    Cpu,
    /// The first GPU that CUDA shows.
    Cuda,
}

/// What to train, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where.
    pub device: Device,
    /// Size of the network and how it learns.
    pub network: Network,
    /// What is trained on a GPU.
    pub model: gpusim::Network,
    /// Samples of the first steps.
    pub batch: Batch,
    /// When to stop.
    pub samples: Option<Samples>,
    /// When to stop, in steps.
    pub steps: Option<u64>,
    /// Whether standard input directs.
    pub pool: bool,
    /// Processes and checkpoints; `None`: one process without.
    pub elastic: Option<Elastic>,
}

/// A fully connected network and how it learns.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Threads.
    pub threads: NonZero<usize>,
    /// Neurons of the input, of each hidden layer and of the output.
    pub sizes: Vec<usize>,
    /// Step length.
    pub learning_rate: f32,
    /// Momentum.
    pub momentum: f32,
    /// Seed of weights and data.
    pub seed: u64,
    /// Seed of the order of the data.
    pub round: u64,
}

/// A training over processes, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Elastic {
    /// Place of this process among all.
    pub place: Place,
    /// Samples of each process in a whole step: one or more processes.
    pub batches: Vec<usize>,
    /// Where the state is kept.
    pub checkpoint: Option<PathBuf>,
    /// Steps between two checkpoints; 0: none on the way; `None`: by what one costs.
    pub checkpoint_every: Option<u64>,
    /// Loss that ends the training.
    pub target_loss: Option<f64>,
    /// Whether it waits for `run` before it reads the checkpoint.
    pub standby: bool,
}

/// How a process came into its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It starts the others.
    Parent,
    /// Somebody has started each.
    Rank {
        /// Its number.
        rank: u32,
        /// Where rank 0 listens.
        master: (IpAddr, u16),
    },
}

/// `total` samples over `processes`, the remainder over the first ones: 512 over 3 is 171, 171,
/// 170. A process may get none.
pub fn split(total: usize, processes: usize) -> Vec<usize> {
    (0..processes)
        .map(|rank| total / processes + usize::from(rank < total % processes))
        .collect()
}
