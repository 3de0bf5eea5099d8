//! Starts a task such that it runs on its GPU.

use doc::{Cluster, DeviceKind};
use units::Share;

/// Where tasks run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Where {
    /// On parts of this machine's processors: each GPU is a part in proportion to the speed of its type.
    Processors,
    /// On GPUs of this machine, by UUID.
    Cuda,
    /// Where a prefix command starts them. In its words, `{node}`, `{gpu}`, `{type}`, `{uuid}`, `{job}`, `{round}` and
    /// `{task}` are replaced.
    Via(Vec<String>),
}

impl Where {
    /// GPUs of this machine if the cluster has a UUID for every GPU, otherwise processors.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        if cluster.groups.iter().all(|g| g.uuid.is_some()) {
            Self::Cuda
        } else {
            Self::Processors
        }
    }

    /// The requested device; `None`: as [`Where::of`].
    ///
    /// # Errors
    /// [`Simulated`] for the simulator, on which schedules cannot run.
    pub fn on(device: Option<DeviceKind>, cluster: &Cluster) -> Result<Self, Simulated> {
        match device {
            None | Some(DeviceKind::Auto) => Ok(Self::of(cluster)),
            Some(DeviceKind::Cpu) => Ok(Self::Processors),
            Some(DeviceKind::Cuda) => Ok(Self::Cuda),
            Some(DeviceKind::Sim | DeviceKind::Replay) => Err(Simulated),
        }
    }

    /// Behind a prefix command, if one is given (words separated by blanks); otherwise as [`Where::on`].
    ///
    /// # Errors
    /// A message for invalid options: a prefix without a word, or the error of [`Where::on`].
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
}

/// A launch of a schedule on the simulator was requested.
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

/// The GPUs.
#[derive(Debug)]
pub(crate) struct Seats {
    pub all: Vec<Seat>,
    place: Where,
}

/// The task that is started, for the placeholders of a prefix.
pub(crate) struct Who<'a> {
    pub job: &'a str,
    pub round: usize,
    pub task: usize,
}

impl Seats {
    /// The seats of a cluster.
    ///
    /// # Errors
    /// For each GPU, fields that a prefix or CUDA needs but the cluster lacks.
    pub fn of(cluster: &Cluster, place: &Where) -> Result<Self, String> {
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
        let place = place.clone();
        Ok(Self { all, place })
    }

    /// Variables that describe its GPU to a task.
    pub fn variables(&self, gpu: usize) -> Vec<(String, String)> {
        let seat = &self.all[gpu];
        let mut all = vec![
            ("MT_GPU".to_owned(), seat.name.clone()),
            ("MT_GPU_TYPE".to_owned(), seat.kind.clone()),
        ];
        all.extend(seat.node.clone().map(|node| ("MT_NODE".to_owned(), node)));
        all
    }

    /// The command of a task on its GPU, behind the prefix if there is one.
    pub fn command(&self, gpu: usize, who: &Who<'_>, argv: &[String]) -> Vec<String> {
        let Where::Via(words) = &self.place else {
            return argv.to_vec();
        };
        let prefix = words.iter().map(|w| self.all[gpu].replaced(w, who));
        prefix.chain(argv.iter().cloned()).collect()
    }

    /// The UUIDs of the GPUs; empty on processors.
    pub fn uuids(&self) -> Vec<String> {
        self.all.iter().filter_map(|s| s.uuid.clone()).collect()
    }

    /// The GPUs as parts of the processors.
    pub fn parts(&self) -> Vec<(String, Share)> {
        self.all.iter().map(|s| (s.name.clone(), s.share)).collect()
    }
}

impl Seat {
    /// Address at which the other tasks of its gang reach it: its node, or this machine.
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

/// Seats with their parts of the machine. A GPU's part is proportional to the mean over jobs of (least training time /
/// training time on its type), so that the speed ratio of an emulated K80 to an emulated V100 agrees with the jobs. The
/// parts add up to the whole machine.
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
