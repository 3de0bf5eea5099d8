//! Periodic observation of state that nothing reports: processes of others, processors, memory.

use std::time::{Duration, Instant};

use super::{Keeper, Run};
use crate::book::{Entry, Id, JobEnd, JobState, Record};

/// How often to check whether processes that others started still exist.
const LOOK_AT_OTHERS: Duration = Duration::from_millis(200);

impl Keeper {
    pub(super) fn read_lines(&mut self) {
        for (task, at, line) in self.lines.borrow_mut().drain(..) {
            let id = task.as_str().parse().ok().map(Id);
            if let Some(live) = id.and_then(|id| self.live.get_mut(&id)) {
                live.detector.line(at, &line);
            }
        }
        for (id, live) in &mut self.live {
            let mark = live.detector.best().and_then(|best| best.marks.last());
            if let Some((at, work)) = mark.filter(|(_, work)| *work > live.told) {
                live.told = work;
                self.policy.progress(*id, at, work, live.detector.total());
            }
        }
    }

    /// A running job has ended: forgets its measurements.
    pub(super) fn over(&mut self, entry: &Entry, outcome: JobEnd) {
        let (id, at_s) = (entry.job.id, self.now());
        self.policy.ended(entry, &outcome, at_s);
        self.owed.push(Record::Ended { id, at_s, outcome });
    }

    /// Records the end of programs that others started, admitted or still waiting.
    pub(super) fn look_at_others(&mut self) {
        if self.looked.elapsed() < LOOK_AT_OTHERS || !self.owed.is_empty() {
            return;
        }
        self.looked = Instant::now();
        let others: Vec<Entry> = self.book.others().cloned().collect();
        let at_s = self.now();
        for entry in others {
            let id = entry.job.id;
            if self.others.look(&self.folder, &entry) {
                let is_orphan = entry.job.parent.is_some_and(|parent| !parent.is_alive());
                if is_orphan || entry.cancelled {
                    let grace = self.grace(id);
                    self.others.end(&self.folder, &entry, grace);
                }
                continue;
            }
            self.others.forget(id);
            self.graces.remove(&id);
            self.lent.remove(&id);
            match (&entry.state, entry.cancelled) {
                (JobState::Running(_), false) => self.over(&entry, JobEnd::Left),
                (JobState::Running(_), true) => self.over(&entry, JobEnd::Cancelled),
                _ => self.owed.push(Record::Ended {
                    id,
                    at_s,
                    outcome: JobEnd::Cancelled,
                }),
            }
        }
    }

    /// The first process of a running job.
    pub(super) fn pid(run: &Run<'_>, entry: &Entry) -> Option<i32> {
        match entry.job.process {
            Some(process) => Some(process.pid),
            None => i32::try_from(run.pid(entry.job.id)?).ok(),
        }
    }

    /// Observes jobs and processors, a few times a second.
    pub(super) fn look_at_processors(&mut self, run: &Run<'_>) {
        let processors = self.place.devices.len() - 1;
        let on_them = |entry: &Entry| {
            let spot = self.policy.spot(entry.job.id);
            spot.is_some_and(|spot| spot.devices.contains(&processors))
        };
        // For jobs on GPUs, the load of the processors is irrelevant.
        if !self.book.running().any(on_them) {
            return;
        }
        let jobs = self.book.running().filter_map(|entry| {
            let JobState::Running(at) = entry.state else {
                return None;
            };
            let (id, pid) = (entry.job.id, Self::pid(run, entry)?);
            Some((id, at, pid, run.procs(id)))
        });
        if let Some(look) = self.watch.look(self.clock.now(), jobs) {
            self.policy.look(&look);
        }
    }
}
