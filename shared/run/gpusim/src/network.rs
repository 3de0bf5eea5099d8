//! Networks to train, given by layers with their shapes, or only by totals per sample.

use crate::catalogue;
use crate::error::NetworkError;
use crate::layer::Layer;

/// Contents of a training step of a network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    /// Every layer is known.
    Layers(Vec<Layer>),
    /// Only totals of one training step are known, per sample.
    Totals { flops: f64, bytes: f64 },
}

/// A network that can be trained on the simulator.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    name: String,
    body: Body,
}

impl Network {
    /// Names in the catalogue.
    pub const CATALOGUE: [&'static str; 9] = catalogue::names::NAMES;

    /// A model of the catalogue by name, for inputs of 32 x 32 x 3.
    pub fn by_name(name: &str) -> Result<Self, NetworkError> {
        Self::catalogue(name, catalogue::names::DEFAULT_SIDE)
    }

    /// A model of the catalogue for square inputs of `side` pixels and three channels.
    ///
    /// Inputs below 64 pixels get one down-sampling less in the stem, as is usual for them.
    pub fn catalogue(name: &str, side: u32) -> Result<Self, NetworkError> {
        let layers = catalogue::layers(name, side)?;
        let suffix = if side == catalogue::names::DEFAULT_SIDE {
            String::new()
        } else {
            format!("@{side}")
        };
        Self::from_layers(&format!("{name}{suffix}"), layers)
    }

    /// A network from its layers, in forward order; the first layer needs no gradient of its input.
    pub fn from_layers(name: &str, layers: Vec<Layer>) -> Result<Self, NetworkError> {
        if layers.is_empty() {
            return Err(NetworkError::Empty);
        }
        for (index, layer) in layers.iter().enumerate() {
            layer
                .check()
                .map_err(|source| NetworkError::Layer { index, source })?;
        }
        Ok(Self {
            name: name.to_owned(),
            body: Body::Layers(layers),
        })
    }

    /// A network for which only the cost of a training step per sample is known.
    ///
    /// `flops` counts forward and backward operations (a multiply-add is two), and `bytes` their
    /// memory traffic. The kernels are a generic mix scaled to these totals.
    pub fn from_totals(name: &str, flops: f64, bytes: f64) -> Result<Self, NetworkError> {
        for (field, value) in [("flops_per_sample", flops), ("bytes_per_sample", bytes)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(NetworkError::BadTotal { field, value });
            }
        }
        Ok(Self {
            name: name.to_owned(),
            body: Body::Totals { flops, bytes },
        })
    }

    /// Name for display.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Layers in forward order; `None` if only totals are known.
    #[must_use]
    pub fn layers(&self) -> Option<&[Layer]> {
        match &self.body {
            Body::Layers(layers) => Some(layers),
            Body::Totals { .. } => None,
        }
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    fn sum(&self, of: impl Fn(&Layer) -> f64) -> Option<f64> {
        match &self.body {
            Body::Layers(layers) => Some(layers.iter().map(of).sum()),
            Body::Totals { .. } => None,
        }
    }

    /// Multiply-adds of one forward pass, per sample; `None` if only totals are known.
    #[must_use]
    pub fn forward_macs(&self) -> Option<f64> {
        self.sum(Layer::macs)
    }

    /// Floating-point operations of one training step (forward and backward), per sample.
    #[must_use]
    pub fn flops_per_sample(&self) -> f64 {
        match &self.body {
            Body::Totals { flops, .. } => *flops,
            Body::Layers(layers) => layers
                .iter()
                .enumerate()
                .map(|(i, l)| l.train_flops(i == 0))
                .sum(),
        }
    }

    /// Memory traffic of one training step (activations, forward and backward), bytes per sample.
    #[must_use]
    pub fn bytes_per_sample(&self) -> f64 {
        match &self.body {
            Body::Totals { bytes, .. } => *bytes,
            Body::Layers(layers) => layers
                .iter()
                .enumerate()
                .map(|(i, l)| l.train_bytes(i == 0))
                .sum(),
        }
    }

    /// Learnable parameters; `None` when only totals are known.
    #[must_use]
    pub fn parameters(&self) -> Option<u64> {
        self.sum(|l| l.tensors().iter().map(|t| t.count() as f64).sum())
            .map(|p| p as u64)
    }

    /// Size of the parameters in bytes (FP32), which is also the size of one model update.
    #[must_use]
    pub fn model_bytes(&self) -> Option<u64> {
        self.parameters().map(|p| 4 * p)
    }

    /// Device memory that does not grow with the batch: parameters, gradients, momentum and
    /// [`Network::CONTEXT_BYTES`] of the runtime; `None` when only totals are known.
    #[must_use]
    pub fn fixed_memory_bytes(&self) -> Option<u64> {
        self.model_bytes().map(|b| 3 * b + Self::CONTEXT_BYTES)
    }

    /// Memory of a process for its CUDA context and libraries, before training starts.
    pub const CONTEXT_BYTES: u64 = 600 << 20;

    /// Activations kept for the backward pass, bytes per sample; `None` when only totals are
    /// known.
    #[must_use]
    pub fn activation_bytes_per_sample(&self) -> Option<u64> {
        self.sum(Layer::saved_bytes).map(|b| b as u64)
    }

    /// Number of parameter tensors that an optimiser iterates over.
    #[must_use]
    pub fn parameter_tensors(&self) -> Option<u64> {
        self.sum(|l| l.tensors().len() as f64).map(|p| p as u64)
    }
}
