#![doc = include_str!("../README.md")]

mod catalogue;
mod engine;
mod error;
mod gpu;
mod kernel;
mod layer;
mod network;
mod program;
mod ready;
mod simulator;
mod trace;
mod tuning;
mod workload;

pub use error::NetworkError;
pub use gpu::{Gpu, GpuError, Host};
pub use kernel::KernelKind;
pub use layer::{Convolution, Layer, LayerError, Shape, Tensor, Window};
pub use network::Network;
pub use program::Program;
pub use simulator::{RATE_WINDOW_S, SimOptions, SimTask, SimulatedRates, Simulator, temporal};
pub use trace::{KernelSpan, OccupancyPoint, Trace};
pub use tuning::Tuning;
pub use workload::{TaskError, known_memory};
