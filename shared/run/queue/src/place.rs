//! The device of jobs: processors, with a quota for each job if control groups can be written, or a GPU under MPS.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use host::discovery;
use jobs::RunDir;
use jobs::cgroup::{Cgroups, Enclosures, cores};
use jobs::mps::{Mps, MpsOptions};
use units::Share;

use crate::book::Wishes;
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
    Quotas(Cgroups),
    Plain,
    Gpu { mps: Mps, uuid: String },
}

/// Start parameters of a job at its place.
#[derive(Debug, Default)]
pub struct Seat {
    /// Which.
    pub number: usize,
    /// `cgroup.procs` of its control group.
    pub procs: Option<PathBuf>,
    /// Variables.
    pub env: Vec<(OsString, OsString)>,
}

/// Maximum number of jobs per processor: if trainings wait for data or for a disk nine tenths of the time, this many
/// keep a processor busy four fifths of the time.
const PER_CORE: usize = 16;

impl Place {
    /// Opens the device: a GPU that MPS can share if there is one, otherwise the processors. Created resources are in
    /// the ledger of the run; also returns why a share is not enforced.
    ///
    /// # Errors
    /// If the daemon of a GPU does not start.
    pub fn open(run: &mut RunDir, cpu: bool) -> Result<(Self, Option<String>), String> {
        if !cpu && let Ok(mut gpus) = discovery::shareable(&[], 1) {
            let gpu = gpus.swap_remove(0);
            let mut options = MpsOptions::from_environment().map_err(|e| e.to_string())?;
            options.gpus = vec![gpu.uuid.clone()];
            let mps = Mps::start(&options).map_err(|e| e.to_string())?;
            let place = Self {
                name: gpu.name,
                memory: gpu.memory.get(),
                clients: discovery::client_limit(gpu.cuda_version),
                taken: Vec::new(),
                kind: Kind::Gpu {
                    mps,
                    uuid: gpu.uuid,
                },
            };
            return Ok((place, None));
        }
        let (kind, note) = match Cgroups::create(run) {
            Ok(groups) => (Kind::Quotas(groups), None),
            Err(error) => (
                Kind::Plain,
                Some(format!("jobs run without shares: {error}")),
            ),
        };
        let name = format!("{} processors", cores());
        let (memory, clients) = (machine_memory(), (PER_CORE * cores()).max(8));
        let taken = Vec::new();
        Ok((
            Self {
                kind,
                taken,
                name,
                memory,
                clients,
            },
            note,
        ))
    }

    /// Groups for jobs that need no quota.
    pub fn enclosures(&self, run: &mut RunDir) -> Option<Enclosures> {
        match self.kind {
            Kind::Quotas(_) => None,
            Kind::Plain | Kind::Gpu { .. } => Enclosures::create(run),
        }
    }

    /// Limits of this device.
    #[must_use]
    pub fn limits(&self, wishes: &Wishes) -> Limits {
        let most = wishes.most.unwrap_or(self.clients);
        let regrants = matches!(self.kind, Kind::Quotas(_));
        // Shares are not divided; only admission is decided. On a GPU, shares cannot be changed while a job runs. On
        // processors, a quota keeps a job from using what others leave idle: eight jobs that wait three quarters of
        // the time, each under a quarter of two processors, are throttled whenever they compute.
        let whole = Share::FULL.hundredths();
        let all = whole.saturating_mul(u32::try_from(most).unwrap_or(u32::MAX));
        Limits {
            most: most.min(self.clients),
            memory: wishes.memory.unwrap_or(self.memory),
            total_share: all,
            regrants,
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
        let Kind::Gpu { mps, uuid } = &self.kind else {
            return BTreeMap::new();
        };
        let mut all = mps.client_environment(Share::FULL);
        all.push(("CUDA_VISIBLE_DEVICES".into(), uuid.into()));
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        all.into_iter().filter_map(text).collect()
    }

    /// A place for a job.
    ///
    /// # Errors
    /// If its control group cannot be created.
    pub fn take(&mut self, share: Share) -> Result<Seat, String> {
        let number = self.taken.iter().position(|taken| !taken);
        let number = number.unwrap_or(self.taken.len());
        let mut seat = Seat {
            number,
            ..Seat::default()
        };
        match &self.kind {
            Kind::Quotas(groups) => {
                let group = groups
                    .group(&name(number), share)
                    .map_err(|e| e.to_string())?;
                seat.procs = Some(group.procs());
            }
            Kind::Plain => {}
            Kind::Gpu { mps, uuid } => {
                seat.env = mps.client_environment(share);
                seat.env.push(("CUDA_VISIBLE_DEVICES".into(), uuid.into()));
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

    /// Changes the share of the job on a place.
    ///
    /// # Errors
    /// If its quota cannot be written.
    pub fn regrant(&self, number: usize, share: Share) -> Result<(), String> {
        let Kind::Quotas(groups) = &self.kind else {
            return Ok(());
        };
        let changed = groups.group(&name(number), share);
        changed.map(drop).map_err(|error| error.to_string())
    }
}

/// Name of the control group of a place. Processes left in a group when its job ends are killed, so that the next job
/// at the place finds it empty.
fn name(number: usize) -> String {
    format!("place-{number}")
}

/// Bytes of memory of this machine.
fn machine_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    // Without /proc the memory is unknown, and nothing is refused.
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024))
}
