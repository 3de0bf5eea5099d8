use std::collections::{BTreeMap, HashSet};

use units::{MOST, Seconds, TaskId, Weight, shown};

use crate::wire::{self, Wire as _};
use crate::{Checker, Code, Document, Job, Provenance};

mod parts;
mod sharing;

pub use parts::{ClusterJob, Gang, GpuGroup, Sharing};

/// Maximum number of GPUs in a cluster.
const MOST_GPUS: usize = 65_536;
/// Maximum number of different kinds of GPU (type, memory, bus): schedulers keep sets of them in 64 bits.
const MOST_KINDS: usize = 64;

/// GPUs of several kinds, and the jobs to run on them.
///
/// Names of GPUs and of jobs are unique; every job can run on some GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Name of the instance.
    pub id: Option<String>,
    /// The GPUs, in groups as the document has them.
    pub groups: Vec<GpuGroup>,
    /// The jobs.
    pub jobs: Vec<ClusterJob>,
    /// Which two jobs may train on one GPU at the same time.
    pub sharing: Vec<Sharing>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

impl Cluster {
    /// Maximum number of tasks of all jobs. Rounds cost nothing until they are simulated, so this limit is far above
    /// what a cluster trains in years, yet far below the counts at which sums lose their last digit.
    pub const MOST_TASKS: u64 = 1_000_000_000_000;
    /// Maximum number of tasks in one round of every job together: planners merge rounds, but simulate each task of a
    /// round.
    pub const MOST_AT_ONCE: u64 = 600_000;

    /// Number of tasks of all jobs over all rounds.
    #[must_use]
    pub fn volume(&self) -> u64 {
        let each = self.jobs.iter().map(ClusterJob::volume);
        each.fold(0, u64::saturating_add)
    }

    /// Maximum number of GPUs that a gang of the job can use at once: every GPU that can run the job or, for a gang
    /// on one node, those of the node that has most of them. A GPU without a given node counts as a node of its own.
    #[must_use]
    pub fn most_at_once(&self, job: &ClusterJob) -> u64 {
        let mut nodes: BTreeMap<&str, u64> = BTreeMap::new();
        let (mut all, mut largest) = (0, 0);
        for group in self.groups.iter().filter(|g| job.times(g).is_some()) {
            let count = u64::from(group.count.unwrap_or(1));
            all += count;
            let own = match &group.node {
                Some(node) => {
                    let own = nodes.entry(node).or_default();
                    *own += count;
                    *own
                }
                None => 1,
            };
            largest = largest.max(own);
        }
        match job.gang {
            Some(Gang::SameNode) => largest,
            _ => all,
        }
    }

    /// Whether one task of each of the two jobs fits on a GPU of the group at the same time.
    #[must_use]
    pub fn fit_together(&self, pair: &Sharing, group: &GpuGroup) -> bool {
        let need = pair.jobs.map(|n| self.jobs[n].memory.unwrap_or(0.0));
        let each = pair
            .jobs
            .iter()
            .all(|&n| self.jobs[n].times(group).is_some());
        let both = group.memory.is_none_or(|have| need[0] + need[1] <= have);
        group.kind == pair.kind && each && both
    }

    /// Index of the group of each GPU, in order of the GPUs' numbers.
    #[must_use]
    pub fn gpu_groups(&self) -> Vec<usize> {
        let groups = self.groups.iter().enumerate();
        groups
            .flat_map(|(i, g)| vec![i; g.count.unwrap_or(1) as usize])
            .collect()
    }

    /// Names of the GPUs, in order of their numbers.
    #[must_use]
    pub fn gpu_names(&self) -> Vec<String> {
        self.groups.iter().flat_map(GpuGroup::names).collect()
    }

    /// A fingerprint of GPUs and jobs (FNV-1a, 64 bits, over their JSON), which ties a schedule to
    /// this instance. It guards against mistakes, not against malice.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut wire = self.to_wire();
        wire.provenance.clear();
        // A document always serialises: its keys are strings and its numbers finite.
        let text = serde_json::to_string(&wire).unwrap_or_default();
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

impl Document for Cluster {
    type Wire = wire::Cluster;

