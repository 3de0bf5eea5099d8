//! The state of the queue's jobs, exactly as its journal defines it.
//!
//! Every change is a [`Record`]: it is checked against the state, written to the journal, and then applied here. So the
//! state after a crash equals the state before it, and a record that contradicts the state means a corrupt journal.

use std::collections::{BTreeMap, BTreeSet};

use units::Share;

pub use crate::entry::{
    Contradiction, Demand, Entry, Group, Id, JobEnd, JobState, On, Placed, QueuedJob, Record,
    Snapshot, Wishes,
};
use crate::index::Index;

/// All jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Book {
    /// Boot of the machine in which the last server began.
    pub boot: String,
    /// Common parts of jobs, by group.
    pub groups: BTreeMap<u64, Group>,
    /// Jobs by number.
    pub entries: BTreeMap<Id, Entry>,
    /// The queue is paused.
    pub paused: bool,
    /// A person's settings.
    pub wishes: Wishes,
    /// The last number in use.
    pub last: u64,
    /// Running jobs and the order of the waiting ones, derived from `entries`.
    pub(crate) index: Index,
}

/// No queue ever has this many jobs; a larger number comes from a damaged record.
pub(crate) const MOST_ID: u64 = 1 << 40;

impl Book {
    /// Numbers for `count` jobs that are about to be added.
    #[must_use]
    pub fn next_ids(&self, count: usize) -> Vec<Id> {
        (1..=count as u64).map(|n| Id(self.last + n)).collect()
    }

    /// Requirements of a job.
    #[must_use]
    pub fn demand(&self, entry: &Entry) -> Demand {
        self.asked(entry).cloned().unwrap_or_default()
    }

    /// Requirements of a job, without a copy.
    #[must_use]
    pub fn asked(&self, entry: &Entry) -> Option<&Demand> {
        self.groups.get(&entry.group).map(|group| &group.demand)
    }

    /// Share of the device: for a running job the share it was started with, otherwise the maximum that it may get.
    #[must_use]
    pub fn share(&self, entry: &Entry) -> Share {
        let place = entry.placed.as_ref().filter(|_| entry.is_running());
        let placed = place.map(|place| place.share);
        let requested = placed.or(self.asked(entry).and_then(|demand| demand.share));
        requested.map_or(Share::FULL, Share::from_hundredths)
    }

    /// Jobs of the request with this token; empty if it has not been sent before.
    #[must_use]
    pub fn of_token(&self, token: &str) -> Vec<Id> {
        let of_it = self.groups.iter().filter(|(_, g)| g.token == token);
        let groups: BTreeSet<u64> = of_it.map(|(number, _)| *number).collect();
        let all = self.entries.values().filter(|e| groups.contains(&e.group));
        all.map(|e| e.job.id).collect()
    }

    /// Running jobs.
    pub fn running(&self) -> impl Iterator<Item = &Entry> {
        let running = self.index.running.iter();
        running.filter_map(|id| self.entries.get(id))
    }

    /// Waiting jobs, held ones among them.
    pub fn waiting(&self) -> impl Iterator<Item = &Entry> {
        let waiting = self.index.waiting.iter();
        waiting.filter_map(|id| self.entries.get(id))
    }

    /// Jobs that have not ended and whose process another program started.
    pub fn others(&self) -> impl Iterator<Item = &Entry> {
        let others = self.index.others.iter();
        others.filter_map(|id| self.entries.get(id))
    }

