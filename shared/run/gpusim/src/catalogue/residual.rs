//! ResNets (He et al. 2016).

use super::builder::Builder;
use crate::layer::Layer;

const WIDTHS: [u32; 4] = [64, 128, 256, 512];

fn stem(side: u32, small: bool) -> Builder {
    let mut b = Builder::new(side);
    b.conv_norm_act(64, 7, 2);
    if !small {
        b.pool(3, 2, 1);
    }
    b
}

/// The shortcut of a block: a 1x1 convolution if the shape changes.
fn shortcut(b: &mut Builder, input: crate::layer::Shape, output: u32, stride: u32) {
    if stride != 1 || input.channels != output {
        b.shape = input;
        b.conv_norm(output, 1, stride);
    }
    b.push(Layer::Add(b.shape));
    b.act();
}

/// ResNet of two-convolution blocks (18, 34).
pub(super) fn basic(blocks: [u32; 4], side: u32, small: bool) -> Vec<Layer> {
    let mut b = stem(side, small);
    for (stage, (&width, &count)) in WIDTHS.iter().zip(&blocks).enumerate() {
        for block in 0..count {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let input = b.shape;
            b.conv_norm_act(width, 3, stride);
            b.conv_norm(width, 3, 1);
            shortcut(&mut b, input, width, stride);
        }
    }
    b.global_pool();
    b.classify(1000)
}

/// ResNet of bottleneck blocks (50, 101); the stride is in the 3x3 convolution.
pub(super) fn bottleneck(blocks: [u32; 4], side: u32, small: bool) -> Vec<Layer> {
    let mut b = stem(side, small);
    for (stage, (&width, &count)) in WIDTHS.iter().zip(&blocks).enumerate() {
        for block in 0..count {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let input = b.shape;
            b.conv_norm_act(width, 1, 1);
            b.conv_norm_act(width, 3, stride);
            b.conv_norm(4 * width, 1, 1);
            shortcut(&mut b, input, 4 * width, stride);
        }
    }
    b.global_pool();
    b.classify(1000)
}
