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
}

/// Progress of a job in one situation.
#[derive(Debug, Clone, Copy, Default)]
struct MeteredProgress {
    seconds: f64,
    work: f64,
    intervals: u32,
}

impl MeteredProgress {
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
            progress.seconds += at - then;
            progress.work += work - before;
            progress.intervals += 1;
        }
        self.last = Some((at, work));
    }

    /// The situation changes, so the interval between two reports that contains the change must not count.
    pub(crate) const fn cut(&mut self) {
        self.last = None;
    }

    /// The known rates: situation, work per second, and seconds of measurement. Uses the times when no other job was
    /// starting, if they suffice.
    pub(crate) fn rates(&self) -> impl Iterator<Item = (At, f64, f64)> {
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
