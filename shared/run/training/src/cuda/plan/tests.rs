//! Compares the planner with the layers, and the embedded kernels with their source.

use gpusim::Network;

use super::graph::Source;
use super::*;

const CU: &str = include_str!("../kernels.cu");
const PTX: &str = include_str!("../kernels.ptx");
const LEARNING: Learning = Learning {
    rate: 0.01,
    momentum: 0.9,
};

fn plan(name: &str, batch: u32) -> Plan {
    let network = Network::by_name(name).unwrap();
    Plan::new(network.layers().unwrap(), batch, 80, LEARNING).unwrap()
}

/// The kinds of the arguments (pointers or values) in the source of a kernel.
fn signature(kernel: Kernel) -> Vec<char> {
    let name = KERNEL_NAMES[kernel as usize];
    let text = CU
        .replace("CONV_ARGS", &"u32 a, ".repeat(8)[..8 * 7 - 2])
        .replace("POOL_ARGS", &"u32 a, ".repeat(7)[..7 * 7 - 2]);
    let start = text.find(&format!("KERNEL {name}(")).unwrap();
    let body = &text[start..];
    let list = &body[body.find('(').unwrap() + 1..body.find(')').unwrap()];
    list.split(',')
        .map(|parameter| match parameter {
            p if p.contains('*') => 'p',
            p if p.contains("float") => 'f',
            _ => 'u',
        })
        .collect()
}

fn launches(plan: &Plan) -> Vec<Launch> {
    plan.calls
        .iter()
        .map(|call| match call {
            Call::Launch(launch) => launch.clone(),
            Call::Product(product) => product.launch(),
        })
        .collect()
}

#[test]
fn the_embedded_kernels_are_those_of_the_source() {
    let hash = CU.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    let head = format!("// kernels.cu fnv1a {hash:016x}\n");
    assert!(PTX.starts_with(&head), "run compile_ptx.py");
    for name in KERNEL_NAMES {
        assert!(PTX.contains(&format!(".entry {name}(")), "{name}");
    }
}

#[test]
fn every_launch_of_every_model_fits_its_kernel() {
    for name in Network::CATALOGUE {
        for launch in launches(&plan(name, 8)) {
            let given: Vec<char> = launch
                .args
                .iter()
                .map(|arg| match arg {
                    Arg::At(..) => 'p',
                    Arg::Int(_) => 'u',
                    Arg::Float(_) => 'f',
                })
                .collect();
            assert_eq!(given, signature(launch.kernel), "{name} {launch:?}");
            let (x, y, z) = launch.grid;
            assert!(x >= 1 && (1..=65_535).contains(&y) && (1..=65_535).contains(&z));
        }
    }
}

#[test]
fn parameters_are_those_of_the_catalogue() {
    for name in Network::CATALOGUE {
        let network = Network::by_name(name).unwrap();
        let plan = plan(name, 2);
        assert_eq!(Some(plan.buffers[WEIGHTS]), network.parameters(), "{name}");
        let started: u64 = plan.starts.iter().map(|s| u64::from(s.0)).sum();
        assert_eq!(started, plan.buffers[WEIGHTS], "{name}");
    }
}

#[test]
fn every_layer_with_parameters_gets_their_gradient() {
    for name in Network::CATALOGUE {
        let network = Network::by_name(name).unwrap();
        let graph = Graph::infer(network.layers().unwrap());
        let written: Vec<u32> = launches(&plan(name, 2))
            .iter()
            .flat_map(|l| &l.args)
            .filter_map(|arg| match arg {
                Arg::At(GRADIENTS, at) => Some(*at),
                _ => None,
            })
            .collect();
        let mut first = 0;
        for (count, _) in &graph.starts {
            assert!(written.contains(&first), "{name}: parameter {first}");
            first += count;
        }
    }
}

#[test]
fn a_residual_block_adds_its_input_and_a_shortcut_its_branch() {
    let network = Network::by_name("resnet18").unwrap();
    let graph = Graph::infer(network.layers().unwrap());
    let producers: Vec<String> = graph
        .nodes
        .iter()
        .filter(|n| matches!(n.layer, Layer::Add(_)))
        .map(|n| match n.inputs[1] {
            Source::Value(v) => format!("{:?}", graph.nodes[v - 1].layer)
                .split(['(', ' '])
                .next()
                .unwrap()
                .to_owned(),
            Source::Constant(_) => "constant".to_owned(),
        })
        .collect();
    // Stages begin with a block whose main branch (ending in a normalisation) is joined by a shortcut; the others add
    // the input of the block. The first begins with the stem.
    let expected = ["Convolution", "Activation"]
        .into_iter()
        .chain(["BatchNorm", "Activation"].repeat(3));
    assert_eq!(producers, expected.collect::<Vec<_>>());
}

#[test]
fn no_catalogue_model_reads_a_value_that_nothing_makes() {
    for name in Network::CATALOGUE {
        let network = Network::by_name(name).unwrap();
        let graph = Graph::infer(network.layers().unwrap());
        assert_eq!(graph.largest_constant(), None, "{name}");
    }
}

#[test]
fn gradient_buffers_are_reused() {
    let plan = plan("resnet50", 16);
    let network = Network::by_name("resnet50").unwrap();
    let values = network.layers().unwrap().len();
    let gradients = plan.buffers.len() - 6 - values;
    assert!(gradients < values / 8, "{gradients} of {values}");
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let network = Network::by_name("vgg16").unwrap();
    let layers = network.layers().unwrap();
    let huge = Plan::new(layers, 1 << 20, 80, LEARNING);
    assert!(matches!(huge, Err(PlanError::TooLarge { .. })));
    let headless = Plan::new(&layers[..3], 8, 80, LEARNING);
    assert_eq!(headless, Err(PlanError::NoLoss));
}
