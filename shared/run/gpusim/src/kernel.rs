//! Converts layers to the kernels of one training step.

use crate::gpu::Gpu;
use crate::layer::{Convolution, Layer};
use crate::network::{Body, Network};
use crate::tuning::Tuning;

const FLOAT: f64 = 4.0;
/// Output elements of one block of an element-wise kernel: 128 threads with 4 elements each.
const ELEMENTS_PER_BLOCK: f64 = 512.0;
/// Maximum number of tensors of one multi-tensor optimiser kernel.
const TENSORS_PER_UPDATE: f64 = 64.0;

/// Cost of one kernel on one GPU, independent of its share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kernel {
    /// Arithmetic in SM-microseconds: the duration on one SM if memory is no limit.
    pub(crate) compute: f64,
    /// DRAM traffic in bytes.
    pub(crate) bytes: f64,
    /// Thread blocks.
    pub(crate) blocks: f64,
    /// Its kind, for traces.
    pub(crate) kind: KernelKind,
}

/// Kind of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KernelKind {
    /// Forward matrix product or convolution.
    Forward,
    /// Gradient to the input of a matrix product or convolution.
    DataGradient,
    /// Gradient to the weights of a matrix product or convolution.
    WeightGradient,
    /// Depthwise convolution, any direction.
    Depthwise,
    /// Batch normalisation, any direction.
    BatchNorm,
    /// All element-wise operations: activations, sums, copies, pooling, loss.
    Elementwise,
    /// Optimiser update.
    Update,
}

impl KernelKind {
    /// Short lower-case name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::DataGradient => "data-gradient",
            Self::WeightGradient => "weight-gradient",
            Self::Depthwise => "depthwise",
            Self::BatchNorm => "batch-norm",
            Self::Elementwise => "elementwise",
            Self::Update => "update",
        }
    }
}

/// Emits the kernels of a step for one GPU.
pub(crate) struct Emitter<'a> {
    gpu: &'a Gpu,
    tuning: &'a Tuning,
    batch: f64,
    kernels: Vec<Kernel>,
}

/// A matrix product `m x k` by `k x n`.
#[derive(Clone, Copy)]
struct Gemm {
    m: f64,
    n: f64,
    k: f64,
    bytes: f64,
    efficiency: f64,
    kind: KernelKind,
}

impl<'a> Emitter<'a> {
    /// Kernels of one training step in launch order.
    pub(crate) fn step(network: &Network, gpu: &Gpu, tuning: &Tuning, batch: f64) -> Vec<Kernel> {
        let mut emitter = Emitter {
            gpu,
            tuning,
            batch,
            kernels: Vec::new(),
        };
        match network.body() {
            Body::Layers(layers) => {
                for layer in layers {
                    emitter.forward(layer);
                }
                for (i, layer) in layers.iter().enumerate().rev() {
                    emitter.backward(layer, i == 0);
                }
                let parameters = network.parameters().unwrap_or(0) as f64;
                let tensors = network.parameter_tensors().unwrap_or(0) as f64;
                emitter.update(parameters, tensors);
            }
            Body::Totals { flops, bytes } => emitter.totals(*flops, *bytes),
        }
        emitter.kernels
    }

    fn push(&mut self, flops: f64, efficiency: f64, bytes: f64, blocks: f64, kind: KernelKind) {
        let peak = self.gpu.flops_per_us() / f64::from(self.gpu.sms());
        let per_flop = 1.0 / (peak * efficiency) + 1.0 / self.tuning.operand_rate;
        self.kernels.push(Kernel {
            compute: flops * per_flop,
            bytes: bytes * self.tuning.traffic,
            blocks: blocks.max(1.0),
            kind,
        });
    }

    /// Emits an element-wise kernel with `passes` reads or writes of `elements` numbers.
    fn elementwise(&mut self, elements: f64, passes: f64, kind: KernelKind) {
        let n = elements * self.batch;
        self.push(
            n * passes,
            self.tuning.elementwise_efficiency,
            n * passes * FLOAT,
            n / ELEMENTS_PER_BLOCK,
            kind,
        );
    }