    /// Whether a job runs or waits.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.index.running.is_empty() || !self.index.waiting.is_empty()
    }

    /// Applies a change.
    ///
    /// # Errors
    /// [`Contradiction`]; the state is then unchanged.
    pub fn apply(&mut self, record: &Record) -> Result<(), Contradiction> {
        match record {
            Record::Book(snapshot) => {
                let new = (**snapshot).clone();
                *self = Self {
                    boot: new.boot,
                    groups: new.groups,
                    entries: BTreeMap::new(),
                    paused: new.paused,
                    wishes: new.wishes,
                    last: new.last,
                    index: Index::default(),
                };
                new.entries.into_values().for_each(|e| self.insert(e));
            }
            Record::Group { number, .. } if self.groups.contains_key(number) => {
                return Err(Contradiction(format!("there is a group {number}")));
            }
            Record::Group { number, group } => _ = self.groups.insert(*number, group.clone()),
            Record::Entry(entry) => self.insert((**entry).clone()),
            Record::Opened(boot) => self.boot.clone_from(boot),
            Record::Paused(on) => self.paused = *on,
            Record::Wishes(new) => {
                let old = &self.wishes;
                self.wishes = Wishes {
                    most: new.most.or(old.most),
                    memory: new.memory.or(old.memory),
                    device: new.device.or(old.device),
                    grace_ms: new.grace_ms.or(old.grace_ms),
                    groups: [&old.groups, &new.groups]
                        .into_iter()
                        .flat_map(BTreeMap::clone)
                        .collect(),
                };
            }
            Record::Added { group, jobs, at_s } => {
                let numbers: Vec<Id> = jobs.iter().map(|job| job.id).collect();
                if numbers != self.next_ids(jobs.len()) {
                    let last = self.last;
                    return Err(Contradiction(format!("jobs {numbers:?} after job {last}")));
                }
                self.add(group, jobs, *at_s);
            }
            _ => return self.change(record),
        }
        Ok(())
    }

    /// Applies a change of one job.
    fn change(&mut self, record: &Record) -> Result<(), Contradiction> {
        let Some(before) = record.job().and_then(|id| self.entries.get(&id)) else {
            return Err(Contradiction(match record.job() {
                Some(id) => format!("there is no job {id}"),
                None => "it is of no job".to_owned(),
            }));
        };
        let demand = self.demand(before);
        let mut after = before.clone();
        after.apply(record)?;
        self.index.remove(before, &demand);
        self.index.add(&after, &demand);
        self.entries.insert(after.job.id, after);
        Ok(())
    }

    /// Applies a record of a damaged journal as far as possible although other records are missing. It trusts what the
    /// record proves: a job with a record of its end is not started again only because the record of its start is lost.
    ///
    /// # Errors
    /// [`Contradiction`] if it concerns no known job; then at most the last number has changed.
    pub(crate) fn salvage(&mut self, record: &Record) -> Result<(), Contradiction> {
        let Err(wrong) = self.apply(record) else {
            return Ok(());
        };
        // Numbers are never reused, even those of lost jobs. A damaged digit could give a number so large that none
        // would be left for later jobs.
        let used = record.job().map_or(0, |id| id.0);
        self.last = self.last.max(if used < MOST_ID { used } else { 0 });
        match record {
            Record::Added { group, jobs, at_s }
                if (jobs.iter()).all(|job| !self.entries.contains_key(&job.id)) =>
            {
                self.add(group, jobs, *at_s);
                return Ok(());
            }
            // The record of the end of its previous run is missing.
            Record::Started { id, .. } => self.change(&Record::Lost(*id))?,
            // The record of its start is missing.
            Record::Ended { id, .. } | Record::Cancelled(id) => {
                let at_s = self.entries.get(id).map_or(0.0, |entry| entry.added_s);
                self.change(&Record::Started {
                    id: *id,
                    at_s,
                    placed: None,
                })?;
            }
            _ => return Err(wrong),
        }
        self.change(record)
    }

    /// Checks that records can be applied, one after another. Only the jobs that they change are copied: a book of a
    /// hundred thousand jobs changes hundreds of times a second.
    ///
    /// # Errors
    /// [`Contradiction`] of the first record that cannot be applied.
    pub fn rehearse(&self, records: &[Record]) -> Result<(), Contradiction> {
        let mut part = Self {
            last: self.last,
            ..Self::default()
        };
        let touched = records.iter().filter_map(Record::job);
        for entry in touched.filter_map(|id| self.entries.get(&id)) {
            part.entries.insert(entry.job.id, entry.clone());
        }
        records.iter().try_for_each(|record| part.apply(record))
    }

    fn insert(&mut self, entry: Entry) {
        let demand = self.demand(&entry);
        if let Some(before) = self.entries.get(&entry.job.id) {
            self.index.remove(before, &demand);
        }
        self.last = self.last.max(entry.job.id.0);
        self.index.add(&entry, &demand);
        self.entries.insert(entry.job.id, entry);
    }

    fn add(&mut self, group: &Group, jobs: &[QueuedJob], at_s: f64) {
        let number = self.groups.keys().next_back().map_or(1, |last| last + 1);
        let group = Group {
            first: group.first.or(jobs.first().map(|job| job.id)),
            ..group.clone()
        };
        self.groups.insert(number, group);
        for job in jobs {
            self.insert(Entry {
                job: job.clone(),
                group: number,
                added_s: at_s,
                state: JobState::Waiting,
                starts: 0,
                held: false,
                cancelled: false,
                alone: false,
                lost: 0,
                peak: None,
                slower: None,
                placed: None,
            });
        }
    }

    /// Records that reproduce this state.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let head = Snapshot {
            boot: self.boot.clone(),
            paused: self.paused,
            wishes: self.wishes.clone(),
            last: self.last,
            ..Snapshot::default()
        };
        let groups = self.groups.iter().map(|(number, group)| Record::Group {
            number: *number,
            group: group.clone(),
        });
        let entries = self
            .entries
            .values()
            .map(|entry| Record::Entry(Box::new(entry.clone())));
        std::iter::once(Record::Book(Box::new(head)))
            .chain(groups)
            .chain(entries)
    }
}
