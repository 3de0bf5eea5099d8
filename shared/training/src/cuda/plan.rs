//! A training step as a list of calls on device buffers, made without a device.
//!
//! The catalogue lists a model's layers in forward order and not which earlier value a branch
//! reads, so [`graph`] infers that from the shapes. What results is a network of exactly those
//! layers, whose gradients are exact and whose loss falls; it is not the published network to
//! the last branch.

mod backward;
mod forward;
mod graph;

use gpusim::{Layer, Shape};

use graph::{Graph, Node, Source};

/// A function of `kernels.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Kernel {
    Gemm,
    GemmSplit,
    ConvForward,
    ConvData,
    ConvWeights,
    GroupForward,
    GroupData,
    GroupWeights,
    NormSums,
    NormForward,
    NormParameters,
    NormData,
    BiasForward,
    BiasBackward,
    Fill,
    Copy,
    Sum,
    ReluForward,
    ReluBackward,
    Scale,
    ScaleGate,
    Channels,
    Shuffle,
    PoolForward,
    PoolBackward,
    MeanForward,
    MeanBackward,
    Loss,
    Update,
}

/// Names of the functions, in the order of [`Kernel`].
pub(super) const KERNEL_NAMES: [&str; 29] = [
    "gemm",
    "gemm_split",
    "conv_forward",
    "conv_data",
    "conv_weights",
    "group_forward",
    "group_data",
    "group_weights",
    "norm_sums",
    "norm_forward",
    "norm_parameters",
    "norm_data",
    "bias_forward",
    "bias_backward",
    "fill",
    "copy",
    "sum",
    "relu_forward",
    "relu_backward",
    "scale",
    "scale_gate",
    "channels",
    "shuffle",
    "pool_forward",
    "pool_backward",
    "mean_forward",
    "mean_backward",
    "loss",
    "update",
];

/// A device buffer of 4-byte elements: index into [`Plan::buffers`].
pub(super) type Buffer = usize;

/// Parameters of all layers.
pub(super) const WEIGHTS: Buffer = 0;
/// Momentum of each parameter.
pub(super) const VELOCITY: Buffer = 1;
/// Gradient of each parameter, then sums that also start at zero, the loss last.
pub(super) const GRADIENTS: Buffer = 2;
/// Input images.
pub(super) const INPUT: Buffer = 3;
/// Classes of the images.
pub(super) const LABELS: Buffer = 4;
/// Stands for a value that no layer makes.
pub(super) const CONSTANT: Buffer = 5;

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Arg {
    /// A buffer from an element on.
    At(Buffer, u32),
    /// A size or flag.
    Int(u32),
    /// A number.
    Float(f32),
}

/// A matrix product `C (+)= A B`, row-major, `C` of `m` rows and `n` columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Product {
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) k: u32,
    pub(super) a: Arg,
    /// Whether `A` is stored as its transpose.
    pub(super) a_turned: bool,
    pub(super) b: Arg,
    /// Whether `B` is stored as its transpose.
    pub(super) b_turned: bool,
    pub(super) c: Arg,
    pub(super) add: bool,
    /// Blocks that the depth is split over, more than 1 only when adding.
    pub(super) splits: u32,
}

/// One kernel launch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Launch {
    pub(super) kernel: Kernel,
    /// Blocks, of 256 threads each.
    pub(super) grid: (u32, u32, u32),
    pub(super) args: Vec<Arg>,
}

/// One call of a step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Call {
    Launch(Launch),
    Product(Product),
}

/// How parameters start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Start {
    /// Normal with this deviation.
    Normal(f32),
    /// All the same.
    Constant(f32),
}

/// How a step learns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Learning {
    pub(super) rate: f32,
    pub(super) momentum: f32,
}

/// A training step for one batch size.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// Elements of each buffer.
    pub(super) buffers: Vec<u64>,
    /// What to do, in order.
    pub(super) calls: Vec<Call>,
    /// Parameters in order: how many and how they start.
    pub(super) starts: Vec<(u32, Start)>,
    /// Where in [`GRADIENTS`] the loss is.
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
        /// The size asked for.
        elements: u64,
    },
}

/// Threads of every block.
pub(super) const THREADS: u32 = 256;
const TILE: u32 = 64;

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

/// Numbers of one image's value.
fn count(shape: Shape) -> u32 {
    shape.channels * shape.side * shape.side
}

