//! A device with its running jobs, and whether another job fits.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::book::Id;
use crate::devices::{Device, Sight};
use crate::explore::Explorer;
use crate::index::Kind;

/// Why a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// The queue is paused.
    Paused,
    /// It is held.
    Held,
    /// More jobs at once would not increase throughput according to the measurements so far.
    Turn,
    /// The maximum number of jobs is running.
    Most,
    /// The running jobs leave too little memory.
    Memory,
    /// It must run alone, or another job does.
    Alone,
    /// An earlier job has waited so long that its place is reserved.
    Reserved,
    /// Another job must succeed first.
    After,
    /// The limit of its group is reached.
    Group,
    /// The devices that it may use are lost, or it needs more devices than there are.
    Device,
    /// It, or a job beside it, would be slowed down by more than `at_most_slower` allows.
    Promise,
}

/// Tolerance for sums of fractions.
pub(crate) const SLACK: f64 = 1e-9;
/// Seconds without growth after which the memory of a running job counts as its peak. A training allocates in its first
/// steps; memory that an evaluation adds later is recorded when it happens.
const FLAT: f64 = 3.0;
/// The same for a job that reports nothing yet: it may still import its framework or read its data, which takes up to
/// half a minute. With three seconds, a job that had used no memory during a start-up of 20 s counted as one that needs
/// none.
const FLAT_SILENT: f64 = 30.0;
/// Growth by up to this factor does not count.
const GROWTH: f64 = 1.02;
/// Margins on the peak of an ended job, and on a peak that was only observed while a job ran: jobs of a sweep differ in
/// model size, and allocators round up.
const MARGINS: (f64, f64) = (0.05, 0.1);
/// Factor by which the memory of a template is raised when a job ran out of memory: its peak does not include the
/// allocation that failed.
const SHORTAGE: f64 = 1.25;

/// After a shortage has raised the memory of a template, each job that ends lowers it by one over this number of the
/// part it did not need.
const RELAXES: u64 = 3;

/// A job of a new template starts beside others only if this many times the memory of the largest known template is
/// free, because they would run out of memory if it needed more. With a factor of 1, a new job of 11 GB ended two jobs
/// of 7 GB on a card of 24 GB.
const NEW: u64 = 2;

/// Resources of a device in use while decisions are made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    pub(crate) jobs: usize,
    /// The number of these by template.
    copies: BTreeMap<String, usize>,
    /// Bytes that its jobs need, and the part of these that they do not use yet.
    memory: u64,
    growth: u64,
    pub(crate) parts: f64,
    /// One of them must run alone.
    pub(crate) alone: bool,
    /// One of the jobs has unknown memory needs, and runs alone until they are known.
    unknown: bool,
    /// Running templates with unknown memory needs. Only one job of such a template runs at a time: it shows the need,
    /// while two could both run out of memory.
    new: BTreeSet<String>,
    /// The smallest `at_most_slower` of its jobs, in percent.
    promise: Option<u32>,
}

/// A device and its last observation.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) device: Device,
    /// Position of its kind.
    pub(crate) kind: usize,
    sight: Option<Sight>,
    /// Peak memory of each running job so far, in bytes, and the time of its last growth.
    held: BTreeMap<Id, (u64, f64)>,
}

/// Memory that a job needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Bytes(u64),
    /// Its template is unknown; the value is the need of the largest known template, if there is one.
    Unknown(Option<u64>),
}

impl Lane {
    pub(crate) const fn new(device: Device, kind: usize) -> Self {
        Self {
            device,
            kind,
            sight: None,
            held: BTreeMap::new(),
        }
    }

