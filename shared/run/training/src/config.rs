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
    /// The device to train on.
    pub device: Device,
    /// Network and learning parameters.
    pub network: Network,
    /// The model on a GPU.
    pub model: gpusim::Network,
    /// Batch size at the start.
    pub batch: Batch,
    /// Number of samples after which it stops.
    pub samples: Option<Samples>,
    /// Number of steps after which it stops.
    pub steps: Option<u64>,
    /// Whether it takes orders on standard input.
    pub pool: bool,
    /// Processes and checkpoints; `None`: a single process without checkpoints.
    pub elastic: Option<Elastic>,
}

/// A fully connected network and its learning parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Number of threads.
    pub threads: NonZero<usize>,
    /// Neurons of the input, of each hidden layer and of the output.
    pub sizes: Vec<usize>,
    /// Learning rate.
    pub learning_rate: f32,
    /// Momentum.
    pub momentum: f32,
    /// Seed of weights and data.
    pub seed: u64,
    /// Seed of the order of the data.
    pub round: u64,
}

/// Checked settings of a training over several processes.
#[derive(Debug, Clone, PartialEq)]
pub struct Elastic {
    /// Rank and number of processes.
    pub place: GroupRole,
    /// Samples of each process in a full step: one entry per process.
    pub batches: Vec<usize>,
    /// File of the checkpoint.
    pub checkpoint: Option<PathBuf>,
    /// Steps between two checkpoints; 0: only at the end; `None`: chosen from their cost.
    pub checkpoint_every: Option<u64>,
    /// Mean loss at which the training ends.
    pub target_loss: Option<f64>,
    /// Whether it waits on standby for `run` before it reads the checkpoint.
    pub standby: bool,
}

/// How a process joined its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupRole {
    /// It starts the other processes.
    Parent,
    /// Another program started each process.
    Rank {
        /// Its rank.
        rank: u32,
        /// Address at which rank 0 listens.
        master: (IpAddr, u16),
    },
}

/// Splits `total` samples over `processes`; the first ones get the remainder: 512 over 3 gives
/// 171, 171 and 170. A process may get none.
pub fn split(total: usize, processes: usize) -> Vec<usize> {
    (0..processes)
        .map(|rank| total / processes + usize::from(rank < total % processes))
        .collect()
}
