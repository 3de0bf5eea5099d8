use units::{Bandwidth, Batch, Bytes, Flops, Samples, Seconds, TaskId, UnitError, Weight};

use super::efficiency::{reference, rounds_to_target};
use super::{
    DeviceSpec, Efficiency, GpuSpec, HostCost, Job, Link, MAX_TASKS, Memory, Task, UpdateBytes,
    Workload,
};
use crate::checker::{optional, positive, unique_ids};
use crate::wire;
use crate::{Checker, Code, DeviceKind, Document, GpuDescription};

const MAX_BATCH_SIZES: usize = 64;
const MAX_LAYERS: usize = 10_000;
const MAX_ARGUMENTS: usize = 1_000;
const MAX_GPUS: u32 = 64;

impl Document for Workload {
    type Wire = wire::Workload;

    fn from_wire(wire: &wire::Workload, c: &mut Checker) -> Option<Self> {
        let device = c.field("device", |c| device(&wire.device, c));
        let link = optional(c, "link", wire.link.as_ref(), link);
        if wire.tasks.is_empty() {
            c.field("tasks", |c| {
                c.fault(Code::NothingToDo, "no task", "add at least one task");
            });
        }
        if wire.tasks.len() > MAX_TASKS {
            c.field("tasks", |c| {
                let problem = format_args!("more than {MAX_TASKS} tasks");
                c.fault(Code::TooMany, problem, "give at most 64");
            });
            return None;
        }
        // Recorded measurements need no description of what was measured.
        let recorded = wire.device.kind == DeviceKind::Replay;
        let tasks = c.list("tasks", &wire.tasks, |t, c| task(t, recorded, c));
        unique_ids(c, "tasks", wire.tasks.iter().map(|t| t.id.as_str()));
        Some(Self {
            id: wire.id.clone(),
            device: device?,
            link: link?,
            tasks: tasks?,
            provenance: wire.provenance.clone(),
        })
    }

    fn to_wire(&self) -> wire::Workload {
        wire::Workload {
            schema: <wire::Workload as wire::Wire>::SCHEMA.to_owned(),
            id: self.id.clone(),
            device: self.device.to_wire(),
            link: self.link.map(Link::to_wire),
            tasks: self.tasks.iter().map(Task::to_wire).collect(),
            provenance: self.provenance.clone(),
        }
    }
}

fn device(wire: &wire::Device, c: &mut Checker) -> Option<DeviceSpec> {
    if wire.gpu.is_some() && wire.gpu_description.is_some() {
        c.field("gpu_description", |c| {
            let advice = "keep `gpu` (a name) or `gpu_description` (figures)";
            c.fault(Code::Conflict, "`gpu` is given too", advice);
        });
    }
    let (gpus, gpu_names) = match &wire.gpus {
        None => (1, Vec::new()),
        Some(wire::Gpus::Count(count)) => (*count, Vec::new()),
        Some(wire::Gpus::Names(names)) => (
            u32::try_from(names.len()).unwrap_or(u32::MAX),
            names.clone(),
        ),
    };
    c.field("gpus", |c| {
        if !(1..=MAX_GPUS).contains(&gpus) {
            let problem = format_args!("{gpus} is not a number of GPUs");
            c.fault(Code::OutOfRange, problem, "give 1 to 64");
        }
        for (i, name) in gpu_names.iter().enumerate() {
            c.index(i, |c| {
                if name.is_empty() {
                    c.fault(Code::OutOfRange, "a GPU without a name", "name it");
                } else if gpu_names[..i].contains(name) {
                    let problem = format_args!("{name:?} is named twice");
                    c.fault(Code::Duplicate, problem, "name each GPU once");
                }
            });
        }
    });
    let memory = c.optional_unit("memory_bytes", wire.memory_bytes, Bytes::new);
    let described = optional(
        c,
        "gpu_description",
        wire.gpu_description.as_ref(),
        gpu_description,
    );
    let named = wire.gpu.clone().map(GpuSpec::Named);
    Some(DeviceSpec {
        kind: wire.kind,
        gpu: named.or(described?.map(GpuSpec::Described)),
        memory: memory?,
        gpus,
        gpu_names,
    })
}

pub(crate) fn gpu_description(wire: &GpuDescription, c: &mut Checker) -> Option<GpuDescription> {
    if !(1..=10_000).contains(&wire.sms) {
        c.field("sms", |c| {
            let problem = format_args!("{} is not a number of multiprocessors", wire.sms);
            c.fault(Code::OutOfRange, problem, "give an integer from 1 to 10000");
        });
    }
    positive(c, "fp32_tflops", wire.fp32_tflops, "peak rate", false);
    positive(
        c,
        "memory_gb_per_s",
        wire.memory_gb_per_s,
        "bandwidth",
        false,
    );
    c.optional_unit("memory_bytes", wire.memory_bytes, Bytes::new);
    if let Some(host) = &wire.host {
        c.field("host", |c| {
            positive(c, "us_per_step", host.us_per_step, "time", true);
            positive(c, "us_per_sample", host.us_per_sample, "time", true);
            positive(c, "contention", host.contention, "factor", true);
            positive(c, "launch_us", host.launch_us, "time", true);
        });
    }
    Some(wire.clone())
}

