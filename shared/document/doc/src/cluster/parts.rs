use std::collections::BTreeMap;

use units::{Seconds, TaskId, Weight};

use crate::Job;
use crate::wire::LayerGroup;

/// A GPU, or several of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuGroup {
    /// Name; absent: the GPU type serves as the name.
    pub id: Option<String>,
    /// Type.
    pub kind: String,
    /// Number of GPUs; absent: a single GPU, whose name has no number.
    pub count: Option<u32>,
    /// The machine that holds the GPU.
    pub node: Option<String>,
    /// Stable name of the device.
    pub uuid: Option<String>,
    /// Device memory in bytes, above 0.
    pub memory: Option<f64>,
    /// Bytes per second between host and device, above 0.
    pub bus: Option<f64>,
}

impl GpuGroup {
    /// Names of the GPUs of this group.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = self.id.as_ref().unwrap_or(&self.kind);
        match self.count {
            None => vec![name.clone()],
            Some(count) => (0..count).map(|i| format!("{name}-{i}")).collect(),
        }
    }
}

/// A job: rounds of parallel tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterJob {
    /// Name, unique in the cluster.
    pub id: TaskId,
    /// Weight of its completion time.
    pub weight: Weight,
    /// Time at which the job arrives.
    pub arrival: Seconds,
    /// Number of rounds, 1 or more.
    pub rounds: u32,
    /// Number of tasks per round, 1 or more.
    pub tasks: u32,
    /// Whether the tasks of a round must run at the same time, and where; absent: they may run one after another.
    pub gang: Option<Gang>,
    /// Training time of a task on each GPU type that can run it, above 0.
    pub train: BTreeMap<String, Seconds>,
    /// Synchronisation time of a task on each GPU type; absent: none.
    pub sync: BTreeMap<String, Seconds>,
    /// Number of samples per task, above 0.
    pub samples: Option<f64>,
    /// Size of the model in bytes.
    pub model_bytes: Option<f64>,
    /// The layers of the model, in groups.
    pub layers: Vec<LayerGroup>,
    /// Device memory that a task needs, in bytes.
    pub memory: Option<f64>,
    /// The program that trains a task.
    pub job: Option<Job>,
}

/// Two jobs that may share a GPU of this type: one task of each trains there at the same time. Neither job is a gang,
/// and a job does not share a GPU with itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// Indices of the two jobs in the cluster.
    pub jobs: [usize; 2],
    /// GPU type.
    pub kind: String,
    /// Rate of each job while both train, relative to its rate alone: above 0 and at most 1.
    pub rates: [f64; 2],
}

/// Placement of a gang, whose tasks run at the same time, each on its own GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gang {
    /// On any GPUs.
    Anywhere,
    /// On GPUs of one node.
    SameNode,
}

impl ClusterJob {
    /// Number of tasks of all rounds.
    #[must_use]
    pub fn volume(&self) -> u64 {
        u64::from(self.rounds) * u64::from(self.tasks)
    }

    /// Training time and synchronisation time of a task on a GPU of the group, in seconds; `None` if that GPU cannot
    /// run the job.
    #[must_use]
    pub fn times(&self, group: &GpuGroup) -> Option<(f64, f64)> {
        let fits = self
            .memory
            .zip(group.memory)
            .is_none_or(|(need, have)| need <= have);
        let train = self.train.get(&group.kind).filter(|_| fits)?;
        let sync = self.sync.get(&group.kind).map_or(0.0, |s| s.get());
        Some((train.get(), sync))
    }
}
