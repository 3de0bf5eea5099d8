//! The calls of a step: kernels and matrix products, and the buffers that they use.

use gpusim::Shape;

/// A function of `kernels.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(in crate::cuda) enum Kernel {
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
pub(in crate::cuda) const KERNEL_NAMES: [&str; 29] = [
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

/// A device buffer of 4-byte elements: index into [`super::Plan::buffers`].
pub(in crate::cuda) type Buffer = usize;

/// Parameters of all layers.
pub(in crate::cuda) const WEIGHTS: Buffer = 0;
/// Momentum of each parameter.
pub(in crate::cuda) const VELOCITY: Buffer = 1;
/// Gradient of each parameter, then other sums that also start at zero, with the loss at the end.
pub(in crate::cuda) const GRADIENTS: Buffer = 2;
/// Input images.
pub(in crate::cuda) const INPUT: Buffer = 3;
/// Classes of the images.
pub(in crate::cuda) const LABELS: Buffer = 4;
/// Placeholder for a value that no layer computes.
pub(in crate::cuda) const CONSTANT: Buffer = 5;

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cuda) enum Arg {
    /// A buffer, starting at an element.
    At(Buffer, u32),
    /// A size or flag.
    Int(u32),
    /// A number.
    Float(f32),
}

/// A matrix product `C (+)= A B`, row-major, `C` of `m` rows and `n` columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cuda) struct Product {
    pub(in crate::cuda) m: u32,
    pub(in crate::cuda) n: u32,
    pub(in crate::cuda) k: u32,
    pub(in crate::cuda) a: Arg,
    /// Whether `A` is stored as its transpose.
    pub(in crate::cuda) a_turned: bool,
    pub(in crate::cuda) b: Arg,
    /// Whether `B` is stored as its transpose.
    pub(in crate::cuda) b_turned: bool,
    pub(in crate::cuda) c: Arg,
    pub(in crate::cuda) add: bool,
    /// Number of blocks over which the depth is split; more than 1 only for a product that is
    /// added.
    pub(in crate::cuda) splits: u32,
}

/// One kernel launch.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cuda) struct Launch {
    pub(in crate::cuda) kernel: Kernel,
    /// Number of blocks, of 256 threads each.
    pub(in crate::cuda) grid: (u32, u32, u32),
    pub(in crate::cuda) args: Vec<Arg>,
}

/// One call of a step.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cuda) enum Call {
    Launch(Launch),
    Product(Product),
}

/// Initialisation of parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cuda) enum Start {
    /// Normal with this standard deviation.
    Normal(f32),
    /// All the same.
    Constant(f32),
}

/// Number of threads of every block.
pub(in crate::cuda) const THREADS: u32 = 256;
pub(in crate::cuda) const TILE: u32 = 64;

/// Number of elements of a value for one image.
pub(super) fn count(shape: Shape) -> u32 {
    shape.channels * shape.side * shape.side
}

impl Product {
    /// The launch of the embedded kernel for this product.
    pub(in crate::cuda) fn launch(&self) -> Launch {
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
