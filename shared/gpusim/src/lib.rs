//! An operator-level simulator of training tasks that share one GPU.
//!
//! ```
//! use gpusim::{Gpu, Network, Options, SimTask, Simulator};
//! use units::{Batch, Share};
//!
//! let sim = Simulator::new(Gpu::built_in("rtx-3090")?);
//! let batch = Batch::new(128)?;
//! let a = sim.program(&Network::by_name("resnet18")?, batch, None)?;
//! let b = sim.program(&Network::by_name("vgg16")?, batch, None)?;
//! let share = Share::from_percent(70.0)?;
//! let outcome = sim.run(
//!     &[SimTask { program: &a, share }, SimTask { program: &b, share }],
//!     &Options::default(),
//! );
//! assert!(outcome.samples_per_s[0] < sim.solo(&a, &Options::default()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod catalogue;
mod engine;
mod gpu;
mod kernel;
mod layer;
mod network;
mod program;
mod simulator;
mod trace;
mod tuning;
mod workload;

pub use gpu::{Gpu, GpuError, Host};
pub use kernel::KernelKind;
pub use layer::{Layer, LayerError, Shape, Window};
pub use network::{Network, NetworkError};
pub use program::Program;
pub use simulator::{Options, Outcome, SimTask, Simulator, temporal};
pub use trace::{KernelSpan, OccupancyPoint, Trace};
pub use tuning::Tuning;
pub use workload::TaskError;
