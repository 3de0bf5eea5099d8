//! Which jobs run.
//!
//! The policy sees the [`Book`], the progress of jobs and the current time; it starts no process and reads no
//! clock. Its decisions are carried out, written to the journal, and visible in the book at the next call.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::book::{Book, Entry, Id, Outcome, Record};
use crate::explore::Explorer;
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
}

/// Number of failures of a template without a success after which no more of its jobs are started: the mistake is
/// then in the command, not in one of its values.
pub const MOST_FAILURES: u32 = 3;
/// Seconds of waiting that raise the priority by one, so that no job waits for ever behind later jobs.
const AGE: f64 = 600.0;
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
    /// Consecutive failures of templates without a success since jobs were last added.
    failures: BTreeMap<String, u32>,
    stopped: BTreeSet<Id>,
    waits: BTreeMap<Id, Wait>,
}

/// Resources in use while decisions are made.
struct Room {
    jobs: usize,
    memory: u64,
    parts: f64,
    /// One of them must run alone.
    alone: bool,
}

impl Policy {
    /// A policy with limits, and with what was learnt before.
    #[must_use]
    pub fn new(limits: Limits, explorer: Explorer) -> Self {
        Self {
            limits,
            explorer,
            passed: BTreeMap::new(),
            failures: BTreeMap::new(),
            stopped: BTreeSet::new(),
            waits: BTreeMap::new(),
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
    pub fn wait(&self, id: Id) -> Option<Wait> {
        self.waits.get(&id).copied()
    }

    /// Jobs of a template were added: the user may have fixed what failed.
    pub fn added(&mut self, template: &str) {
        self.failures.remove(template);
    }

    /// A job is running: started now, or found running by a new server.
    pub fn started(&mut self, entry: &Entry, now: f64) {
        let (id, template) = (entry.job.id, &entry.job.template);
        self.passed.remove(&id);
        self.explorer.started(id, template, now);
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
    /// beside others waits again, to run alone; one that may be started only once has failed.
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
        if out_of_memory && running > 1 && again {
            self.gone(entry, false, now);
            self.explorer.too_many(&entry.job.template, running);
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
        let template = &entry.job.template;
        match outcome {
            Outcome::Done => {
                // Some of its jobs work: later failures have their own reasons.
                self.failures.insert(template.clone(), 0);
            }
            Outcome::Failed(_) | Outcome::Killed(_) => {
                let known = self.failures.get(template).copied();
                if known != Some(0) {
                    let failures = known.unwrap_or(0) + 1;
                    self.failures.insert(template.clone(), failures);
                }
            }
            Outcome::Cancelled | Outcome::Skipped(_) | Outcome::Left => {}
        }
    }

    /// A job could not be started as decided.
    pub fn unstarted(&mut self, entry: &Entry, now: f64) {
        self.gone(entry, false, now);
    }

    fn gone(&mut self, entry: &Entry, done: bool, now: f64) {
        let id = entry.job.id;
        self.stopped.remove(&id);
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
        };
        for entry in book.running() {
            self.take(&mut room, entry, book);
        }
        room
    }

    fn take(&self, room: &mut Room, entry: &Entry, book: &Book) {
        let memory = book.demand(entry).memory.unwrap_or(0);
        room.jobs += 1;
        room.memory = room.memory.saturating_add(memory);
        room.parts += self.part(entry);
        room.alone |= entry.alone;
    }

    /// Fraction of the device that a job takes.
    fn part(&self, entry: &Entry) -> f64 {
        1.0 / self.explorer.level(&entry.job.template) as f64
    }

    /// Whether a job can be started beside the running ones; if not, why.
    fn fits(&self, room: &Room, entry: &Entry, memory: u64, last: bool) -> Result<(), Wait> {
        if room.jobs > 0 && (entry.alone || room.alone) {
            return Err(Wait::Alone);
        }
        if room.jobs >= self.limits.most {
            return Err(Wait::Most);
        }
        if room.memory.saturating_add(memory) > self.limits.memory {
            return Err(Wait::Memory);
        }
        if self.is_full(room.parts, self.part(entry), last) {
            return Err(Wait::Turn);
        }
        Ok(())
    }

    /// Whether a job of this size is too much beside others of these sizes; `last`: it is one of the last.
    ///
    /// Processors switch among jobs, so a job that begins while some processor time is free may take more than that:
    /// otherwise a training on all processors would wait until every small job has ended. [`MORE`] jobs more than fill
    /// them keep them busy while others end, load or wait for each other. But not beside a training on all of them:
    /// threads that spin while waiting for each other lose 14 % by that (examples/scripts/RESULTS.md, `all_cores`).
    /// The last jobs take turns and end together; otherwise the one that began last would run on alone. A training on all
    /// processors leaves none idle when it runs on alone.
    fn is_full(&self, others: f64, part: f64, last: bool) -> bool {
        let Some(cores) = self.explorer.processors() else {
            return others > 0.0 && others + part > 1.0 + SLACK;
        };
        let most = match (part < 1.0, last) {
            (false, _) => 1.0,
            (true, false) => 1.0 + (MORE - 0.5) / cores as f64,
            (true, true) => LAST,
        };
        others > most - SLACK
    }

    /// Jobs to start, jobs that will never start with the reason, and the template of the first job that waits only
    /// because of its level.
    fn choose(&mut self, book: &Book, now: f64) -> (Vec<Id>, Vec<(Id, String)>, Option<String>) {
        let mut room = self.room(book);
        let (mut starts, mut skips, mut blocked) = (Vec::new(), Vec::new(), None);
        let mut waits = BTreeMap::new();
        let mut reserved = false;
        let mut passed: Vec<Id> = Vec::new();
        let order = order(book, now);
        let last = (self.explorer.processors())
            .is_some_and(|cores| order.len() as f64 <= LAST * cores as f64);
        for (entry, memory) in order {
            let id = entry.job.id;
            let template = &entry.job.template;
            if self
                .failures
                .get(template)
                .is_some_and(|&n| n >= MOST_FAILURES)
            {
                skips.push((
                    id,
                    format!("{MOST_FAILURES} jobs of this template failed and none was done"),
                ));
                continue;
            }
            let fits = match (book.paused, entry.held, reserved) {
                (true, ..) => Err(Wait::Paused),
                (_, true, _) => Err(Wait::Held),
                (_, _, true) => Err(Wait::Reserved),
                _ => self.fits(&room, entry, memory, last),
            };
            match fits {
                Ok(()) => {
                    for other in passed.drain(..) {
                        self.passed.entry(other).or_insert(now);
                    }
                    self.take(&mut room, entry, book);
                    starts.push(id);
                }
                Err(why) => {
                    waits.insert(id, why);
                    if why == Wait::Turn && blocked.is_none() {
                        blocked = Some(template.clone());
                    }
                    if !matches!(why, Wait::Paused | Wait::Held | Wait::Reserved) {
                        passed.push(id);
                        let since = self.passed.get(&id);
                        reserved |= since.is_some_and(|since| now - since >= PASSED);
                    }
                }
            }
        }
        self.waits = waits;
        (starts, skips, blocked)
    }
}

/// Computing jobs that may run beside as many as fill the processors. Of 1, 2 and 4, two gave the best makespans: with
/// one, a mix of three templates left 14 % of two processors idle and took 5 % longer, and with four, trainings of two
/// threads took 3 % longer.
const MORE: f64 = 2.0;
/// The last jobs, at most this many times as many as fill the processors, may all run at once. With 60 simulated jobs of
/// three lengths, a factor of two left the longest job alone for a tenth of the makespan.
const LAST: f64 = 4.0;
/// Tolerance for sums of fractions.
const SLACK: f64 = 1e-9;

/// Waiting jobs with their required memory, in the order of starting.
fn order(book: &Book, now: f64) -> Vec<(&Entry, u64)> {
    let mut all: Vec<(f64, &Entry, u64)> = book
        .waiting()
        .map(|entry| {
            let demand = book.demand(entry);
            let age = (now - entry.added_s).max(0.0) / AGE;
            let rank = f64::from(demand.priority) + age;
            (rank, entry, demand.memory.unwrap_or(0))
        })
        .collect();
    // Jobs of one request have the same age: then their numbers decide.
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.job.id.cmp(&b.1.job.id)));
    all.into_iter()
        .map(|(_, entry, memory)| (entry, memory))
        .collect()
}
