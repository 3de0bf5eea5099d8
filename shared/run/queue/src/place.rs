//! The device of jobs: processors, or a GPU under MPS.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use host::discovery;
use jobs::RunDir;
use jobs::cgroup::{Cgroups, cores};
use jobs::mps::{Mps, MpsOptions};
use units::Share;

use crate::book::{Group, QueuedJob, Wishes};
use crate::devices::{CPU, Device};
use crate::policy::Limits;

/// The device of a server.
#[derive(Debug)]
pub struct Place {
    kind: Kind,
    /// Places of jobs that are taken; the number of a place is that of its control group.
    taken: Vec<bool>,
    /// Its name, for messages and for the store of what was learnt.
    pub name: String,
    memory: u64,
    clients: usize,
}

#[derive(Debug)]
enum Kind {
    /// With the groups of jobs that have a share, from the first such job on. Only these jobs are in a group of the cpu
    /// controller: the kernel divides time between such groups first and within them second, and trainings whose
    /// threads wake each other thousands of times a second took 17 % longer under it.
    Processors(Option<Cgroups>),
    Gpu {
        mps: Mps,
        uuid: String,
        /// GPUs that the server saw, in the order of their numbers.
        seen: Vec<String>,
        /// What it was told to see.
        told: Option<String>,
    },
}

/// The variable by which a program is told which GPUs it sees.
pub(crate) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Whether a value of [`VISIBLE`] shows no GPU: it ends at the first number that no GPU has.
pub(crate) fn is_none(choice: &str) -> bool {
    let first = choice.split(',').next().unwrap_or_default().trim();
    first.is_empty() || first.starts_with('-') || first == "NoDevFiles"
}

/// Start parameters of a job at its place.
#[derive(Debug, Default)]
pub struct Seat {
    /// Which.
    pub number: usize,
    /// `cgroup.procs` of the control group that has its share.
    pub procs: Option<PathBuf>,
    /// Why its share is not enforced.
    pub trouble: Option<String>,
    /// Variables.
    pub env: Vec<(OsString, OsString)>,
}

/// Maximum number of jobs per processor: if trainings wait for data or for a disk nine tenths of the time, this many
/// keep a processor busy four fifths of the time.
const PER_CORE: usize = 16;

/// Whether a value of [`VISIBLE`] shows this GPU alone, or none, where a server that was `told` to see some saw `seen`.
fn shows(choice: &str, uuid: &str, seen: &[String], told: Option<&str>) -> bool {
    // With the server's own value, numbers mean the same GPUs as there.
    if is_none(choice) || Some(choice) == told {
        return true;
    }
    match choice.trim().parse::<usize>() {
        Ok(number) => told.is_none() && seen.get(number).is_some_and(|seen| seen == uuid),
        // The beginning of a name is enough. A list of several is none.
        Err(_) => uuid.starts_with(choice.trim()),
    }
}

impl Place {
    /// Opens the device: a GPU that MPS can share if there is one and `cpu` is not set, otherwise the processors.
    ///
    /// # Errors
    /// If the daemon of a GPU does not start.
    pub fn open(cpu: bool) -> Result<Self, String> {
        if !cpu && let Ok(mut gpus) = discovery::shareable(&[], 1) {
            let told = std::env::var(VISIBLE).ok();
            let seen = match discovery::discover() {
                Ok(all) => all.into_iter().map(|gpu| gpu.uuid).collect(),
                Err(_) => gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
            };
            let gpu = gpus.swap_remove(0);
            let mut options = MpsOptions::from_environment().map_err(|e| e.to_string())?;
            options.gpus = vec![gpu.uuid.clone()];
            let mps = Mps::start(&options).map_err(|e| e.to_string())?;
            return Ok(Self {
                name: gpu.name,
                memory: gpu.memory.get(),
                clients: discovery::client_limit(gpu.cuda_version),
                taken: Vec::new(),
                kind: Kind::Gpu {
                    mps,
                    uuid: gpu.uuid,
                    seen,
                    told,
                },
            });
        }
        Ok(Self {
            kind: Kind::Processors(None),
            taken: Vec::new(),
            name: format!("{} processors", cores()),
            memory: jobs::Ram::now().total,
            clients: (PER_CORE * cores()).max(8),
        })
    }

