use std::net::IpAddr;
use std::num::NonZero;
use std::path::PathBuf;

use units::{Batch, Samples};

/// Training device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// This machine's processor.
    Cpu,
    /// The first GPU that CUDA shows.
    Cuda,
}

/// Checked settings of a training.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The device.
    pub device: Device,
    /// Network and learning parameters.
    pub network: Network,
    /// The model on a GPU.
    pub model: gpusim::Network,
    /// Batch size at the start.
    pub batch: Batch,
    /// When to stop.
    pub samples: Option<Samples>,
    /// When to stop, in steps.
    pub steps: Option<u64>,
    /// Whether it takes orders on standard input.
    pub pool: bool,
    /// Processes and checkpoints; `None`: a single process without checkpoints.
    pub elastic: Option<Elastic>,
}

/// A fully connected network and its learning parameters.
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

/// Checked settings of a training over processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Elastic {
    /// Rank and number of processes.
    pub place: Place,
    /// Samples of each process in a full step: one entry per process.
    pub batches: Vec<usize>,
    /// File of the checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// Steps between two checkpoints; 0: only at the end; `None`: depending on their cost.
    pub checkpoint_every: Option<u64>,
    /// Loss that ends the training.
    pub target_loss: Option<f64>,
    /// Whether it waits for `run` before it reads the checkpoint.
    pub standby: bool,
}

/// How a process joined its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It starts the others.
    Parent,
    /// Each was started by another program.
    Rank {
        /// Its rank.
        rank: u32,
        /// Address at which rank 0 listens.
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
