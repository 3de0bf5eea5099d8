//! Infers from shapes which earlier value each layer reads.

use gpusim::{Layer, Shape, Tensor};

use super::call::{Start, count};

/// Input of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A value: 0 is the input, the others are outputs of layers.
    Value(usize),
    /// A constant buffer, if no value of this shape exists.
    Constant(Shape),
}

/// A layer with its inputs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) layer: Layer,
    pub(super) inputs: Vec<Source>,
    pub(super) output: usize,
    /// Index of its first parameter.
    pub(super) parameter: u32,
    /// Index of its first sum (batch normalisation), counted from the end of the parameters.
    pub(super) sum: u32,
}

/// Layers with their sources.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Graph {
    pub(super) input: Shape,
    pub(super) nodes: Vec<Node>,
    pub(super) values: Vec<Shape>,
    pub(super) parameters: u32,
    pub(super) starts: Vec<(u32, Start)>,
    sums: u32,
    /// Number of reads of each value.
    reads: Vec<u32>,
}

impl Graph {
    /// Infers the graph of layers in forward order.
    ///
    /// A layer reads the previous value if the shape fits, otherwise the newest value that fits. The second operand of
    /// a sum or concatenation is the newest fitting value that has not been read yet (a parallel branch), otherwise the
    /// input of the block.
    pub(super) fn infer(layers: &[Layer]) -> Self {
        let input = layers.first().map_or(
            Shape {
                channels: 1,
                side: 1,
            },
            Layer::input,
        );
        let mut graph = Self {
            input,
            nodes: Vec::new(),
            values: vec![input],
            parameters: 0,
            starts: Vec::new(),
            sums: 0,
            reads: vec![0],
        };
        for layer in layers {
            graph.push(layer);
        }
        graph.soften_classifier();
        graph
    }

    /// Initialises the layer before the loss with small weights, so that the first losses equal those of random
    /// guessing, and networks without normalisation do not diverge at once.
    fn soften_classifier(&mut self) {
        // The last entry is the bias of the last layer with parameters; its weights come before it.
        if let Some(weights) = self.starts.len().checked_sub(2) {
            self.starts[weights].1 = Start::Normal(0.01);
        }
    }

    /// Index of the loss in the buffer of gradients: after the parameters and the sums.
    pub(super) fn loss_at(&self) -> u32 {
        self.parameters + self.sums
    }

    /// The largest value that no layer computes.
    pub(super) fn largest_constant(&self) -> Option<Shape> {
        self.nodes
            .iter()
            .flat_map(|n| &n.inputs)
            .filter_map(|s| match s {
                Source::Constant(shape) => Some(*shape),
                Source::Value(_) => None,
            })
            .max_by_key(|s| count(*s))
    }

    fn push(&mut self, layer: &Layer) {
        let inputs = self.sources(layer);
        for source in &inputs {
            if let Source::Value(v) = source {
                self.reads[*v] += 1;
            }
        }
        self.nodes.push(Node {
            layer: layer.clone(),
            inputs,
            output: self.values.len(),
            parameter: self.parameters,
            sum: self.sums,
        });
        self.values.push(layer.output());
        self.reads.push(0);
        self.start(layer);
    }

    fn sources(&self, layer: &Layer) -> Vec<Source> {
        let shape = layer.input();
        match *layer {
            Layer::Add(_) => {
                let first = self.newest(shape);
                vec![first, self.branch(shape, first)]
            }
            Layer::Scale(_) => {
                let gate = Shape { side: 1, ..shape };
                let first = self.newest(gate);
                vec![self.newest(shape), first]
            }
            Layer::Concat { output, parts } => {
                let last = self.values.len() - 1;
                let before = self.values[last];
                let rest = output.channels.saturating_sub(before.channels);
                if parts < 2 || rest == 0 || before.side != output.side {
                    return vec![self.newest(output)];
                }
                let first = Source::Value(last);
                let rest = Shape {
                    channels: rest,
                    ..output
                };
                vec![self.branch(rest, first), first]
            }
            Layer::Linear { inputs, .. } => {
                let found = self.values.iter().rposition(|v| count(*v) == inputs);
                vec![found.map_or(Source::Constant(shape), Source::Value)]
            }
            _ => vec![self.newest(shape)],
        }
    }

    fn newest(&self, shape: Shape) -> Source {
        self.values
            .iter()
            .rposition(|v| *v == shape)
            .map_or(Source::Constant(shape), Source::Value)
    }

    /// A value of this shape other than `not`, as the second operand of a joining layer.
    fn branch(&self, shape: Shape, not: Source) -> Source {
        let fits = |v: usize| self.values[v] == shape && Source::Value(v) != not;
        let all = || (1..self.values.len()).filter(|&v| fits(v));
        if let Some(unread) = all().rfind(|&v| self.reads[v] == 0) {
            return Source::Value(unread);
        }
        // The input of the block: the output of the last sum of this shape, or its activation.
        let sum = all().rfind(|&v| matches!(self.nodes[v - 1].layer, Layer::Add(_)));
        let begin = sum.or_else(|| all().next());
        let activated = begin.map(|v| v + 1).filter(|&v| {
            v < self.values.len()
                && fits(v)
                && matches!(self.nodes[v - 1].layer, Layer::Activation(_))
        });
        activated
            .or(begin)
            .map_or_else(|| self.newest_other(shape, not), Source::Value)
    }

    fn newest_other(&self, shape: Shape, not: Source) -> Source {
        (0..self.values.len())
            .rfind(|&v| self.values[v] == shape && Source::Value(v) != not)
            .map_or(Source::Constant(shape), Source::Value)
    }

    fn start(&mut self, layer: &Layer) {
        for tensor in layer.tensors() {
            let start = match tensor {
                Tensor::Weights { fan_in, .. } => {
                    Start::Normal((2.0 / fan_in.max(1) as f64).sqrt() as f32)
                }
                Tensor::Gain(_) => Start::Constant(1.0),
                Tensor::Bias(_) => Start::Constant(0.0),
            };
            let count = tensor.count() as u32;
            self.starts.push((count, start));
            self.parameters += count;
        }
        if let Layer::BatchNorm(shape) = layer {
            self.sums += 2 * shape.channels;
        }
    }
}
