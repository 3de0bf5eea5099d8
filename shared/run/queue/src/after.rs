//! Jobs that must come before others.

use std::ffi::OsString;

use crate::book::{Book, Demand, JobEnd};

/// Whether a job may start, given the jobs that must come before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    Later,
    /// It will never start; the reason.
    Never(String),
}

/// Whether a job with these requirements may start. Unknown jobs ended long ago and were forgotten.
pub(crate) fn turn(book: &Book, demand: &Demand) -> Turn {
    // Starts with the last job, which usually ends last, so that the loop stops early: it runs for every waiting job at
    // every decision.
    for id in demand.after.iter().rev() {
        let Some(entry) = book.entries.get(id) else {
            continue;
        };
        match entry.outcome() {
            None => return Turn::Later,
            Some(JobEnd::Done | JobEnd::Left) => {}
            Some(_) if demand.after_any => {}
            Some(_) => {
                return Turn::Never(format!(
                    "job {id}, after which it was to run, is not done; mt retry starts both"
                ));
            }
        }
    }
    Turn::Now
}

/// Variables for a job that starts when others have ended: the number of them that are done, and the number that ended
/// otherwise.
pub(crate) fn counts(book: &Book, demand: &Demand) -> [(OsString, OsString); 2] {
    let ended = demand.after.iter().filter_map(|id| book.entries.get(id));
    let (done, other): (Vec<_>, Vec<_>) =
        ended.partition(|entry| entry.outcome() == Some(&JobEnd::Done));
    [("MT_DONE", done.len()), ("MT_FAILED", other.len())]
        .map(|(name, count)| (name.into(), count.to_string().into()))
}
