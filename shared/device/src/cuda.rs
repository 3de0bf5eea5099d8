//! Real GPUs: which there are, sharing them under NVIDIA MPS, and a pool of parked workers.

mod cost;
mod device;
pub mod discovery;
mod pool;

pub use cost::{Costs, Tally, Way};
pub use device::{Cuda, Setup};
pub(crate) use device::{averaged, seconds};
pub use pool::Limits;

/// Why a GPU cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// There is no driver, or it sees no GPU.
    #[error("no usable GPU: {reason}")]
    NoDriver {
        /// Why.
        reason: String,
    },
    /// MPS cannot run or misbehaved.
    #[error(transparent)]
    Mps(#[from] jobs::mps::MpsError),
}
