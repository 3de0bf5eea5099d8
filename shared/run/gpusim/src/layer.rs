//! Layers: shapes, parameters and the cost of their forward and backward passes.

/// Square feature maps of one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of maps.
    pub channels: u32,
    /// Pixels along one side.
    pub side: u32,
}

impl Shape {
    /// Number of elements in one sample.
    #[must_use]
    pub fn elements(self) -> f64 {
        f64::from(self.channels) * f64::from(self.side) * f64::from(self.side)
    }
}

/// Why a layer is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LayerError {
    /// A count that must be positive is zero, or so large that costs overflow.
    #[error("{field} is {value}: expected 1 to 1048576")]
    BadCount {
        /// Which count.
        field: &'static str,
        /// The offending value.
        value: u32,
    },
    /// Channels do not divide into the groups.
    #[error("{channels} channels do not divide into {groups} groups")]
    BadGroups {
        /// Input or output channels.
        channels: u32,
        /// Groups.
        groups: u32,
    },
    /// The window is larger than the padded input.
    #[error("a window of {kernel} does not fit into {padded} padded pixels")]
    WindowTooLarge {
        /// Window side.
        kernel: u32,
        /// Input side with padding.
        padded: u32,
    },
}

/// A window that slides over maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Side of the window in pixels.
    pub kernel: u32,
    /// Step in pixels.
    pub stride: u32,
    /// Zeros added on every edge.
    pub padding: u32,
}

impl Window {
    /// Side of the output for inputs of `side` pixels: `(side + 2 padding - kernel)/stride + 1`.
    #[must_use]
    pub fn output_side(self, side: u32) -> u32 {
        (side + 2 * self.padding).saturating_sub(self.kernel) / self.stride.max(1) + 1
    }

    fn check(self, side: u32) -> Result<(), LayerError> {
        count("kernel", self.kernel)?;
        count("stride", self.stride)?;
        if self.padding > self.kernel {
            return Err(LayerError::BadCount {
                field: "padding",
                value: self.padding,
            });
        }
        let padded = side + 2 * self.padding;
        if self.kernel > padded {
            return Err(LayerError::WindowTooLarge {
                kernel: self.kernel,
                padded,
            });
        }
        Ok(())
    }
}

/// A convolution; `groups` equal to the channels makes it depthwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Input maps.
    pub input: Shape,
    /// Output channels.
    pub channels: u32,
    /// Sliding window.
    pub window: Window,
    /// Independent groups of channels.
    pub groups: u32,
    /// Whether it adds a bias.
    pub bias: bool,
}

impl Convolution {
    /// Output maps.
    #[must_use]
    pub fn output(&self) -> Shape {
        Shape {
            channels: self.channels,
            side: self.window.output_side(self.input.side),
        }
    }

    /// Number of products that are summed for one output: `kernel^2 input.channels / groups`.
    #[must_use]
    pub fn fan_in(&self) -> u64 {
        u64::from(self.input.channels / self.groups) * u64::from(self.window.kernel).pow(2)
    }

    /// Number of weights, without the bias.
    #[must_use]
    pub fn weights(&self) -> u64 {
        self.fan_in() * u64::from(self.channels)
    }

    /// Multiply-adds of the forward pass per sample.
    #[must_use]
    pub fn macs(&self) -> f64 {
        self.output().elements() * self.fan_in() as f64
    }

    fn check(&self) -> Result<(), LayerError> {
        shape_ok(self.input)?;
        count("output", self.channels)?;
        count("groups", self.groups)?;
        for channels in [self.input.channels, self.channels] {
            if !channels.is_multiple_of(self.groups) {
                let groups = self.groups;
                return Err(LayerError::BadGroups { channels, groups });
            }
        }
        self.window.check(self.input.side)
    }
}

/// A tensor of learnable parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tensor {
    /// Weights; each output sums over `fan_in` of them.
    Weights {
        /// Number of weights.
        count: u64,
        /// Number of weights that one output sums over.
        fan_in: u64,
    },
    /// Factors of the channels, one per channel.
    Gain(u64),
    /// Summands of the channels, one per channel.
    Bias(u64),
}

impl Tensor {
    /// Number of its parameters.
    #[must_use]
    pub fn count(self) -> u64 {
        match self {
            Tensor::Weights { count, .. } | Tensor::Gain(count) | Tensor::Bias(count) => count,
        }
    }
}

/// One layer with its input shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer {
    /// Convolution.
    Convolution(Convolution),
    /// Batch normalisation in training mode.
    BatchNorm(Shape),
    /// ReLU, hard swish and similar activations.
    Activation(Shape),
    /// Channel-wise scaling (squeeze and excitation).
    Scale(Shape),
    /// Sum of two branches.
    Add(Shape),
    /// Concatenation of `parts` branches into the given shape.
    Concat {
        /// Shape of the result.
        output: Shape,
        /// Number of branches.
        parts: u32,
    },
    /// A copy that permutes channels.
    Shuffle(Shape),
    /// Maximum or mean pooling.
    Pool {
        /// Input maps.
        input: Shape,
        /// Sliding window.
        window: Window,
    },
    /// Mean over all pixels.
    GlobalPool(Shape),
    /// Fully connected layer with bias.
    Linear {
        /// Input features.
        inputs: u32,
        /// Output features.
        outputs: u32,
    },
    /// Softmax and cross-entropy over classes.
    Loss {
        /// Number of classes.
        classes: u32,
    },
}

const FLOAT: f64 = 4.0;

fn count(field: &'static str, value: u32) -> Result<(), LayerError> {
    if (1..=1 << 20).contains(&value) {
        Ok(())
    } else {
        Err(LayerError::BadCount { field, value })
    }
}

