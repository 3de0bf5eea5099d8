//! Time limits of a process.

use std::time::{Duration, Instant};

use host::Gpus;
use jobs::Held;

/// How a process reports its progress, for advice in messages when it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reports {
    /// By the worker protocol, or in lines that are recognised.
    #[default]
    Lines,
    /// By the worker protocol, after an order; it first loads on standby.
    Loaded,
    /// In log lines that match an expression of the workload.
    Matched,
    /// Not at all: it never becomes ready, and its exit status says whether its work is done.
    Nothing,
}

/// Time limits of a process. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Time until it is ready, from its start or from this setting.
    pub ready: Option<Duration>,
    /// Time between two steps.
    pub stall: Option<Duration>,
    /// Deadline of its work, restarts included, with the length of this limit for the message.
    pub until: Option<(Instant, Duration)>,
    /// Time from SIGTERM to SIGKILL; absent: the general setting.
    pub grace: Option<Duration>,
    /// How it reports progress.
    pub reports: Reports,
}

/// A time limit that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    Work(Duration),
    Ready(Duration),
    Step(Duration),
}

/// A process under its limits.
#[derive(Debug)]
pub(crate) struct Watch<K> {
    pub(crate) key: K,
    pub(crate) limits: Limits,
    /// The GPUs on which it computes, so that a fault of them concerns it; absent if it does not compute.
    pub(crate) gpus: Option<Gpus>,
    pub(crate) ready: bool,
    /// Whether its work is done and counts, however it ends.
    pub(crate) finished: bool,
    pub(crate) ending: Option<Ending>,
    /// Whether it waits for an order, so that its limits are suspended.
    suspended: bool,
    held: Option<Held>,
    since: Instant,
}

/// Why a process is being ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its work is done but it did not end by itself.
    Outstayed,
    /// It counts as a failure of the process.
    Failure(String),
    /// It does not count as a failure.
    Stopped(String),
    /// The device had a fault.
    Fault,
}

impl<K> Watch<K> {
    pub(crate) fn new(key: K, limits: Limits, gpus: Option<Gpus>, now: Instant) -> Self {
        Self {
            key,
            limits,
            gpus,
            ready: false,
            finished: false,
            ending: None,
            suspended: false,
            held: None,
            since: now,
        }
    }

    /// Records that it became ready or made a step.
    pub(crate) fn moved(&mut self, now: Instant) {
        self.since = now;
    }

    /// Stops it with all its descendants; `first` is its first process.
    pub(crate) fn hold(&mut self, first: i32) {
        if self.ending.is_none() {
            self.held.get_or_insert_with(|| Held::family(first));
        }
    }

    /// Lets it continue, if it was stopped.
    pub(crate) fn go_on(&mut self, now: Instant) {
        if self.held.take().is_some() {
            self.since = now;
        }
    }

    pub(crate) fn suspend(&mut self) {
        self.suspended = true;
    }

    /// Sets new limits, which count from now.
    pub(crate) fn limit(&mut self, limits: Limits, ready: bool, now: Instant) {
        self.limits = limits;
        self.ready = ready;
        self.finished = false;
        self.suspended = false;
        self.since = now;
    }

    /// Moves all deadlines by the duration of a pause. The policy must move its own copy of the deadline
    /// [`Limits::until`], since that outlives this process.
    pub(crate) fn postpone(&mut self, pause: Duration, now: Instant) {
        self.since = (self.since + pause).min(now);
        if let Some((at, _)) = &mut self.limits.until {
            *at += pause;
        }
    }

    /// Its next deadline, and the limit that it belongs to.
    pub(crate) fn deadline(&self) -> Option<(Instant, Late)> {
        // A job that is being ended has its grace period, and a stopped one does nothing.
        if self.suspended || self.held.is_some() || self.ending.is_some() {
            return None;
        }
        let limits = &self.limits;
        let work = limits.until.map(|(at, limit)| (at, Late::Work(limit)));
        let of_job = match (limits.reports, self.ready) {
            (Reports::Nothing, _) => None,
            (_, true) => limits.stall.map(|l| (self.since + l, Late::Step(l))),
            (_, false) => limits.ready.map(|l| (self.since + l, Late::Ready(l))),
        };
        work.into_iter().chain(of_job).min_by_key(|(at, _)| *at)
    }

    /// The limit that has passed, if any.
    pub(crate) fn late(&self, now: Instant) -> Option<Late> {
        let (at, late) = self.deadline()?;
        (at <= now).then_some(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch(now: Instant) -> Watch<()> {
        let limits = Limits {
            ready: Some(SECOND),
            stall: Some(2 * SECOND),
            ..Limits::default()
        };
        Watch::new((), limits, Some(Gpus::one(0)), now)
    }

    #[test]
    fn a_pause_moves_the_limit_but_not_into_the_future() {
        let now = Instant::now();
        let mut watch = watch(now);
        watch.postpone(5 * SECOND, now + 5 * SECOND);
        assert_eq!(watch.late(now + 5 * SECOND + SECOND / 2), None);
        assert_eq!(watch.late(now + 6 * SECOND), Some(Late::Ready(SECOND)));
        watch.postpone(9 * SECOND, now + 6 * SECOND);
        assert_eq!(watch.late(now + 7 * SECOND), Some(Late::Ready(SECOND)));
    }

    #[test]
    fn what_waits_for_an_order_or_is_being_ended_is_not_late() {
        let now = Instant::now();
        let later = now + 9 * SECOND;
        let mut watch = watch(now);
        watch.suspend();
        assert_eq!(watch.late(later), None);
        watch.limit(watch.limits, true, later);
        assert_eq!(watch.late(later + 2 * SECOND), Some(Late::Step(2 * SECOND)));
        watch.ending = Some(Ending::Outstayed);
        assert_eq!(watch.late(later + 2 * SECOND), None);
    }
}
