//! MobileNetV3-Large and ShuffleNetV2 x1.

use super::builder::Builder;
use crate::layer::{Layer, Shape};

/// Kernel, expanded width, output width, squeeze-and-excitation, stride of one block.
type Block = (u32, u32, u32, bool, u32);

const MOBILENET: [Block; 15] = [
    (3, 16, 16, false, 1),
    (3, 64, 24, false, 2),
    (3, 72, 24, false, 1),
    (5, 72, 40, true, 2),
    (5, 120, 40, true, 1),
    (5, 120, 40, true, 1),
    (3, 240, 80, false, 2),
    (3, 200, 80, false, 1),
    (3, 184, 80, false, 1),
    (3, 184, 80, false, 1),
    (3, 480, 112, true, 1),
    (3, 672, 112, true, 1),
    (5, 672, 160, true, 2),
    (5, 960, 160, true, 1),
    (5, 960, 160, true, 1),
];

/// Width rounded to a multiple of eight, at least nine tenths of the requested width.
fn divisible(width: f64) -> u32 {
    let rounded = ((width + 4.0) / 8.0).floor().max(1.0) * 8.0;
    (if rounded < 0.9 * width {
        rounded + 8.0
    } else {
        rounded
    }) as u32
}

fn squeeze(b: &mut Builder) {
    let full = b.shape;
    b.global_pool();
    b.conv_bias(divisible(f64::from(full.channels) / 4.0), 1, 1);
    b.act();
    b.conv_bias(full.channels, 1, 1);
    b.act();
    b.push(Layer::Scale(full));
}

/// MobileNetV3-Large (Howard et al. 2019).
pub(super) fn mobilenet_v3_large(side: u32, small: bool) -> Vec<Layer> {
    let mut b = Builder::new(side);
    b.conv_norm_act(16, 3, if small { 1 } else { 2 });
    for (kernel, expanded, output, excite, stride) in MOBILENET {
        let input = b.shape;
        if expanded != input.channels {
            b.conv_norm_act(expanded, 1, 1);
        }
        b.depthwise(kernel, stride);
        b.norm();
        b.act();
        if excite {
            squeeze(&mut b);
        }
        b.conv_norm(output, 1, 1);
        if stride == 1 && input.channels == output {
            b.push(Layer::Add(b.shape));
        }
    }
    b.conv_norm_act(960, 1, 1);
    b.global_pool();
    b.linear(1280);
    b.act();
    b.classify(if small { 10 } else { 1000 })
}

/// One ShuffleNetV2 unit; `stride` 2 runs both branches over the whole input.
fn shuffle_unit(b: &mut Builder, output: u32, stride: u32) {
    let half = output / 2;
    let input = b.shape;
    if stride == 2 {
        b.depthwise(3, 2);
        b.norm();
        b.conv_norm_act(half, 1, 1);
        b.shape = input;
    } else {
        b.shape.channels = half;
    }
    b.conv_norm_act(half, 1, 1);
    b.depthwise(3, stride);
    b.norm();
    b.conv_norm_act(half, 1, 1);
    let joined = Shape {
        channels: output,
        side: b.shape.side,
    };
    b.push(Layer::Concat {
        output: joined,
        parts: 2,
    });
    b.push(Layer::Shuffle(joined));
}

/// ShuffleNetV2 x1 (Ma et al. 2018).
pub(super) fn shufflenet_v2(side: u32, small: bool) -> Vec<Layer> {
    let mut b = Builder::new(side);
    b.conv_norm_act(24, 3, 2);
    if !small {
        b.pool(3, 2, 1);
    }
    for (units, width) in [(4, 116), (8, 232), (4, 464)] {
        for unit in 0..units {
            shuffle_unit(&mut b, width, if unit == 0 { 2 } else { 1 });
        }
    }
    b.conv_norm_act(1024, 1, 1);
    b.global_pool();
    b.classify(1000)
}
