//! Rates of jobs by how many jobs use the device, from what they report.

use std::collections::{BTreeMap, VecDeque};

/// Seconds of progress for a rate: trainings report between several times a second and once in a few seconds, and a
/// longer window would cost more than it reveals while the device is only partly used.
const WINDOW: f64 = 2.0;
/// Number of intervals between reports for a rate: one of them may contain a checkpoint.
const INTERVALS: u32 = 2;
/// Number of ended jobs whose rates are kept: the rates of a few tens are enough, and each decision reads them.
const KEPT: usize = 100;

/// Progress of a job with one number of jobs.
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

/// Progress of a job by the number of jobs that use the device, itself included.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    /// While no other job started, and while one did: it may warm up on the device before its first report.
    quiet: BTreeMap<usize, Progress>,
    starting: BTreeMap<usize, Progress>,
    /// Time and work of the last report, if the number has not changed since.
    last: Option<(f64, f64)>,
}

impl Meter {
    /// It had done this much of its work at a time, and `number` jobs have used the device since its last report;
    /// `quiet`: no other is starting.
    pub(crate) fn mark(&mut self, number: usize, quiet: bool, at: f64, work: f64) {
        if let Some((then, before)) = self.last {
            let all = if quiet {
                &mut self.quiet
            } else {
                &mut self.starting
            };
            let progress = all.entry(number).or_default();
            progress.seconds += at - then;
            progress.work += work - before;
            progress.intervals += 1;
        }
        self.last = Some((at, work));
    }

    /// The number changes: an interval between reports must not contain both.
    pub(crate) const fn cut(&mut self) {
        self.last = None;
    }

    /// Work per second with so many jobs, once it is known: while no other started, if it ran long enough in such times.
    pub(crate) fn rate(&self, number: usize) -> Option<f64> {
        let of = |all: &BTreeMap<usize, Progress>| all.get(&number).copied().unwrap_or_default();
        let (quiet, starting) = (of(&self.quiet), of(&self.starting));
        let both = Progress {
            seconds: quiet.seconds + starting.seconds,
            work: quiet.work + starting.work,
            intervals: quiet.intervals + starting.intervals,
        };
        quiet.rate().or_else(|| both.rate())
    }
}

/// Meters of jobs that have ended, with their templates.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ended(VecDeque<(String, Meter)>);

impl Ended {
    pub(crate) fn push(&mut self, template: String, meter: Meter) {
        self.0.push_back((template, meter));
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Meter)> {
        self.0.iter().map(|(template, meter)| (&**template, meter))
    }
}

/// Rate of a job with `to` jobs relative to that with `from`: the mean over the jobs that ran in both. If there is none,
/// the jobs of each template are compared with each other: copies need not be alike, but no better figure exists.
pub(crate) fn ratio<'a>(
    jobs: impl Iterator<Item = (&'a str, &'a Meter)>,
    from: usize,
    to: usize,
) -> Option<f64> {
    let mut paired = Vec::new();
    let mut means: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
    for (template, meter) in jobs {
        let [before, after] = [from, to].map(|number| meter.rate(number));
        paired.extend(before.zip(after).map(|(before, after)| after / before));
        let [all_before, all_after] = means.entry(template).or_default();
        all_before.extend(before);
        all_after.extend(after);
    }
    if paired.is_empty() {
        paired = means
            .values()
            .filter_map(|[before, after]| Some(mean(after)? / mean(before)?))
            .collect();
    }
    mean(&paired)
}

/// The mean; `None` of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
