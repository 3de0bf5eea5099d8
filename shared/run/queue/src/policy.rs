//! Which jobs run.
//!
//! The policy sees the [`Book`], the progress of jobs and the current time; it starts no process and reads no
//! clock. Its decisions are carried out, written to the journal, and visible in the book at the next call.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::after::{Turn, turn};
use crate::book::{Book, Entry, Id, Outcome, Record};
use crate::explore::Explorer;
use crate::failures::{Failures, Verdict};
use crate::index::{Kind, Position};
use crate::processors::Look;

/// Limits on the jobs that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of jobs at once.
    pub most: usize,
    /// Total memory in bytes that running jobs may require.
    pub memory: u64,
}

/// Actions, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Start a job.
    Start(Id),
    /// End a running job.
    Stop(Id),
    /// Report that a waiting job will not be started, and why.
    Skip(Id, String),
}

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
}

/// Seconds for which later jobs that fit may overtake a job that does not. Then its place is reserved: nothing else
/// starts before it.
const PASSED: f64 = 60.0;

/// The policy.
#[derive(Debug)]
pub struct Policy {
    limits: Limits,
    explorer: Explorer,
    /// Since when later jobs have overtaken it.
    passed: BTreeMap<Id, f64>,
    failures: Failures,
    stopped: BTreeSet<Id>,
    /// Running jobs that at some time ran beside another.
    beside: BTreeSet<Id>,
    /// Why the jobs of these kinds wait, and those of all others.
    waits: BTreeMap<Kind, Wait>,
    rest: Wait,
}

/// Resources in use while decisions are made.
struct Room {
    jobs: usize,
    memory: u64,
    parts: f64,
    /// One of them must run alone.
    alone: bool,
    /// Number of jobs of each named group.
    groups: BTreeMap<String, usize>,
}

impl Room {
    /// Whether as many jobs of a group run as a user allows.
    fn is_full_for(&self, book: &Book, group: &str) -> bool {
        let running = self.groups.get(group).copied().unwrap_or(0);
        let most = book.wishes.groups.get(group);
        most.is_some_and(|&most| running >= most)
    }
}

impl Policy {
    /// A policy with limits, and with what was learnt before.
    #[must_use]
    pub fn new(limits: Limits, explorer: Explorer) -> Self {
        Self {
            limits,
            explorer,
            passed: BTreeMap::new(),
            failures: Failures::default(),
            stopped: BTreeSet::new(),
            beside: BTreeSet::new(),
            waits: BTreeMap::new(),
            rest: Wait::Turn,
        }
    }

    /// What it has learnt.
    #[must_use]
    pub const fn explorer(&self) -> &Explorer {
        &self.explorer
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Other limits, from now on.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Why a job waits, by the last decision.
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

    /// A job is running: started now, or found running by a new server.
    pub fn started(&mut self, entry: &Entry, now: f64) {
        let (id, template) = (entry.job.id, &entry.job.template);
        self.passed.remove(&id);
        self.explorer.started(id, template, now);
        if self.explorer.running() > 1 {
            self.beside.extend(self.explorer.ids());
        }
    }

    /// A job had done this much of its work at a time.
    pub fn progress(&mut self, id: Id, at: f64, work: f64) {
        self.explorer.progress(id, at, work);
    }

    /// Load of the processors and of the jobs since the previous observation.
    pub fn look(&mut self, look: &Look) {
        self.explorer.look(look);
    }

    /// The processes of a running job have gone; returns the record for the journal. A job that ran out of memory
    /// and was not alone all the time waits again, to run alone; one that may be started only once has failed. The
    /// other may have ended between the allocation that failed and the exit.
    pub fn exited(
        &mut self,
        book: &Book,
        entry: &Entry,
        outcome: Outcome,
        out_of_memory: bool,
        now: f64,
    ) -> Record {
        let id = entry.job.id;
        let running = book.running().count();
        let again = !entry.alone && !entry.cancelled && !book.demand(entry).once;
        if out_of_memory && self.beside.contains(&id) && again {
            self.gone(entry, false, now);
            self.explorer.too_many(&entry.job.template, running.max(2));
            return Record::Returned { id, alone: true };
        }
        let outcome = match entry.cancelled {
            true => Outcome::Cancelled,
            false => outcome,
        };
        self.ended(entry, &outcome, now);
        Record::Ended {
            id,
            at_s: now,
            outcome,
        }
    }

    /// A job has ended.
    pub fn ended(&mut self, entry: &Entry, outcome: &Outcome, now: f64) {
        self.gone(entry, *outcome == Outcome::Done, now);
        self.failures.ended(entry, outcome, now);
    }

    /// A job could not be started as decided.
    pub fn unstarted(&mut self, entry: &Entry, now: f64) {
        self.gone(entry, false, now);
    }

    fn gone(&mut self, entry: &Entry, done: bool, now: f64) {
        let id = entry.job.id;
        self.stopped.remove(&id);
        self.beside.remove(&id);
        self.explorer.ended(id, done, now);
    }

    /// Decides the next actions. Every [`Decision::Start`] must be carried out, or the job ended in the book.
    pub fn decide(&mut self, book: &Book, now: f64) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for entry in book.running().filter(|e| e.cancelled) {
            if self.stopped.insert(entry.job.id) {
                decisions.push(Decision::Stop(entry.job.id));
            }
        }
        let (starts, skips, blocked) = self.choose(book, now);
        decisions.extend(skips.into_iter().map(|(id, why)| Decision::Skip(id, why)));
        let quiet = starts.is_empty();
        decisions.extend(starts.into_iter().map(Decision::Start));
        // Jobs started now have not been seen running: the next call evaluates them.
        if quiet {
            let full = self.room(book).parts <= 1.0 + SLACK;
            self.explorer.settle(now, blocked.as_deref(), full);
        }
        decisions
    }

