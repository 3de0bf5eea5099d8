//! Valid arguments of the catalogue: model names, and sides of square inputs in pixels.

pub(crate) const NAMES: [&str; 9] = [
    "alexnet",
    "vgg16",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "mobilenet_v3_large",
    "shufflenet_v2_x1_0",
    "densenet121",
];
pub(crate) const DEFAULT_SIDE: u32 = 32;
pub(crate) const MIN_SIDE: u32 = 32;
pub(crate) const MAX_SIDE: u32 = 1024;
