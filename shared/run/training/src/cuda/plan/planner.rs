//! Common data of the forward and backward pass.

use gpusim::Shape;

use super::call::{
    Arg, Buffer, CONSTANT, Call, GRADIENTS, INPUT, Kernel, Launch, THREADS, TILE, count,
};
use super::graph::{Graph, Node, Source};

/// Buffers for the gradients of values.
pub(super) struct Gradients {
    pub(super) of: Vec<Option<Buffer>>,
    pub(super) free: Vec<Buffer>,
}

impl Gradients {
    pub(super) fn new(values: usize) -> Self {
        Self {
            of: vec![None; values],
            free: Vec::new(),
        }
    }
}

/// Collects calls and buffers.
pub(super) struct Planner<'a> {
    pub(super) graph: &'a Graph,
    pub(super) batch: u32,
    pub(super) sms: u32,
    pub(super) buffers: Vec<u64>,
    pub(super) calls: Vec<Call>,
    /// Buffer of each value of the graph.
    pub(super) values: Vec<Buffer>,
    pub(super) gradients: Gradients,
}

impl<'a> Planner<'a> {
    pub(super) fn new(graph: &'a Graph, batch: u32, sms: u32) -> Self {
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
            gradients: Gradients::new(values.len()),
            values,
        }
    }

    pub(super) fn zero(&mut self) {
        let n = self.graph.loss_at() + 1;
        self.each(
            Kernel::Fill,
            n,
            [Arg::At(GRADIENTS, 0)],
            [Arg::Int(n), Arg::Float(0.0)],
        );
    }

    /// The argument for a source that a layer reads.
    pub(super) fn read(&self, source: Source) -> Arg {
        match source {
            Source::Value(v) => Arg::At(self.values[v], 0),
            Source::Constant(_) => Arg::At(CONSTANT, 0),
        }
    }

    /// The argument for the output of a layer.
    pub(super) fn written(&self, node: &Node) -> Arg {
        Arg::At(self.values[node.output], 0)
    }

    /// Number of elements of a value for the whole batch.
    pub(super) fn total(&self, shape: Shape) -> u32 {
        self.batch.saturating_mul(count(shape))
    }

    /// A kernel with one thread per element.
    pub(super) fn each<const P: usize, const A: usize>(
        &mut self,
        kernel: Kernel,
        elements: u32,
        pointers: [Arg; P],
        rest: [Arg; A],
    ) {
        self.launch(kernel, (elements.div_ceil(THREADS), 1, 1), pointers, rest);
    }

    /// A kernel that sums over rows, one column per channel.
    pub(super) fn columns<const P: usize>(
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

    pub(super) fn launch<const P: usize, const A: usize>(
        &mut self,
        kernel: Kernel,
        grid: (u32, u32, u32),
        pointers: [Arg; P],
        rest: [Arg; A],
    ) {
        let args = pointers.into_iter().chain(rest).collect();
        self.calls.push(Call::Launch(Launch { kernel, grid, args }));
    }

    /// Numbers of blocks for a product of `m` by `n`, and of parts into which a depth of `k` is split so that there are
    /// about two blocks per SM.
    pub(super) fn tiles(&self, m: u32, n: u32, k: u32) -> (u32, u32, u32) {
        let (across, down) = (m.div_ceil(TILE), n.div_ceil(TILE));
        let wanted = 2 * self.sms / across.saturating_mul(down).max(1);
        (across, down, wanted.min(k / 512).max(1))
    }
}
