mod efficiency;
mod renew;
pub(crate) mod validate;

use std::collections::BTreeMap;

use units::{Bandwidth, Batch, Bytes, Flops, Samples, TaskId, Weight};

use crate::wire;
use crate::{
    DeviceKind, Duplex, GpuDescription, LayerDescription, ObjectiveKind, Progress, Provenance,
};

pub use efficiency::{Efficiency, EfficiencyCurve, EfficiencyRow};
pub use renew::OtherTasks;

/// Maximum number of tasks in a workload: sets of tasks are bit sets of 64.
pub(crate) use crate::wire::MAX_TASKS;

/// One device with its tasks.
///
/// Task names are unique; every task has at least one batch size, ascending and unique.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Name of the device or client.
    pub id: Option<String>,
    /// Where the tasks run.
    pub device: DeviceSpec,
    /// The network link; absent: transfers take no time.
    pub link: Option<Link>,
    /// 1 to 64 tasks.
    pub tasks: Vec<Task>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

/// Where tasks run.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSpec {
    /// Kind of device.
    pub kind: DeviceKind,
    /// GPU of the simulator.
    pub gpu: Option<GpuSpec>,
    /// Memory that the tasks of one GPU may use.
    pub memory: Option<Bytes>,
    /// Number of equal GPUs, at least 1.
    pub gpus: u32,
    /// Their names, one for each GPU, if they were given.
    pub gpu_names: Vec<String>,
}

/// A GPU for the simulator.
#[derive(Debug, Clone, PartialEq)]
pub enum GpuSpec {
    /// A GPU of the catalogue, by name.
    Named(String),
    /// A GPU given by its parameters: positive and finite.
    Described(GpuDescription),
}

/// A network link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Downlink.
    pub down: Bandwidth,
    /// Uplink.
    pub up: Bandwidth,
    /// How transfers of the two directions share the link.
    pub duplex: Duplex,
}

/// One training task.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Name, unique in the workload.
    pub id: TaskId,
    /// Catalogue model.
    pub model: Option<String>,
    /// Side of the input image of the catalogue model.
    pub input_pixels: Option<u32>,
    /// Layers of a model that is not in the catalogue.
    pub layers: Vec<LayerDescription>,
    /// Floating-point operations to train on one sample.
    pub flops_per_sample: Option<Flops>,
    /// Bytes of DRAM traffic to train on one sample: finite and above 0.
    pub bytes_per_sample: Option<f64>,
    /// Batch sizes that a plan may choose from, ascending.
    pub batch_sizes: Vec<Batch>,
    /// Reference batch size, one of `batch_sizes`; `None`: the smallest. See [`Task::reference`].
    pub batch: Option<Batch>,
    /// What a sample is worth at each batch size.
    pub efficiency: Option<Efficiency>,
    /// Rounds until the target at the reference batch size: finite and above 0.
    pub rounds_to_target: Option<f64>,
    /// Number of samples per round: the local data volume.
    pub samples: Option<Samples>,
    /// Bytes to transfer per round.
    pub update_bytes: Option<UpdateBytes>,
    /// Weight in the weighted objective.
    pub weight: Option<Weight>,
    /// Memory need.
    pub memory: Option<Memory>,
    /// Host cost in the simulator, which overrides that of the GPU.
    pub host: HostCost,
    /// The training program.
    pub job: Option<Job>,
}

/// Bytes to transfer per round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpdateBytes {
    /// Bytes downloaded before compute.
    pub down: Bytes,
    /// Bytes uploaded after compute.
    pub up: Bytes,
}

/// Memory need of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that do not depend on the batch size: context, weights, optimiser state.
    pub fixed: Bytes,
    /// Bytes per sample of a batch: saved activations.
    pub per_sample: Bytes,
}

impl Memory {
    /// Bytes needed at a batch size.
    #[must_use]
    pub fn at(&self, batch: Batch) -> f64 {
        self.fixed.get() as f64 + self.per_sample.get() as f64 * batch.as_f64()
    }
}

/// Host cost of a step in the simulator; a field that is absent takes the value of the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostCost {
    /// Microseconds for each step.
    pub us_per_step: Option<f64>,
    /// Microseconds for each sample.
    pub us_per_sample: Option<f64>,
}

/// A training program.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// Environment variables to set.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: Option<String>,
    /// How it reports its progress.
    pub progress: Progress,
    /// Whether it reads the pool protocol.
    pub pool: bool,
    /// Program of the download phase; may be empty.
    pub download: Vec<String>,
    /// Program of the upload phase; may be empty.
    pub upload: Vec<String>,
    /// Program that continues the training after a fault; empty: `argv`.
    pub resume: Vec<String>,
}

impl Workload {
    /// Whether the value of a sample at each batch size is known for every task.
    #[must_use]
    pub fn knows_efficiency(&self) -> bool {
        self.tasks.iter().all(|t| t.efficiency.is_some())
    }

