//! Builds a list of layers and tracks the current shape.

use crate::layer::{Convolution, Layer, Shape, Window};

pub(super) struct Builder {
    pub(super) layers: Vec<Layer>,
    pub(super) shape: Shape,
}

impl Builder {
    pub(super) fn new(side: u32) -> Self {
        Self {
            layers: Vec::new(),
            shape: Shape { channels: 3, side },
        }
    }

    pub(super) fn push(&mut self, layer: Layer) {
        self.shape = layer.output();
        self.layers.push(layer);
    }

    fn convolution(&mut self, output: u32, kernel: u32, stride: u32, groups: u32, bias: bool) {
        self.push(Layer::Convolution(Convolution {
            input: self.shape,
            channels: output,
            window: Window {
                kernel,
                stride,
                padding: kernel / 2,
            },
            groups,
            bias,
        }));
    }

    /// Convolution without bias, padded to keep the side at stride 1.
    pub(super) fn conv(&mut self, output: u32, kernel: u32, stride: u32) {
        self.convolution(output, kernel, stride, 1, false);
    }

    /// Convolution with bias.
    pub(super) fn conv_bias(&mut self, output: u32, kernel: u32, stride: u32) {
        self.convolution(output, kernel, stride, 1, true);
    }

    /// Convolution with bias and its own padding.
    pub(super) fn conv_padded(&mut self, output: u32, window: Window) {
        self.push(Layer::Convolution(Convolution {
            input: self.shape,
            channels: output,
            window,
            groups: 1,
            bias: true,
        }));
    }

    pub(super) fn depthwise(&mut self, kernel: u32, stride: u32) {
        let channels = self.shape.channels;
        self.convolution(channels, kernel, stride, channels, false);
    }

    pub(super) fn norm(&mut self) {
        self.push(Layer::BatchNorm(self.shape));
    }

    pub(super) fn act(&mut self) {
        self.push(Layer::Activation(self.shape));
    }

    pub(super) fn conv_norm(&mut self, output: u32, kernel: u32, stride: u32) {
        self.conv(output, kernel, stride);
        self.norm();
    }

    pub(super) fn conv_norm_act(&mut self, output: u32, kernel: u32, stride: u32) {
        self.conv_norm(output, kernel, stride);
        self.act();
    }

    pub(super) fn pool(&mut self, kernel: u32, stride: u32, padding: u32) {
        self.push(Layer::Pool {
            input: self.shape,
            window: Window {
                kernel,
                stride,
                padding,
            },
        });
    }

    pub(super) fn global_pool(&mut self) {
        self.push(Layer::GlobalPool(self.shape));
    }

    /// Linear layer over all current values.
    pub(super) fn linear(&mut self, outputs: u32) {
        let inputs = self.shape.channels * self.shape.side * self.shape.side;
        self.push(Layer::Linear { inputs, outputs });
    }

    /// Linear classifier and its loss.
    pub(super) fn classify(mut self, classes: u32) -> Vec<Layer> {
        self.linear(classes);
        self.push(Layer::Loss { classes });
        self.layers
    }
}
