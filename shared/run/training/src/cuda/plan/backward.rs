//! Calls of the backward pass, and buffers for gradients, which are reused as soon as they are
//! free.

use gpusim::{Convolution, Layer, Shape, Window};

use super::call::{Arg, Buffer, Call, GRADIENTS, Kernel, LABELS, Product, WEIGHTS, count};
use super::forward::{SHUFFLE_GROUPS, is_product, pool_sizes, sizes, with};
use super::graph::{Graph, Node, Source};
use super::planner::Planner;

/// Where a layer writes the gradient of an input, and whether to add to it.
#[derive(Clone, Copy)]
struct Target {
    at: Arg,
    add: Arg,
}

impl Planner<'_> {
    pub(super) fn backward_all(&mut self, graph: &Graph) {
        for node in graph.nodes.iter().rev() {
            if let Layer::Loss { classes } = node.layer {
                self.loss(node, classes);
                continue;
            }
            let shape = node.layer.output();
            let dy = match self.gradients.of[node.output] {
                Some(buffer) => Arg::At(buffer, 0),
                None => self.nothing(node.output, shape),
            };
            self.backward(node, dy);
            if let Some(buffer) = self.gradients.of[node.output].take() {
                self.gradients.free.push(buffer);
            }
        }
    }

    /// The gradient of a value that no layer reads, which is zero.
    fn nothing(&mut self, value: usize, shape: Shape) -> Arg {
        let n = self.total(shape);
        let at = Arg::At(self.claim(value, n), 0);
        self.each(Kernel::Fill, n, [at], [Arg::Int(n), Arg::Float(0.0)]);
        at
    }

    /// The smallest free buffer that is large enough, or a new one.
    fn claim(&mut self, value: usize, elements: u32) -> Buffer {
        let need = u64::from(elements);
        let fitting = (0..self.gradients.free.len())
            .filter(|&i| self.buffers[self.gradients.free[i]] >= need)
            .min_by_key(|&i| self.buffers[self.gradients.free[i]]);
        let buffer = match fitting {
            Some(i) => self.gradients.free.swap_remove(i),
            None => {
                self.buffers.push(need);
                self.buffers.len() - 1
            }
        };
        self.gradients.of[value] = Some(buffer);
        buffer
    }

    /// Destination of a source's gradient; `None` if it is not needed.
    fn target(&mut self, source: Source, elements: u32) -> Option<Target> {
        let Source::Value(value @ 1..) = source else {
            return None;
        };
        let (buffer, add) = match self.gradients.of[value] {
            Some(buffer) => (buffer, 1),
            None => (self.claim(value, elements), 0),
        };
        Some(Target {
            at: Arg::At(buffer, 0),
            add: Arg::Int(add),
        })
    }

    fn loss(&mut self, node: &Node, classes: u32) {
        let x = self.read(node.inputs[0]);
        let total = Arg::At(GRADIENTS, self.graph.loss_at());
        let n = self.batch * classes;
        if let Some(dx) = self.target(node.inputs[0], n) {
            let pointers = [x, Arg::At(LABELS, 0), total, dx.at];
            let sizes = [self.batch, classes].map(Arg::Int);
            self.launch(Kernel::Loss, (self.batch, 1, 1), pointers, sizes);
        }
    }

    fn backward(&mut self, node: &Node, dy: Arg) {
        let source = node.inputs[0];
        let x = self.read(source);
        let n = self.total(node.layer.output());
        match node.layer {
            Layer::Convolution(conv) => self.conv_backward(node, &conv, x, dy),
            Layer::Linear { inputs, outputs } => {
                let dx = self.target(source, self.batch * inputs);
                let bias = node.parameter + inputs * outputs;
                self.bias_backward(dy, bias, self.batch, outputs);
                self.product_backward(x, dy, dx, node.parameter, self.batch, inputs, outputs);
            }
            Layer::BatchNorm(s) => self.norm_backward(node, x, dy, s),
            Layer::Activation(_) => {
                if let Some(dx) = self.target(source, n) {
                    let sizes = [Arg::Int(n), dx.add];
                    self.each(Kernel::ReluBackward, n, [x, dy, dx.at], sizes);
                }
            }
            Layer::Add(_) => {
                for &source in &node.inputs {
                    if let Some(dx) = self.target(source, n) {
                        self.each(Kernel::Copy, n, [dy, dx.at], [Arg::Int(n), dx.add]);
                    }
                }
            }
            Layer::Scale(s) => self.scale_backward(node, x, dy, s),
            Layer::Concat { output, .. } => self.concat_backward(node, output, dy),
            Layer::Shuffle(s) => {
                if let Some(dx) = self.target(source, n) {
                    let own = [n, s.channels, s.channels / SHUFFLE_GROUPS].map(Arg::Int);
                    let sizes: [Arg; 4] = with(own, dx.add);
                    self.each(Kernel::Shuffle, n, [dy, dx.at], sizes);
                }
            }
            Layer::Pool { input, window } => self.pool_backward(node, x, dy, input, window),
            Layer::GlobalPool(s) => {
                let n = self.total(s);
                if let Some(dx) = self.target(source, n) {
                    let own = [n, s.channels, s.side * s.side].map(Arg::Int);
                    let sizes: [Arg; 4] = with(own, dx.add);
                    self.each(Kernel::MeanBackward, n, [dy, dx.at], sizes);
                }
            }
            Layer::Loss { .. } => {}
        }
    }

    fn conv_backward(&mut self, node: &Node, conv: &Convolution, x: Arg, dy: Arg) {
        let (ci, co) = (conv.input.channels, conv.channels);
        let rows = self.total(conv.output()) / co;
        let count = conv.weights() as u32;
        if conv.bias {
            self.bias_backward(dy, node.parameter + count, rows, co);
        }
        let read = self.total(conv.input);
        let dx = self.target(node.inputs[0], read);
        if is_product(conv) {
            return self.product_backward(x, dy, dx, node.parameter, rows, ci, co);
        }
        let sizes = sizes(conv, self.batch);
        let weights = Arg::At(WEIGHTS, node.parameter);
        let dw = Arg::At(GRADIENTS, node.parameter);
        if conv.groups > 1 {
            let grouped: [Arg; 9] = with(sizes, Arg::Int(conv.groups));
            if let Some(dx) = dx {
                let sizes: [Arg; 10] = with(grouped, dx.add);
                self.each(Kernel::GroupData, read, [dy, weights, dx.at], sizes);
            }
            let grid = (count, 1, 1);
            return self.launch(Kernel::GroupWeights, grid, [x, dy, dw], grouped);
        }
        let taps = conv.window.kernel * conv.window.kernel;
        if let Some(dx) = dx {
            let (across, down, _) = self.tiles(read / ci, ci, 0);
            let sizes: [Arg; 9] = with(sizes, dx.add);
            self.launch(
                Kernel::ConvData,
                (across, down, 1),
                [dy, weights, dx.at],
                sizes,
            );
        }
        let grid = self.tiles(taps * ci, co, rows);
        self.launch(Kernel::ConvWeights, grid, [x, dy, dw], sizes);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "two operands, a result and three sizes"
    )]
    fn product_backward(
        &mut self,
        x: Arg,
        dy: Arg,
        dx: Option<Target>,
        parameter: u32,
        rows: u32,
        ci: u32,
        co: u32,
    ) {
        if let Some(dx) = dx {
            self.calls.push(Call::Product(Product {
                m: rows,
                n: ci,
                k: co,
                a: dy,
                a_turned: false,
                b: Arg::At(WEIGHTS, parameter),
                b_turned: true,
                c: dx.at,
                add: dx.add == Arg::Int(1),
                splits: 1,
            }));
        }
        let (_, _, splits) = self.tiles(ci, co, rows);
        self.calls.push(Call::Product(Product {
            m: ci,
            n: co,
            k: rows,
            a: x,
            a_turned: true,
            b: dy,
            b_turned: false,
            c: Arg::At(GRADIENTS, parameter),
            add: true,
            splits,
        }));
    }

    fn bias_backward(&mut self, dy: Arg, parameter: u32, rows: u32, channels: u32) {
        let dbias = Arg::At(GRADIENTS, parameter);
        self.columns(Kernel::BiasBackward, rows, channels, [dy, dbias]);
    }

    fn norm_backward(&mut self, node: &Node, x: Arg, dy: Arg, s: Shape) {
        let n = self.total(s);
        let rows = n / s.channels;
        let sums = self.sums(node);
        let gamma = Arg::At(WEIGHTS, node.parameter);
        let [dgamma, dbeta] = [0, s.channels].map(|c| Arg::At(GRADIENTS, node.parameter + c));
        let pointers = [x, dy, sums, dgamma, dbeta];
        self.columns(Kernel::NormParameters, rows, s.channels, pointers);
        if let Some(dx) = self.target(node.inputs[0], n) {
            let pointers = [x, dy, sums, gamma, dgamma, dbeta, dx.at];
            let sizes = [Arg::Int(rows), Arg::Int(s.channels), dx.add];
            self.each(Kernel::NormData, n, pointers, sizes);
        }
    }

    fn scale_backward(&mut self, node: &Node, x: Arg, dy: Arg, s: Shape) {
        let n = self.total(s);
        let gate = self.read(node.inputs[1]);
        if let Some(dx) = self.target(node.inputs[0], n) {
            let sizes: [Arg; 4] = with([n, s.channels, count(s)].map(Arg::Int), dx.add);
            self.each(Kernel::Scale, n, [dy, gate, dx.at], sizes);
        }
        let gates = self.batch * s.channels;
        if let Some(dgate) = self.target(node.inputs[1], gates) {
            let own = [gates, s.channels, s.side * s.side].map(Arg::Int);
            let sizes: [Arg; 4] = with(own, dgate.add);
            self.each(Kernel::ScaleGate, gates, [x, dy, dgate.at], sizes);
        }
    }

    /// The parts of a concatenation.
    pub(super) fn parts(&self, node: &Node, output: Shape) -> Vec<(Source, Shape)> {
        let shape = |source: Source| match source {
            Source::Value(v) if node.inputs.len() > 1 => self.graph.values[v],
            Source::Constant(shape) => shape,
            Source::Value(_) => output,
        };
        node.inputs.iter().map(|&s| (s, shape(s))).collect()
    }

    fn concat_backward(&mut self, node: &Node, output: Shape, dy: Arg) {
        let mut at = 0;
        for (source, part) in self.parts(node, output) {
            let n = self.total(part);
            if let Some(dx) = self.target(source, n) {
                let own = [n, part.channels, output.channels, at, part.channels, 0];
                let sizes: [Arg; 7] = with(own.map(Arg::Int), dx.add);
                self.each(Kernel::Channels, n, [dy, dx.at], sizes);
            }
            at += part.channels;
        }
    }

    fn pool_backward(&mut self, node: &Node, x: Arg, dy: Arg, input: Shape, window: Window) {
        let n = self.total(input);
        let y = self.written(node);
        if let Some(dx) = self.target(node.inputs[0], n) {
            let own = pool_sizes(n, input, node.layer.output(), window);
            let sizes: [Arg; 8] = with(own, dx.add);
            self.each(Kernel::PoolBackward, n, [x, y, dy, dx.at], sizes);
        }
    }
}