fn shape_ok(shape: Shape) -> Result<(), LayerError> {
    count("channels", shape.channels)?;
    count("side", shape.side)
}

impl Layer {
    pub(crate) fn check(&self) -> Result<(), LayerError> {
        match *self {
            Layer::Convolution(conv) => conv.check(),
            Layer::Pool { input, window } => {
                shape_ok(input)?;
                window.check(input.side)
            }
            Layer::BatchNorm(s)
            | Layer::Activation(s)
            | Layer::Scale(s)
            | Layer::Add(s)
            | Layer::Shuffle(s)
            | Layer::GlobalPool(s) => shape_ok(s),
            Layer::Concat { output, parts } => {
                count("parts", parts)?;
                shape_ok(output)
            }
            Layer::Linear { inputs, outputs } => {
                count("inputs", inputs)?;
                count("outputs", outputs)
            }
            Layer::Loss { classes } => count("classes", classes),
        }
    }

    /// Shape of the layer's input, or of one operand if there are several.
    #[must_use]
    pub fn input(&self) -> Shape {
        let flat = |channels| Shape { channels, side: 1 };
        match *self {
            Layer::Convolution(Convolution { input, .. }) | Layer::Pool { input, .. } => input,
            Layer::BatchNorm(s)
            | Layer::Activation(s)
            | Layer::Scale(s)
            | Layer::Add(s)
            | Layer::Shuffle(s)
            | Layer::GlobalPool(s) => s,
            Layer::Concat { output, .. } => output,
            Layer::Linear { inputs, .. } => flat(inputs),
            Layer::Loss { classes } => flat(classes),
        }
    }

    /// Shape of the layer's output.
    #[must_use]
    pub fn output(&self) -> Shape {
        match *self {
            Layer::Convolution(conv) => conv.output(),
            Layer::Pool { input, window } => Shape {
                channels: input.channels,
                side: window.output_side(input.side),
            },
            Layer::BatchNorm(s)
            | Layer::Activation(s)
            | Layer::Scale(s)
            | Layer::Add(s)
            | Layer::Shuffle(s) => s,
            Layer::Concat { output, .. } => output,
            Layer::GlobalPool(s) => Shape { side: 1, ..s },
            Layer::Linear { outputs, .. } => Shape {
                channels: outputs,
                side: 1,
            },
            Layer::Loss { .. } => Shape {
                channels: 1,
                side: 1,
            },
        }
    }

    /// Multiply-adds of the forward pass per sample (convolutions and linear layers only).
    #[must_use]
    pub fn macs(&self) -> f64 {
        match *self {
            Layer::Convolution(conv) => conv.macs(),
            Layer::Linear { inputs, outputs } => f64::from(inputs) * f64::from(outputs),
            _ => 0.0,
        }
    }

    /// Learnable parameters, as the tensors that an optimiser iterates over.
    #[must_use]
    pub fn tensors(&self) -> Vec<Tensor> {
        let weights = |count, fan_in| Tensor::Weights { count, fan_in };
        match *self {
            Layer::Convolution(conv) => {
                let bias = conv.bias.then(|| Tensor::Bias(conv.channels.into()));
                let all = [Some(weights(conv.weights(), conv.fan_in())), bias];
                all.into_iter().flatten().collect()
            }
            Layer::BatchNorm(shape) => {
                let channels = shape.channels.into();
                vec![Tensor::Gain(channels), Tensor::Bias(channels)]
            }
            Layer::Linear { inputs, outputs } => {
                let (inputs, outputs) = (inputs.into(), outputs.into());
                vec![weights(inputs * outputs, inputs), Tensor::Bias(outputs)]
            }
            _ => Vec::new(),
        }
    }

    /// Bytes kept for the backward pass, per sample: the layer's input, unless the layer that produced it already keeps
    /// it (activations work in place).
    #[must_use]
    pub fn saved_bytes(&self) -> f64 {
        match self {
            Layer::Activation(_) | Layer::Add(_) | Layer::Shuffle(_) | Layer::GlobalPool(_) => 0.0,
            _ => FLOAT * self.input().elements(),
        }
    }

    /// Operations of a training step per sample; the first layer needs no gradient of its input.
    pub(crate) fn train_flops(&self, first: bool) -> f64 {
        let gemms = if first { 2.0 } else { 3.0 };
        match self {
            Layer::Convolution(_) | Layer::Linear { .. } => 2.0 * gemms * self.macs(),
            _ => self.train_bytes(first) / FLOAT,
        }
    }

    /// Activation traffic of a training step, bytes per sample.
    pub(crate) fn train_bytes(&self, first: bool) -> f64 {
        let out = self.output().elements();
        FLOAT
            * match *self {
                Layer::Convolution(conv) => {
                    let passes = if first { 2.0 } else { 3.0 };
                    passes * (conv.input.elements() + out)
                }
                Layer::Linear { inputs, outputs } => 3.0 * f64::from(inputs + outputs),
                Layer::BatchNorm(s) => 8.0 * s.elements(),
                Layer::Activation(s) | Layer::Scale(s) => 5.0 * s.elements(),
                Layer::Add(s) => 6.0 * s.elements(),
                Layer::Concat { output, .. } => 5.0 * output.elements(),
                Layer::Shuffle(s) => 4.0 * s.elements(),
                Layer::Pool { input, .. } | Layer::GlobalPool(input) => {
                    2.0 * (input.elements() + out)
                }
                Layer::Loss { classes } => 4.0 * f64::from(classes),
            }
    }
}
