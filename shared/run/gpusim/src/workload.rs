//! Simulators and networks from the entries of a workload document.

use doc::{DeviceSpec, GpuSpec, LayerDescription, Task};
use units::{Batch, Bytes};

use crate::error::NetworkError;
use crate::gpu::{Gpu, GpuError, Host};
use crate::layer::{Convolution, Layer, Shape, Window};
use crate::network::Network;
use crate::program::Program;
use crate::simulator::Simulator;

/// Why a task cannot be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TaskError {
    /// The GPU or host parameters are invalid.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The network is invalid.
    #[error("task {task}: {source}")]
    Network {
        /// Which task.
        task: String,
        /// What is wrong.
        source: NetworkError,
    },
    /// Only the program of the task is known, but not its model.
    #[error(
        "task {task} has no model to simulate: give `model`, `layers`, or `flops_per_sample` with `bytes_per_sample`"
    )]
    NoModel {
        /// Which task.
        task: String,
    },
}

impl Simulator {
    /// The simulator of a workload's device; uses [`Gpu::DEFAULT_NAME`] if no GPU is named.
    pub fn of_device(device: &DeviceSpec) -> Result<Self, GpuError> {
        let gpu = match &device.gpu {
            None => Gpu::built_in(Gpu::DEFAULT_NAME),
            Some(GpuSpec::Named(name)) => Gpu::built_in(name),
            Some(GpuSpec::Described(description)) => Gpu::new(description),
        }?;
        Ok(Self::new(gpu))
    }

    /// Compiles a task of a workload at one batch size, with the task's own host cost.
    pub fn task_program(&self, task: &Task, batch: Batch) -> Result<Program, TaskError> {
        let network = Network::of_task(task)?;
        let machine = self.gpu().host();
        let host = Host {
            us_per_step: task.host.us_per_step.unwrap_or(machine.us_per_step),
            us_per_sample: task.host.us_per_sample.unwrap_or(machine.us_per_sample),
            ..machine
        };
        Ok(self.program(&network, batch, Some(host))?)
    }
}

/// Memory of a workload's device: the value in the document, otherwise the memory of the named GPU. `None` if neither
/// is known, as for a GPU that is not in the list.
#[must_use]
pub fn known_memory(device: &DeviceSpec) -> Option<Bytes> {
    device.memory.or_else(|| {
        let bytes = match device.gpu.as_ref()? {
            // A real GPU may have any name; if it is not in the list, its memory is unknown.
            GpuSpec::Named(name) => Gpu::built_in(name).ok()?.memory_bytes()?,
            GpuSpec::Described(figures) => figures.memory_bytes?,
        };
        Bytes::new(bytes).ok()
    })
}

impl Network {
    /// The network that a task of a workload trains: its catalogue model, its layers, or its
    /// totals, in this order of preference.
    pub fn of_task(task: &Task) -> Result<Self, TaskError> {
        let name = task.id.as_str();
        let network = if let Some(model) = &task.model {
            match task.input_pixels {
                None => Self::by_name(model),
                Some(side) => Self::catalogue(model, side),
            }
        } else if !task.layers.is_empty() {
            let layers = task.layers.iter().flat_map(described).collect();
            Self::from_layers(name, layers)
        } else if let (Some(flops), Some(bytes)) = (task.flops_per_sample, task.bytes_per_sample) {
            Self::from_totals(name, flops.get(), bytes)
        } else {
            return Err(TaskError::NoModel {
                task: name.to_owned(),
            });
        };
        network.map_err(|source| TaskError::Network {
            task: name.to_owned(),
            source,
        })
    }
}

/// Converts a described layer to one or two layers of this crate.
fn described(layer: &LayerDescription) -> Vec<Layer> {
    match *layer {
        LayerDescription::Conv {
            in_channels,
            out_channels,
            kernel,
            stride,
            out_pixels,
            groups,
        } => vec![Layer::Convolution(Convolution {
            input: Shape {
                channels: in_channels,
                side: out_pixels.saturating_mul(stride),
            },
            channels: out_channels,
            window: Window {
                kernel,
                stride,
                padding: kernel.saturating_sub(1) / 2,
            },
            groups,
            bias: false,
        })],
        LayerDescription::Linear {
            in_features,
            out_features,
        } => vec![Layer::Linear {
            inputs: in_features,
            outputs: out_features,
        }],
        LayerDescription::Norm { channels, pixels } => {
            let shape = Shape {
                channels,
                side: pixels,
            };
            vec![Layer::BatchNorm(shape), Layer::Activation(shape)]
        }
        LayerDescription::Pool {
            channels,
            out_pixels,
        } => vec![Layer::Shuffle(Shape {
            channels,
            side: out_pixels,
        })],
    }
}
