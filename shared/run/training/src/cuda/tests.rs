//! Tests training on a fake driver that runs the kernels' source on the processor. They cannot show that the embedded
//! PTX runs on a GPU; `plan/tests.rs` checks that it was compiled from this source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpusim::{Convolution, Shape, Window};

use super::*;

/// Compiles the fake driver into `folder`; `None`, with a message on standard error, without a C++ compiler.
fn driver(folder: &Path) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kernels = root.join("src/cuda/kernels.cu");
    let built = Command::new("c++")
        .args([
            "-std=c++17",
            "-O2",
            "-shared",
            "-fPIC",
            "-w",
            "-U_FORTIFY_SOURCE",
        ])
        .arg(format!("-DKERNELS=\"{}\"", kernels.display()))
        .arg(root.join("tests/fake_driver/driver.cpp"))
        .arg("-o")
        .arg(folder.join("libcuda.so"))
        .output();
    match built {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            Some(folder.to_owned())
        }
        Err(error) => {
            testkit::skipped("cc", format!("no C++ compiler ({error})"));
            None
        }
    }
}

/// Runs the test `child` of this file in a process that uses the fake driver.
fn in_child(folder: &Path, what: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cuda::tests::child", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder)
        .env("MT_TEST_CHILD", what)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn a_network_of_every_layer_trains_with_exact_gradients() {
    let folder = tempfile::tempdir().unwrap();
    let Some(folder) = driver(folder.path()).map(|_| folder) else {
        return;
    };
    let path = folder.path();
    for what in ["train", "gradients"] {
        let (ok, text) = in_child(path, what, &[]);
        assert!(ok && text.contains("child did its work"), "{what}: {text}");
    }
    // The same with products by cuBLAS, whose matrices are column-major.
    let blas = tempfile::tempdir().unwrap();
    fs::copy(path.join("libcuda.so"), blas.path().join("libcuda.so")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_driver/cublas.c");
    let mut compiler = Command::new("c++");
    compiler
        .args(["-x", "c", "-O2", "-shared", "-fPIC"])
        .arg(source);
    let library = blas.path().join("libcublas.so");
    assert!(compiler.arg("-o").arg(library).status().unwrap().success());
    for (what, word) in [
        ("gradients", "child did its work"),
        ("share", r#"("cublas", "true")"#),
    ] {
        let (ok, text) = in_child(blas.path(), what, &[]);
        assert!(ok && text.contains(word), "{what}: {text}");
    }
    let (ok, text) = in_child(path, "train", &[("FAKE_CUDA_MEMORY", "20000")]);
    assert!(!ok && text.contains("has no room for"), "{text}");
    let (ok, text) = in_child(path, "train", &[("FAKE_CUDA_LAUNCH_FAILS", "40")]);
    assert!(!ok && text.contains("CUDA_ERROR_LAUNCH_FAILED"), "{text}");
    let client = [
        ("FAKE_CUDA_MPS", "1"),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"),
    ];
    let (ok, text) = in_child(path, "share", &client);
    assert!(
        ok && text.contains(r#"("mps", "true"), ("sms", "20")"#),
        "{text}"
    );
}

#[test]
fn a_driver_that_lacks_a_function_is_named_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("empty.c");
    fs::write(&source, "int cuInit(unsigned flags) { return 0; }").unwrap();
    let library = folder.path().join("libcuda.so");
    let built = Command::new("cc")
        .args(["-shared", "-o"])
        .arg(&library)
        .arg(&source)
        .output();
    if built.is_err() {
        testkit::skipped("cc", "no C compiler");
        return;
    }
    let (ok, text) = in_child(folder.path(), "share", &[]);
    assert!(
        !ok && text.contains("library has no cuDeviceGet;"),
        "{text}"
    );
}

#[test]
fn child() {
    let Ok(what) = std::env::var("MT_TEST_CHILD") else {
        return;
    };
    match what.as_str() {
        "train" => train(),
        "gradients" => gradients(),
        _ => println!("{:?}", trainer(0.05, 0.9).warm_up(batch(4)).unwrap()),
    }
    println!("child did its work");
}

fn batch(n: u64) -> Batch {
    Batch::new(n).unwrap()
}

fn trainer(rate: f32, momentum: f32) -> CudaTrainer {
    CudaTrainer::new(Training {
        network: Network::from_layers("every layer", every_layer()).unwrap(),
        rate,
        momentum,
        seed: 3,
        round: 0,
    })
    .unwrap_or_else(|e| panic!("{e:?}"))
}

/// A small network in which every kind of layer and of branch occurs.
fn every_layer() -> Vec<Layer> {
    let shape = |channels, side| Shape { channels, side };
    let conv = |input: Shape, channels, kernel, stride, groups, bias| {
        Layer::Convolution(Convolution {
            input,
            channels,
            window: Window {
                kernel,
                stride,
                padding: kernel / 2,
            },
            groups,
            bias,
        })
    };
    let (full, half, one) = (shape(8, 8), shape(8, 4), shape(8, 1));
    vec![
        conv(shape(3, 8), 8, 3, 1, 1, true),
        Layer::BatchNorm(full),
        Layer::Activation(full),
        conv(full, 8, 3, 2, 1, false),
        Layer::BatchNorm(half),
        Layer::Activation(half),
        Layer::GlobalPool(half),
        conv(one, 4, 1, 1, 1, true),
        Layer::Activation(shape(4, 1)),
        conv(shape(4, 1), 8, 1, 1, 1, true),
        Layer::Scale(half),
        conv(half, 8, 3, 1, 8, false),
        Layer::BatchNorm(half),
        Layer::Add(half),
        Layer::Activation(half),
        conv(half, 12, 1, 1, 1, false),
        conv(shape(12, 4), 8, 3, 1, 2, false),
        Layer::Concat {
            output: shape(16, 4),
            parts: 2,
        },
        Layer::Shuffle(shape(16, 4)),
        Layer::Pool {
            input: shape(16, 4),
            window: Window {
                kernel: 3,
                stride: 2,
                padding: 1,
            },
        },
        Layer::Linear {
            inputs: 64,
            outputs: 20,
        },
        Layer::Activation(shape(20, 1)),
        Layer::Linear {
            inputs: 20,
            outputs: 10,
        },
        Layer::Loss { classes: 10 },
    ]
}

fn train() {
    let mut trainer = trainer(0.05, 0.9);
    let mut loss = |n| {
        trainer
            .step(batch(n))
            .unwrap_or_else(|e| panic!("{e:?}"))
            .loss
    };
    let first = loss(20);
    let mut last = first;
    for _ in 0..40 {
        last = loss(20);
    }
    assert!(last < 0.3 * first, "{first} to {last}");
    // With another batch size it plans again and keeps the weights.
    let other = loss(10);
    assert!(other < 0.6 * first, "{first} to {other}");
}

/// Compares the gradient of each parameter tensor with the slope of the loss along it.
fn gradients() {
    let n = batch(6);
    let mut trainer = trainer(0.0, 0.0);
    trainer.step(n).unwrap_or_else(|e| panic!("{e:?}"));
    let starts = Plan::new(
        trainer.layers(),
        n.get(),
        80,
        Learning {
            rate: 0.0,
            momentum: 0.0,
        },
    )
    .unwrap()
    .starts;
    let mut weights = data::weights(&starts, 3);
    // The classifier starts with small weights, which make the slopes too flat to compare in single precision.
    let last = weights.len() - 10 - 20 * 10..weights.len() - 10;
    for w in &mut weights[last] {
        *w *= 31.6;
    }
    {
        let (_, loaded) = trainer.loaded.as_mut().unwrap();
        let written = trainer.gpu.write(loaded, WEIGHTS, &weights);
        written.unwrap_or_else(|e| panic!("{e:?}"));
    }
    trainer.step(n).unwrap_or_else(|e| panic!("{e:?}"));
    let gradient = {
        let (_, loaded) = trainer.loaded.as_ref().unwrap();
        let read = |i| {
            trainer
                .gpu
                .read(loaded, GRADIENTS, i)
                .unwrap_or_else(|e| panic!("{e:?}"))
        };
        (0..weights.len() as u32).map(read).collect::<Vec<f32>>()
    };
    let mut loss_at = |w: &[f32]| {
        let (_, loaded) = trainer.loaded.as_mut().unwrap();
        trainer
            .gpu
            .write(loaded, WEIGHTS, w)
            .unwrap_or_else(|e| panic!("{e:?}"));
        trainer.step(n).unwrap_or_else(|e| panic!("{e:?}")).loss
    };
    let mut at = 0;
    let mut checked = 0;
    for (count, _) in starts {
        let range = at..at + count as usize;
        at = range.end;
        let size = gradient[range.clone()]
            .iter()
            .map(|g| g * g)
            .sum::<f32>()
            .sqrt();
        // Biases before a normalisation have no effect, so there is no slope to compare.
        if size < 1e-3 {
            continue;
        }
        let step = 3e-3;
        let mut shifted = |sign: f32| {
            let mut w = weights.clone();
            for i in range.clone() {
                w[i] += sign * step * gradient[i] / size;
            }
            loss_at(&w)
        };
        let slope = (shifted(1.0) - shifted(-1.0)) / (2.0 * f64::from(step));
        let relative = (slope - f64::from(size)).abs() / f64::from(size);
        assert!(
            relative < 0.06,
            "parameters {range:?}: {slope} against {size}"
        );
        checked += 1;
    }
    assert!(checked >= 15, "{checked} tensors were compared");
}
