//! The order of jobs: which may start now, and which never will.

use std::collections::{BTreeMap, BTreeSet};

use super::{Decision, Policy};
use crate::after::{Turn, turn};
use crate::book::{Book, Demand, Id};
use crate::devices::Spot;
use crate::failures::Verdict;
use crate::index::{Kind, Position};
use crate::lane::{Room, Wait};

/// Seconds for which later jobs that fit may overtake a job that does not. Then its place is reserved: nothing starts
/// before it that might delay it.
const PASSED: f64 = 60.0;
/// With more waiting jobs than this, no forecast of their ends is made.
const MOST_FORECAST: usize = 64;

/// Resources in use while decisions are made.
pub(super) struct Rooms {
    pub(super) jobs: usize,
    pub(super) lanes: Vec<Room>,
    /// Number of jobs of each named group.
    groups: BTreeMap<String, usize>,
    /// Number of waiting jobs that are not held.
    pub(super) waiting: usize,
    /// Their templates, in order; empty if there are too many to forecast their ends.
    pub(super) queued: Vec<String>,
    /// Device, template and cap of the jobs that start now.
    pub(super) starts: Vec<(usize, String, u32)>,
    /// Devices and templates whose jobs had better wait, until another job starts.
    pub(super) refused: BTreeSet<(usize, String)>,
    /// A job that waits for memory and must not be delayed.
    pub(super) reserved: Option<Kind>,
}

impl Rooms {
    /// Whether a group has reached the user's limit.
    fn is_full_for(&self, book: &Book, group: &str) -> bool {
        let running = self.groups.get(group).copied().unwrap_or(0);
        let most = book.wishes.groups.get(group);
        most.is_some_and(|&most| running >= most)
    }
}

/// The chosen actions.
#[derive(Default)]
struct Choice {
    starts: Vec<(Id, Spot)>,
    /// Jobs that will never start, and why.
    skips: Vec<(Id, String)>,
    /// For each device, why a job waits for it: the number of jobs at once, or memory.
    blocked: Vec<Option<Wait>>,
}

/// Whether other jobs and past failures allow a job to start.
enum Admission {
    /// This job may start; the flag says whether more of its kind may follow immediately.
    Now(Id, bool),
    Later(Wait),
    Never(String),
}

impl Policy {
    /// Decides the next actions. The caller must carry out every [`Decision::Start`], or record the end of the job in
    /// the book.
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
        let left = book.index.ready().saturating_sub(choice.starts.len());
        // A faster device gets more of the waiting jobs.
        let first = book.index.walk().next().map(|(_, kind)| &*kind.template);
        let speed = |at: usize| first.map_or(1.0, |template| self.speed(at, template));
        let speeds: Vec<f64> = (0..self.lanes.len()).map(speed).collect();
        let sum: f64 = self.allowed(None).map(|at| speeds[at]).sum();
        let left: Vec<usize> = speeds
            .iter()
            .map(|speed| (left as f64 * speed / sum).ceil() as usize)
            .collect();
        let skips = choice.skips.into_iter();
        decisions.extend(skips.map(|(id, why)| Decision::Skip(id, why)));
        let starts = choice.starts.into_iter();
        decisions.extend(starts.map(|(id, spot)| Decision::Start(id, spot)));
        for (at, blocked) in choice.blocked.into_iter().enumerate() {
            // Devices with jobs that start now are left to the next call, when those jobs run.
            if !started.contains(&at) {
                let kind = self.lanes[at].kind;
                let blocked = blocked.map(|why| (left[at], why == Wait::Turn));
                self.kinds[kind].1.settle(at, now, blocked);
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
            waiting: book.index.ready(),
            queued: Vec::new(),
            starts: Vec::new(),
            refused: BTreeSet::new(),
            reserved: None,
        };
        if rooms.waiting <= MOST_FORECAST {
            rooms.queued = book.index.templates();
        }
        for entry in book.running() {
            let devices = match self.spots.get(&entry.job.id) {
                Some(spot) => &*spot.devices,
                None => &[],
            };
            let kind = Kind::of(entry, &book.demand(entry));
            self.take(&mut rooms, &kind, Some(entry.job.id), devices, book);
        }
        rooms
    }

    fn take(&self, rooms: &mut Rooms, kind: &Kind, id: Option<Id>, devices: &[usize], book: &Book) {
        rooms.jobs += 1;
        let group = book.groups.get(&kind.group);
        let promise = group.and_then(|group| group.demand.at_most_slower);
        for &at in devices {
            if let (Some(lane), Some(room)) = (self.lanes.get(at), rooms.lanes.get_mut(at)) {
                lane.take(room, kind, promise, id, self.explorer(at));
            }
        }
        if let Some(name) = group.and_then(|group| group.demand.group.as_ref()) {
            *rooms.groups.entry(name.clone()).or_default() += 1;
        }
    }

    /// Chooses the next actions.
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
                self.block(&mut choice, asked, why);
                passed.push(at.id());
                break;
            }
            let (id, more) = match self.admit(book, &rooms, at.id(), kind, asked, now) {
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
            match self.place(&mut rooms, kind, asked, now) {
                Ok(spot) => {
                    for other in passed.drain(..) {
                        self.passed.entry(other).or_insert(now);
                    }
                    self.take(&mut rooms, kind, None, &spot.devices, book);
                    rooms.waiting = rooms.waiting.saturating_sub(1);
                    let first = rooms.queued.iter().position(|of| *of == kind.template);
                    first.map(|first| rooms.queued.remove(first));
                    let cap = spot.share.percent().round() as u32;
                    let starts = spot
                        .devices
                        .iter()
                        .map(|at| (*at, kind.template.clone(), cap));
                    rooms.starts.extend(starts);
                    rooms.refused.clear();
                    choice.starts.push((id, spot));
                    if more {
                        walk.go_on(at, kind);
                    }
                }
                Err(why) => {
                    self.waits.insert(kind.clone(), why);
                    self.block(&mut choice, asked, why);
                    passed.push(id);
                    let since = self.passed.get(&id);
                    if since.is_some_and(|since| now - since >= PASSED) {
                        self.rest = Wait::Reserved;
                        if why != Wait::Memory || rooms.reserved.is_some() {
                            break;
                        }
                        rooms.reserved = Some(kind.clone());
                    }
                }
            }
        }
        choice
    }

    /// Notes for each device that a job may use why the job waits for it: the number of jobs at once, or memory.
    fn block(&self, choice: &mut Choice, asked: Option<&Demand>, why: Wait) {
        let only = asked.and_then(|demand| demand.only.as_deref());
        for at in self.allowed(only) {
            let known = &mut choice.blocked[at];
            match why {
                Wait::Turn => *known = Some(why),
                Wait::Memory => *known = known.or(Some(why)),
                _ => {}
            }
        }
    }

    /// Whether other jobs and past failures allow the next job of a kind to start.
    fn admit(
        &self,
        book: &Book,
        rooms: &Rooms,
        first: Id,
        kind: &Kind,
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
            // A template that has only failed so far tries one value at a time.
            Verdict::Try(probe) => Admission::Now(probe, false),
            Verdict::Hold => Admission::Later(Wait::Turn),
            Verdict::GiveUp(why) => Admission::Never(why),
        }
    }
}

/// Waiting jobs of a kind that are not held.
fn all_of<'a>(book: &'a Book, kind: &Kind) -> impl Iterator<Item = Id> + 'a {
    book.index.of_kind(kind).map(Position::id)
}