    fn from_wire(wire: &wire::Cluster, c: &mut Checker) -> Option<Self> {
        let groups = c
            .list("gpus", &wire.gpus, gpu)
            .filter(|groups| sound_gpus(groups, c));
        let jobs = c.list("jobs", &wire.jobs, job);
        if wire.jobs.is_empty() {
            c.field("jobs", |c| {
                c.fault(Code::NothingToDo, "there are no jobs", "give at least one");
            });
            return None;
        }
        let cluster = Self {
            id: wire.id.clone(),
            groups: groups?,
            jobs: jobs?,
            sharing: Vec::new(),
            provenance: wire.provenance.clone(),
        };
        if !sound_jobs(&cluster, c) {
            return None;
        }
        let sharing = sharing::read(&wire.sharing, &cluster.groups, &cluster.jobs, c)?;
        Some(Self { sharing, ..cluster })
    }

    fn to_wire(&self) -> wire::Cluster {
        wire::Cluster {
            schema: wire::Cluster::SCHEMA.to_owned(),
            id: self.id.clone(),
            gpus: self
                .groups
                .iter()
                .map(|g| wire::ClusterGpu {
                    id: g.id.clone(),
                    kind: g.kind.clone(),
                    count: g.count,
                    node: g.node.clone(),
                    uuid: g.uuid.clone(),
                    memory_bytes: g.memory,
                    bus_bytes_per_s: g.bus,
                })
                .collect(),
            jobs: self.jobs.iter().map(job_to_wire).collect(),
            sharing: sharing::to_wire(&self.sharing, &self.jobs),
            provenance: self.provenance.clone(),
        }
    }
}

pub(crate) fn job_to_wire(job: &ClusterJob) -> wire::ClusterJob {
    let seconds = |table: &BTreeMap<String, Seconds>| {
        table.iter().map(|(k, v)| (k.clone(), v.get())).collect()
    };
    wire::ClusterJob {
        id: job.id.as_str().to_owned(),
        weight: job.weight.get(),
        arrival_s: job.arrival.get(),
        rounds: job.rounds,
        tasks_per_round: job.tasks,
        gang: job.gang.is_some(),
        same_node: job.gang == Some(Gang::SameNode),
        train_s: seconds(&job.train),
        sync_s: seconds(&job.sync),
        samples_per_task: job.samples,
        model_bytes: job.model_bytes,
        layers: job.layers.clone(),
        memory_bytes: job.memory,
        job: job.job.as_ref().map(Job::to_wire),
    }
}

/// An optional number that must be above 0.
fn positive(name: &str, value: Option<f64>, c: &mut Checker) -> Option<Option<f64>> {
    match value {
        Some(v) if !(v <= MOST && v > 0.0) => {
            c.field(name, |c| {
                let problem = format_args!("{} is out of range", shown(v));
                c.fault(
                    Code::OutOfRange,
                    problem,
                    "give a number above 0, at most 1e30",
                );
            });
            None
        }
        value => Some(value),
    }
}

fn named(name: &str, value: &str, c: &mut Checker) -> Option<()> {
    c.unit(name, TaskId::new(value)).map(|_| ())
}

/// Checks the length and the characters of a device name, which NVIDIA writes as `GPU-` and a UUID, or as
/// `MIG-GPU-.../1/0`.
fn device_name(uuid: &str, c: &mut Checker) -> Option<()> {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'/');
    let first = uuid
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    let sound = first && uuid.len() <= 128 && uuid.bytes().all(is_part);
    if !sound {
        c.field("uuid", |c| {
            let problem = format_args!("{uuid:?} is not a device name");
            let advice = "give it as `nvidia-smi -L` does: letters, digits, '-' and '/'";
            c.fault(Code::OutOfRange, problem, advice);
        });
    }
    sound.then_some(())
}

