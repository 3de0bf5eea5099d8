//! What happens to jobs when a server ends, and which ended jobs are kept.

use std::collections::BTreeSet;

use crate::book::{Book, Entry, Id, JobEnd, JobState, Record};

/// A job is given up after this many starts during which the server died: it may be the job that crashes the machine.
pub const MOST_STARTS: u32 = 3;

impl Book {
    /// Records for a new server about the jobs that ran when the last one died. Jobs that the queue started died with
    /// the server; they wait again or are given up. Programs that others started are checked with `is_alive`, unless
    /// the machine was restarted.
    #[must_use]
    pub fn recover(
        &self,
        boot: &str,
        now_s: f64,
        is_alive: impl Fn(&Entry) -> bool,
    ) -> Vec<Record> {
        let mut records = vec![Record::Opened(boot.to_owned())];
        for entry in self.running() {
            let id = entry.job.id;
            records.extend(match entry.job.process {
                Some(_) if boot == self.boot && is_alive(entry) => None,
                Some(_) => Some(Record::Ended {
                    id,
                    at_s: now_s,
                    outcome: JobEnd::Left,
                }),
                None if entry.lost + 1 >= MOST_STARTS && !entry.cancelled => Some(Record::Ended {
                    id,
                    at_s: now_s,
                    outcome: JobEnd::Skipped(format!(
                        "the server ended {MOST_STARTS} times while it ran"
                    )),
                }),
                None => Some(self.returned(entry, now_s, Record::Lost(id))),
            });
        }
        records
    }

    /// Records for the jobs that a server ended because it was asked to end itself. This is not the jobs' fault, so
    /// these starts do not count towards `MOST_STARTS`.
    #[must_use]
    pub fn stopped(&self, now_s: f64) -> Vec<Record> {
        let own = self.running().filter(|entry| entry.job.process.is_none());
        own.map(|entry| {
            let (id, alone) = (entry.job.id, false);
            self.returned(entry, now_s, Record::Returned { id, alone })
        })
        .collect()
    }

    /// The record for a job whose processes ended with the server: `again` if the job may be started again, otherwise
    /// its end.
    fn returned(&self, entry: &Entry, at_s: f64, again: Record) -> Record {
        let once = "the server ended while it ran, and --once forbids a second start";
        let outcome = match (entry.cancelled, self.demand(entry).once) {
            (true, _) => JobEnd::Cancelled,
            (_, true) => JobEnd::Skipped(once.to_owned()),
            _ => return again,
        };
        Record::Ended {
            id: entry.job.id,
            at_s,
            outcome,
        }
    }

    /// Forgets ended jobs, except the last `keep` of them, those that ended after `since`, those of requests with
    /// unfinished jobs, and those that unfinished jobs come `after`: somebody may wait for them.
    pub fn prune(&mut self, keep: usize, since: f64) {
        let open: BTreeSet<u64> = (self.running().chain(self.waiting()))
            .map(|entry| entry.group)
            .collect();
        let open_groups = open.iter().filter_map(|number| self.groups.get(number));
        let needed: BTreeSet<Id> = open_groups.flat_map(|g| &g.demand.after).copied().collect();
        let mut old: Vec<(f64, Id)> = (self.entries.values())
            .filter(|entry| !needed.contains(&entry.job.id))
            .filter(|entry| !open.contains(&entry.group))
            .filter_map(|entry| match entry.state {
                JobState::Ended { at_s, .. } => Some((at_s, entry.job.id)),
                _ => None,
            })
            .collect();
        old.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let old = &old[..old.len().saturating_sub(keep)];
        for (_, id) in old.iter().filter(|(at_s, _)| *at_s < since) {
            self.entries.remove(id);
        }
        let used: BTreeSet<u64> = self.entries.values().map(|e| e.group).collect();
        self.groups.retain(|number, _| used.contains(number));
    }
}
