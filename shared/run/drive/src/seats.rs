//! How a task is started so that it runs on its GPU.

use doc::{Cluster, DeviceKind};
use jobs::cgroup::Cgroups;
use jobs::{JobSpec, RunDir};
use units::Share;

/// Where tasks run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// Each GPU is a part of this machine's processors, in proportion to how fast its type is.
    Processors,
    /// GPUs of this machine, by UUID.
    Cuda,
    /// Wherever a prefix starts them: words in which `{node}`, `{gpu}`, `{type}`, `{uuid}`, `{job}`,
    /// `{round}` and `{task}` are replaced.
    Via(Vec<String>),
}

impl Where {
    /// GPUs of this machine where the cluster names every one of them by UUID, else processors.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        if cluster.groups.iter().all(|g| g.uuid.is_some()) {
            Self::Cuda
        } else {
            Self::Processors
        }
    }

    /// On the device that was asked for; `None`: as [`Where::of`] says.
    ///
    /// # Errors
    /// [`Simulated`]: nothing of a schedule runs on the simulator.
    pub fn on(device: Option<DeviceKind>, cluster: &Cluster) -> Result<Self, Simulated> {
        match device {
            None | Some(DeviceKind::Auto) => Ok(Self::of(cluster)),
            Some(DeviceKind::Cpu) => Ok(Self::Processors),
            Some(DeviceKind::Cuda) => Ok(Self::Cuda),
            Some(DeviceKind::Sim | DeviceKind::Replay) => Err(Simulated),
        }
    }

    /// Behind a prefix where one is given, whose words are separated by blanks; else as [`Where::on`].
    ///
    /// # Errors
    /// Invalid options: a prefix without a word, or a device as of [`Where::on`].
    pub fn asked(
        via: Option<&str>,
        device: Option<DeviceKind>,
        cluster: &Cluster,
    ) -> Result<Self, String> {
        let Some(prefix) = via else {
            return Self::on(device, cluster).map_err(|e| e.to_string());
        };
        let words: Vec<String> = prefix.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err("--via: give at least the name of a program".to_owned());
        }
        Ok(Self::Via(words))
    }

    /// The word for it in `MT_DEVICE`.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Processors => "cpu",
            Self::Cuda | Self::Via(_) => "cuda",
        }
    }
}

/// A schedule was to be launched on the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a schedule is simulated by `mt-cluster online`; launch it with --device cpu or cuda")]
pub struct Simulated;

/// One GPU of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub name: String,
    pub kind: String,
    node: Option<String>,
    pub uuid: Option<String>,
    share: Share,
}

/// The GPUs, and what confines tasks to them.
#[derive(Debug)]
pub(crate) struct Seats {
    pub all: Vec<Seat>,
    place: Where,
    groups: Option<Cgroups>,
    /// Whether tasks may train on one GPU at once.
    shared: bool,
}

/// Who is started, for the words of a prefix.
pub(crate) struct Who<'a> {
    pub job: &'a str,
    pub round: usize,
    pub task: usize,
}

impl Seats {
    /// The seats of a cluster; the text is a note for people where control groups cannot be had.
    ///
    /// # Errors
    /// Fields that a prefix or CUDA needs but the cluster does not give, for each GPU.
    pub fn open(
        cluster: &Cluster,
        place: &Where,
        run: &mut RunDir,
    ) -> Result<(Self, Option<String>), String> {
        let all = seats(cluster);
        let lacks = |what: &str, has: fn(&Seat) -> bool| {
            let without: Vec<&str> = all
                .iter()
                .filter(|s| !has(s))
                .map(|s| s.name.as_str())
                .collect();
            if without.is_empty() {
                return Ok(());
            }
            Err(format!(
                "GPUs without `{what}`: {}; the cluster must give it",
                without.join(", ")
            ))
        };
        match place {
            Where::Cuda => lacks("uuid", |s| s.uuid.is_some())?,
            Where::Via(words) => {
                let uses = |word: &str| words.iter().any(|w| w.contains(word));
                if uses("{node}") {
                    lacks("node", |s| s.node.is_some())?;
                }
                if uses("{uuid}") {
                    lacks("uuid", |s| s.uuid.is_some())?;
                }
            }
            Where::Processors => {}
        }
        let mut note = None;
        let mut groups = None;
        if *place == Where::Processors {
            match Cgroups::create(run) {
                Ok(made) => groups = Some(made),
                Err(error) => {
                    note = Some(format!(
                        "tasks are not confined to parts of the machine: {error}"
                    ));
                }
            }
        }
        let place = place.clone();
        let shared = !cluster.sharing.is_empty();
        let seats = Self {
            all,
            place,
            groups,
            shared,
        };
        Ok((seats, note))
    }

