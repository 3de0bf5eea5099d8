//! Which jobs run.
//!
//! The policy sees the [`Book`], the progress of jobs and the current time; it starts no process and reads no
//! clock. Its decisions are carried out, written to the journal, and visible in the book at the next call.

use std::collections::{BTreeMap, BTreeSet};

use units::Share;

use crate::after::{Turn, turn};
use crate::book::{Book, Demand, Entry, Id, Outcome, Record};
use crate::devices::{Device, Sight, Spot};
use crate::failures::{Failures, Verdict};
use crate::index::{Kind, Position};
pub use crate::lane::Wait;
use crate::lane::{Lane, Room, SLACK};
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
    /// Start a job there.
    Start(Id, Spot),
    /// End a running job.
    Stop(Id),
    /// Report that a waiting job will not be started, and why.
    Skip(Id, String),
}

/// A fault of the device in which a job ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// None is known.
    #[default]
    None,
    /// Its own: it was the first client of its MPS server that died of one.
    Own,
    /// Another's: the fatal fault of another client, the death of the daemon, or the loss of the device.
    Foreign,
}

/// How the processes of a job have gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// How it ended.
    pub outcome: Outcome,
    /// It ran out of memory.
    pub out_of_memory: bool,
    /// A fault of its device.
    pub fault: Fault,
    /// Most bytes of its device's memory that it was seen to use.
    pub peak: Option<u64>,
}

impl From<Outcome> for Gone {
    /// An end without a shortage of memory and without a fault.
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            out_of_memory: false,
            fault: Fault::None,
            peak: None,
        }
    }
}

/// Seconds for which later jobs that fit may overtake a job that does not. Then its place is reserved: nothing else
/// starts before it.
const PASSED: f64 = 60.0;

