//! A workload to begin with.

use std::collections::BTreeMap;

use doc::{
    DeviceKind, DeviceSpec, Duplex, GpuSpec, HostCost, Job, Link, Progress, Task, UpdateBytes,
    Workload,
};
use units::{Bandwidth, Batch, Bytes, Samples, TaskId};

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Device; absent: a GPU of this machine if MPS can share it, else the simulator, with a script
    /// the processors.
    pub device: Option<DeviceKind>,
    /// GPU to simulate, by its name in the catalogue.
    pub gpu: Option<String>,
    /// Number of tasks.
    pub tasks: u32,
    /// Training script of every task; a file `*.py` is started by python3.
    pub script: Option<String>,
}

/// Models of the catalogue, with what a round of them moves in each direction (32-bit weights).
const MODELS: [(&str, u64); 3] = [
    ("resnet50", 100_000_000),
    ("vgg16", 55_000_000),
    ("mobilenet_v3_large", 15_000_000),
];

/// Networks of mt-worker on processors, that differ in speed by a factor of three.
const NETWORKS: [(&str, &str, &str); 3] = [
    ("wide", "512", "3"),
    ("deep", "256", "6"),
    ("small", "384", "3"),
];

/// The workload that is asked for, and why it is on its device.
#[must_use]
pub fn workload(start: &Start) -> (Workload, String) {
    let (kind, why) = device(start);
    let tasks = (0..start.tasks as usize).filter_map(|i| task(start, kind, i));
    let gpu = (kind == DeviceKind::Sim)
        .then(|| GpuSpec::Named(start.gpu.clone().unwrap_or_else(|| "rtx-3090".to_owned())));
    let workload = Workload {
        id: None,
        device: DeviceSpec {
            kind,
            gpu,
            memory: None,
            gpus: 1,
            gpu_names: Vec::new(),
        },
        link: link(),
        tasks: tasks.collect(),
        provenance: Vec::new(),
    };
    (workload, why)
}

fn device(start: &Start) -> (DeviceKind, String) {
    if let Some(device) = start.device {
        return (device, "the device is as asked for".to_owned());
    }
    if start.gpu.is_some() {
        return (DeviceKind::Sim, "the GPU is simulated".to_owned());
    }
    match host::discovery::shareable(&[], 1) {
        Ok(gpus) => {
            let name = gpus.first().map_or("", |gpu| gpu.name.as_str());
            (
                DeviceKind::Cuda,
                format!("for the GPU of this machine, {name}"),
            )
        }
        Err(error) if start.script.is_some() => {
            let why = format!("for the processors, because there is {error}");
            (DeviceKind::Cpu, why)
        }
        Err(error) => {
            let why = format!("for a simulated GPU, because there is {error}");
            (DeviceKind::Sim, why)
        }
    }
}

/// A home line of 100 Mbit/s down and 40 up: the order of transfers matters there.
fn link() -> Option<Link> {
    Some(Link {
        down: Bandwidth::new(100e6).ok()?,
        up: Bandwidth::new(40e6).ok()?,
        duplex: Duplex::Full,
    })
}

fn task(start: &Start, kind: DeviceKind, index: usize) -> Option<Task> {
    let (model, bytes) = MODELS[index % MODELS.len()];
    let simulated = kind == DeviceKind::Sim && start.script.is_none();
    let name = match kind {
        DeviceKind::Cpu => NETWORKS[index % NETWORKS.len()].0,
        _ => model,
    };
    let id = match (start.script.is_some(), index / MODELS.len()) {
        (true, _) => format!("task{}", index + 1),
        (false, 0) => name.to_owned(),
        (false, again) => format!("{name}-{}", again + 1),
    };
    // A round of half a minute or so on a GPU, of a few seconds on two cores.
    let samples = if kind == DeviceKind::Cpu {
        40_000
    } else {
        20_000
    };
    let bytes = Bytes::new(bytes).ok()?;
    Some(Task {
        id: TaskId::new(&id).ok()?,
        model: simulated.then(|| model.to_owned()),
        input_pixels: None,
        layers: Vec::new(),
        flops_per_sample: None,
        bytes_per_sample: None,
        batch_sizes: [32, 64, 128]
            .into_iter()
            .filter_map(|b| Batch::new(b).ok())
            .collect(),
        samples: Samples::new(samples).ok(),
        update_bytes: Some(UpdateBytes {
            down: bytes,
            up: bytes,
        }),
        weight: None,
        memory: None,
        host: HostCost::default(),
        job: (!simulated).then(|| job(start, kind, index, model)),
    })
}

fn job(start: &Start, kind: DeviceKind, index: usize, model: &str) -> Job {
    let words: Vec<&str> = match (&start.script, kind) {
        (Some(script), _) if script.ends_with(".py") => vec!["python3", script],
        (Some(script), _) => vec![script],
        (None, DeviceKind::Cuda) => vec!["mt-worker", "--device", "cuda", "--model", model],
        (None, _) => {
            let (_, width, depth) = NETWORKS[index % NETWORKS.len()];
            vec![
                "mt-worker",
                "--threads",
                "1",
                "--width",
                width,
                "--depth",
                depth,
            ]
        }
    };
    Job {
        argv: words.into_iter().map(str::to_owned).collect(),
        env: BTreeMap::new(),
        cwd: None,
        progress: Progress::default(),
        pool: start.script.is_none(),
        download: Vec::new(),
        upload: Vec::new(),
        resume: Vec::new(),
    }
}

/// What to change in the workload, for a person; `file`: where it was written, `-` for nowhere.
#[must_use]
pub fn comments(workload: &Workload, file: &str) -> String {
    let mut text = "  device        sim (a simulated GPU), cpu (CPU quotas) or cuda (NVIDIA MPS)
  link          bits per second; leave it out where nothing is transferred
  batch_sizes   the sizes that the plan may choose from
  samples       the data of one round of each task
  update_bytes  what a round downloads before and uploads after training
"
    .to_owned();
    if workload.tasks.iter().any(|t| t.model.is_some()) {
        text += "  model         a model of the catalogue (mt-profile --list-devices names them); for your own\n                program give a job: mt init --script train.py\n";
    } else {
        text += "  job           argv of the program; it is told MT_BATCH_SIZE and MT_SAMPLES, and prints a line\n                {\"mt\":\"step\",\"samples\":N} for each step, or gives progress.regex for its own\n";
    }
    if file != "-" {
        text += &format!("next: mt run {file}");
    }
    text.trim_end().to_owned()
}
