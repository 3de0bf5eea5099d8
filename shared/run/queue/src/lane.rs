//! A device with the jobs that run on it.

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
    /// More jobs at once would not increase throughput, according to measurements so far.
    Turn,
    /// The maximum number of jobs is running.
    Most,
    /// The running jobs leave too little memory.
    Memory,
    /// It must run alone, or another job does.
    Alone,
    /// An earlier job has waited so long that its place is reserved.
    Reserved,
    /// Another job must be done before.
    After,
    /// As many jobs of its group run as may.
    Group,
    /// The devices that it may use are lost, or it needs more of them than there are.
    Device,
    /// A job beside it, or it itself, would be slowed down by more than was promised.
    Promise,
}

/// Tolerance for sums of fractions.
pub(crate) const SLACK: f64 = 1e-9;
/// Seconds without growth after which a running job's peak is believed: a training allocates in its first steps, and
/// what an evaluation adds later is learnt when it happens.
const FLAT: f64 = 3.0;
/// Growth that does not count as such.
const GROWTH: f64 = 1.02;
/// Margin above the peak of jobs that have ended, and above one that was only believed: copies of a sweep differ by the
/// size of their models, and allocators round up.
const MARGINS: (f64, f64) = (1.05, 1.1);
/// Factor by which a figure grows when a job ran out of memory: the allocation that failed is not in its peak.
const SHORTAGE: f64 = 1.25;

/// Each job that ends takes this part of what it did not need from a figure that a shortage has raised.
const RELAXES: u64 = 3;

/// Factor by which a job of a new template may exceed the largest known one, where others run beside it: they would lack
/// what it takes. With 1, a new job of 11 GB ended two of 7 GB on a card of 24 GB.
const NEW: u64 = 2;

/// Resources of a device in use while decisions are made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    pub(crate) jobs: usize,
    /// Bytes that its jobs need, and bytes of these that they do not use yet.
    memory: u64,
    growth: u64,
    pub(crate) parts: f64,
    /// One of them must run alone.
    pub(crate) alone: bool,
    /// Nothing is known of the memory of one of them, which runs alone until it is.
    unknown: bool,
    /// Templates of whose memory nothing is known yet: one job shows it, and of two both might lack it.
    new: BTreeSet<String>,
    /// Percent by which the jobs may be slowed down, of the strictest promise.
    promise: Option<u32>,
}

/// A device and what is known of it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) device: Device,
    /// Position of its kind.
    pub(crate) kind: usize,
    sight: Option<Sight>,
    /// Most bytes that each running job was seen to use, and when that last grew.
    held: BTreeMap<Id, (u64, f64)>,
}

