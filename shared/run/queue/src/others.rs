//! Admitted programs (started by another program, as with `mt exec`) and all their descendants.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use jobs::process::{Identity, family, with_variable};

use crate::book::{Entry, Id};

/// Variable in every job and every admitted program: its number and the queue's folder. A program below it that asks
/// for admission already has its place.
pub const JOB: &str = "MT_QUEUE_JOB";

/// The value of [`JOB`].
pub fn mark(folder: &Path, id: Id) -> String {
    format!("{id}:{}", folder.display())
}

/// The job of this queue in which this process runs, if it does.
pub fn own_job(folder: &Path) -> Option<Id> {
    let mark = std::env::var(JOB).ok()?;
    let (id, of) = mark.split_once(':')?;
    (Path::new(of) == folder)
        .then(|| id.parse().ok().map(Id))
        .flatten()
}

/// Whether an admitted program or anything that it has started is alive.
pub(crate) fn is_alive(folder: &Path, entry: &Entry) -> bool {
    entry.job.process.is_some_and(Identity::is_alive) || !carriers(folder, entry.job.id).is_empty()
}

/// Live processes with a job's mark in their environment.
fn carriers(folder: &Path, id: Id) -> Vec<Identity> {
    let wanted = format!("{JOB}={}", mark(folder, id));
    with_variable(|variable| variable == wanted.as_bytes())
}

/// What the server knows about admitted programs.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// When a program was asked to end, and which of its processes got the signal.
    asked: BTreeMap<Id, (Instant, Vec<Identity>)>,
    /// Processes of a program at the last look.
    seen: BTreeMap<Id, Vec<Identity>>,
}

impl Others {
    /// Whether a program or one of its descendants is alive. A wrapper may end before the program that it wraps; its
    /// children are known from earlier looks or by their mark.
    pub(crate) fn look(&mut self, folder: &Path, entry: &Entry) -> bool {
        let (id, process) = (entry.job.id, entry.job.process);
        let seen = self.seen.entry(id).or_default();
        if !entry.is_running() {
            return process.is_some_and(Identity::is_alive);
        }
        seen.retain(|process| process.is_alive());
        let root = process.filter(|process| process.is_alive());
        seen.extend(root);
        if root.is_none() {
            seen.extend(carriers(folder, id));
        }
        let roots: Vec<i32> = seen.iter().map(|process| process.pid).collect();
        let all = roots.into_iter().flat_map(family);
        seen.extend(all.filter_map(Identity::of).filter(|p| p.is_alive()));
        seen.sort_by_key(|process| process.pid);
        seen.dedup();
        !seen.is_empty()
    }

    /// Asks all processes of a program to end, each once, and kills the remaining ones after `grace`.
    pub(crate) fn end(&mut self, folder: &Path, entry: &Entry, grace: Duration) {
        let id = entry.job.id;
        let seen = self.seen.get(&id).into_iter().flatten().copied();
        let mut all: Vec<Identity> = seen.chain(entry.job.process).collect();
        let (since, asked) = self.asked.entry(id).or_insert_with(|| {
            // Includes processes that were reparented away from the program: nothing else would ask them to end first.
            all.extend(carriers(folder, id));
            (Instant::now(), Vec::new())
        });
        if since.elapsed() > grace {
            return all.into_iter().for_each(Identity::kill);
        }
        for process in all {
            if !asked.contains(&process) {
                process.terminate();
                asked.push(process);
            }
        }
    }

    /// A program has gone.
    pub(crate) fn forget(&mut self, id: Id) {
        self.asked.remove(&id);
        self.seen.remove(&id);
    }
}
