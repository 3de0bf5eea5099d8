//! A training step as a list of calls on device buffers; planning needs no device.
//!
//! The catalogue lists a model's layers in forward order, but not the inputs of branches, so [`graph`] infers these
//! from the shapes. The result is a network of exactly these layers with exact gradients and a falling loss; its
//! branches may differ from the published network.

mod backward;
mod call;
mod forward;
mod graph;
mod planner;

use gpusim::Layer;

use call::count;
pub(super) use call::{
    Arg, Buffer, Call, GRADIENTS, INPUT, KERNEL_NAMES, Kernel, LABELS, Launch, Product, Start,
    THREADS, VELOCITY, WEIGHTS,
};
use graph::Graph;
use planner::Planner;

/// Learning parameters of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Learning {
    pub(super) rate: f32,
    pub(super) momentum: f32,
}

/// A training step for one batch size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// Number of elements of each buffer.
    pub(super) buffers: Vec<u64>,
    /// Calls, in order.
    pub(super) calls: Vec<Call>,
    /// Parameter tensors in order: number of elements and initialisation.
    pub(super) starts: Vec<(u32, Start)>,
    /// Index of the loss in [`GRADIENTS`].
    pub(super) loss_at: u32,
    /// Classes of the loss.
    pub(super) classes: u32,
    /// Elements of one input image.
    pub(super) image: u32,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum PlanError {
    /// The network does not end in a classifier.
    #[error("the network does not end with a loss over classes")]
    NoLoss,
    /// Sizes beyond 32 bits.
    #[error("batch {batch} needs a buffer of {elements} elements: take a smaller batch")]
    TooLarge {
        /// The batch size.
        batch: u32,
        /// The requested number of elements.
        elements: u64,
    },
}

impl Plan {
    /// Plans a step of `batch` images for a GPU of `sms` SMs.
    pub(super) fn new(
        layers: &[Layer],
        batch: u32,
        sms: u32,
        learning: Learning,
    ) -> Result<Self, PlanError> {
        let graph = Graph::infer(layers);
        let Some(Layer::Loss { classes }) = layers.last() else {
            return Err(PlanError::NoLoss);
        };
        let mut planner = Planner::new(&graph, batch, sms);
        planner.zero();
        for node in &graph.nodes {
            planner.forward(node);
        }
        planner.backward_all(&graph);
        planner.update(learning);
        let plan = Plan {
            buffers: planner.buffers,
            calls: planner.calls,
            starts: graph.starts.clone(),
            loss_at: graph.loss_at(),
            classes: *classes,
            image: count(graph.input),
        };
        match plan.buffers.iter().find(|&&n| n > u64::from(u32::MAX)) {
            Some(&elements) => Err(PlanError::TooLarge { batch, elements }),
            None => Ok(plan),
        }
    }
}

impl Planner<'_> {
    fn update(&mut self, learning: Learning) {
        let n = self.graph.parameters;
        self.each(
            Kernel::Update,
            n,
            [WEIGHTS, VELOCITY, GRADIENTS].map(|b| Arg::At(b, 0)),
            [
                Arg::Int(n),
                Arg::Float(learning.rate),
                Arg::Float(learning.momentum),
            ],
        );
    }
}

#[cfg(test)]
mod tests;
