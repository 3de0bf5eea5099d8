//! Index of running and waiting jobs, updated with every record, so that the cost of a decision does not depend on how
//! many jobs wait or have ended.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use crate::entry::{Demand, Entry, Id, JobState};

/// Seconds of waiting that raise the priority by one, so that no job waits for ever behind later jobs.
const AGE: f64 = 600.0;

/// Waiting jobs with equal requirements. If one job of a kind does not fit, no later one of that kind does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    /// Number of its request, which determines its requirements.
    pub(crate) group: u64,
    pub(crate) template: String,
    /// Bytes of memory that it requires.
    pub(crate) memory: u64,
    /// It must run alone.
    pub(crate) alone: bool,
    /// Number of whole GPUs that it gets; 0: it shares one.
    pub(crate) gpus: usize,
}

impl Kind {
    pub(crate) fn of(entry: &Entry, demand: &Demand) -> Self {
        Self {
            group: entry.group,
            template: entry.job.template.clone(),
            memory: demand.memory.unwrap_or(0),
            alone: entry.alone,
            gpus: demand.gpus.unwrap_or(0),
        }
    }
}

/// Position in the order of starting; lower positions start first. In `priority + age / AGE` the age of all jobs grows
/// equally, so the order of two jobs never changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position(f64, Id);

impl Position {
    fn of(entry: &Entry, demand: &Demand) -> Self {
        let rank = entry.added_s / AGE - f64::from(demand.priority);
        Self(rank, entry.job.id)
    }

    pub(crate) const fn id(self) -> Id {
        self.1
    }
}

impl Ord for Position {
    // Jobs of one request have the same age, so their numbers decide.
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Position {}

/// The jobs of a book that have not ended, in the sets that decisions need.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Index {
    /// Running jobs.
    pub(crate) running: BTreeSet<Id>,
    /// Waiting jobs, held ones among them.
    pub(crate) waiting: BTreeSet<Id>,
    /// Jobs that have not ended and whose process another program started.
    pub(crate) others: BTreeSet<Id>,
    /// Waiting jobs that are not held, by kind.
    ready: BTreeMap<Kind, BTreeSet<Position>>,
    /// The first job of each kind.
    heads: BTreeMap<Position, Kind>,
}

impl Index {
    /// Inserts a job that has just entered its state.
    pub(crate) fn add(&mut self, entry: &Entry, demand: &Demand) {
        let id = entry.job.id;
        match entry.state {
            JobState::Ended { .. } => return,
            JobState::Running(_) => _ = self.running.insert(id),
            JobState::Waiting => {
                self.waiting.insert(id);
                if !entry.held {
                    let kind = Kind::of(entry, demand);
                    self.change(kind, |all| all.insert(Position::of(entry, demand)));
                }
            }
        }
        if entry.job.process.is_some() {
            self.others.insert(id);
        }
    }

    /// Removes a job that is about to leave its state.
    pub(crate) fn remove(&mut self, entry: &Entry, demand: &Demand) {
        let id = entry.job.id;
        self.running.remove(&id);
        self.others.remove(&id);
        if self.waiting.remove(&id) && !entry.held {
            let kind = Kind::of(entry, demand);
            self.change(kind, |all| all.remove(&Position::of(entry, demand)));
        }
    }

    fn change(&mut self, kind: Kind, how: impl FnOnce(&mut BTreeSet<Position>) -> bool) {
        let mut all = self.ready.remove(&kind).unwrap_or_default();
        if let Some(first) = all.first() {
            self.heads.remove(first);
        }
        how(&mut all);
        if let Some(first) = all.first() {
            self.heads.insert(*first, kind.clone());
            self.ready.insert(kind, all);
        }
    }

    /// Waiting jobs of a kind that are not held, in their order.
    pub(crate) fn of_kind(&self, kind: &Kind) -> impl Iterator<Item = Position> + use<'_> {
        self.ready.get(kind).into_iter().flatten().copied()
    }

    /// Number of waiting jobs that are not held.
    pub(crate) fn ready(&self) -> usize {
        self.ready.values().map(BTreeSet::len).sum()
    }

    /// The templates of the waiting jobs that are not held, in the order of starting.
    pub(crate) fn templates(&self) -> Vec<String> {
        let of = |(kind, all): (&Kind, &BTreeSet<Position>)| {
            let of = all.iter().map(|at| (*at, kind.template.clone()));
            of.collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.ready.iter().flat_map(of).collect();
        all.sort();
        all.into_iter().map(|(_, template)| template).collect()
    }

    /// The last, the middle and the first waiting job of a kind.
    pub(crate) fn spread(&self, kind: &Kind) -> Option<[Id; 3]> {
        let all = self.ready.get(kind)?;
        let (first, last) = (all.first()?, all.last()?);
        let half = Position(
            f64::midpoint(first.0, last.0),
            Id(u64::midpoint(first.1.0, last.1.0)),
        );
        Some([last.id(), all.range(half..).next()?.id(), first.id()])
    }

    /// Walks through the jobs that may start, in their order.
    pub(crate) fn walk(&self) -> Walk<'_> {
        Walk {
            index: self,
            heads: self.heads.iter().peekable(),
            next: BTreeMap::new(),
        }
    }
}

/// Iterates over the first job of each kind, in the order of starting; [`Walk::go_on`] asks for later jobs of a kind.
pub(crate) struct Walk<'a> {
    index: &'a Index,
    heads: Peekable<std::collections::btree_map::Iter<'a, Position, Kind>>,
    next: BTreeMap<Position, &'a Kind>,
}

impl<'a> Walk<'a> {
    /// Also yields the next job of this kind after `at`.
    pub(crate) fn go_on(&mut self, at: Position, kind: &'a Kind) {
        use std::ops::Bound::{Excluded, Unbounded};
        let later = self
            .index
            .ready
            .get(kind)
            .and_then(|all| all.range((Excluded(at), Unbounded)).next());
        if let Some(later) = later {
            self.next.insert(*later, kind);
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = (Position, &'a Kind);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.heads.peek().map(|(at, _)| **at);
        match (head, self.next.first_key_value()) {
            (Some(head), Some((later, _))) if *later < head => self.next.pop_first(),
            (None, _) => self.next.pop_first(),
            (Some(_), _) => self.heads.next().map(|(at, kind)| (*at, kind)),
        }
    }
}