    /// Lets a task run on its GPU, as the process number `slot` there.
    ///
    /// # Errors
    /// If its control group cannot be made.
    pub fn put(
        &self,
        (gpu, slot): (usize, usize),
        who: &Who<'_>,
        spec: &mut JobSpec,
    ) -> Result<(), String> {
        let seat = &self.all[gpu];
        let mut set = |name: &str, value: &str| {
            spec.env.insert(name.into(), value.into());
        };
        set("MT_GPU", &seat.name);
        set("MT_GPU_TYPE", &seat.kind);
        if let Some(node) = &seat.node {
            set("MT_NODE", node);
        }
        match &self.place {
            Where::Processors => {
                if let Some(groups) = &self.groups {
                    let slot = slot.to_string();
                    // Tasks that share a GPU have its part of the machine together, and not each.
                    let group = match self.shared {
                        true => groups.group_below(&seat.name, seat.share, &slot),
                        false => groups.group(&format!("{}.{slot}", seat.name), seat.share),
                    };
                    spec.cgroup_procs = Some(group.map_err(|e| e.to_string())?.procs());
                }
            }
            Where::Cuda => {
                // Every seat has one: it was looked at when they were opened.
                set(
                    "CUDA_VISIBLE_DEVICES",
                    seat.uuid.as_deref().unwrap_or_default(),
                );
            }
            Where::Via(words) => {
                let prefix = words.iter().map(|w| seat.replaced(w, who).into());
                let argv = std::mem::take(&mut spec.argv);
                spec.argv = prefix.chain(argv).collect();
            }
        }
        Ok(())
    }
}

impl Seat {
    /// Where the others of its gang find it: its node, or this machine.
    pub fn address(&self) -> &str {
        self.node.as_deref().unwrap_or("localhost")
    }

    fn replaced(&self, word: &str, who: &Who<'_>) -> String {
        word.replace("{node}", self.node.as_deref().unwrap_or_default())
            .replace("{gpu}", &self.name)
            .replace("{type}", &self.kind)
            .replace("{uuid}", self.uuid.as_deref().unwrap_or_default())
            .replace("{job}", who.job)
            .replace("{round}", &who.round.to_string())
            .replace("{task}", &who.task.to_string())
    }
}

/// Seats with their parts of the machine: a GPU's part is proportional to the mean over jobs of
/// (least training time / training time on its type), so that an emulated K80 is as much slower than an
/// emulated V100 as the jobs say. All parts together are the machine.
fn seats(cluster: &Cluster) -> Vec<Seat> {
    let speed = |group: &doc::GpuGroup| {
        let relative = cluster.jobs.iter().filter_map(|job| {
            let all = cluster.groups.iter().filter_map(|g| job.times(g));
            let least = all.map(|t| t.0).fold(f64::INFINITY, f64::min);
            Some(least / job.times(group)?.0)
        });
        let (sum, count) = relative.fold((0.0, 0.0), |(s, c), x| (s + x, c + 1.0));
        if count > 0.0 { sum / count } else { 1.0 }
    };
    let speeds: Vec<f64> = cluster.groups.iter().map(speed).collect();
    let of_gpu = cluster.gpu_groups();
    let whole: f64 = of_gpu.iter().map(|&g| speeds[g]).sum();
    let names = cluster.gpu_names();
    let seat = |(name, &g): (String, &usize)| {
        let group = &cluster.groups[g];
        let hundredths = (1e4 * speeds[g] / whole).clamp(1.0, 1e4);
        Seat {
            name,
            kind: group.kind.clone(),
            node: group.node.clone(),
            uuid: group.uuid.clone(),
            share: Share::from_hundredths(hundredths as u32),
        }
    };
    names.into_iter().zip(&of_gpu).map(seat).collect()
}