/// How much memory a job needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Bytes(u64),
    /// Nothing is known of its template; the largest template needs this, if any is known.
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

    /// Why nothing can start on it, if it cannot be used.
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

    /// Bytes that are free and that no running job will grow into.
    pub(crate) fn spare(&self, room: &Room) -> u64 {
        let free = self
            .sight
            .as_ref()
            .map_or(self.device.total, |sight| sight.free);
        free.saturating_sub(room.growth)
    }

    /// What is seen of it, the number `at`, now. Believes the memory of jobs that no longer grow. A job of which nothing is
    /// seen, as in a container with process numbers of its own, counts as one that needs none: others would wait for ever.
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
            let learnt = explorer.learnt_mut(&template);
            let flat = now - since >= FLAT;
            if learnt.peak.map_or(flat, |known| peak > known) {
                learnt.peak = Some(peak);
            }
        }
        self.sight = Some(sight);
    }

    /// A job has gone from it, however it ended. Its memory is free from now on, and not only from the next look: with two
    /// looks a second, trainings of a second that need half of the memory each took 10 % longer.
    pub(crate) fn gone(&mut self, id: Id) {
        self.held.remove(&id);
        if let Some(sight) = &mut self.sight
            && let Some(used) = sight.used.remove(&id)
        {
            sight.free = sight.free.saturating_add(used).min(self.device.total);
        }
    }

    /// A job that is about to go had enough memory, and used this much at most.
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
            learnt.peak = match learnt.peak {
                // What a shortage added was a guess.
                Some(known) if learnt.short && known > peak => {
                    Some(known - (known - peak) / RELAXES)
                }
                known => known.max(Some(peak)),
            };
            learnt.ended = true;
        }
    }

    /// A job ran out of memory: its template needs more than was known. Whether that is the first time.
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

    fn need(&self, kind: &Kind, explorer: &Explorer) -> Need {
        let learnt = explorer.learnt().get(&kind.template);
        let peak =
            learnt.and_then(|l| Some((l.peak?, if l.ended { MARGINS.0 } else { MARGINS.1 })));
        let peak = peak.map(|(peak, margin)| (peak as f64 * margin) as u64);
        match (peak, kind.memory) {
            (None, 0) if self.sight.is_none() => Need::Bytes(0),
            (None, 0) => Need::Unknown(explorer.largest()),
            (peak, declared) => Need::Bytes(peak.unwrap_or(0).max(declared)),
        }
    }

    /// Number of jobs that could run together if more like this one followed, as far as memory goes.
    pub(crate) fn holds(&self, room: &Room, kind: &Kind, explorer: &Explorer) -> usize {
        let need = match self.need(kind, explorer) {
            Need::Bytes(bytes) => bytes,
            Need::Unknown(largest) => largest.unwrap_or(0),
        };
        let more = self.spare(room).checked_div(need).unwrap_or(u64::MAX);
        room.jobs.saturating_add(more.max(1) as usize)
    }

    /// Bytes that must be there for a job of a new template beside others; `None`: nothing is known, so it runs alone.
    fn beside(&self, largest: Option<u64>) -> Option<u64> {
        let known = largest.or(self.guess());
        known.map(|bytes| bytes.saturating_mul(NEW))
    }

    /// Counts a job, one that runs or one that will be started.
    pub(crate) fn take(
        &self,
        room: &mut Room,
        (kind, promise): (&Kind, Option<u32>),
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
                let twice = largest.map(|bytes| bytes.saturating_mul(NEW));
                twice.or(self.guess()).unwrap_or(0)
            }
        };
        room.jobs += 1;
        room.memory = room.memory.saturating_add(need.max(used));
        room.growth = room.growth.saturating_add(need.saturating_sub(used));
        room.parts += self.part(&kind.template, explorer);
        // A job that was promised whole GPUs shares none of them.
        room.alone |= kind.alone || kind.gpus > 0;
        room.promise = match (room.promise, promise) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// On processors, what a job is assumed to need before any was seen: half of what each processor has. Jobs there
    /// often take a second, so waiting until the first one's memory is known would cost more than it saves.
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
        (kind, promise): (&Kind, Option<u32>),
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
        // A device that nothing else uses gives all that there is: what does not fit there fits nowhere.
        let is_free = room.jobs == 0 && !self.has_strangers();
        if self.sight.is_some() && need > self.spare(room) && !is_free {
            return Err(Wait::Memory);
        }
        Ok(())
    }

    /// Whether no job at all could be started beside the running ones, and why.
    pub(crate) fn is_closed(&self, room: &Room, explorer: &Explorer) -> Option<Wait> {
        if room.jobs >= self.device.clients {
            return Some(Wait::Most);
        }
        let full = match explorer.is_on_processors() {
            true => room.parts > 1.0 + explorer.spare() - SLACK,
            false => room.jobs >= explorer.highest_places(),
        };
        (room.jobs > 0 && full).then_some(Wait::Turn)
    }

    /// Whether a job of this template is too much beside the running ones.
    ///
    /// Processors switch among jobs, so a job that begins while some processor time is free may take more than that:
    /// otherwise a training on all processors would wait until every small job has ended. Beyond that, jobs begin only
    /// as far as measured idle time says ([`Explorer::spare`]): jobs that compute all the time would only take turns,
    /// and each would end later. But none begins beside a training on all processors: threads that spin while waiting
    /// for each other lose 14 % by that (examples/scripts/RESULTS.md, `all_cores`).
    fn is_full(&self, at: usize, room: &Room, template: &str, explorer: &Explorer) -> bool {
        if !explorer.is_on_processors() {
            return room.jobs > 0 && explorer.is_full(at, room.jobs, room.parts, template);
        }
        let most = match self.part(template, explorer) < 1.0 {
            false => 1.0,
            true => 1.0 + explorer.spare(),
        };
        room.parts > most - SLACK
    }

    /// What a user must know of its memory when a job waits for that. `most`: bytes that jobs may request.
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
