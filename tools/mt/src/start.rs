//! Generates a first workload, runs the tools by name, and runs all of them in one command.

mod args;
mod chain;
mod choice;
mod evidence;
mod stages;
mod tools;

use std::collections::BTreeMap;

use doc::{
    DeviceKind, DeviceSpec, Duplex, GpuSpec, HostCost, Job, Link, Progress, Task, UpdateBytes,
    Workload,
};
use units::{Bandwidth, Batch, Bytes, Samples, TaskId};

pub use args::{InitArgs, RunArgs};
pub use chain::run;
pub use tools::{Tool, tool, unstarted};

/// A request for a workload.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Device; absent: a GPU of this machine if MPS can share it, otherwise the simulator, or with a script the
    /// processors.
    pub device: Option<DeviceKind>,
    /// GPU to simulate, by its name in the catalogue.
    pub gpu: Option<String>,
    /// Number of tasks.
    pub tasks: u32,
    /// Training script of every task; python3 starts a file `*.py`.
    pub script: Option<String>,
    /// Batch sizes that the script can use.
    pub batch_sizes: Vec<u32>,
    /// Samples of a round of the script.
    pub samples: Option<u64>,
}

/// Models of the catalogue, with the size in bytes of an update in each direction (32-bit weights).
const MODELS: [(&str, u64); 3] = [
    ("resnet50", 100_000_000),
    ("vgg16", 55_000_000),
    ("mobilenet_v3_large", 15_000_000),
];

/// Networks of mt-worker on processors, whose speeds differ by a factor of three.
const NETWORKS: [(&str, &str, &str); 3] = [
    ("wide", "512", "3"),
    ("deep", "256", "6"),
    ("small", "384", "3"),
];

/// The requested workload, and the reason for its device.
///
/// # Errors
/// A message with alternatives, if the request exceeds limits of the device or there is no such GPU.
pub fn workload(start: &Start) -> Result<(Workload, String), String> {
    let (kind, why) = device(start);
    let sizes = start
        .batch_sizes
        .iter()
        .try_for_each(|&b| Batch::new(b.into()).map(drop));
    sizes.map_err(|error| format!("--batch-sizes: {error}"))?;
    let samples = start.samples.map(Samples::new).transpose();
    samples.map_err(|error| format!("--samples: {error}"))?;
    if let (DeviceKind::Sim, Some(script)) = (kind, &start.script) {
        return Err(format!(
            "--script {script}: a simulated GPU runs no program; give --device cpu or cuda, or neither"
        ));
    }
    let speaks = match &start.script {
        Some(script) => speaks(script),
        None => true,
    };
    if speaks && start.script.is_some() && start.batch_sizes.is_empty() {
        return Err(format!(
            "{}: it takes its batch size from the tools; give the sizes that it can use, such as --batch-sizes 32,64",
            start.script.as_deref().unwrap_or_default()
        ));
    }
    let tasks = (0..start.tasks as usize).filter_map(|i| task(start, kind, i, speaks));
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
        // A script may transfer its updates itself, or transfer nothing, so the user must specify the transfers.
        link: link().filter(|_| start.script.is_none()),
        tasks: tasks.collect(),
        provenance: Vec::new(),
    };
    if let Err(host::OpenError::Workload(fault)) = host::complete(&workload, kind) {
        return Err(fault.problem);
    }
    Ok((workload, why))
}