/// The policy.
#[derive(Debug)]
pub struct Policy {
    limits: Limits,
    lanes: Vec<Lane>,
    /// Where the running jobs are.
    spots: BTreeMap<Id, Spot>,
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
struct Rooms {
    jobs: usize,
    lanes: Vec<Room>,
    /// Number of jobs of each named group.
    groups: BTreeMap<String, usize>,
}

impl Rooms {
    /// Whether as many jobs of a group run as a user allows.
    fn is_full_for(&self, book: &Book, group: &str) -> bool {
        let running = self.groups.get(group).copied().unwrap_or(0);
        let most = book.wishes.groups.get(group);
        most.is_some_and(|&most| running >= most)
    }
}

/// What is chosen to be done.
#[derive(Default)]
struct Choice {
    starts: Vec<(Id, Spot)>,
    /// Jobs that will never start, and why.
    skips: Vec<(Id, String)>,
    /// For each device, the template of the first job that waits only because of its level.
    blocked: Vec<Option<String>>,
}

impl Policy {
    /// A policy for these devices, with limits, and with what was learnt before of each kind of device.
    #[must_use]
    pub fn new(
        devices: Vec<Device>,
        limits: Limits,
        learnt: &BTreeMap<String, BTreeMap<String, Learnt>>,
    ) -> Self {
        let lanes = devices.into_iter().map(|device| {
            let learnt = learnt.get(&device.kind);
            Lane::new(device, limits.most, learnt)
        });
        Self {
            limits,
            lanes: lanes.collect(),
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

    /// What it has learnt of templates, by kind of device.
    #[must_use]
    pub fn learnt(&self) -> BTreeMap<String, BTreeMap<String, Learnt>> {
        let mut all: BTreeMap<String, BTreeMap<String, Learnt>> = BTreeMap::new();
        for lane in &self.lanes {
            let of_kind = all.entry(lane.device.kind.clone()).or_default();
            for (template, learnt) in lane.explorer.learnt() {
                of_kind.insert(template.clone(), learnt.clone());
            }
        }
        all
    }

    /// The experiments under way, as messages.
    #[must_use]
    pub fn tries(&self) -> Vec<String> {
        let tests = self.lanes.iter().filter_map(|lane| lane.explorer.testing());
        tests
            .map(|(template, from, to)| {
                format!("whether more than {from} at once do more, up to {to} of {template}")
            })
            .collect()
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Other limits, from now on.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        for lane in &mut self.lanes {
            lane.explorer.limit(lane.device.clients.min(limits.most));
        }
    }

    /// Bytes that jobs may request of a device.
    #[must_use]
    pub fn memory(&self, device: usize) -> u64 {
        let total = self.lanes.get(device).map_or(0, |lane| lane.device.total);
        self.limits.memory.unwrap_or(total)
    }

    /// What is seen of a device now.
    pub fn sees(&mut self, device: usize, sight: Sight, _now: f64) {
        if let Some(lane) = self.lanes.get_mut(device) {
            lane.sight = Some(sight);
        }
    }

    /// Where a running job is.
    #[must_use]
    pub fn spot(&self, id: Id) -> Option<&Spot> {
        self.spots.get(&id)
    }

    /// Why a job waits, as a sentence for users; empty if it does not wait.
    #[must_use]
    pub fn why(&self, book: &Book, id: Id) -> String {
        let wait = self.wait(book, id);
        let entry = book.entries.get(&id);
        entry
            .zip(wait)
            .map_or_else(String::new, |(entry, wait)| self.explain(book, entry, wait))
    }

    fn explain(&self, book: &Book, entry: &Entry, wait: Wait) -> String {
        let demand = book.demand(entry);
        match wait {
            Wait::Paused => "the queue is paused".to_owned(),
            Wait::Held => "it is held (mt pause --off releases it)".to_owned(),
            Wait::Turn => "more at once would not increase throughput".to_owned(),
            Wait::Most => "as many jobs run as may".to_owned(),
            Wait::Alone => "it must run alone, or another job does".to_owned(),
            Wait::Reserved => "the place is reserved for an earlier job".to_owned(),
            Wait::After => "another job must be done before".to_owned(),
            Wait::Group => "as many jobs of its group run as may".to_owned(),
            Wait::Promise => {
                "it, or a job beside it, would be slowed down by more than was promised".to_owned()
            }
            Wait::Memory | Wait::Device => {
                let need = Kind::of(entry, &demand).memory;
                let lanes = self.allowed(demand.only.as_deref());
                let told: Vec<String> = lanes.map(|at| self.lanes[at].told(at, need)).collect();
                told.join("; ")
            }
        }
    }

    /// Whether a job may use a device.
    #[must_use]
    pub fn may_use(&self, demand: &Demand, device: usize) -> bool {
        let mut allowed = self.allowed(demand.only.as_deref());
        allowed.any(|at| at == device)
    }

    /// Positions of the devices that a job may use.
    fn allowed<'a>(&'a self, only: Option<&'a [String]>) -> impl Iterator<Item = usize> + 'a {
        // Jobs that say nothing run on GPUs if there are any.
        let has_gpu = self.lanes.iter().any(|lane| lane.device.cores.is_none());
        let may = move |lane: &Lane| match only {
            Some(only) => only.contains(&lane.device.id),
            None => lane.device.cores.is_none() || !has_gpu,
        };
        let all = self.lanes.iter().enumerate();
        all.filter(move |(_, lane)| may(lane)).map(|(at, _)| at)
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

    /// A job is running there: started now, or found running by a new server.
    pub fn started(&mut self, entry: &Entry, spot: &Spot, now: f64) {
        let (id, template) = (entry.job.id, &entry.job.template);
        self.passed.remove(&id);
        self.spots.insert(id, spot.clone());
        for &at in &spot.devices {
            let Some(lane) = self.lanes.get_mut(at) else {
                continue;
            };
            lane.explorer.started(id, template, now);
            if lane.explorer.running() > 1 {
                self.beside.extend(lane.explorer.ids());
            }
        }
    }

    /// A job had done this much of its work at a time.
    pub fn progress(&mut self, id: Id, at: f64, work: f64) {
        for lane in lanes_of(&mut self.lanes, self.spots.get(&id)) {
            lane.explorer.progress(id, at, work);
        }
    }

    /// Load of the processors and of the jobs since the previous observation.
    pub fn look(&mut self, look: &Look) {
        for lane in &mut self.lanes {
            lane.explorer.look(look);
        }
    }

    /// The processes of a running job have gone; returns the record for the journal. A job that ran out of memory
    /// and was not alone all the time waits again, to run alone; one that may be started only once has failed. The
    /// other may have ended between the allocation that failed and the exit.
    ///
    /// Of jobs that a fault of their MPS server ended, the one that caused it runs alone from then on, and all others
    /// wait again as if they had not been started.
    pub fn exited(&mut self, book: &Book, entry: &Entry, gone: Gone, now: f64) -> Record {
        let id = entry.job.id;
        let again = !entry.alone && !entry.cancelled && !book.demand(entry).once;
        let was_beside = self.beside.contains(&id);
        if gone.fault == Fault::Foreign && !entry.cancelled && !book.demand(entry).once {
            self.gone(entry, false, now);
            return Record::Returned { id, alone: false };
        }
        if was_beside && again && (gone.out_of_memory || gone.fault == Fault::Own) {
            for lane in lanes_of(&mut self.lanes, self.spots.get(&id)) {
                if gone.out_of_memory {
                    let running = lane.explorer.running();
                    lane.explorer.too_many(&entry.job.template, running.max(2));
                }
            }
            self.gone(entry, false, now);
            return Record::Returned { id, alone: true };
        }
        let outcome = match entry.cancelled {
            true => Outcome::Cancelled,
            false => gone.outcome,
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
        let spot = self.spots.remove(&id);
        for lane in lanes_of(&mut self.lanes, spot.as_ref()) {
            lane.explorer.ended(id, done, now);
        }
    }

    /// Decides the next actions. Every [`Decision::Start`] must be carried out, or the job ended in the book.
    pub fn decide(&mut self, book: &Book, now: f64) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for entry in book.running().filter(|e| e.cancelled) {
            if self.stopped.insert(entry.job.id) {
                decisions.push(Decision::Stop(entry.job.id));
            }
        }
        let choice = self.choose(book, now);
        let started: BTreeSet<usize> = (choice.starts.iter())
            .flat_map(|(_, spot)| spot.devices.iter().copied())
            .collect();
        let skips = choice.skips.into_iter();
        decisions.extend(skips.map(|(id, why)| Decision::Skip(id, why)));
        let starts = choice.starts.into_iter();
        decisions.extend(starts.map(|(id, spot)| Decision::Start(id, spot)));
        let rooms = self.rooms(book);
        let devices = self.lanes.iter_mut().zip(&rooms.lanes).zip(choice.blocked);
        for (at, ((lane, room), blocked)) in devices.enumerate() {
            // Jobs started now have not been seen running: the next call evaluates them.
            if !started.contains(&at) {
                let full = room.parts <= 1.0 + SLACK;
                lane.explorer.settle(now, blocked.as_deref(), full);
            }
        }
        decisions
    }

    /// Resources used by running jobs.
    fn rooms(&self, book: &Book) -> Rooms {
        let mut rooms = Rooms {
            jobs: 0,
            lanes: vec![Room::default(); self.lanes.len()],
            groups: BTreeMap::new(),
        };
        for entry in book.running() {
            let devices = match self.spots.get(&entry.job.id) {
                Some(spot) => &*spot.devices,
                None => &[0],
            };
            self.take(
                &mut rooms,
                &Kind::of(entry, &book.demand(entry)),
                devices,
                book,
            );
        }
        rooms
    }

    fn take(&self, rooms: &mut Rooms, kind: &Kind, devices: &[usize], book: &Book) {
        rooms.jobs += 1;
        for &at in devices {
            if let (Some(lane), Some(room)) = (self.lanes.get(at), rooms.lanes.get_mut(at)) {
                lane.take(room, kind);
                // A job that was promised whole GPUs shares none of them.
                room.alone |= kind.gpus > 0;
            }
        }
        let group = book.groups.get(&kind.group);
        if let Some(name) = group.and_then(|group| group.demand.group.as_ref()) {
            *rooms.groups.entry(name.clone()).or_default() += 1;
        }
    }

    /// Where a job can be started beside the running ones; if nowhere, why.
    fn place(&self, rooms: &Rooms, kind: &Kind, asked: Option<&Demand>) -> Result<Spot, Wait> {
        if rooms.jobs >= self.limits.most {
            return Err(Wait::Most);
        }
        let only = asked.and_then(|demand| demand.only.as_deref());
        // A job without a GPU still counts among those that run at once.
        let only = only.filter(|only| !only.is_empty());
        let (mut free, mut why) = (Vec::new(), None);
        for at in self.allowed(only) {
            match self.lanes[at].fits(&rooms.lanes[at], kind, self.memory(at)) {
                Ok(()) => free.push(at),
                Err(wait) => why = Some(why.map_or(wait, |why| nearer(why, wait))),
            }
        }
        // The emptiest device first.
        free.sort_by(|&a, &b| rooms.lanes[a].parts.total_cmp(&rooms.lanes[b].parts));
        let wanted = kind.gpus.max(1);
        if free.len() < wanted {
            return Err(match why {
                Some(why) if self.allowed(only).count() >= wanted => why,
                _ => Wait::Device,
            });
        }
        free.truncate(wanted);
        let share = asked.and_then(|demand| demand.share);
        Ok(Spot {
            devices: free,
            share: share.map_or(Share::FULL, Share::from_hundredths),
        })
    }

    /// Whether no job at all could be started beside the running ones, and why.
    fn is_closed(&self, rooms: &Rooms) -> Option<Wait> {
        if rooms.jobs >= self.limits.most {
            return Some(Wait::Most);
        }
        let mut why = None;
        for (lane, room) in self.lanes.iter().zip(&rooms.lanes) {
            let closed = lane.is_closed(room)?;
            why = Some(why.map_or(closed, |why| nearer(why, closed)));
        }
        why
    }

    /// What is to be done next.
    fn choose(&mut self, book: &Book, now: f64) -> Choice {
        let mut choice = Choice {
            blocked: vec![None; self.lanes.len()],
            ..Choice::default()
        };
        self.waits.clear();
        self.rest = Wait::Turn;
        if book.paused {
            return choice;
        }
        let mut rooms = self.rooms(book);
        let mut passed: Vec<Id> = Vec::new();
        let mut walk = book.index.walk();
        while let Some((at, kind)) = walk.next() {
            let asked = book.groups.get(&kind.group).map(|group| &group.demand);
            if let Some(why) = self.is_closed(&rooms) {
                self.rest = why;
                if why == Wait::Turn {
                    self.block(&mut choice, kind, asked);
                }
                passed.push(at.id());
                break;
            }
            let (id, more) = match self.admit(book, &rooms, (at.id(), kind), asked, now) {
                Admission::Now(id, more) => (id, more),
                Admission::Later(why) => {
                    self.waits.insert(kind.clone(), why);
                    continue;
                }
                Admission::Never(why) => {
                    let all = all_of(book, kind).map(|id| (id, why.clone()));
                    choice.skips.extend(all);
                    continue;
                }
            };
            match self.place(&rooms, kind, asked) {
                Ok(spot) => {
                    for other in passed.drain(..) {
                        self.passed.entry(other).or_insert(now);
                    }
                    self.take(&mut rooms, kind, &spot.devices, book);
                    choice.starts.push((id, spot));
                    if more {
                        walk.go_on(at, kind);
                    }
                }
                Err(why) => {
                    self.waits.insert(kind.clone(), why);
                    if why == Wait::Turn {
                        self.block(&mut choice, kind, asked);
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
        choice
    }

    /// Jobs of this kind wait only because of their level, on the devices that they may use.
    fn block(&self, choice: &mut Choice, kind: &Kind, asked: Option<&Demand>) {
        let only = asked.and_then(|demand| demand.only.as_deref());
        for at in self.allowed(only.filter(|only| !only.is_empty())) {
            choice.blocked[at].get_or_insert_with(|| kind.template.clone());
        }
    }

    /// Whether the next job of a kind may start as far as other jobs and past failures are concerned.
    fn admit(
        &self,
        book: &Book,
        rooms: &Rooms,
        (first, kind): (Id, &Kind),
        asked: Option<&Demand>,
        now: f64,
    ) -> Admission {
        match asked.map_or(Turn::Now, |demand| turn(book, demand)) {
            Turn::Now => {}
            Turn::Later => return Admission::Later(Wait::After),
            Turn::Never(why) => return Admission::Never(why),
        }
        let group = asked.and_then(|demand| demand.group.as_ref());
        if group.is_some_and(|group| rooms.is_full_for(book, group)) {
            return Admission::Later(Wait::Group);
        }
        let verdict = match asked.is_some_and(|demand| demand.keep_going) {
            true => Verdict::Go,
            false => self.failures.verdict(book, kind, now),
        };
        match verdict {
            Verdict::Go => Admission::Now(first, true),
            // Of a template that has only failed, one value is tried at a time.
            Verdict::Try(probe) => Admission::Now(probe, false),
            Verdict::Hold => Admission::Later(Wait::Turn),
            Verdict::GiveUp(why) => Admission::Never(why),
        }
    }
}

/// Whether a job may start as far as others are concerned.
enum Admission {
    /// This one; whether more of its kind may follow at once.
    Now(Id, bool),
    Later(Wait),
    Never(String),
}

/// Of two reasons on two devices, the one that will be gone first as far as one can tell.
fn nearer(one: Wait, other: Wait) -> Wait {
    let order = |wait| match wait {
        Wait::Turn => 0,
        Wait::Memory => 1,
        Wait::Promise => 2,
        Wait::Alone => 3,
        Wait::Most => 4,
        _ => 5,
    };
    if order(other) < order(one) {
        other
    } else {
        one
    }
}

/// The lanes of a spot.
fn lanes_of<'a>(
    lanes: &'a mut [Lane],
    spot: Option<&'a Spot>,
) -> impl Iterator<Item = &'a mut Lane> {
    let all = lanes.iter_mut().enumerate();
    all.filter(move |(at, _)| spot.is_some_and(|spot| spot.devices.contains(at)))
        .map(|(_, lane)| lane)
}

/// Waiting jobs of a kind that are not held.
fn all_of<'a>(book: &'a Book, kind: &Kind) -> impl Iterator<Item = Id> + 'a {
    book.index.of_kind(kind).map(Position::id)
}
