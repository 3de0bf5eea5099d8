use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Efficiency, is_default, wire_form};

/// One device with its tasks, as the user writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.workload/1")]
pub struct Workload {
    /// `mt.workload/1`.
    pub schema: String,
    /// Name of the device or client, carried through to the timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Device on which the tasks run; absent: chosen automatically.
    #[serde(default)]
    pub device: Device,
    /// The network link; absent: transfers take no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// 1 to 64 training tasks.
    #[serde(deserialize_with = "super::tasks")]
    pub tasks: Vec<Task>,
    /// Tools that made this document, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Workload, "mt.workload/1");

/// Device on which the tasks run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Kind of device; absent: `auto`.
    #[serde(default)]
    pub kind: DeviceKind,
    /// Name of a GPU in the simulator's catalogue, for example `rtx-3090`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// A custom GPU for the simulator, instead of `gpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_description: Option<GpuDescription>,
    /// Memory in bytes that the tasks of one GPU may use; absent: the memory of the GPU, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Equal GPUs to share, as a number or a list of names; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
}

/// Several equal GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Gpus {
    /// Number of GPUs, which may be any.
    Count(u32),
    /// Names of the GPUs: UUIDs on a real machine (`mt-profile --list-devices`), any names elsewhere.
    Names(Vec<String>),
}

/// Kind of device.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// `cuda` if there is a GPU under MPS, otherwise `sim`.
    #[default]
    Auto,
    /// The GPU simulator.
    Sim,
    /// Real processes under CPU quotas.
    Cpu,
    /// Real processes under NVIDIA MPS.
    Cuda,
    /// Recorded samples.
    Replay,
}

/// Properties of a GPU that the simulator uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuDescription {
    /// Name of the GPU in tables and documents.
    pub name: String,
    /// Number of streaming multiprocessors.
    pub sms: u32,
    /// Peak FP32 rate in TFLOP/s.
    pub fp32_tflops: f64,
    /// Peak DRAM bandwidth in GB/s (10^9 bytes).
    pub memory_gb_per_s: f64,
    /// Device memory in bytes; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Cost of the host side of a step; absent: the catalogue's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostDescription>,
}

/// Cost of the host side (input pipeline, framework) of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostDescription {
    /// Host time per step, in microseconds.
    pub us_per_step: f64,
    /// Host time per sample of the batch, in microseconds.
    pub us_per_sample: f64,
    /// Strength of contention between tasks on the host. With n tasks, the host time is `1 + 2 contention (1 - 1/n)`
    /// times as long; 0: no contention.
    pub contention: f64,
    /// Time to launch one kernel, in microseconds.
    pub launch_us: f64,
}

/// The network link of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bandwidth of the downlink in bits per second.
    pub down_bps: f64,
    /// Bandwidth of the uplink in bits per second.
    pub up_bps: f64,
    /// How transfers share the link; absent: `full`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub duplex: Duplex,
}

/// How transfers share a link.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Duplex {
    /// One transfer at a time in each direction.
    #[default]
    Full,
    /// One transfer at a time in total.
    Half,
    /// All transfers of one direction run at the same time and share its bandwidth equally.
    Shared,
}

/// One training task. `model`, `layers`, `flops_per_sample` with `bytes_per_sample`, or `job` defines what it trains;
/// recorded tasks (`replay`) need none of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Name of the task, unique in the workload.
    pub id: String,
    /// Name of a model in the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Side of the square input image of a catalogue model, in pixels; absent: 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_pixels: Option<u32>,
    /// Layers of a custom model, given instead of `model`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerDescription>,
    /// Number of floating-point operations to train on one sample (forward and backward pass).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops_per_sample: Option<f64>,
    /// DRAM traffic in bytes to train on one sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_sample: Option<f64>,
    /// Batch sizes that a plan may choose from. A single number stands for a list of one.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema")]
    pub batch_sizes: Vec<u64>,
    /// Reference batch size, one of `batch_sizes`; absent: the first of them. `rounds_to_target` holds for this size,
    /// and a plan keeps it if no `efficiency` is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Value of a sample at each batch size; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<Efficiency>,
    /// Number of rounds until the target (an accuracy, a loss) at the reference batch size; absent: the number in a
    /// table of rounds in `efficiency`, otherwise 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_to_target: Option<f64>,
    /// Number of samples to train on in one round: the local data volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Number of bytes to transfer before and after the compute of a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_bytes: Option<UpdateBytes>,
    /// Weight of the task in the weighted objective; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Device memory that the task needs; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Host time per step in the simulator, in microseconds; absent: the value of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_us_per_step: Option<f64>,
    /// Host time per sample in the simulator, in microseconds; absent: the value of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_us_per_sample: Option<f64>,
    /// Training program; required on real devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// A layer of a custom model. Sizes are those for one sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "snake_case"
)]
pub enum LayerDescription {
    /// Two-dimensional convolution.
    Conv {
        /// Number of input channels.
        in_channels: u32,
        /// Number of output channels.
        out_channels: u32,
        /// Side of the square kernel, in pixels.
        kernel: u32,
        /// Stride in both directions.
        stride: u32,
        /// Side of the square output, in pixels.
        out_pixels: u32,
        /// Number of groups; equal to `in_channels` for a depthwise convolution.
        groups: u32,
    },
    /// Fully connected layer.
    Linear {
        /// Number of input features.
        in_features: u32,
        /// Number of output features.
        out_features: u32,
    },
    /// Batch normalisation with its activation.
    Norm {
        /// Number of channels.
        channels: u32,
        /// Side of the square activation, in pixels.
        pixels: u32,
    },
    /// Pooling, addition or another element-wise operation.
    Pool {
        /// Number of channels.
        channels: u32,
        /// Side of the square output, in pixels.
        out_pixels: u32,
    },
}