    fn gemm(&mut self, g: Gemm) {
        let sms = f64::from(self.gpu.sms());
        let wide = (g.m / 128.0).ceil() * (g.n / 64.0).ceil();
        let (tile_m, tiles) = if wide < sms {
            (64.0, (g.m / 64.0).ceil() * (g.n / 64.0).ceil())
        } else {
            (128.0, wide)
        };
        let splits = (2.0 * sms / tiles)
            .floor()
            .min((g.k / 512.0).floor())
            .max(1.0);
        let padded = tiles * tile_m * 64.0 * g.k;
        self.push(2.0 * padded, g.efficiency, g.bytes, tiles * splits, g.kind);
    }

    fn forward(&mut self, layer: &Layer) {
        match *layer {
            Layer::Convolution(conv) => {
                self.convolution(&conv, KernelKind::Forward);
                if conv.bias {
                    self.elementwise(conv.output().elements(), 2.0, KernelKind::Elementwise);
                }
            }
            Layer::Linear { inputs, outputs } => {
                self.linear(inputs, outputs, KernelKind::Forward);
            }
            Layer::BatchNorm(s) => self.elementwise(s.elements(), 3.0, KernelKind::BatchNorm),
            Layer::Activation(s) | Layer::Scale(s) | Layer::Shuffle(s) => {
                self.elementwise(s.elements(), 2.0, KernelKind::Elementwise);
            }
            Layer::Add(s) => self.elementwise(s.elements(), 3.0, KernelKind::Elementwise),
            Layer::Concat { output, .. } => {
                self.elementwise(output.elements(), 2.0, KernelKind::Elementwise);
            }
            Layer::Pool { input, .. } | Layer::GlobalPool(input) => {
                self.elementwise(input.elements(), 1.2, KernelKind::Elementwise);
            }
            Layer::Loss { classes } => {
                self.elementwise(f64::from(classes), 2.0, KernelKind::Elementwise);
                self.elementwise(f64::from(classes), 1.0, KernelKind::Elementwise);
            }
        }
    }

    fn backward(&mut self, layer: &Layer, first: bool) {
        match *layer {
            Layer::Convolution(conv) => {
                if !first {
                    self.convolution(&conv, KernelKind::DataGradient);
                }
                self.convolution(&conv, KernelKind::WeightGradient);
                if conv.bias {
                    self.elementwise(conv.output().elements(), 1.0, KernelKind::Elementwise);
                }
            }
            Layer::Linear { inputs, outputs } => {
                if !first {
                    self.linear(inputs, outputs, KernelKind::DataGradient);
                }
                self.linear(inputs, outputs, KernelKind::WeightGradient);
                self.elementwise(f64::from(outputs), 1.0, KernelKind::Elementwise);
            }
            Layer::BatchNorm(s) => self.elementwise(s.elements(), 5.0, KernelKind::BatchNorm),
            Layer::Activation(s) => self.elementwise(s.elements(), 3.0, KernelKind::Elementwise),
            Layer::Scale(s) => {
                self.elementwise(s.elements(), 2.0, KernelKind::Elementwise);
                self.elementwise(s.elements(), 2.0, KernelKind::Elementwise);
            }
            Layer::Shuffle(s) => self.elementwise(s.elements(), 2.0, KernelKind::Elementwise),
            Layer::Add(s) => self.elementwise(s.elements(), 3.0, KernelKind::Elementwise),
            Layer::Concat { output, parts } => {
                // Each branch gets its slice and adds it to its gradient.
                for _ in 1..parts {
                    let slice = output.elements() / f64::from(parts);
                    self.elementwise(slice, 3.0, KernelKind::Elementwise);
                }
            }
            Layer::Pool { input, .. } | Layer::GlobalPool(input) => {
                self.elementwise(input.elements(), 1.2, KernelKind::Elementwise);
            }
            Layer::Loss { classes } => {
                self.elementwise(f64::from(classes), 1.0, KernelKind::Elementwise);
                self.elementwise(f64::from(classes), 2.0, KernelKind::Elementwise);
            }
        }
    }

