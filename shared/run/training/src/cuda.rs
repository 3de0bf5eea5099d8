//! Training on an NVIDIA GPU: a model's step as kernels, its data on the device.
//!
//! Convolutions and element-wise work are the embedded kernels of `kernels.cu`; plain matrix products go to cuBLAS
//! where it can be loaded. The loss is really computed, on synthetic images of ten classes.

mod data;
mod gpu;
mod plan;

use cli::Failure;
use gpusim::{Layer, Network};
use units::Batch;

use crate::trainer::{Step, Trainer};
use gpu::{Gpu, Loaded};
use plan::{GRADIENTS, INPUT, LABELS, Learning, Plan, WEIGHTS};

/// Model and learning parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Training {
    /// The model.
    pub network: Network,
    /// Learning rate.
    pub rate: f32,
    /// Momentum.
    pub momentum: f32,
    /// Seed of weights and data.
    pub seed: u64,
    /// Round of the federation, which determines the data.
    pub round: u64,
}

/// Trains a catalogue model on the first GPU that CUDA shows.
pub struct CudaTrainer {
    training: Training,
    gpu: Gpu,
    loaded: Option<(Batch, Loaded)>,
}

impl CudaTrainer {
    /// Opens the GPU.
    ///
    /// # Errors
    /// [`Failure::Environment`] with the reason if there is no GPU, [`Failure::Usage`] for a model whose layers are
    /// unknown.
    pub fn new(training: Training) -> Result<Self, Failure> {
        if training.network.layers().is_none() {
            return Err(Failure::Usage(format!(
                "the layers of {} are not known: give a model of the catalogue",
                training.network.name()
            )));
        }
        Ok(Self {
            training,
            gpu: Gpu::open()?,
            loaded: None,
        })
    }

    fn layers(&self) -> &[Layer] {
        self.training.network.layers().unwrap_or_default()
    }

    /// Plans the step for this batch size and creates its buffers; weights are kept.
    fn load(&mut self, batch: Batch) -> Result<(), Failure> {
        if self.loaded.as_ref().is_none_or(|(b, _)| *b != batch) {
            let learning = Learning {
                rate: self.training.rate,
                momentum: self.training.momentum,
            };
            let plan = Plan::new(self.layers(), batch.get(), self.gpu.sms(), learning)
                .map_err(|e| Failure::Usage(e.to_string()))?;
            let old = self.loaded.take().map(|(_, loaded)| loaded);
            let fresh = old.is_none();
            let starts = plan.starts.clone();
            let (image, classes) = (plan.image, plan.classes);
            let mut loaded = self.gpu.load(plan, old)?;
            let seed = self.training.seed;
            if fresh {
                self.gpu
                    .write(&mut loaded, WEIGHTS, &data::weights(&starts, seed))?;
            }
            let (images, labels) =
                data::images(batch.get(), image, classes, seed, self.training.round);
            self.gpu.write(&mut loaded, INPUT, &images)?;
            self.gpu.write(&mut loaded, LABELS, &labels)?;
            self.loaded = Some((batch, loaded));
        }
        Ok(())
    }
}

impl Trainer for CudaTrainer {
    fn warm_up(&mut self, batch: Batch) -> Result<Vec<(&'static str, String)>, Failure> {
        for _ in 0..2 {
            self.step(batch)?;
        }
        let mut members = vec![("sms", self.gpu.sms().to_string())];
        if let Some(mps) = self.gpu.mps() {
            members.insert(0, ("mps", mps.to_string()));
        }
        members.push(("cublas", self.gpu.has_cublas().to_string()));
        Ok(members)
    }

    fn step(&mut self, batch: Batch) -> Result<Step, Failure> {
        self.load(batch)?;
        let Some((_, loaded)) = &self.loaded else {
            return Err(Failure::Environment("no step is loaded".to_owned()));
        };
        self.gpu.run(loaded)?;
        let at = loaded.plan.loss_at;
        let loss = self.gpu.read(loaded, GRADIENTS, at).map(f64::from)?;
        // The kernels of a step sum the gradient of the whole batch at once: there are no parts.
        Ok(Step { loss, norms: None })
    }
}

#[cfg(test)]
mod tests;
