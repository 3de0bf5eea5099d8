//! Calls of the forward pass.

use gpusim::{Convolution, Layer, Shape, Window};

use super::call::{Arg, Call, GRADIENTS, Kernel, Product, WEIGHTS, count};
use super::graph::Node;
use super::planner::Planner;

/// Groups of ShuffleNet's channel shuffle.
pub(super) const SHUFFLE_GROUPS: u32 = 2;

/// Whether a convolution is a plain matrix product over pixels.
pub(super) fn is_product(conv: &Convolution) -> bool {
    let w = conv.window;
    conv.groups == 1 && (w.kernel, w.stride, w.padding) == (1, 1, 0)
}

/// Sizes of a convolution as kernel arguments.
pub(super) fn sizes(conv: &Convolution, batch: u32) -> [Arg; 8] {
    let w = conv.window;
    [
        batch,
        conv.input.side,
        conv.input.channels,
        conv.output().side,
        conv.channels,
        w.kernel,
        w.stride,
        w.padding,
    ]
    .map(Arg::Int)
}

/// Appends one argument to others.
pub(super) fn with<const N: usize, const M: usize>(sizes: [Arg; N], last: Arg) -> [Arg; M] {
    let mut all = [last; M];
    all[..N].copy_from_slice(&sizes);
    all
}

impl Planner<'_> {
    pub(super) fn forward(&mut self, node: &Node) {
        let x = self.read(node.inputs[0]);
        let y = self.written(node);
        let shape = node.layer.output();
        let n = self.total(shape);
        match node.layer {
            Layer::Convolution(conv) => self.conv_forward(node, &conv, x, y),
            Layer::Linear { inputs, outputs } => {
                self.product_forward(x, y, node.parameter, self.batch, inputs, outputs);
                self.bias(y, node.parameter + inputs * outputs, n, outputs);
            }
            Layer::BatchNorm(s) => self.norm_forward(node, x, y, s),
            Layer::Activation(_) => self.each(Kernel::ReluForward, n, [x, y], [Arg::Int(n)]),
            Layer::Add(_) => {
                let other = self.read(node.inputs[1]);
                self.each(Kernel::Sum, n, [x, other, y], [Arg::Int(n)]);
            }
            Layer::Scale(s) => {
                let gate = self.read(node.inputs[1]);
                let sizes = [n, s.channels, count(s), 0].map(Arg::Int);
                self.each(Kernel::Scale, n, [x, gate, y], sizes);
            }
            Layer::Concat { output, .. } => self.concat(node, output, y),
            Layer::Shuffle(s) => {
                let sizes = [n, s.channels, SHUFFLE_GROUPS, 0].map(Arg::Int);
                self.each(Kernel::Shuffle, n, [x, y], sizes);
            }
            Layer::Pool { input, window } => {
                self.each(
                    Kernel::PoolForward,
                    n,
                    [x, y],
                    pool_sizes(n, input, shape, window),
                );
            }
            Layer::GlobalPool(s) => {
                let sizes = [n, s.channels, s.side * s.side].map(Arg::Int);
                self.each(Kernel::MeanForward, n, [x, y], sizes);
            }
            // A single kernel computes the loss and its gradient; it runs with the backward pass.
            Layer::Loss { .. } => {}
        }
    }

    fn conv_forward(&mut self, node: &Node, conv: &Convolution, x: Arg, y: Arg) {
        let weights = Arg::At(WEIGHTS, node.parameter);
        let sizes = sizes(conv, self.batch);
        let n = self.total(conv.output());
        let (ci, co) = (conv.input.channels, conv.channels);
        if conv.groups > 1 {
            let sizes: [Arg; 9] = with(sizes, Arg::Int(conv.groups));
            self.each(Kernel::GroupForward, n, [x, weights, y], sizes);
        } else if is_product(conv) {
            self.product_forward(x, y, node.parameter, n / co, ci, co);
        } else {
            let (across, down, _) = self.tiles(n / co, co, 0);
            self.launch(
                Kernel::ConvForward,
                (across, down, 1),
                [x, weights, y],
                sizes,
            );
        }
        if conv.bias {
            self.bias(y, node.parameter + conv.weights() as u32, n, co);
        }
    }

    fn product_forward(&mut self, x: Arg, y: Arg, parameter: u32, rows: u32, ci: u32, co: u32) {
        self.calls.push(Call::Product(Product {
            m: rows,
            n: co,
            k: ci,
            a: x,
            a_turned: false,
            b: Arg::At(WEIGHTS, parameter),
            b_turned: false,
            c: y,
            add: false,
            splits: 1,
        }));
    }

    fn bias(&mut self, y: Arg, parameter: u32, n: u32, channels: u32) {
        let bias = Arg::At(WEIGHTS, parameter);
        self.each(
            Kernel::BiasForward,
            n,
            [y, bias],
            [n, channels].map(Arg::Int),
        );
    }

    fn norm_forward(&mut self, node: &Node, x: Arg, y: Arg, s: Shape) {
        let n = self.total(s);
        let rows = n / s.channels;
        let sums = self.sums(node);
        self.columns(Kernel::NormSums, rows, s.channels, [x, sums]);
        let [gamma, beta] = [0, s.channels].map(|c| Arg::At(WEIGHTS, node.parameter + c));
        self.each(
            Kernel::NormForward,
            n,
            [x, sums, gamma, beta, y],
            [rows, s.channels].map(Arg::Int),
        );
    }

    /// Sums of a batch normalisation. They are stored with the gradients, because that buffer
    /// starts at zero.
    pub(super) fn sums(&self, node: &Node) -> Arg {
        Arg::At(GRADIENTS, self.graph.parameters + node.sum)
    }

    fn concat(&mut self, node: &Node, output: Shape, y: Arg) {
        let mut at = 0;
        for (source, part) in self.parts(node, output) {
            let x = self.read(source);
            let n = self.total(part);
            let sizes = [n, part.channels, part.channels, 0, output.channels, at, 0];
            self.each(Kernel::Channels, n, [x, y], sizes.map(Arg::Int));
            at += part.channels;
        }
    }
}

pub(super) fn pool_sizes(n: u32, input: Shape, output: Shape, window: Window) -> [Arg; 7] {
    [
        n,
        input.side,
        input.channels,
        output.side,
        window.kernel,
        window.stride,
        window.padding,
    ]
    .map(Arg::Int)
}
