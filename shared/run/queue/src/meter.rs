//! Rates of jobs by what runs beside them, from what they report.

use std::collections::BTreeMap;

/// Seconds of progress for a rate: trainings report between several times a second and once in a few seconds, and a
/// longer window would cost more than it reveals while the device is only partly used.
const WINDOW: f64 = 2.0;
/// Number of intervals between reports for a rate: one of them may contain a checkpoint.
const INTERVALS: u32 = 2;

/// What uses a device: which templates, how many jobs, and under which cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    /// Number of the set of templates.
    pub(crate) mix: usize,
    /// Jobs that have reported progress.
    pub(crate) number: usize,
    /// The cap of each, percent; 0 if they have different ones.
    pub(crate) cap: u32,
}

/// Progress of a job in one situation.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    seconds: f64,
    work: f64,
    intervals: u32,
}

impl Progress {
    fn rate(&self) -> Option<f64> {
        let known = self.intervals >= INTERVALS && self.seconds >= WINDOW && self.work > 0.0;
        known.then(|| self.work / self.seconds)
    }
}

/// Progress of a job by situation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// While no other job started, and while one did: it may warm up on the device before its first report.
    quiet: BTreeMap<At, Progress>,
    starting: BTreeMap<At, Progress>,
    /// Time and work of the last report, if the situation has not changed since.
    last: Option<(f64, f64)>,
}

impl Meter {
    /// It had done this much of its work at a time, and the situation has been this since its last report; `quiet`: no
    /// other job is starting.
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

    /// The situation changes: an interval between reports must not contain both.
    pub(crate) const fn cut(&mut self) {
        self.last = None;
    }

    /// Rate in each situation in which it is known, with the seconds that it was measured for: of those while no other
    /// started, if they suffice.
    pub(crate) fn rates(&self) -> impl Iterator<Item = (At, f64, f64)> {
        let both = self.starting.iter().filter_map(|(at, starting)| {
            let quiet = self.quiet.get(at).copied().unwrap_or_default();
            if quiet.rate().is_some() {
                return None;
            }
            let both = Progress {
                seconds: quiet.seconds + starting.seconds,
                work: quiet.work + starting.work,
                intervals: quiet.intervals + starting.intervals,
            };
            Some((*at, both.rate()?, both.seconds))
        });
        let quiet = self.quiet.iter();
        let quiet = quiet.filter_map(|(at, p)| Some((*at, p.rate()?, p.seconds)));
        quiet.chain(both)
    }
}