/// Collects calls and buffers.
struct Planner<'a> {
    graph: &'a Graph,
    batch: u32,
    sms: u32,
    buffers: Vec<u64>,
    calls: Vec<Call>,
    /// Buffer of each value of the graph.
    values: Vec<Buffer>,
    gradients: backward::Gradients,
}

impl<'a> Planner<'a> {
    fn new(graph: &'a Graph, batch: u32, sms: u32) -> Self {
        let per_image = |shape: Shape| {
            u64::from(batch) * u64::from(shape.channels) * u64::from(shape.side).pow(2)
        };
        let constant = graph.largest_constant().map_or(1, per_image);
        let mut buffers = vec![
            u64::from(graph.parameters),
            u64::from(graph.parameters),
            u64::from(graph.loss_at()) + 1,
            per_image(graph.input),
            u64::from(batch),
            constant,
        ];
        let mut values = vec![INPUT];
        for &shape in &graph.values[1..] {
            values.push(buffers.len());
            buffers.push(per_image(shape));
        }
        Self {
            graph,
            batch,
            sms,
            buffers,
            calls: Vec::new(),
            gradients: backward::Gradients::new(values.len()),
            values,
        }
    }

    fn zero(&mut self) {
        let n = self.graph.loss_at() + 1;
        self.each(
            Kernel::Fill,
            n,
            [Arg::At(GRADIENTS, 0)],
            [Arg::Int(n), Arg::Float(0.0)],
        );
    }

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

    /// Where a layer reads from.
    fn read(&self, source: Source) -> Arg {
        match source {
            Source::Value(v) => Arg::At(self.values[v], 0),
            Source::Constant(_) => Arg::At(CONSTANT, 0),
        }
    }

    /// Where a layer writes to.
    fn written(&self, node: &Node) -> Arg {
        Arg::At(self.values[node.output], 0)
    }

    /// Elements of a whole batch.
    fn total(&self, shape: Shape) -> u32 {
        self.batch.saturating_mul(count(shape))
    }

    /// A kernel with one thread per element.
    fn each<const P: usize, const A: usize>(
        &mut self,
        kernel: Kernel,
        elements: u32,
        pointers: [Arg; P],
        rest: [Arg; A],
    ) {
        self.launch(kernel, (elements.div_ceil(THREADS), 1, 1), pointers, rest);
    }

    /// A kernel that sums over rows, one column per channel.
    fn columns<const P: usize>(
        &mut self,
        kernel: Kernel,
        rows: u32,
        channels: u32,
        pointers: [Arg; P],
    ) {
        let across = channels.div_ceil(32);
        let down = (4 * self.sms / across).clamp(1, rows.div_ceil(64).max(1));
        let sizes = [Arg::Int(rows), Arg::Int(channels)];
        self.launch(kernel, (across, down, 1), pointers, sizes);
    }

    fn launch<const P: usize, const A: usize>(
        &mut self,
        kernel: Kernel,
        grid: (u32, u32, u32),
        pointers: [Arg; P],
        rest: [Arg; A],
    ) {
        let args = pointers.into_iter().chain(rest).collect();
        self.calls.push(Call::Launch(Launch { kernel, grid, args }));
    }

    /// Blocks of a product of `m` by `n`, and how many to split a depth of `k` over so that
    /// about two blocks fall to each SM.
    fn tiles(&self, m: u32, n: u32, k: u32) -> (u32, u32, u32) {
        let (across, down) = (m.div_ceil(TILE), n.div_ceil(TILE));
        let wanted = 2 * self.sms / across.saturating_mul(down).max(1);
        (across, down, wanted.min(k / 512).max(1))
    }
}

impl Product {
    /// The product as a launch of the embedded kernel.
    pub(super) fn launch(&self) -> Launch {
        let (a_m, a_k) = if self.a_turned {
            (1, self.m)
        } else {
            (self.k, 1)
        };
        let (b_k, b_n) = if self.b_turned {
            (1, self.k)
        } else {
            (self.n, 1)
        };
        let mut args = vec![self.a, self.b, self.c];
        args.extend([self.m, self.n, self.k, a_m, a_k, b_k, b_n].map(Arg::Int));
        let kernel = if self.splits > 1 {
            Kernel::GemmSplit
        } else {
            args.push(Arg::Int(self.add.into()));
            Kernel::Gemm
        };
        Launch {
            kernel,
            grid: (
                self.m.div_ceil(TILE),
                self.n.div_ceil(TILE),
                self.splits.max(1),
            ),
            args,
        }
    }
}

#[cfg(test)]
mod tests;
