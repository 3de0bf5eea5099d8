//! The nine models of the FedMT evaluation as layer lists.
//!
//! Layer structure follows torchvision 0.26. For inputs below 64 pixels the stem has one down-sampling less: the
//! ResNets, DenseNet and ShuffleNet have no max-pooling, and MobileNet's first convolution has no stride. AlexNet has
//! its CIFAR form (3x3 stride-2 stem), and VGG16 keeps its five poolings before one linear layer. Heads have 1000
//! classes, which reproduces the model sizes of the paper (in MiB). MobileNet and AlexNet have ten classes: only this
//! matches the 15 MB that the paper states for MobileNet.

mod builder;
mod chains;
mod mobile;
pub(crate) mod names;
mod residual;

use crate::error::NetworkError;
use crate::layer::Layer;
use names::{MAX_SIDE, MIN_SIDE};

/// Side of inputs, in pixels, below which the stem has one down-sampling less.
const SMALL_SIDE: u32 = 64;

/// Layers of a catalogue model for inputs of `side` pixels.
pub(crate) fn layers(name: &str, side: u32) -> Result<Vec<Layer>, NetworkError> {
    if !(MIN_SIDE..=MAX_SIDE).contains(&side) {
        return Err(NetworkError::BadSide { side });
    }
    let small = side < SMALL_SIDE;
    Ok(match name {
        "alexnet" => chains::alexnet(side, small),
        "vgg16" => chains::vgg16(side, small),
        "resnet18" => residual::basic([2, 2, 2, 2], side, small),
        "resnet34" => residual::basic([3, 4, 6, 3], side, small),
        "resnet50" => residual::bottleneck([3, 4, 6, 3], side, small),
        "resnet101" => residual::bottleneck([3, 4, 23, 3], side, small),
        "mobilenet_v3_large" => mobile::mobilenet_v3_large(side, small),
        "shufflenet_v2_x1_0" => mobile::shufflenet_v2(side, small),
        "densenet121" => chains::densenet121(side, small),
        _ => {
            return Err(NetworkError::UnknownName {
                name: name.to_owned(),
            });
        }
    })
}

#[cfg(test)]
mod tests;
