//! AlexNet, VGG16 and DenseNet121.

use super::builder::Builder;
use crate::layer::{Layer, Shape, Window};

/// AlexNet (Krizhevsky et al. 2012, torchvision's one-column form).
pub(super) fn alexnet(side: u32, small: bool) -> Vec<Layer> {
    let mut b = Builder::new(side);
    if small {
        b.conv_padded(64, window(3, 2, 1));
        b.act();
        b.pool(2, 2, 0);
    } else {
        b.conv_padded(64, window(11, 4, 2));
        b.act();
        b.pool(3, 2, 0);
    }
    b.conv_bias(192, if small { 3 } else { 5 }, 1);
    b.act();
    b.pool(if small { 2 } else { 3 }, 2, 0);
    for width in [384, 256, 256] {
        b.conv_bias(width, 3, 1);
        b.act();
    }
    if small {
        b.pool(2, 2, 0);
    } else {
        b.pool(3, 2, 0);
        adapt(&mut b, 6);
    }
    for _ in 0..2 {
        b.linear(4096);
        b.act();
    }
    b.classify(if small { 10 } else { 1000 })
}

fn window(kernel: u32, stride: u32, padding: u32) -> Window {
    Window {
        kernel,
        stride,
        padding,
    }
}

/// Mean pooling to a fixed side, if the side differs.
fn adapt(b: &mut Builder, side: u32) {
    if b.shape.side != side {
        let kernel = (b.shape.side / side).max(1);
        b.pool(kernel, kernel, 0);
        b.shape.side = side;
    }
}

/// VGG16 without batch normalisation (Simonyan and Zisserman 2015).
pub(super) fn vgg16(side: u32, small: bool) -> Vec<Layer> {
    let mut b = Builder::new(side);
    for (convs, width) in [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)] {
        for _ in 0..convs {
            b.conv_bias(width, 3, 1);
            b.act();
        }
        b.pool(2, 2, 0);
    }
    if small {
        b.global_pool();
        return b.classify(1000);
    }
    adapt(&mut b, 7);
    for _ in 0..2 {
        b.linear(4096);
        b.act();
    }
    b.classify(1000)
}

/// DenseNet121 (Huang et al. 2017): growth 32, bottleneck 128, halving transitions.
pub(super) fn densenet121(side: u32, small: bool) -> Vec<Layer> {
    const GROWTH: u32 = 32;
    let blocks = [6, 12, 24, 16];
    let mut b = Builder::new(side);
    b.conv_norm_act(64, 7, 2);
    if !small {
        b.pool(3, 2, 1);
    }
    for (i, &layers) in blocks.iter().enumerate() {
        let input = b.shape;
        for layer in 0..layers {
            let gathered = Shape {
                channels: input.channels + layer * GROWTH,
                side: input.side,
            };
            b.push(Layer::Concat {
                output: gathered,
                parts: layer + 1,
            });
            b.norm();
            b.act();
            b.conv_norm_act(4 * GROWTH, 1, 1);
            b.conv(GROWTH, 3, 1);
        }
        b.push(Layer::Concat {
            output: Shape {
                channels: input.channels + layers * GROWTH,
                side: input.side,
            },
            parts: layers + 1,
        });
        b.norm();
        if i + 1 < blocks.len() {
            b.act();
            b.conv(b.shape.channels / 2, 1, 1);
            b.pool(2, 2, 0);
        }
    }
    b.act();
    b.global_pool();
    b.classify(1000)
}
