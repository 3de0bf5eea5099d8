use crate::Network;

/// Parameters and forward multiply-adds at 224x224x3 with 1000 classes, as computed from
/// torchvision 0.26.
const AT_224: [(&str, u64, f64); 9] = [
    ("alexnet", 61_100_840, 714_188_480.0),
    ("vgg16", 138_357_544, 15_470_264_320.0),
    ("resnet18", 11_689_512, 1_814_073_344.0),
    ("resnet34", 21_797_672, 3_663_761_408.0),
    ("resnet50", 25_557_032, 4_089_184_256.0),
    ("resnet101", 44_549_160, 7_801_405_440.0),
    ("mobilenet_v3_large", 5_483_032, 216_589_760.0),
    ("shufflenet_v2_x1_0", 2_278_604, 144_907_992.0),
    ("densenet121", 7_978_856, 2_834_161_664.0),
];

/// Model sizes that the FedMT paper states in MB, which by our calculation are MiB.
const STATED_MIB: [(&str, f64); 7] = [
    ("densenet121", 30.0),
    ("vgg16", 55.0),
    ("resnet101", 170.0),
    ("resnet50", 100.0),
    ("resnet18", 45.0),
    ("mobilenet_v3_large", 15.0),
    ("shufflenet_v2_x1_0", 9.0),
];

#[test]
fn parameters_and_macs_are_those_of_the_reference_definitions() {
    for (name, parameters, macs) in AT_224 {
        let network = Network::catalogue(name, 224).unwrap();
        assert_eq!(network.parameters(), Some(parameters), "{name}");
        let ours = network.forward_macs().unwrap();
        assert!((ours / macs - 1.0).abs() < 0.01, "{name}: {ours} {macs}");
    }
}

#[test]
fn sizes_at_32_pixels_are_within_a_tenth_of_the_stated_ones() {
    for (name, mib) in STATED_MIB {
        let network = Network::by_name(name).unwrap();
        let ours = network.model_bytes().unwrap() as f64 / f64::from(1 << 20);
        assert!((ours / mib - 1.0).abs() < 0.10, "{name}: {ours} MiB");
    }
}

#[test]
fn names_take_a_resolution_and_refuse_nonsense() {
    let small = Network::by_name("resnet50").unwrap();
    let large = Network::catalogue("resnet50", 224).unwrap();
    assert!(large.flops_per_sample() > 10.0 * small.flops_per_sample());
    assert_eq!(large.name(), "resnet50@224");
    for bad in ["resnet9", "resnet50@224", ""] {
        assert!(Network::by_name(bad).is_err(), "{bad}");
    }
    assert!(Network::catalogue("vgg16", 7).is_err());
}