fn gpu(wire: &wire::ClusterGpu, c: &mut Checker) -> Option<GpuGroup> {
    let kind = named("type", &wire.kind, c);
    let id = wire.id.as_ref().map_or(Some(()), |id| named("id", id, c));
    // Node and device name appear in command lines (`--via`) and in environment variables of programs.
    let node = wire.node.as_ref().map_or(Some(()), |n| named("node", n, c));
    let uuid = wire.uuid.as_ref().map_or(Some(()), |u| device_name(u, c));
    let memory = positive("memory_bytes", wire.memory_bytes, c);
    let bus = positive("bus_bytes_per_s", wire.bus_bytes_per_s, c);
    let count = wire.count.unwrap_or(1) as usize;
    if count == 0 || count > MOST_GPUS {
        c.field("count", |c| {
            let problem = format_args!("{count} GPUs");
            c.fault(
                Code::OutOfRange,
                problem,
                format_args!("give 1 to {MOST_GPUS}"),
            );
        });
        return None;
    }
    kind.and(id).and(node).and(uuid)?;
    Some(GpuGroup {
        id: wire.id.clone(),
        kind: wire.kind.clone(),
        count: wire.count,
        node: wire.node.clone(),
        uuid: wire.uuid.clone(),
        memory: memory?,
        bus: bus?,
    })
}

fn sound_gpus(groups: &[GpuGroup], c: &mut Checker) -> bool {
    c.field("gpus", |c| {
        let count: usize = groups.iter().map(|g| g.count.unwrap_or(1) as usize).sum();
        if count == 0 {
            c.fault(Code::NothingToDo, "there are no GPUs", "give at least one");
            return false;
        }
        let bits = |v: Option<f64>| v.map(f64::to_bits);
        let kinds: HashSet<_> = groups
            .iter()
            .map(|g| (g.kind.as_str(), bits(g.memory), bits(g.bus)))
            .collect();
        if count > MOST_GPUS || kinds.len() > MOST_KINDS {
            let problem = format_args!("{count} GPUs of {} kinds", kinds.len());
            let advice = format_args!("give at most {MOST_GPUS} GPUs of {MOST_KINDS} kinds");
            c.fault(Code::TooMany, problem, advice);
            return false;
        }
        let mut seen = HashSet::new();
        let mut sound = true;
        for (i, group) in groups.iter().enumerate() {
            let twice = group
                .names()
                .into_iter()
                .find(|name| !seen.insert(name.clone()));
            if let Some(name) = twice {
                sound = false;
                let problem = format_args!("there is another GPU called {name:?}");
                c.index(i, |c| {
                    c.fault(Code::Duplicate, problem, "give each an `id` of its own")
                });
            }
        }
        sound
    })
}

pub(crate) fn job(wire: &wire::ClusterJob, c: &mut Checker) -> Option<ClusterJob> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let weight = c.unit("weight", Weight::new(wire.weight));
    let arrival = c.unit("arrival_s", Seconds::new(wire.arrival_s));
    let counts = [
        ("rounds", wire.rounds),
        ("tasks_per_round", wire.tasks_per_round),
    ];
    let mut sound = true;
    for (name, _) in counts.iter().filter(|(_, n)| *n == 0) {
        sound = false;
        c.field(name, |c| {
            c.fault(Code::OutOfRange, "0 is too few", "give 1 or more")
        });
    }
    let gang = match (wire.gang, wire.same_node) {
        (false, false) => None,
        (true, false) => Some(Gang::Anywhere),
        (true, true) => Some(Gang::SameNode),
        (false, true) => {
            sound = false;
            c.field("same_node", |c| {
                let problem = "it says where a gang runs, but this job is not a gang";
                c.fault(Code::Conflict, problem, "set `gang`, or leave it out");
            });
            None
        }
    };
    let train = table("train_s", &wire.train_s, f64::MIN_POSITIVE, c);
    let sync = table("sync_s", &wire.sync_s, 0.0, c);
    let samples = positive("samples_per_task", wire.samples_per_task, c);
    let model_bytes = positive("model_bytes", wire.model_bytes, c);
    let memory = positive("memory_bytes", wire.memory_bytes, c);
    let layers = c.list("layers", &wire.layers, |layer, c| {
        let bytes = c.unit("bytes", Seconds::new(layer.bytes));
        let compute = c.unit("compute_s", Seconds::new(layer.compute_s));
        bytes.and(compute).map(|_| *layer)
    });
    let program = match &wire.job {
        None => Some(None),
        Some(job) => c.field("job", |c| Job::from_wire(job, c)).map(Some),
    };
    sound.then_some(())?;
    Some(ClusterJob {
        id: id?,
        weight: weight?,
        arrival: arrival?,
        rounds: wire.rounds,
        tasks: wire.tasks_per_round,
        gang,
        train: train?,
        sync: sync?,
        samples: samples?,
        model_bytes: model_bytes?,
        layers: layers?,
        memory: memory?,
        job: program?,
    })
}