    /// Resources used by running jobs.
    fn room(&self, book: &Book) -> Room {
        let mut room = Room {
            jobs: 0,
            memory: 0,
            parts: 0.0,
            alone: false,
            groups: BTreeMap::new(),
        };
        for entry in book.running() {
            self.take(&mut room, &Kind::of(entry, &book.demand(entry)), book);
        }
        room
    }

    fn take(&self, room: &mut Room, kind: &Kind, book: &Book) {
        room.jobs += 1;
        room.memory = room.memory.saturating_add(kind.memory);
        room.parts += self.part(&kind.template);
        room.alone |= kind.alone;
        let group = book.groups.get(&kind.group);
        if let Some(name) = group.and_then(|group| group.demand.group.as_ref()) {
            *room.groups.entry(name.clone()).or_default() += 1;
        }
    }

    /// Fraction of the device that a job of a template takes.
    fn part(&self, template: &str) -> f64 {
        1.0 / self.explorer.level(template) as f64
    }

    /// Whether a job can be started beside the running ones; if not, why.
    fn fits(&self, room: &Room, kind: &Kind) -> Result<(), Wait> {
        if room.jobs > 0 && (kind.alone || room.alone) {
            return Err(Wait::Alone);
        }
        if room.jobs >= self.limits.most {
            return Err(Wait::Most);
        }
        if room.memory.saturating_add(kind.memory) > self.limits.memory {
            return Err(Wait::Memory);
        }
        if self.is_full(room.parts, self.part(&kind.template)) {
            return Err(Wait::Turn);
        }
        Ok(())
    }

    /// Whether no job at all could be started beside the running ones, and why.
    fn is_closed(&self, room: &Room) -> Option<Wait> {
        if room.jobs >= self.limits.most {
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

    /// Jobs to start, jobs that will never start with the reason, and the template of the first job that waits only
    /// because of its level.
    fn choose(&mut self, book: &Book, now: f64) -> (Vec<Id>, Vec<(Id, String)>, Option<String>) {
        let (mut starts, mut skips, mut blocked) = (Vec::new(), Vec::new(), None);
        self.waits.clear();
        self.rest = Wait::Turn;
        if book.paused {
            return (starts, skips, blocked);
        }
        let mut room = self.room(book);
        let mut passed: Vec<Id> = Vec::new();
        let mut walk = book.index.walk();
        while let Some((at, kind)) = walk.next() {
            if let Some(why) = self.is_closed(&room) {
                self.rest = why;
                if why == Wait::Turn && blocked.is_none() {
                    blocked = Some(kind.template.clone());
                }
                passed.push(at.id());
                break;
            }
            let asked = book.groups.get(&kind.group).map(|group| &group.demand);
            match asked.map_or(Turn::Now, |demand| turn(book, demand)) {
                Turn::Now => {}
                Turn::Later => {
                    self.waits.insert(kind.clone(), Wait::After);
                    continue;
                }
                Turn::Never(why) => {
                    skips.extend(all_of(book, kind).map(|id| (id, why.clone())));
                    continue;
                }
            }
            let group = asked.and_then(|demand| demand.group.as_ref());
            if group.is_some_and(|group| room.is_full_for(book, group)) {
                self.waits.insert(kind.clone(), Wait::Group);
                continue;
            }
            let verdict = match asked.is_some_and(|demand| demand.keep_going) {
                true => Verdict::Go,
                false => self.failures.verdict(book, kind, now),
            };
            let (id, more) = match verdict {
                Verdict::Go => (at.id(), true),
                // Of a template that has only failed, one value is tried at a time.
                Verdict::Try(probe) => (probe, false),
                Verdict::Hold => {
                    self.waits.insert(kind.clone(), Wait::Turn);
                    continue;
                }
                Verdict::GiveUp(why) => {
                    skips.extend(all_of(book, kind).map(|id| (id, why.clone())));
                    continue;
                }
            };
            match self.fits(&room, kind) {
                Ok(()) => {
                    for other in passed.drain(..) {
                        self.passed.entry(other).or_insert(now);
                    }
                    self.take(&mut room, kind, book);
                    starts.push(id);
                    if more {
                        walk.go_on(at, kind);
                    }
                }
                Err(why) => {
                    self.waits.insert(kind.clone(), why);
                    if why == Wait::Turn && blocked.is_none() {
                        blocked = Some(kind.template.clone());
                    }
                    passed.push(id);
                    let since = self.passed.get(&id);
                    if since.is_some_and(|since| now - since >= PASSED) {
                        self.rest = Wait::Reserved;
                        break;
                    }
                }
            }
        }
        (starts, skips, blocked)
    }
}

/// Waiting jobs of a kind that are not held.
fn all_of<'a>(book: &'a Book, kind: &Kind) -> impl Iterator<Item = Id> + 'a {
    book.index.of_kind(kind).map(Position::id)
}

/// Tolerance for sums of fractions.
const SLACK: f64 = 1e-9;