    /// Checks that a job may run here: it sees the GPU of the queue and no other, or none.
    ///
    /// # Errors
    /// What it asks for, and what the queue has.
    pub(crate) fn admits(&self, group: &Group, job: &QueuedJob) -> Result<(), String> {
        let Kind::Gpu {
            uuid, seen, told, ..
        } = &self.kind
        else {
            return Ok(());
        };
        let Some(choice) = job.set.get(VISIBLE).or_else(|| group.env.get(VISIBLE)) else {
            return Ok(());
        };
        if shows(choice, uuid, seen, told.as_deref()) {
            return Ok(());
        }
        Err(format!(
            "{VISIBLE} is {choice:?}, but this queue runs jobs on {uuid} only; unset it, or use another queue (--queue DIR) whose server is started with that value"
        ))
    }

    /// Limits of this device.
    #[must_use]
    pub fn limits(&self, wishes: &Wishes) -> Limits {
        let most = wishes.most.unwrap_or(self.clients);
        Limits {
            most: most.min(self.clients),
            memory: wishes.memory,
        }
    }

    /// The device, for the policy.
    #[must_use]
    pub fn device(&self) -> Device {
        let id = match &self.kind {
            Kind::Gpu { uuid, .. } => uuid.clone(),
            Kind::Processors(_) => CPU.to_owned(),
        };
        Device {
            id,
            kind: self.name.clone(),
            total: self.memory,
            clients: self.clients,
            cores: self.processors(),
        }
    }

    /// Number of processors that jobs run on; `None` on a GPU.
    #[must_use]
    pub fn processors(&self) -> Option<usize> {
        (!matches!(self.kind, Kind::Gpu { .. })).then(cores)
    }

    /// Variables of a program that another program starts, without its share.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, String> {
        let Kind::Gpu { mps, uuid, .. } = &self.kind else {
            return BTreeMap::new();
        };
        let mut all = mps.client_environment(Share::FULL);
        all.push(("CUDA_VISIBLE_DEVICES".into(), uuid.into()));
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        all.into_iter().filter_map(text).collect()
    }

    /// A place for a job. Created groups are in the ledger of the run.
    ///
    /// # Errors
    /// If its control group cannot be created.
    pub fn take(&mut self, run: &mut RunDir, share: Share) -> Result<Seat, String> {
        let number = self.taken.iter().position(|taken| !taken);
        let number = number.unwrap_or(self.taken.len());
        let mut seat = Seat {
            number,
            ..Seat::default()
        };
        match &mut self.kind {
            Kind::Processors(_) if share >= Share::FULL => {}
            Kind::Processors(groups) => {
                let made = match groups.take() {
                    Some(groups) => Ok(groups),
                    None => Cgroups::create(run),
                };
                match made {
                    Ok(made) => {
                        let group = made.group(&name(number), share);
                        *groups = Some(made);
                        seat.procs = Some(group.map_err(|e| e.to_string())?.procs());
                    }
                    Err(error) => {
                        seat.trouble = Some(format!("jobs run without shares: {error}"));
                    }
                }
            }
            Kind::Gpu { mps, uuid, .. } => {
                seat.env = mps.client_environment(share);
                seat.env
                    .push(("CUDA_VISIBLE_DEVICES".into(), (&*uuid).into()));
            }
        }
        if number == self.taken.len() {
            self.taken.push(true);
        }
        self.taken[number] = true;
        Ok(seat)
    }

    /// The job of a place has ended.
    pub fn free(&mut self, number: usize) {
        if let Some(taken) = self.taken.get_mut(number) {
            *taken = false;
        }
    }
}

/// Name of the control group of a place. Processes left in a group when its job ends are killed, so that the next job
/// at the place finds it empty.
fn name(number: usize) -> String {
    format!("place-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_of_gpus_is_granted_if_it_is_the_gpu_of_the_queue() {
        let seen = ["GPU-ab", "GPU-cd"].map(str::to_owned);
        let shows = |choice, told| shows(choice, "GPU-cd", &seen, told);
        for choice in ["1", " 1", "GPU-cd", "GPU-c", "", "-1", "NoDevFiles"] {
            assert!(shows(choice, None), "{choice:?}");
        }
        for choice in ["0", "2", "0,1", "1,0", "GPU-ab", "GPU-cd,GPU-ab", "MIG-cd"] {
            assert!(!shows(choice, None), "{choice:?}");
        }
        // The server sees some GPUs only, under other numbers.
        assert!(shows("3", Some("3")) && !shows("1", Some("3")));
        assert!(shows("1,3", Some("1,3")) && shows("GPU-cd", Some("3")));
    }
}
