//! Jobs that must come before others.

use std::ffi::OsString;

use crate::book::{Book, Demand, Outcome};

/// Whether the jobs that must come before one allow it to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    Later,
    /// Never, and why.
    Never(String),
}

/// Whether a job with these requirements may start. Jobs that are no longer known ended long ago.
pub(crate) fn turn(book: &Book, demand: &Demand) -> Turn {
    // From the last one, which usually ends last: this line is reached for every waiting job at every decision.
    for id in demand.after.iter().rev() {
        let Some(entry) = book.entries.get(id) else {
            continue;
        };
        match entry.outcome() {
            None => return Turn::Later,
            Some(Outcome::Done | Outcome::Left) => {}
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

/// Variables for a job that starts when others have ended: how many of them are done, and how many are not.
pub(crate) fn counts(book: &Book, demand: &Demand) -> [(OsString, OsString); 2] {
    let ended = demand.after.iter().filter_map(|id| book.entries.get(id));
    let (done, other): (Vec<_>, Vec<_>) =
        ended.partition(|entry| entry.outcome() == Some(&Outcome::Done));
    [("MT_DONE", done.len()), ("MT_FAILED", other.len())]
        .map(|(name, count)| (name.into(), count.to_string().into()))
}
