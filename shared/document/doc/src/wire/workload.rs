use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Efficiency, is_default, wire_form};

/// One device with its tasks: what the user writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "mt.workload/1")]
pub struct Workload {
    /// `mt.workload/1`.
    pub schema: String,
    /// Name of the device or client, carried through to the timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where the tasks run.
    #[serde(default)]
    pub device: Device,
    /// The network link; absent: transfers take no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// 1 to 64 training tasks.
    #[serde(deserialize_with = "super::tasks")]
    pub tasks: Vec<Task>,
    /// Which tools made this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
}

wire_form!(Workload, "mt.workload/1");

/// Where the tasks run.
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
    /// Memory that the tasks may use; absent: that of the GPU, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The equal GPUs to share, by number or by name; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
}

/// Several equal GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Gpus {
    /// This many, whichever they are.
    Count(u32),
    /// These: UUIDs on a real machine (`mt-profile --list-devices`), any names elsewhere.
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

/// What the simulator knows of a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuDescription {
    /// Name for tables and documents.
    pub name: String,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Peak FP32 rate in TFLOP/s.
    pub fp32_tflops: f64,
    /// Peak DRAM bandwidth in GB/s (10^9 bytes).
    pub memory_gb_per_s: f64,
    /// Device memory.
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
    /// Microseconds for each step.
    pub us_per_step: f64,
    /// Microseconds for each sample of the batch.
    pub us_per_sample: f64,
    /// Relative slow-down for each further task at full contention (0: none).
    pub contention: f64,
    /// Microseconds to launch one kernel.
    pub launch_us: f64,
}

/// The network link of a device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Downlink in bits per second.
    pub down_bps: f64,
    /// Uplink in bits per second.
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
    /// One transfer at a time in all.
    Half,
    /// Transfers of one direction run at once and share it equally.
    Shared,
}

/// One training task. `model`, `layers`, `flops_per_sample` with `bytes_per_sample`, or `job` says what it
/// trains; recorded tasks (`replay`) need none of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Name, unique in the workload.
    pub id: String,
    /// Name of a model in the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Side of the square input image of a catalogue model; absent: 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_pixels: Option<u32>,
    /// A custom model as a list of layers, instead of `model`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerDescription>,
    /// Floating-point operations to train on one sample (forward and backward).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops_per_sample: Option<f64>,
    /// DRAM bytes moved to train on one sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_sample: Option<f64>,
    /// Batch sizes to choose from (a single number stands for a list of one).
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema")]
    pub batch_sizes: Vec<u64>,
    /// Reference batch size, one of `batch_sizes`: the size to which `rounds_to_target` refers, and which
    /// a plan keeps if no `efficiency` is known; absent: the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// The value of a sample at each batch size; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<Efficiency>,
    /// Rounds until the target (an accuracy, a loss) at the reference batch size; absent: those of a table of
    /// rounds in `efficiency`, otherwise 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds_to_target: Option<f64>,
    /// Samples to train on in one round: the local data volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Bytes to move before and after the compute of a round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_bytes: Option<UpdateBytes>,
    /// Weight in the weighted objective; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Memory need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Host time of each step in the simulator, instead of the GPU's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_us_per_step: Option<f64>,
    /// Host time of each sample in the simulator, instead of the GPU's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_us_per_sample: Option<f64>,
    /// The training program; needed on real devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// A layer of a custom model; sizes are for one sample.
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
        /// Channels in.
        in_channels: u32,
        /// Channels out.
        out_channels: u32,
        /// Side of the square kernel.
        kernel: u32,
        /// Stride in both directions.
        stride: u32,
        /// Side of the square output.
        out_pixels: u32,
        /// Groups; equal to `in_channels` for a depthwise convolution.
        groups: u32,
    },
    /// Fully connected layer.
    Linear {
        /// Features in.
        in_features: u32,
        /// Features out.
        out_features: u32,
    },
    /// Batch normalisation with its activation.
    Norm {
        /// Channels.
        channels: u32,
        /// Side of the square activation.
        pixels: u32,
    },
    /// Pooling, addition or another element-wise step.
    Pool {
        /// Channels.
        channels: u32,
        /// Side of the square output.
        out_pixels: u32,
    },
}

/// Bytes to move in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateBytes {
    /// Download before compute.
    pub down: u64,
    /// Upload after compute.
    pub up: u64,
}

/// Device memory that a task needs: `fixed_bytes + bytes_per_sample * batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Context, weights, optimiser state.
    pub fixed_bytes: u64,
    /// Saved activations for each sample of a batch.
    pub bytes_per_sample: u64,
}

/// A training program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Program and arguments; never passed through a shell. In an argument, `{batch}`, `{share}` and `{samples}` are
    /// replaced by the values of `MT_BATCH_SIZE`, `MT_SHARE_PERCENT` and `MT_SAMPLES`.
    pub argv: Vec<String>,
    /// Variables to set beside those of the worker protocol.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory; absent: that of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How the program reports its progress.
    #[serde(default, skip_serializing_if = "is_default")]
    pub progress: Progress,
    /// Whether the program reads `run`, `park`, `batch N`, `quit` on standard input. Under a
    /// controller: whether it says `loaded` and waits for `run` before it reads its checkpoint.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pool: bool,
    /// Program that fetches the model before compute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub download: Vec<String>,
    /// Program that sends the update after compute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upload: Vec<String>,
    /// Program and arguments to continue from the job's own checkpoint after a fault; absent:
    /// `argv` again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resume: Vec<String>,
}

/// How a program reports its progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Regular expression that matches the program's own log lines; absent: the worker protocol. The name of a group
    /// says what its number counts: `samples` since the previous line, or since the start `total` samples, `steps` of
    /// the batch size, or `epochs` of the task's `samples`. There may also be a group `loss`. Colours are removed,
    /// and a carriage return also ends a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// It reports nothing: it trains from its start, and exit status 0 means that its samples are done.
    #[serde(default, skip_serializing_if = "is_default")]
    pub none: bool,
}

impl Progress {
    /// The groups that may count.
    pub const COUNTS: [&'static str; 4] = ["samples", "total", "steps", "epochs"];
    /// Most bytes of a compiled expression; a longer one is refused.
    pub const LARGEST_REGEX: usize = 1 << 20;
}

/// One step of how a document came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Name of the tool.
    pub tool: String,
    /// Version of the tool.
    pub version: String,
    /// Seed, if the tool used one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Device, if the tool used one.
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