    fn convolution(&mut self, conv: &Convolution, kind: KernelKind) {
        let output = conv.output();
        let passed = (conv.input.elements() + output.elements()) * self.batch;
        let traffic = passed + conv.weights() as f64;
        if conv.groups > 1 {
            let blocks = output.elements() * self.batch / ELEMENTS_PER_BLOCK;
            self.push(
                2.0 * conv.macs() * self.batch,
                self.tuning.depthwise_efficiency,
                traffic * FLOAT,
                blocks,
                KernelKind::Depthwise,
            );
            return;
        }
        let taps = f64::from(conv.window.kernel).powi(2);
        let pixels_in = conv.input.elements() / f64::from(conv.input.channels) * self.batch;
        let pixels_out = output.elements() / f64::from(conv.channels) * self.batch;
        let ci = f64::from(conv.input.channels);
        let co = f64::from(conv.channels);
        let (m, n, k) = match kind {
            KernelKind::DataGradient => (pixels_in, ci, co * taps * pixels_out / pixels_in),
            KernelKind::WeightGradient => (co, ci * taps, pixels_out),
            _ => (pixels_out, co, ci * taps),
        };
        let plain = conv.window.kernel == 3 && conv.window.stride == 1;
        self.gemm(Gemm {
            m,
            n,
            k,
            bytes: traffic * FLOAT,
            efficiency: if plain {
                self.tuning.conv3_efficiency
            } else {
                self.tuning.gemm_efficiency
            },
            kind,
        });
    }

    fn linear(&mut self, inputs: u32, outputs: u32, kind: KernelKind) {
        let i = f64::from(inputs);
        let o = f64::from(outputs);
        let b = self.batch;
        let (m, n, k) = match kind {
            KernelKind::DataGradient => (b, i, o),
            KernelKind::WeightGradient => (o, i, b),
            _ => (b, o, i),
        };
        self.gemm(Gemm {
            m,
            n,
            k,
            bytes: FLOAT * (b * (i + o) + i * o),
            efficiency: self.tuning.gemm_efficiency,
            kind,
        });
    }

    /// SGD with momentum as three multi-tensor kernels per chunk of tensors.
    fn update(&mut self, parameters: f64, tensors: f64) {
        let chunks = (tensors / TENSORS_PER_UPDATE).ceil().max(1.0);
        let n = parameters / chunks;
        for _ in 0..chunks as usize {
            for passes in [2.0, 3.0, 2.0] {
                self.push(
                    n * passes,
                    self.tuning.elementwise_efficiency,
                    n * passes * FLOAT,
                    n / (64.0 * ELEMENTS_PER_BLOCK),
                    KernelKind::Update,
                );
            }
        }
    }

    /// A generic step with these totals, in the proportions of an average ResNet.
    fn totals(&mut self, flops: f64, bytes: f64) {
        const LAYERS: usize = 40;
        let share = self.batch / LAYERS as f64;
        let pass = |e: &mut Self, parts: f64, kind| {
            let work = flops * share / 3.0;
            let traffic = bytes * share * 0.4 / parts;
            let blocks = (work / (2.0 * 128.0 * 64.0 * 576.0)).max(1.0);
            e.push(work, e.tuning.gemm_efficiency, traffic, blocks, kind);
        };
        let rest = |e: &mut Self| {
            let traffic = bytes * share * 0.3;
            let blocks = traffic / (2.0 * FLOAT * ELEMENTS_PER_BLOCK);
            let kind = KernelKind::Elementwise;
            e.push(0.0, e.tuning.elementwise_efficiency, traffic, blocks, kind);
        };
        for _ in 0..LAYERS {
            pass(self, 3.0, KernelKind::Forward);
            rest(self);
        }
        for _ in 0..LAYERS {
            rest(self);
            pass(self, 3.0, KernelKind::DataGradient);
            pass(self, 3.0, KernelKind::WeightGradient);
        }
    }
}