fn device(start: &Start) -> (DeviceKind, String) {
    if let Some(device) = start.device {
        let what = match device {
            DeviceKind::Cpu => "for shares of this machine's processors, as asked for",
            DeviceKind::Cuda => "for a GPU under NVIDIA MPS, as asked for",
            _ => "for a simulated GPU, as asked for",
        };
        return (device, what.to_owned());
    }
    if start.gpu.is_some() {
        return (
            DeviceKind::Sim,
            "for a simulated GPU, as asked for".to_owned(),
        );
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

/// A link of 400 Mbit/s down and 200 up. With it, transfers take about a third of a round of three tasks (3.4 s down
/// and 6.8 s up beside about 20 s of compute). So most of them can be hidden behind compute, and their order decides
/// how much. On a link ten times as slow there would not be enough compute to hide them, and on one ten times as fast
/// there would be nothing to hide.
fn link() -> Option<Link> {
    Some(Link {
        down: Bandwidth::new(400e6).ok()?,
        up: Bandwidth::new(200e6).ok()?,
        duplex: Duplex::Full,
    })
}

/// A placeholder for the program of a transfer, which waits as long as the link takes for this many bytes.
fn transfer(bytes: Bytes, line: Bandwidth) -> Vec<String> {
    let seconds = bytes.transfer_seconds(line);
    vec!["sleep".to_owned(), format!("{seconds:.1}")]
}

/// Texts that occur in scripts that take batch size and number of samples from the tools.
const SIGNS: [&str; 3] = ["MT_BATCH_SIZE", "mt_tools", "\"mt\""];

/// Whether a script takes its batch size from the tools. A script that cannot be read is assumed not to.
fn speaks(script: &str) -> bool {
    let bytes = std::fs::read(script).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    SIGNS.iter().any(|sign| text.contains(sign))
}

/// Batch sizes and samples of a task. For a script, only the given values are known; if it takes nothing from the
/// tools, the unit of work is a whole run.
fn amount(start: &Start, kind: DeviceKind, speaks: bool) -> (Vec<u32>, Option<u64>) {
    if start.script.is_none() {
        // A round of about half a minute on a GPU, or of a few seconds on two cores.
        let samples = if kind == DeviceKind::Cpu {
            40_000
        } else {
            20_000
        };
        return (vec![32, 64, 128], Some(samples));
    }
    match speaks || !start.batch_sizes.is_empty() {
        true => (start.batch_sizes.clone(), start.samples),
        false => (vec![1], Some(start.samples.unwrap_or(1))),
    }
}

fn task(start: &Start, kind: DeviceKind, index: usize, speaks: bool) -> Option<Task> {
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
    let (sizes, samples) = amount(start, kind, speaks);
    let bytes = Bytes::new(bytes).ok()?;
    Some(Task {
        id: TaskId::new(&id).ok()?,
        model: simulated.then(|| model.to_owned()),
        input_pixels: None,
        layers: Vec::new(),
        flops_per_sample: None,
        bytes_per_sample: None,
        batch_sizes: sizes
            .into_iter()
            .filter_map(|b| Batch::new(b.into()).ok())
            .collect(),
        batch: None,
        efficiency: None,
        rounds_to_target: None,
        samples: samples.and_then(|samples| Samples::new(samples).ok()),
        update_bytes: start.script.is_none().then_some(UpdateBytes {
            down: bytes,
            up: bytes,
        }),
        weight: None,
        memory: None,
        host: HostCost::default(),
        job: (!simulated).then(|| job(start, kind, index, model, bytes, speaks)),
    })
}

fn job(
    start: &Start,
    kind: DeviceKind,
    index: usize,
    model: &str,
    bytes: Bytes,
    speaks: bool,
) -> Job {
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
    let link = link().filter(|_| start.script.is_none());
    Job {
        argv: words.into_iter().map(str::to_owned).collect(),
        env: BTreeMap::new(),
        cwd: None,
        // A script that does not use the tools may print anything, so only its end counts.
        progress: Progress {
            none: !speaks,
            ..Progress::default()
        },
        pool: start.script.is_none(),
        download: link.map_or_else(Vec::new, |l| transfer(bytes, l.down)),
        upload: link.map_or_else(Vec::new, |l| transfer(bytes, l.up)),
        resume: Vec::new(),
    }
}

/// Advice on what to change in the workload; `file`: the file it was written to, `-` for standard output.
#[must_use]
pub fn comments(workload: &Workload, file: &str) -> String {
    let transfers = match workload.link {
        Some(_) => {
            "  link          bits per second; transfers take about a third of a round here, so that their overlap
                with compute matters; leave it out if nothing is transferred
"
        }
        None => {
            "  link          if rounds transfer updates, give {\"down_bps\":...,\"up_bps\":...} here, update_bytes in each task,
                and in its job download and upload, the argv of the programs that transfer
"
        }
    };
    let none = |t: &Task| t.job.as_ref().is_some_and(|job| job.progress.none);
    let runs = workload.tasks.iter().all(none);
    let mut text =
        "  device        sim (a simulated GPU), cpu (CPU quotas) or cuda (NVIDIA MPS)\n".to_owned();
    text += match runs {
        true => {
            "  samples       1: a whole run of the script is the unit of work, since it takes no batch size from the tools
  progress      none: a run counts when it has ended; mt try finds what the script prints, and writes a workload with
                progress.regex, which is quicker to measure
"
        }
        false => {
            "  batch_sizes   the sizes that the plan may choose from
  samples       the data of one round of each task
"
        }
    };
    text += transfers;
    if workload.tasks.iter().any(|t| t.update_bytes.is_some()) {
        text +=
            "  update_bytes  bytes that a round downloads before training and uploads after it\n";
    }
    let waits = |t: &Task| t.job.as_ref().is_some_and(|j| !j.download.is_empty());
    if workload.tasks.iter().any(waits) {
        text += "  download      in place of a program that fetches an update, sleeps for the time of the transfer;
                upload likewise
";
    }
    if workload.tasks.iter().any(|t| t.model.is_some()) {
        text += "  model         a model of the catalogue (mt-profile --list-devices names them); for your own\n                program give a job: mt init --script train.py\n";
    } else if runs {
        text += "  job           argv of the program; it may read MT_BATCH_SIZE and MT_SAMPLES: see docs/your-script.md\n";
    } else {
        text += "  job           argv of the program; gets MT_BATCH_SIZE and MT_SAMPLES in its environment and prints a line\n                {\"mt\":\"step\",\"samples\":N} for each step, or gives progress.regex for its own\n";
    }
    if file != "-" {
        text += &format!("next: mt run {file}");
        if runs {
            text += "; or, without measuring first, mt run and each command in quotes";
        }
    }
    text.trim_end().to_owned()
}
