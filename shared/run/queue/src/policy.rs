//! Decides which jobs run.
//!
//! The policy sees the [`Book`], the progress of jobs, the state of devices and the current time; it starts no process
//! and reads no clock. The server carries out its decisions and writes them to the journal, so the book contains them
//! at the next call.

mod choose;
mod ending;
mod place;

use std::collections::{BTreeMap, BTreeSet};

use crate::book::{Book, Demand, Entry, Id, JobEnd, Record};
use crate::devices::{Device, Sight, Spot};
use crate::explore::Explorer;
use crate::failures::Failures;
use crate::index::Kind;
use crate::lane::Lane;
pub use crate::lane::Wait;
use crate::learnt::Learnt;
use crate::processors::Look;

/// Limits on the jobs that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of jobs at once, on all devices together.
    pub most: usize,
    /// Bytes of each device's memory that running jobs may request; absent: all that it has.
    pub memory: Option<u64>,
}

/// Actions, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Start a job at this spot.
    Start(Id, Spot),
    /// End a running job.
    Stop(Id),
    /// A waiting job will never be started; the reason.
    Skip(Id, String),
}

/// The GPU fault with which a job ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// None is known.
    #[default]
    None,
    /// The job caused it: it was the first client of its MPS server that died of a fault.
    Own,
    /// The job did not cause it: a fatal fault of another client, the death of the MPS daemon, or the loss of the
    /// device.
    Foreign,
}

/// How a run of a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// How it ended.
    pub outcome: JobEnd,
    /// It ran out of memory.
    pub out_of_memory: bool,
    /// A fault of its device.
    pub fault: Fault,
    /// Peak memory on its device, in bytes.
    pub peak: Option<u64>,
}

impl From<JobEnd> for Gone {
    /// An end that was caused neither by a lack of memory nor by a fault.
    fn from(outcome: JobEnd) -> Self {
        Self {
            outcome,
            out_of_memory: false,
            fault: Fault::None,
            peak: None,
        }
    }
}

/// The policy.
#[derive(Debug)]
pub struct Policy {
    limits: Limits,
    lanes: Vec<Lane>,
    /// Name of each kind of device, with what is learnt about it.
    kinds: Vec<(String, Explorer)>,
    /// Devices and shares of running jobs.
    spots: BTreeMap<Id, Spot>,
    /// Since when later jobs have overtaken a waiting job.
    passed: BTreeMap<Id, f64>,
    failures: Failures,
    stopped: BTreeSet<Id>,
    /// Running jobs that ran beside another job at some time.
    beside: BTreeSet<Id>,
    /// Why the jobs of each kind wait; `rest` applies to all other kinds.
    waits: BTreeMap<Kind, Wait>,
    rest: Wait,
}

impl Policy {
    /// A policy for these devices with limits, and with earlier results for each kind of device.
    #[must_use]
    pub fn new(
        devices: Vec<Device>,
        limits: Limits,
        learnt: &BTreeMap<String, BTreeMap<String, Learnt>>,
    ) -> Self {
        let mut lanes = Vec::new();
        let mut kinds = Vec::<(String, Explorer)>::new();
        for device in devices {
            let known = kinds.iter().position(|(name, _)| *name == device.kind);
            let kind = known.unwrap_or_else(|| {
                let learnt = learnt.get(&device.kind).cloned().unwrap_or_default();
                let shared = Explorer::new(learnt, device.clients.min(limits.most));
                let explorer = match device.cores {
                    Some(cores) => shared.on_processors(cores),
                    None => shared,
                };
                kinds.push((device.kind.clone(), explorer));
                kinds.len() - 1
            });
            lanes.push(Lane::new(device, kind));
        }
        Self {
            limits,
            lanes,
            kinds,
            spots: BTreeMap::new(),
            passed: BTreeMap::new(),
            failures: Failures::default(),
            stopped: BTreeSet::new(),
            beside: BTreeSet::new(),
            waits: BTreeMap::new(),
            rest: Wait::Turn,
        }
    }

