//! When to give up the remaining jobs of a template that has only failed.
//!
//! A mistake in the command makes every value fail; a bad value fails alone. So after the first failures, values far
//! from the failed ones are tried. A job of the template that has run for longer than the failed ones shows that the
//! command works.

use std::collections::BTreeMap;

use crate::book::{Book, Entry, Id, JobEnd, JobState};
use crate::index::Kind;

/// Number of failures of a template without a success after which its jobs are no longer started in their order.
pub const MOST_FAILURES: u32 = 3;
/// Number of failures without a success after which no more of its jobs are started. The nine starts after
/// [`MOST_FAILURES`] include the last, the middle and the first of the waiting jobs. So a sweep from large to small
/// batch sizes reaches the sizes that fit in memory, and a sweep of twelve values is tried completely. A mistake in the
/// command costs nine more starts than a limit of three would.
pub const GIVEN_UP: u32 = 12;
/// A job counts as working once it has run for this many times the longest failed run plus one second (the time to load
/// a framework varies by about a second).
const OUTLIVES: f64 = 2.0;

/// Failures of a template without a success since jobs were last added.
#[derive(Debug, Clone, Copy, Default)]
struct Failed {
    number: u32,
    /// Longest run that failed, in seconds.
    longest_s: f64,
    /// One job of the template succeeded.
    works: bool,
}

/// Failures of all templates.
#[derive(Debug, Default)]
pub(crate) struct Failures(BTreeMap<String, Failed>);

/// What to do with the next job of a template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Start it.
    Go,
    /// Start only this job, as a probe.
    Try(Id),
    /// Wait for the running ones: they may show that the command works.
    Hold,
    /// None of them will be started, and why.
    GiveUp(String),
}

impl Failures {
    /// Jobs of a template were added: the user may have fixed what failed.
    pub(crate) fn forget(&mut self, template: &str) {
        self.0.remove(template);
    }

    pub(crate) fn ended(&mut self, entry: &Entry, outcome: &JobEnd, now: f64) {
        let failed = self.0.entry(entry.job.template.clone()).or_default();
        match outcome {
            JobEnd::Done => failed.works = true,
            JobEnd::Failed(_) | JobEnd::Killed(_) => {
                failed.number += 1;
                if let JobState::Running(at) = entry.state {
                    failed.longest_s = failed.longest_s.max(now - at);
                }
            }
            // A timeout does not show a mistake in the command: other values may be faster.
            JobEnd::TimedOut | JobEnd::Cancelled | JobEnd::Skipped(_) | JobEnd::Left => {}
        }
    }

    pub(crate) fn verdict(&self, book: &Book, kind: &Kind, now: f64) -> Verdict {
        let Some(failed) = self.0.get(&kind.template) else {
            return Verdict::Go;
        };
        if failed.works || failed.number < MOST_FAILURES {
            return Verdict::Go;
        }
        let ages: Vec<f64> = (book.running())
            .filter(|entry| entry.job.template == kind.template)
            .filter_map(|entry| match entry.state {
                JobState::Running(at) => Some(now - at),
                _ => None,
            })
            .collect();
        let outlives = OUTLIVES * failed.longest_s + 1.0;
        if ages.iter().any(|age| *age > outlives) {
            return Verdict::Go;
        }
        match (failed.number < GIVEN_UP, ages.is_empty()) {
            (true, true) => match (failed.number % 3, book.index.spread(kind)) {
                (n, Some(values)) => Verdict::Try(values[n as usize]),
                (_, None) => Verdict::Go,
            },
            (_, false) => Verdict::Hold,
            (false, true) => Verdict::GiveUp(format!(
                "{} jobs of this template failed and none was done (--keep-going starts the others)",
                failed.number
            )),
        }
    }
}
