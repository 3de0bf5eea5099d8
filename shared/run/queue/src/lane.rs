//! A device with the jobs that run on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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

/// Resources of a device in use while decisions are made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    pub(crate) jobs: usize,
    pub(crate) memory: u64,
    pub(crate) parts: f64,
    /// One of them must run alone.
    pub(crate) alone: bool,
}

/// A device and what is known of it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) device: Device,
    pub(crate) sight: Option<Sight>,
    pub(crate) explorer: Explorer,
}

impl Lane {
    pub(crate) fn new(device: Device, most: usize, learnt: Option<&Learned>) -> Self {
        let learnt = learnt.cloned().unwrap_or_default();
        let mut explorer = Explorer::new(learnt, device.clients.min(most));
        if let Some(cores) = device.cores {
            explorer = explorer.on_processors(cores);
        }
        Self {
            device,
            sight: None,
            explorer,
        }
    }

    /// Why nothing can start on it, if it cannot be used.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.sight.as_ref()?.lost.as_deref()
    }

    /// What a user must know of its memory when a job that needs `need` bytes waits.
    pub(crate) fn told(&self, at: usize, need: u64) -> String {
        let name = self.device.label(at);
        if let Some(why) = self.lost() {
            return format!("{name} cannot be used: {why}");
        }
        let gb = |bytes: u64| format!("{:.1} GB", bytes as f64 * 1e-9);
        let Some(sight) = &self.sight else {
            let total = gb(self.device.total);
            return format!("{name} has {total} in all, this job needs {}", gb(need));
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
        format!(
            "{name} has {free} free{strangers}, this job needs about {}",
            gb(need)
        )
    }

    pub(crate) fn take(&self, room: &mut Room, kind: &Kind) {
        room.jobs += 1;
        room.memory = room.memory.saturating_add(kind.memory);
        room.parts += self.part(&kind.template);
        room.alone |= kind.alone;
    }

    /// Fraction of the device that a job of a template takes.
    fn part(&self, template: &str) -> f64 {
        1.0 / self.explorer.level(template) as f64
    }

    /// Whether a job can be started beside the running ones; if not, why. `memory`: bytes that jobs may request.
    pub(crate) fn fits(&self, room: &Room, kind: &Kind, memory: u64) -> Result<(), Wait> {
        if self.lost().is_some() {
            return Err(Wait::Device);
        }
        if room.jobs > 0 && (kind.alone || room.alone || kind.gpus > 0) {
            return Err(Wait::Alone);
        }
        if room.jobs >= self.device.clients {
            return Err(Wait::Most);
        }
        if room.memory.saturating_add(kind.memory) > memory {
            return Err(Wait::Memory);
        }
        if self.is_full(room.parts, self.part(&kind.template)) {
            return Err(Wait::Turn);
        }
        Ok(())
    }

    /// Whether no job at all could be started beside the running ones, and why.
    pub(crate) fn is_closed(&self, room: &Room) -> Option<Wait> {
        if room.jobs >= self.device.clients {
            return Some(Wait::Most);
        }
        let least = match self.explorer.processors() {
            Some(_) => 0.0,
            None => 1.0 / self.explorer.highest() as f64,
        };
        let full = room.jobs > 0 && self.is_full(room.parts, least);
        full.then_some(Wait::Turn)
    }

    /// Whether a job of this size is too much beside others of these sizes.
    ///
    /// Processors switch among jobs, so a job that begins while some processor time is free may take more than that:
    /// otherwise a training on all processors would wait until every small job has ended. Beyond that, jobs begin only
    /// as far as measured idle time says ([`Explorer::spare`]): jobs that compute all the time would only take turns,
    /// and each would end later. But none begins beside a training on all processors: threads that spin while waiting
    /// for each other lose 14 % by that (examples/scripts/RESULTS.md, `all_cores`).
    fn is_full(&self, others: f64, part: f64) -> bool {
        if self.explorer.processors().is_none() {
            return others > 0.0 && others + part > 1.0 + SLACK;
        }
        let most = match part < 1.0 {
            false => 1.0,
            true => 1.0 + self.explorer.spare(),
        };
        others > most - SLACK
    }
}

/// What was learnt of the templates on one kind of device.
pub(crate) type Learned = BTreeMap<String, crate::learnt::Learnt>;
