//! Rates of jobs in each situation on their device, from the progress that they report.

use std::collections::BTreeMap;

/// Minimum seconds of progress for a rate. Trainings report between several times a second and once in a few seconds; a
/// longer window would leave the device partly idle for longer than the better estimate is worth.
const WINDOW: f64 = 2.0;
/// Minimum number of intervals between reports for a rate: one of them may contain a checkpoint.
const INTERVALS: u32 = 2;

/// The situation on a device: which templates run, how many jobs, and under which cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    /// Number of the set of templates.
    pub(crate) mix: usize,
    /// Number of jobs that have reported progress.
    pub(crate) number: usize,
    /// The cap of each job, percent; 0 if they have different caps.
    pub(crate) cap: u32,
    /// Number of the crowd: so many of each template and cap.
    pub(crate) crowd: usize,
}

/// Progress of a job in one situation.
#[derive(Debug, Clone, Copy, Default)]
struct MeteredProgress {
    seconds: f64,
    work: f64,
    intervals: u32,
}

impl MeteredProgress {
    fn add(&mut self, seconds: f64, work: f64) {
        self.seconds += seconds;
        self.work += work;
        self.intervals += 1;
    }

    fn rate(&self) -> Option<f64> {
        let known = self.intervals >= INTERVALS && self.seconds >= WINDOW && self.work > 0.0;
        known.then(|| self.work / self.seconds)
    }
}

/// Progress of a job by situation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// Progress while no other job was starting (`quiet`), and while one was (`starting`): a starting job may already
    /// load the device before its first report.
    quiet: BTreeMap<At, MeteredProgress>,
    starting: BTreeMap<At, MeteredProgress>,
    /// Time and work of the last report, if the situation has not changed since.
    last: Option<(f64, f64)>,
    /// The interval before it: situation, whether it was quiet, seconds and work.
    latest: Option<(At, bool, f64, f64)>,
}

impl Meter {
    /// The job had done `work` at time `at`, and the situation has been `now` since its last report. `quiet`: no other
    /// job is starting.
    pub(crate) fn mark(&mut self, now: At, quiet: bool, at: f64, work: f64) {
        if let Some((then, before)) = self.last {
            let all = if quiet {
                &mut self.quiet
            } else {
                &mut self.starting
            };
            let progress = all.entry(now).or_default();
            progress.add(at - then, work - before);
            self.latest = Some((now, quiet, at - then, work - before));
        }
        self.last = Some((at, work));
    }

    /// The situation changes, so the interval between two reports that contains the change must not count.
    pub(crate) const fn cut(&mut self) {
        (self.last, self.latest) = (None, None);
    }

    /// Another job has reported for the first time. It has used the device since before that, so the latest interval does
    /// not count: with start-ups of 2.5 s and reports each 0.5 s, one job alone seemed 10 % slower than it is.
    pub(crate) fn cut_back(&mut self) {
        if let Some((at, quiet, seconds, work)) = self.latest.take() {
            let all = if quiet {
                &mut self.quiet
            } else {
                &mut self.starting
            };
            if let Some(progress) = all.get_mut(&at) {
                progress.seconds -= seconds;
                progress.work -= work;
                progress.intervals -= 1;
            }
        }
        self.cut();
    }

    /// The known rates in each situation, whatever the crowd.
    pub(crate) fn rates(&self) -> Vec<(At, f64, f64)> {
        let merge = |all: &BTreeMap<At, MeteredProgress>| {
            let mut merged: BTreeMap<At, MeteredProgress> = BTreeMap::new();
            for (at, progress) in all {
                let of = merged.entry(At { crowd: 0, ..*at }).or_default();
                of.seconds += progress.seconds;
                of.work += progress.work;
                of.intervals += progress.intervals;
            }
            merged
        };
        let merged = Self {
            quiet: merge(&self.quiet),
            starting: merge(&self.starting),
            ..Self::default()
        };
        merged.in_crowds().collect()
    }

    /// The known rates in each crowd: situation, work per second, and seconds of measurement. Uses the times when no
    /// other job was starting, if they suffice.
    pub(crate) fn in_crowds(&self) -> impl Iterator<Item = (At, f64, f64)> {
        let both = self.starting.iter().filter_map(|(at, starting)| {
            let quiet = self.quiet.get(at).copied().unwrap_or_default();
            if quiet.rate().is_some() {
                return None;
            }
            let both = MeteredProgress {
                seconds: quiet.seconds + starting.seconds,
                work: quiet.work + starting.work,
                intervals: quiet.intervals + starting.intervals,
            };
            Some((*at, both.rate()?, both.seconds))
        });
        let quiet = self
            .quiet
            .iter()
            .filter_map(|(at, p)| Some((*at, p.rate()?, p.seconds)));
        quiet.chain(both)
    }
}