/// Number of bytes to transfer in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateBytes {
    /// Number of bytes downloaded before compute.
    pub down: u64,
    /// Number of bytes uploaded after compute.
    pub up: u64,
}

/// Device memory that a task needs, in bytes: `fixed_bytes + bytes_per_sample * batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Bytes that do not depend on the batch size: context, weights, optimiser state.
    pub fixed_bytes: u64,
    /// Bytes per sample of a batch: saved activations.
    pub bytes_per_sample: u64,
}

/// A training program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Program and arguments; never passed through a shell. In an argument, `{batch}`, `{share}` and `{samples}` are
    /// replaced by the values of `MT_BATCH_SIZE`, `MT_SHARE_PERCENT` and `MT_SAMPLES`. Under a controller,
    /// `{processes}` and `{batches}` are replaced, too: by the number of processes and by their batch sizes, separated
    /// by commas.
    pub argv: Vec<String>,
    /// Environment variables to set, in addition to those of the worker protocol.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory; absent: the working directory of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Way in which the program reports its progress; absent: by the worker protocol.
    #[serde(default, skip_serializing_if = "is_default")]
    pub progress: Progress,
    /// Whether the program reads the commands `run`, `park`, `batch N` and `quit` on standard input. Under a
    /// controller: whether it reports `loaded` and waits for `run` before it reads its checkpoint. Absent: false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pool: bool,
    /// Program and arguments that fetch the model before compute; absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub download: Vec<String>,
    /// Program and arguments that send the update after compute; absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upload: Vec<String>,
    /// Program and arguments that continue from the job's own checkpoint after a fault; absent: `argv`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<String>,
}

/// Way in which a program reports its progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Regular expression that matches the program's own log lines; absent: the worker protocol. One named group holds
    /// a number, and its name says what the number counts: `samples` since the previous line or, since the start,
    /// `total` samples, `steps` of the batch size, or `epochs` of the task's `samples`. A group `loss` is optional.
    /// Colours are removed before matching, and a carriage return also ends a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Whether the program reports no progress. It then counts as training from its start, and exit status 0 means that
    /// its samples are done. Absent: false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub none: bool,
}

impl Progress {
    /// Names of the groups that can count progress.
    pub const COUNTS: [&'static str; 4] = ["samples", "total", "steps", "epochs"];
    /// Maximum size of a compiled expression in bytes; a larger one is refused.
    pub const LARGEST_REGEX: usize = 1 << 20;
}

/// One tool that contributed to a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Name of the tool.
    pub tool: String,
    /// Version of the tool.
    pub version: String,
    /// Seed that the tool used; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Device that the tool used; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    struct Visitor;
    impl<'de> serde::de::Visitor<'de> for Visitor {
        type Value = Vec<u64>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a batch size or a list of batch sizes")
        }

        fn visit_u64<E>(self, value: u64) -> Result<Vec<u64>, E> {
            Ok(vec![value])
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut items: A,
        ) -> Result<Vec<u64>, A::Error> {
            let mut all = Vec::new();
            while let Some(item) = items.next_element()? {
                all.push(item);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_any(Visitor)
}

fn one_or_many_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": ["array", "integer"],
        "items": {"type": "integer", "minimum": 0},
        "minimum": 0
    })
}