pub(crate) fn link(wire: &wire::Link, c: &mut Checker) -> Option<Link> {
    let down = c.unit("down_bps", Bandwidth::new(wire.down_bps));
    let up = c.unit("up_bps", Bandwidth::new(wire.up_bps));
    Some(Link {
        down: down?,
        up: up?,
        duplex: wire.duplex,
    })
}

pub(crate) fn update_bytes(wire: &wire::UpdateBytes, c: &mut Checker) -> Option<UpdateBytes> {
    let down = c.unit("down", Bytes::new(wire.down));
    let up = c.unit("up", Bytes::new(wire.up));
    Some(UpdateBytes {
        down: down?,
        up: up?,
    })
}

fn memory(wire: &wire::Memory, c: &mut Checker) -> Option<Memory> {
    let fixed = c.unit("fixed_bytes", Bytes::new(wire.fixed_bytes));
    let per_sample = c.unit("bytes_per_sample", Bytes::new(wire.bytes_per_sample));
    Some(Memory {
        fixed: fixed?,
        per_sample: per_sample?,
    })
}

fn task(wire: &wire::Task, recorded: bool, c: &mut Checker) -> Option<Task> {
    let id = c.unit("id", TaskId::new(&wire.id));
    check_model_source(wire, recorded, c);
    let flops = c.optional_unit("flops_per_sample", wire.flops_per_sample, Flops::new);
    let bytes = wire
        .bytes_per_sample
        .map(|v| positive(c, "bytes_per_sample", v, "number of bytes", false));
    let batch_sizes = batch_sizes(&wire.batch_sizes, c);
    let batch = reference(wire, c);
    let efficiency = optional(
        c,
        "efficiency",
        wire.efficiency.as_ref(),
        Efficiency::from_wire,
    );
    let rounds = rounds_to_target(wire.rounds_to_target, c);
    let samples = c.optional_unit("samples", wire.samples, Samples::new);
    let update = optional(c, "update_bytes", wire.update_bytes.as_ref(), update_bytes);
    let weight = c.optional_unit("weight", wire.weight, Weight::new);
    let memory = optional(c, "memory", wire.memory.as_ref(), memory);
    let host_time = |us: f64| -> Result<f64, UnitError> { Seconds::new(us).map(Seconds::get) };
    let per_step = c.optional_unit("host_us_per_step", wire.host_us_per_step, host_time);
    let per_sample = c.optional_unit("host_us_per_sample", wire.host_us_per_sample, host_time);
    let job = optional(c, "job", wire.job.as_ref(), job);
    Some(Task {
        id: id?,
        model: wire.model.clone(),
        input_pixels: wire.input_pixels,
        layers: wire.layers.clone(),
        flops_per_sample: flops?,
        bytes_per_sample: match bytes {
            None => None,
            Some(value) => Some(value?),
        },
        batch_sizes: batch_sizes?,
        batch: batch?,
        efficiency: efficiency?,
        rounds_to_target: rounds?,
        samples: samples?,
        update_bytes: update?,
        weight: weight?,
        memory: memory?,
        host: HostCost {
            us_per_step: per_step?,
            us_per_sample: per_sample?,
        },
        job: job?,
    })
}

fn check_model_source(wire: &wire::Task, recorded: bool, c: &mut Checker) {
    if wire.model.is_some() && !wire.layers.is_empty() {
        c.field("layers", |c| {
            let advice = "keep `model` (a name) or `layers` (your own)";
            c.fault(Code::Conflict, "`model` is given too", advice);
        });
    }
    if wire.layers.len() > MAX_LAYERS {
        c.field("layers", |c| {
            let problem = format_args!("{} layers", wire.layers.len());
            c.fault(Code::TooMany, problem, "give at most 10000");
        });
    }
    let known = recorded
        || wire.model.is_some()
        || !wire.layers.is_empty()
        || wire.flops_per_sample.is_some()
        || wire.job.is_some();
    if !known {
        let advice = "give `model`, `layers`, `flops_per_sample` with `bytes_per_sample`, or `job`";
        c.fault(
            Code::MissingField,
            "nothing says what the task trains",
            advice,
        );
    }
    if wire.flops_per_sample.is_some() != wire.bytes_per_sample.is_some() {
        let advice = "give `flops_per_sample` and `bytes_per_sample` together";
        c.fault(Code::Conflict, "only one of the two is given", advice);
    }
    if let Some(pixels) = wire.input_pixels
        && !(8..=4096).contains(&pixels)
    {
        c.field("input_pixels", |c| {
            let problem = format_args!("{pixels} is not an image side");
            c.fault(Code::OutOfRange, problem, "give an integer from 8 to 4096");
        });
    }
}

