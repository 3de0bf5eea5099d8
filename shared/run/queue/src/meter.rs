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
    const fn add(&mut self, more: &Self) {
        self.seconds += more.seconds;
        self.work += more.work;
        self.intervals += more.intervals;
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
    /// The interval before it, with its situation and whether it was quiet.
    latest: Option<(At, bool, MeteredProgress)>,
}

impl Meter {
    /// The job had done `work` at time `at`, and the situation has been `now` since its last report. `quiet`: no other
    /// job is starting.
    pub(crate) fn mark(&mut self, now: At, quiet: bool, at: f64, work: f64) {
        if let Some((then, before)) = self.last {
            let interval = MeteredProgress {
                seconds: at - then,
                work: work - before,
                intervals: 1,
            };
            self.side(quiet).entry(now).or_default().add(&interval);
            self.latest = Some((now, quiet, interval));
        }
        self.last = Some((at, work));
    }

    const fn side(&mut self, quiet: bool) -> &mut BTreeMap<At, MeteredProgress> {
        match quiet {
            true => &mut self.quiet,
            false => &mut self.starting,
        }
    }

    /// The situation changes, so the interval between two reports that contains the change must not count.
    pub(crate) const fn cut(&mut self) {
        (self.last, self.latest) = (None, None);
    }

    /// Another job has reported for the first time. It has used the device since before that, so the latest interval does
    /// not count: with start-ups of 2.5 s and reports each 0.5 s, one job alone seemed 10 % slower than it is.
    pub(crate) fn cut_back(&mut self) {
        if let Some((at, quiet, latest)) = self.latest.take()
            && let Some(progress) = self.side(quiet).get_mut(&at)
        {
            progress.seconds -= latest.seconds;
            progress.work -= latest.work;
            progress.intervals -= latest.intervals;
        }
        self.cut();
    }

    /// The situations of which it has measurements.
    pub(crate) fn situations(&self) -> impl Iterator<Item = At> {
        self.quiet.keys().chain(self.starting.keys()).copied()
    }

    /// The known rates in each situation, whatever the crowd.
    pub(crate) fn rates(&self) -> Vec<(At, f64, f64)> {
        let merge = |all: &BTreeMap<At, MeteredProgress>| {
            let mut merged: BTreeMap<At, MeteredProgress> = BTreeMap::new();
            for (at, progress) in all {
                let of = merged.entry(At { crowd: 0, ..*at }).or_default();
                of.add(progress);
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
            let mut both = self.quiet.get(at).copied().unwrap_or_default();
            if both.rate().is_some() {
                return None;
            }
            both.add(starting);
            Some((*at, both.rate()?, both.seconds))
        });
        let quiet = self
            .quiet
            .iter()
            .filter_map(|(at, p)| Some((*at, p.rate()?, p.seconds)));
        quiet.chain(both)
    }
}