    /// The reason why the device cannot be used; `None` if it can.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.sight.as_ref()?.lost.as_deref()
    }

    /// Whether its memory is observed.
    pub(crate) const fn is_seen(&self) -> bool {
        self.sight.is_some()
    }

    pub(crate) fn has_strangers(&self) -> bool {
        let sight = self.sight.as_ref();
        sight.is_some_and(|sight| !sight.strangers.is_empty())
    }

    /// Bytes that are free and that running jobs will not need when they grow.
    pub(crate) fn spare(&self, room: &Room) -> u64 {
        let free = self
            .sight
            .as_ref()
            .map_or(self.device.total, |sight| sight.free);
        free.saturating_sub(room.growth)
    }

    /// Takes a new observation of this device, which has position `at`. Memory of jobs that no longer grow becomes the
    /// known need of their templates. A job whose memory cannot be observed, as in a container with its own process
    /// numbers, counts as needing none; otherwise other jobs would wait for ever.
    pub(crate) fn sees(&mut self, at: usize, sight: Sight, explorer: &mut Explorer, now: f64) {
        let ids: Vec<Id> = explorer.ids(at).collect();
        for id in &ids {
            let Some(template) = explorer.template(*id).map(str::to_owned) else {
                continue;
            };
            let used = &sight.used.get(id).copied().unwrap_or(0);
            let held = self.held.entry(*id).or_insert((0, now));
            if *used as f64 > held.0 as f64 * GROWTH || !explorer.has_begun(*id, now) {
                held.1 = now;
            }
            held.0 = held.0.max(*used);
            let (peak, since) = *held;
            let patience = match explorer.reports(*id) {
                true => FLAT,
                false => FLAT_SILENT,
            };
            let learnt = explorer.learnt_mut(&template);
            let flat = now - since >= patience;
            if learnt.peak.map_or(flat, |known| peak > known) {
                learnt.peak = Some(peak);
            }
            learnt.growing &= !flat;
        }
        self.sight = Some(sight);
    }

    /// A job has left the device. Its memory counts as free at once, without waiting for the next observation: with two
    /// observations a second, that wait made one-second trainings that each need half of the memory take 10 % longer.
    pub(crate) fn gone(&mut self, id: Id) {
        self.held.remove(&id);
        if let Some(sight) = &mut self.sight
            && let Some(used) = sight.used.remove(&id)
        {
            sight.free = sight.free.saturating_add(used).min(self.device.total);
        }
    }

    /// Records the peak of a job that ends and did not run out of memory.
    pub(crate) fn remember(
        &self,
        id: Id,
        template: &str,
        peak: Option<u64>,
        explorer: &mut Explorer,
    ) {
        let seen = self.held.get(&id).map(|(peak, _)| *peak);
        let peak = peak.max(seen).unwrap_or(0);
        if self.sight.is_some() {
            let learnt = explorer.learnt_mut(template);
            learnt.growing |= learnt.peak.is_none();
            learnt.peak = match learnt.peak {
                // The increase after a shortage was a guess, so it is reduced step by step.
                Some(known) if learnt.short && known > peak => {
                    Some(known - (known - peak) / RELAXES)
                }
                known => known.max(Some(peak)),
            };
            learnt.ended = true;
        }
    }

    /// Raises the memory of a template after one of its jobs ran out of memory. Returns whether that was the first
    /// time.
    pub(crate) fn short(
        &self,
        id: Id,
        template: &str,
        peak: Option<u64>,
        explorer: &mut Explorer,
    ) -> bool {
        if self.sight.is_none() {
            return false;
        }
        let total = self.device.total;
        let seen = self.held.get(&id).map(|(peak, _)| *peak);
        let learnt = explorer.learnt_mut(template);
        let known = learnt.peak.max(seen).max(peak).unwrap_or(total / 2);
        learnt.peak = Some(((known as f64 * SHORTAGE) as u64).min(total));
        !std::mem::replace(&mut learnt.short, true)
    }

    /// Bytes that jobs of a template use at most, with a margin, if known. The more jobs have ended, the less likely it is
    /// that the next one needs more than all of them.
    fn known(template: &str, explorer: &Explorer) -> Option<u64> {
        let learnt = explorer.learnt().get(template)?;
        let margin = match learnt.ended {
            true => MARGINS.0 / explorer.ended_of(template).max(1) as f64,
            false => MARGINS.1,
        };
        Some((learnt.peak? as f64 * (1.0 + margin)) as u64)
    }

    fn need(&self, kind: &Kind, explorer: &Explorer) -> Need {
        match (Self::known(&kind.template, explorer), kind.memory) {
            (None, 0) if self.sight.is_none() => Need::Bytes(0),
            (None, 0) => Need::Unknown(explorer.largest()),
            (peak, declared) => Need::Bytes(peak.unwrap_or(0).max(declared)),
        }
    }

    /// Whether a job that starts here now might delay another one, `first`, that waits for memory: whether there is a job
    /// after whose end that one fits without it and not beside it.
    pub(crate) fn delays(
        &self,
        at: usize,
        room: &Room,
        first: &Kind,
        kind: &Kind,
        most: u64,
        explorer: &Explorer,
    ) -> bool {
        let (Need::Bytes(first), Need::Bytes(new)) =
            (self.need(first, explorer), self.need(kind, explorer))
        else {
            return true;
        };
        let fits = |freed: u64, need: u64| {
            let declared = room.memory.saturating_sub(freed).saturating_add(need);
            need <= self.spare(room).saturating_add(freed) && declared <= most
        };
        let freed = explorer.ids(at).map(|id| {
            let used = self.sight.as_ref().and_then(|sight| sight.used.get(&id));
            let known = explorer
                .template(id)
                .and_then(|name| Self::known(name, explorer));
            known.max(used.copied()).unwrap_or(0)
        });
        let mut ways = freed.filter(|freed| fits(*freed, first)).peekable();
        ways.peek().is_none() || ways.any(|freed| !fits(freed, first.saturating_add(new)))
    }

    /// Number of jobs that fit in memory together if only jobs like this one are added.
    pub(crate) fn holds(&self, room: &Room, kind: &Kind, explorer: &Explorer) -> usize {
        let need = match self.need(kind, explorer) {
            Need::Bytes(bytes) => bytes,
            Need::Unknown(largest) => largest.unwrap_or(0),
        };
        let more = self.spare(room).checked_div(need).unwrap_or(u64::MAX);
        room.jobs.saturating_add(more.max(1) as usize)
    }

    /// Bytes that must be free before a job of a new template starts beside others, and that are then reserved for it;
    /// `None`: no template is known, so it runs alone.
    fn beside(&self, largest: Option<u64>) -> Option<u64> {
        let twice = largest.map(|bytes| bytes.saturating_mul(NEW));
        twice.or(self.guess())
    }

    /// Adds a job, running or about to start, to the resources in use.
    pub(crate) fn take(
        &self,
        room: &mut Room,
        kind: &Kind,
        promise: Option<u32>,
        id: Option<Id>,
        explorer: &Explorer,
    ) {
        let sight = self.sight.as_ref();
        let used = id.and_then(|id| sight?.used.get(&id).copied()).unwrap_or(0);
        let need = match self.need(kind, explorer) {
            Need::Bytes(bytes) => bytes,
            Need::Unknown(largest) => {
                room.new.insert(kind.template.clone());
                room.unknown |= self.guess().is_none();
                self.beside(largest).unwrap_or(0)
            }
        };
        room.jobs += 1;
        *room.copies.entry(kind.template.clone()).or_default() += 1;
        room.memory = room.memory.saturating_add(need.max(used));
        room.growth = room.growth.saturating_add(need.saturating_sub(used));
        room.parts += self.part(&kind.template, explorer);
        // A job that gets whole GPUs shares none of them.
        room.alone |= kind.alone || kind.gpus > 0;
        room.promise = match (room.promise, promise) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Assumed need of a job on processors before any was measured: half of the memory per processor. Such jobs often
    /// take a second, so waiting until the memory of the first one is known would cost more than it saves.
    fn guess(&self) -> Option<u64> {
        self.device
            .cores
            .map(|cores| self.device.total / (2 * cores.max(1) as u64))
    }

    /// Fraction of the device that a job of a template takes.
    fn part(&self, template: &str, explorer: &Explorer) -> f64 {
        1.0 / explorer.level(template) as f64
    }

    /// Whether a job can be started beside the running ones; if not, why. `most`: bytes that jobs may request.
    pub(crate) fn fits(
        &self,
        at: usize,
        room: &Room,
        kind: &Kind,
        promise: Option<u32>,
        most: u64,
        explorer: &Explorer,
    ) -> Result<(), Wait> {
        if self.lost().is_some() {
            return Err(Wait::Device);
        }
        if room.jobs > 0 && (kind.alone || room.alone || kind.gpus > 0) {
            return Err(Wait::Alone);
        }
        if room.jobs >= self.device.clients {
            return Err(Wait::Most);
        }
        self.has_memory(room, kind, most, explorer)?;
        let percent = match (promise, room.promise) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let is_kept = |percent| explorer.keeps(at, &kind.template, room.jobs + 1, percent);
        if !percent.is_none_or(is_kept) {
            return Err(Wait::Promise);
        }
        match self.is_full(at, room, &kind.template, explorer) {
            true => Err(Wait::Turn),
            false => Ok(()),
        }
    }

    fn has_memory(
        &self,
        room: &Room,
        kind: &Kind,
        most: u64,
        explorer: &Explorer,
    ) -> Result<(), Wait> {
        let need = match self.need(kind, explorer) {
            Need::Bytes(bytes) => bytes,
            Need::Unknown(_) if self.guess().is_none() && room.new.contains(&kind.template) => {
                return Err(Wait::Memory);
            }
            Need::Unknown(largest) if room.jobs == 0 => largest.or(self.guess()).unwrap_or(0),
            Need::Unknown(largest) => self.beside(largest).ok_or(Wait::Memory)?,
        };
        if room.unknown || room.memory.saturating_add(need.max(kind.memory)) > most && room.jobs > 0
        {
            return Err(Wait::Memory);
        }
        if room.memory.saturating_add(kind.memory) > most {
            return Err(Wait::Memory);
        }
        // On a device that nothing else uses, the job may start in any case: if it does not fit there, it fits nowhere.
        let is_free = room.jobs == 0 && !self.has_strangers();
        if self.sight.is_some() && need > self.spare(room) && !is_free {
            return Err(Wait::Memory);
        }
        Ok(())
    }

    /// The reason why no job at all can start beside the running ones; `None` if one might.
    pub(crate) fn is_closed(&self, room: &Room, explorer: &Explorer) -> Option<Wait> {
        if room.jobs >= self.device.clients {
            return Some(Wait::Most);
        }
        let full = match explorer.is_on_processors() {
            true => room.parts > 1.0 + explorer.spare() - SLACK,
            false => room.jobs >= explorer.highest(),
        };
        (room.jobs > 0 && full).then_some(Wait::Turn)
    }

    /// Whether the device has no room for a job of this template beside the running ones.
    ///
    /// Processors can be shared in time, so a job may start while some processor time is free, even if it needs more
    /// than that: otherwise a training on all processors would wait until every small job has ended. Overcommitment
    /// beyond that is limited by measured idle time ([`Explorer::spare`]), because jobs that compute all the time would
    /// only take turns and each would end later. A training on all processors never starts on overcommitted ones:
    /// threads that spin while they wait for each other lose 14 % by that (examples/scripts/RESULTS.md, `all_cores`).
    fn is_full(&self, at: usize, room: &Room, template: &str, explorer: &Explorer) -> bool {
        if !explorer.is_on_processors() {
            let copies = room.copies.get(template).copied().unwrap_or(0);
            return room.jobs > 0
                && (copies >= explorer.most_copies(template)
                    || explorer.is_full(at, room.jobs, template));
        }
        let most = match self.part(template, explorer) < 1.0 {
            false => 1.0,
            true => 1.0 + explorer.spare(),
        };
        room.parts > most - SLACK
    }

    /// Explanation for users when a job waits for memory. `most`: bytes that jobs may request.
    pub(crate) fn told(&self, at: usize, kind: &Kind, most: u64, explorer: &Explorer) -> String {
        let name = self.device.label(at);
        if let Some(why) = self.lost() {
            return format!("{name} cannot be used: {why}");
        }
        let gb = |bytes: u64| format!("{:.1} GB", bytes as f64 * 1e-9);
        let need = match self.need(kind, explorer) {
            Need::Bytes(bytes) => format!("this job needs about {}", gb(bytes)),
            Need::Unknown(largest) => {
                let first = match self.beside(largest) {
                    Some(bytes) => format!("starts beside others where {} are free", gb(bytes)),
                    None => "runs alone".to_owned(),
                };
                format!(
                    "the memory of this command is not known yet: its first job {first}, the next when that has shown what it needs"
                )
            }
        };
        let limit = match most < self.device.total {
            true => format!(", jobs may use {} of it", gb(most)),
            false => String::new(),
        };
        let Some(sight) = &self.sight else {
            let total = gb(self.device.total);
            return format!("{name} has {total} in all{limit}, {need}");
        };
        let strangers = sight.strangers.iter().map(|stranger| {
            let who = match stranger.name.is_empty() {
                true => format!("pid {}", stranger.pid),
                false => format!("pid {}, {}", stranger.pid, stranger.name),
            };
            format!(", a stranger ({who}) holds {}", gb(stranger.bytes))
        });
        let strangers: String = strangers.collect();
        let free = gb(sight.free);
        format!("{name} has {free} free{strangers}{limit}, {need}")
    }
}