fn batch_sizes(wire: &[u64], c: &mut Checker) -> Option<Vec<Batch>> {
    c.field("batch_sizes", |c| {
        if wire.is_empty() {
            c.fault(
                Code::NothingToDo,
                "no batch size",
                "give at least one, for example [128]",
            );
            return None;
        }
        if wire.len() > MAX_BATCH_SIZES {
            c.fault(
                Code::TooMany,
                format_args!("{} batch sizes", wire.len()),
                "give at most 64",
            );
            return None;
        }
        let mut sizes = Vec::with_capacity(wire.len());
        let mut clean = true;
        for (i, &size) in wire.iter().enumerate() {
            match Batch::new(size) {
                Ok(batch) if sizes.contains(&batch) => {
                    clean = false;
                    c.index(i, |c| {
                        let problem = format_args!("batch size {size} is given twice");
                        c.fault(Code::Duplicate, problem, "remove one of the two");
                    });
                }
                Ok(batch) => sizes.push(batch),
                Err(error) => {
                    clean = false;
                    c.index(i, |c| {
                        c.fault(
                            Code::OutOfRange,
                            format_args!("{} is not a {}", error.value, error.quantity),
                            format_args!("give {}", error.expected),
                        );
                    });
                }
            }
        }
        sizes.sort_unstable();
        clean.then_some(sizes)
    })
}

impl Job {
    /// Validates the wire form and records every fault in `c`.
    pub(crate) fn from_wire(wire: &wire::Job, c: &mut Checker) -> Option<Self> {
        job(wire, c)
    }
}

fn job(wire: &wire::Job, c: &mut Checker) -> Option<Job> {
    if wire.argv.first().is_none_or(String::is_empty) {
        c.field("argv", |c| {
            let advice =
                "give the program and its arguments, for example [\"python3\", \"train.py\"]";
            c.fault(Code::NothingToDo, "no program", advice);
        });
    }
    let commands = [
        ("argv", &wire.argv),
        ("download", &wire.download),
        ("upload", &wire.upload),
        ("resume", &wire.resume),
    ];
    for (name, argv) in commands {
        c.field(name, |c| check_argv(argv, c));
    }
    c.field("env", |c| {
        for (name, value) in &wire.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let problem = format_args!("{name:?} cannot be set in an environment");
                c.fault(Code::OutOfRange, problem, "use a name without '=' or NUL");
            }
        }
    });
    c.field("progress", |c| {
        if let Some(regex) = &wire.progress.regex {
            c.field("regex", |c| progress_regex(regex, c));
        }
        if wire.progress.none && (wire.progress.regex.is_some() || wire.pool) {
            c.field("none", |c| {
                let problem = "a job that reports no progress can have neither a regex nor a pool";
                c.fault(
                    Code::OutOfRange,
                    problem,
                    "remove `none`, or `regex` and `pool`",
                );
            });
        }
    });
    Some(Job {
        argv: wire.argv.clone(),
        env: wire.env.clone(),
        cwd: wire.cwd.clone(),
        progress: wire.progress.clone(),
        pool: wire.pool,
        download: wire.download.clone(),
        upload: wire.upload.clone(),
        resume: wire.resume.clone(),
    })
}

fn check_argv(argv: &[String], c: &mut Checker) {
    if argv.len() > MAX_ARGUMENTS {
        let problem = format_args!("{} arguments", argv.len());
        c.fault(Code::TooMany, problem, "give at most 1000");
    }
    for (i, argument) in argv.iter().enumerate() {
        if argument.contains('\0') {
            c.index(i, |c| {
                let problem = "an argument holds a NUL byte";
                c.fault(Code::OutOfRange, problem, "remove it");
            });
        }
    }
}

/// Checks that the expression compiles and has exactly one group whose name says what its number
/// counts.
fn progress_regex(text: &str, c: &mut Checker) {
    let advice = "write for example \"step (?P<samples>[0-9]+)\"; in JSON a backslash is \
                  written twice";
    let regex = match regex::RegexBuilder::new(text)
        .size_limit(crate::Progress::LARGEST_REGEX)
        .build()
    {
        Ok(regex) => regex,
        Err(error) => {
            let said = error.to_string();
            let last = said.lines().last().unwrap_or_default();
            c.fault(
                Code::OutOfRange,
                format_args!("{text:?} is no expression: {last}"),
                advice,
            );
            return;
        }
    };
    let counts = regex
        .capture_names()
        .flatten()
        .filter(|n| crate::Progress::COUNTS.contains(n))
        .count();
    if counts != 1 {
        let problem =
            format_args!("{text:?} has {counts} of the groups samples, total, steps, epochs");
        let advice = "name one: samples (since the line before), total (samples so far), steps (so \
                      far), or epochs (so far), for example \"step (?P<steps>[0-9]+)\"";
        c.fault(Code::OutOfRange, problem, advice);
    }
}