    /// Whether a task has a table of efficiency with intervals.
    #[must_use]
    pub fn has_table_intervals(&self) -> bool {
        let known = self.tasks.iter().filter_map(|t| t.efficiency.as_ref());
        let mut rows = known.flat_map(Efficiency::rows);
        rows.any(|row| row.interval.is_some())
    }

    /// Default objective of a plan: progress if the efficiency of every task is known. Otherwise it is the length of
    /// the round if every task has samples, since throughput says nothing about unequal volumes, and the total
    /// throughput if not.
    #[must_use]
    pub fn default_objective(&self) -> ObjectiveKind {
        if self.knows_efficiency() {
            ObjectiveKind::Progress
        } else if self.tasks.iter().all(|t| t.samples.is_some()) {
            ObjectiveKind::Round
        } else {
            ObjectiveKind::Raw
        }
    }

    /// Index of the task called `id`.
    #[must_use]
    pub fn task_index(&self, id: &TaskId) -> Option<usize> {
        self.tasks.iter().position(|t| t.id == *id)
    }
}

impl DeviceSpec {
    fn to_wire(&self) -> wire::Device {
        let (gpu, gpu_description) = match &self.gpu {
            None => (None, None),
            Some(GpuSpec::Named(name)) => (Some(name.clone()), None),
            Some(GpuSpec::Described(gpu)) => (None, Some(gpu.clone())),
        };
        wire::Device {
            kind: self.kind,
            gpu,
            gpu_description,
            memory_bytes: self.memory.map(Bytes::get),
            gpus: match self.gpu_names.as_slice() {
                [] => (self.gpus != 1).then_some(wire::Gpus::Count(self.gpus)),
                names => Some(wire::Gpus::Names(names.to_vec())),
            },
        }
    }
}

impl Link {
    pub(crate) fn to_wire(self) -> wire::Link {
        wire::Link {
            down_bps: self.down.get(),
            up_bps: self.up.get(),
            duplex: self.duplex,
        }
    }
}

impl UpdateBytes {
    pub(crate) fn to_wire(self) -> wire::UpdateBytes {
        wire::UpdateBytes {
            down: self.down.get(),
            up: self.up.get(),
        }
    }
}

impl Task {
    /// Makes a task of which only the name is known; its steps have one sample.
    #[must_use]
    pub fn named(id: TaskId) -> Self {
        Self {
            id,
            model: None,
            input_pixels: None,
            layers: Vec::new(),
            flops_per_sample: None,
            bytes_per_sample: None,
            batch_sizes: vec![Batch::ONE],
            batch: None,
            efficiency: None,
            rounds_to_target: None,
            samples: None,
            update_bytes: None,
            weight: None,
            memory: None,
            host: HostCost::default(),
            job: None,
        }
    }

    /// Rounds to the target at the reference batch size: `rounds_to_target` if given, otherwise the entry in a table
    /// of rounds; `None` if there is neither.
    #[must_use]
    pub fn rounds_at_reference(&self) -> Option<f64> {
        let row = || match &self.efficiency.as_ref()?.curve {
            EfficiencyCurve::Rounds(rows) => rows
                .iter()
                .find(|row| row.batch == self.reference())
                .map(|row| row.value),
            _ => None,
        };
        self.rounds_to_target.or_else(row)
    }

    /// The batch size for which `rounds_to_target` holds. A plan keeps this size if no efficiency is known.
    ///
    /// # Panics
    /// Never: a task has at least one batch size.
    #[must_use]
    pub fn reference(&self) -> Batch {
        self.batch.unwrap_or(self.batch_sizes[0])
    }

    fn to_wire(&self) -> wire::Task {
        wire::Task {
            id: self.id.as_str().to_owned(),
            model: self.model.clone(),
            input_pixels: self.input_pixels,
            layers: self.layers.clone(),
            flops_per_sample: self.flops_per_sample.map(Flops::get),
            bytes_per_sample: self.bytes_per_sample,
            batch_sizes: self
                .batch_sizes
                .iter()
                .map(|b| u64::from(b.get()))
                .collect(),
            batch: self.batch.map(|b| u64::from(b.get())),
            efficiency: self.efficiency.as_ref().map(Efficiency::to_wire),
            rounds_to_target: self.rounds_to_target,
            samples: self.samples.map(Samples::get),
            update_bytes: self.update_bytes.map(UpdateBytes::to_wire),
            weight: self.weight.map(Weight::get),
            memory: self.memory.map(|m| wire::Memory {
                fixed_bytes: m.fixed.get(),
                bytes_per_sample: m.per_sample.get(),
            }),
            host_us_per_step: self.host.us_per_step,
            host_us_per_sample: self.host.us_per_sample,
            job: self.job.as_ref().map(Job::to_wire),
        }
    }
}

impl Job {
    pub(crate) fn to_wire(&self) -> wire::Job {
        wire::Job {
            argv: self.argv.clone(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            progress: self.progress.clone(),
            pool: self.pool,
            download: self.download.clone(),
            upload: self.upload.clone(),
            resume: self.resume.clone(),
        }
    }
}