/// Reads a table of seconds by GPU type; each value must be at least `least`.
pub(crate) fn table(
    name: &str,
    wire: &BTreeMap<String, f64>,
    least: f64,
    c: &mut Checker,
) -> Option<BTreeMap<String, Seconds>> {
    c.field(name, |c| {
        let mut out = Some(BTreeMap::new());
        for (kind, &value) in wire {
            let seconds = c.unit(kind, Seconds::new(value));
            if seconds.is_some() && value < least {
                let problem = format_args!("{value} s is not a training time");
                c.field(kind, |c| {
                    c.fault(
                        Code::OutOfRange,
                        problem,
                        "give a number of seconds above 0",
                    );
                });
                out = None;
            }
            match (seconds, &mut out) {
                (Some(seconds), Some(out)) => {
                    out.insert(kind.clone(), seconds);
                }
                _ => out = None,
            }
        }
        out
    })
}

fn sound_jobs(cluster: &Cluster, c: &mut Checker) -> bool {
    let mut seen = HashSet::new();
    let mut sound = true;
    c.field("jobs", |c| {
        for (i, job) in cluster.jobs.iter().enumerate() {
            if !seen.insert(job.id.clone()) {
                sound = false;
                let problem = format_args!("there is another job called {}", job.id);
                c.index(i, |c| {
                    c.fault(Code::Duplicate, problem, "make the names differ")
                });
            }
            if !cluster.groups.iter().any(|g| job.times(g).is_some()) {
                sound = false;
                let advice = "give its training time on a type of GPU with enough memory";
                c.index(i, |c| {
                    c.fault(Code::Conflict, "no GPU can run this job", advice)
                });
                continue;
            }
            let most = cluster.most_at_once(job);
            if job.gang.is_some() && u64::from(job.tasks) > most {
                sound = false;
                let place = match job.gang {
                    Some(Gang::SameNode) => "one node has",
                    _ => "the cluster has",
                };
                let problem = format_args!("{} tasks at once, and {place} {most} GPUs for them", job.tasks);
                c.index(i, |c| {
                    c.field("tasks_per_round", |c| {
                        let advice = "give fewer tasks and more rounds, or no `gang` (`node` of GPUs says where they are)";
                        c.fault(Code::Conflict, problem, advice);
                    });
                });
            }
        }
        let all = cluster.volume();
        let at_once: u64 = cluster.jobs.iter().map(|job| u64::from(job.tasks)).sum();
        if all > Cluster::MOST_TASKS {
            sound = false;
            let problem = format_args!("{all} tasks");
            let advice = format_args!("merge rounds, to at most {} tasks", Cluster::MOST_TASKS);
            c.fault(Code::TooMany, problem, advice);
        }
        if at_once > Cluster::MOST_AT_ONCE {
            sound = false;
            let problem = format_args!("{at_once} tasks in a round of every job");
            let advice = format_args!("give at most {} in all", Cluster::MOST_AT_ONCE);
            c.fault(Code::TooMany, problem, advice);
        }
    });
    sound
}