    /// The devices, in the order of their positions.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.lanes.iter().map(|lane| &lane.device)
    }

    /// What it has learnt about templates, by kind of device.
    pub fn learnt(&self) -> impl Iterator<Item = (&String, &BTreeMap<String, Learnt>)> {
        let all = self.kinds.iter();
        all.map(|(kind, explorer)| (kind, explorer.learnt()))
    }

    /// The experiments under way, as messages.
    #[must_use]
    pub fn tries(&self) -> Vec<String> {
        let all = self
            .kinds
            .iter()
            .flat_map(|(_, explorer)| explorer.testing());
        all.map(|(mix, number, cap)| match cap {
            100 => format!("{number} at once of {mix}"),
            _ => format!("{number} at once, each under {cap} %, of {mix}"),
        })
        .collect()
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Changes the limits.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        for lane in &self.lanes {
            let most = lane.device.clients.min(limits.most);
            self.kinds[lane.kind].1.limit(most);
        }
    }

    /// Bytes that jobs may request of a device.
    #[must_use]
    pub fn memory(&self, device: usize) -> u64 {
        let total = self.lanes.get(device).map_or(0, |lane| lane.device.total);
        self.limits.memory.unwrap_or(total)
    }

    /// Takes a new observation of a device.
    pub fn sees(&mut self, device: usize, sight: Sight, now: f64) {
        if let Some(lane) = self.lanes.get_mut(device) {
            lane.sees(device, sight, &mut self.kinds[lane.kind].1, now);
            self.spread();
        }
    }

    /// Copies known memory needs to other kinds of GPUs, where a job needs about as much; a measurement there replaces
    /// the copy. Not those of jobs that ended before their memory was flat: where jobs run longer, they may reach more,
    /// so the first one on each kind shows what it needs. (Two jobs of 7 GB ran out of memory together on a slower GPU
    /// in 2 of 13 runs, because those on the faster one had ended at 5 GB.)
    fn spread(&mut self) {
        let mut gpus: Vec<&mut Explorer> = self.kinds.iter_mut().map(|(_, e)| e).collect();
        gpus.retain(|explorer| !explorer.is_on_processors());
        if gpus.len() < 2 {
            return;
        }
        let peaks: Vec<(String, u64)> = gpus
            .iter()
            .flat_map(|explorer| explorer.learnt())
            .filter(|(_, learnt)| !learnt.growing)
            .filter_map(|(template, learnt)| Some((template.clone(), learnt.peak?)))
            .collect();
        for (template, peak) in peaks {
            for explorer in &mut gpus {
                explorer.learnt_mut(&template).peak.get_or_insert(peak);
            }
        }
    }

    /// Devices and share of a running job.
    #[must_use]
    pub fn spot(&self, id: Id) -> Option<&Spot> {
        self.spots.get(&id)
    }

    /// Why a job waits, as a sentence for users; empty if it does not wait.
    #[must_use]
    pub fn why(&self, book: &Book, id: Id) -> String {
        let told = book.entries.get(&id).zip(self.wait(book, id));
        told.map_or_else(String::new, |(entry, wait)| self.explain(book, entry, wait))
    }

    fn explain(&self, book: &Book, entry: &Entry, wait: Wait) -> String {
        let demand = book.demand(entry);
        let only = demand.only.as_deref();
        let fixed = match wait {
            Wait::Paused => "the queue is paused",
            Wait::Held => "it is held (mt pause --off releases it)",
            Wait::Turn => "more at once would not increase throughput",
            Wait::Most => "as many jobs run as may",
            Wait::Alone => "it must run alone, or another job does",
            Wait::Reserved => "the place is reserved for an earlier job",
            Wait::After => "another job must be done before",
            Wait::Group => "as many jobs of its group run as may",
            Wait::Promise => {
                let template = &entry.job.template;
                let percent = demand.at_most_slower;
                let told = self.allowed(only).filter_map(|at| {
                    let name = self.lanes[at].device.label(at);
                    Some(format!(
                        "{name}: {}",
                        self.explorer(at).slowed(at, template, percent)?
                    ))
                });
                return told.collect::<Vec<_>>().join("; ");
            }
            Wait::Memory | Wait::Device => {
                let kind = Kind::of(entry, &demand);
                let told = self
                    .allowed(only)
                    .map(|at| self.lanes[at].told(at, &kind, self.memory(at), self.explorer(at)));
                return told.collect::<Vec<_>>().join("; ");
            }
        };
        fixed.to_owned()
    }

    /// What is learnt about the kind of a device.
    fn explorer(&self, at: usize) -> &Explorer {
        &self.kinds[self.lanes[at].kind].1
    }

    /// Whether a job may use a device.
    #[must_use]
    pub fn may_use(&self, demand: &Demand, device: usize) -> bool {
        let mut allowed = self.allowed(demand.only.as_deref());
        allowed.any(|at| at == device)
    }

    /// Positions of the devices that a job may use.
    fn allowed<'a>(&'a self, only: Option<&'a [String]>) -> impl Iterator<Item = usize> + 'a {
        // Jobs that make no choice run on GPUs if there are any.
        let has_gpu = self.lanes.iter().any(|lane| lane.device.cores.is_none());
        let may = move |lane: &Lane| match only {
            Some(only) => only.contains(&lane.device.id),
            None => lane.device.cores.is_none() || !has_gpu,
        };
        let all = self.lanes.iter().enumerate();
        all.filter(move |(_, lane)| may(lane)).map(|(at, _)| at)
    }

    /// Why a job waits, according to the last decision.
    #[must_use]
    pub fn wait(&self, book: &Book, id: Id) -> Option<Wait> {
        let entry = book.entries.get(&id)?;
        if entry.is_running() || entry.is_ended() {
            return None;
        }
        Some(match (book.paused, entry.held) {
            (true, _) => Wait::Paused,
            (_, true) => Wait::Held,
            _ => {
                let kind = Kind::of(entry, &book.demand(entry));
                self.waits.get(&kind).copied().unwrap_or(self.rest)
            }
        })
    }

    /// Jobs of a template were added: the user may have fixed what failed.
    pub fn added(&mut self, template: &str) {
        self.failures.forget(template);
    }

    /// A job runs at this spot: it was just started, or a new server found it running.
    pub fn started(&mut self, entry: &Entry, spot: &Spot, now: f64) {
        let (id, template) = (entry.job.id, &entry.job.template);
        self.passed.remove(&id);
        self.spots.insert(id, spot.clone());
        let cap = spot.share.percent().round() as u32;
        for &at in &spot.devices {
            let Some(lane) = self.lanes.get(at) else {
                continue;
            };
            let explorer = &mut self.kinds[lane.kind].1;
            explorer.started(id, template, at, cap, now);
            if explorer.running(at) > 1 {
                self.beside.extend(explorer.ids(at));
            }
        }
    }

    /// A job had done `work` (in its own unit) of `of`, if it tells that, at time `at`.
    pub fn progress(&mut self, id: Id, at: f64, work: f64, of: Option<f64>) {
        for kind in self.kinds_of(id) {
            self.kinds[kind].1.progress(id, at, work, of);
        }
    }

    /// Load of the processors and of the jobs since the previous observation.
    pub fn look(&mut self, look: &Look) {
        for (_, explorer) in &mut self.kinds {
            explorer.look(look);
        }
    }

    /// Percent by which a running job has been slower than alone so far, estimated from the measured ratios of its mix;
    /// `None` if not measured.
    #[must_use]
    pub fn slower(&self, id: Id) -> Option<f64> {
        let at = *self.spots.get(&id)?.devices.first()?;
        self.explorer(at).slower(id)
    }

    /// All processes of a running job have ended; returns the record for the journal. If a job runs out of memory for
    /// the first time, that is not its fault: it waits again, and the known need of its template is raised. From the
    /// second time on, and where memory is not observed, a job that shared its device at any time waits again to run
    /// alone; "at any time" because the other job may have ended between the failed allocation and the exit. A job that
    /// may be started only once has failed.
    ///
    /// If a fault of an MPS server ended several jobs, the one that caused it runs alone from then on, and all others
    /// wait again as if they had not been started.
    pub fn exited(&mut self, book: &Book, entry: &Entry, gone: Gone, now: f64) -> Record {
        let id = entry.job.id;
        let may_start_again = !entry.cancelled && !book.demand(entry).once;
        let again = may_start_again.then(|| self.again(entry, &gone)).flatten();
        if !gone.out_of_memory {
            self.remember(entry, gone.peak);
        }
        if let Some(alone) = again {
            self.gone(entry, false, now);
            return Record::Returned { id, alone };
        }
        let outcome = match entry.cancelled {
            true => JobEnd::Cancelled,
            false => gone.outcome,
        };
        self.ended(entry, &outcome, now);
        Record::Ended {
            id,
            at_s: now,
            outcome,
        }
    }

    /// Whether a job waits again for a reason that is not its fault, and if so, whether to run alone.
    fn again(&mut self, entry: &Entry, gone: &Gone) -> Option<bool> {
        let (id, template) = (entry.job.id, &entry.job.template);
        let was_beside = self.beside.contains(&id);
        if gone.fault == Fault::Foreign {
            return Some(false);
        }
        if entry.alone || !gone.out_of_memory && gone.fault == Fault::None {
            return None;
        }
        if gone.fault == Fault::Own {
            return was_beside.then_some(true);
        }
        let spot = self.spots.get(&id)?.clone();
        for &at in &spot.devices {
            let Some(lane) = self.lanes.get(at) else {
                continue;
            };
            let explorer = &mut self.kinds[lane.kind].1;
            let is_first = lane.short(id, template, gone.peak, explorer);
            // A process from outside the queue also means that the job was not alone.
            if is_first && (was_beside || lane.has_strangers()) {
                return Some(false);
            }
            if was_beside && !lane.is_seen() {
                explorer.too_many(template, explorer.running(at).max(2));
            }
        }
        was_beside.then_some(true)
    }

    /// Records the peak memory of an ended job on its device.
    fn remember(&mut self, entry: &Entry, peak: Option<u64>) {
        let spot = self.spots.get(&entry.job.id);
        for &at in spot.into_iter().flat_map(|spot| &spot.devices) {
            if let Some(lane) = self.lanes.get(at) {
                let explorer = &mut self.kinds[lane.kind].1;
                lane.remember(entry.job.id, &entry.job.template, peak, explorer);
            }
        }
    }

    /// A job has ended.
    pub fn ended(&mut self, entry: &Entry, outcome: &JobEnd, now: f64) {
        self.gone(entry, *outcome == JobEnd::Done, now);
        self.failures.ended(entry, outcome, now);
    }

    /// A decided start failed.
    pub fn unstarted(&mut self, entry: &Entry, now: f64) {
        self.gone(entry, false, now);
    }

    fn gone(&mut self, entry: &Entry, done: bool, now: f64) {
        let id = entry.job.id;
        self.stopped.remove(&id);
        self.beside.remove(&id);
        for kind in self.kinds_of(id) {
            self.kinds[kind].1.ended(id, done, now);
        }
        let spot = self.spots.remove(&id);
        for at in spot.into_iter().flat_map(|spot| spot.devices) {
            if let Some(lane) = self.lanes.get_mut(at) {
                lane.gone(id);
            }
        }
    }

    /// Kinds of the devices on which a job runs.
    fn kinds_of(&self, id: Id) -> BTreeSet<usize> {
        let devices = self
            .spots
            .get(&id)
            .into_iter()
            .flat_map(|spot| &spot.devices);
        let lanes = devices.filter_map(|&at| self.lanes.get(at));
        lanes.map(|lane| lane.kind).collect()
    }
}
