//! The throughput of one job, from the times of its steps or from whole runs.

use std::time::{Duration, Instant};

/// Minimum number of intervals between steps for a throughput. The standard error comes from their spread, and the
/// spread of `n` normal values is itself uncertain by about `1 / sqrt(2 (n - 1))`: 41 % for 4, 71 % for 2. With a
/// larger minimum, a job with steps of a minute could not be measured within the longest window.
pub(crate) const FEWEST_STEPS: usize = 4;

/// Number of intervals that suffice when the longest window has passed. With [`FEWEST_STEPS`], a script that prints
/// once per one-minute epoch would need five epochs. Two intervals are the minimum for a spread.
pub(crate) const FEWEST_LATE: usize = 2;

/// Number of parts of a window whose spread gives the standard error, uncertain by 16 % with 20. Successive steps are
/// correlated, but long parts are nearly independent: 10 to 30 parts are usual (Schmeiser, Batch Size Effects in the
/// Analysis of Simulation Output, 1982). A window with fewer steps has one part for each.
const MOST_GROUPS: usize = 20;

/// Correction of a standard error from few parts: the 84 % quantile of Student's t with 1 to 5 degrees of freedom,
/// which is 1 for a normal distribution. With more degrees of freedom it is below 1.1.
const STUDENT: [f64; 5] = [1.84, 1.32, 1.20, 1.14, 1.11];

/// Throughput of one job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct JobRate {
    /// Samples per second.
    pub(crate) samples_per_s: f64,
    /// Its standard error; `None` for a single run.
    pub(crate) std_error: Option<f64>,
}

/// Seconds between two steps, and the samples of the second step.
type Interval = (f64, f64);

/// Steps of one job in the stretches in which all jobs trained.
#[derive(Debug, Default)]
pub(crate) struct Track {
    /// Intervals of stretches that have ended.
    ended: Vec<Interval>,
    /// Steps of the current stretch. The first step only starts the count.
    steps: Vec<(Instant, u64)>,
}

impl Track {
    pub(crate) fn step(&mut self, at: Instant, samples: u64) {
        self.steps.push((at, samples));
    }

    /// Forgets steps from before the stretch.
    pub(crate) fn begin(&mut self) {
        self.steps.clear();
    }

    /// Ends the stretch, which counts from `from` to `to`.
    pub(crate) fn close(&mut self, from: Instant, to: Instant) {
        self.steps.retain(|(at, _)| *at <= to);
        let last = intervals(&self.steps, from);
        self.ended.extend(last);
        self.steps.clear();
    }

    /// Throughput over all stretches, the current one counted from `from`; `None` if there are fewer than `least`
    /// intervals.
    pub(crate) fn rate(&self, from: Option<Instant>, least: usize) -> Option<JobRate> {
        let now = from.map_or_else(Vec::new, |from| intervals(&self.steps, from));
        let all: Vec<Interval> = self.ended.iter().copied().chain(now).collect();
        (all.len() >= least).then(|| ratio(&all)).flatten()
    }
}

/// Intervals between steps from `from` on; all intervals if those are too few.
fn intervals(steps: &[(Instant, u64)], from: Instant) -> Vec<Interval> {
    let before = steps.partition_point(|(at, _)| *at < from);
    let warm = if steps.len() - before > FEWEST_STEPS {
        before
    } else {
        0
    };
    let pairs = steps[warm..].windows(2);
    pairs
        .map(|p| (p[1].0.duration_since(p[0].0).as_secs_f64(), p[1].1 as f64))
        .collect()
}

/// `sum of samples / time`; its standard error from groups of successive intervals as batch means: with `d_g =
/// samples_g - rate * time_g`, it is `sqrt(G / (G - 1) * sum d_g^2) / time` (ratio estimator), increased if there are
/// few groups.
fn ratio(all: &[Interval]) -> Option<JobRate> {
    let sum = |part: &[Interval]| part.iter().fold((0.0, 0.0), |(t, n), i| (t + i.0, n + i.1));
    let (time, samples) = sum(all);
    if time <= 0.0 {
        return None;
    }
    let rate = samples / time;
    let groups = all.len().min(MOST_GROUPS);
    let spread: f64 = (0..groups)
        .map(|g| sum(&all[all.len() * g / groups..all.len() * (g + 1) / groups]))
        .map(|(t, n)| (n - rate * t).powi(2))
        .sum();
    let wider = groups.checked_sub(2).and_then(|i| STUDENT.get(i)).copied();
    let count = groups as f64;
    let std_error =
        (groups > 1).then(|| wider.unwrap_or(1.0) * (count / (count - 1.0) * spread).sqrt() / time);
    Some(JobRate {
        samples_per_s: rate,
        std_error,
    })
}

/// Throughput of whole runs, including start-up: for a job that reports no progress, or reports it only at its end.
pub(crate) fn of_runs(runs: &[(Duration, u64)]) -> Option<JobRate> {
    let all: Vec<Interval> = runs
        .iter()
        .map(|(time, samples)| (time.as_secs_f64(), *samples as f64))
        .collect();
    ratio(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(intervals: impl Iterator<Item = f64>) -> (Track, Instant) {
        let start = Instant::now();
        let mut at = start;
        let mut track = Track::default();
        track.step(at, 10);
        for s in intervals {
            at += Duration::from_secs_f64(s);
            track.step(at, 10);
        }
        (track, start)
    }

    fn rate(intervals: impl Iterator<Item = f64>) -> Option<JobRate> {
        let (track, start) = track(intervals);
        track.rate(Some(start), FEWEST_STEPS)
    }

    #[test]
    fn even_steps_have_no_error() {
        let even = rate(std::iter::repeat_n(0.1, 50)).unwrap();
        assert!((even.samples_per_s - 100.0).abs() < 1e-6);
        assert!(even.std_error.unwrap() < 1e-6);
        assert!(rate(std::iter::repeat_n(0.1, 3)).is_none());
    }

    #[test]
    fn the_error_is_that_of_the_mean() {
        // Independent intervals of 0.1 s +- 20 %: over 2000 steps the mean is known to
        // 0.2 / sqrt(2000) = 0.45 %.
        let mut state = 1u64;
        let uneven = (0..2000).map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            if state >> 63 == 0 { 0.08 } else { 0.12 }
        });
        let rate = rate(uneven).unwrap();
        let relative = rate.std_error.unwrap() / rate.samples_per_s;
        assert!((0.002..0.009).contains(&relative), "{relative}");
    }

    #[test]
    fn what_lies_between_stretches_is_not_counted() {
        let (mut both, start) = track(std::iter::repeat_n(0.1, 10));
        let s = Duration::from_secs_f64;
        // The other job ended after 0.75 s, and trained again after 5 s.
        both.close(start, start + s(0.75));
        both.step(start + s(3.0), 10);
        both.begin();
        for k in 0..6 {
            both.step(start + s(5.0 + 0.1 * f64::from(k)), 10);
        }
        let rate = both.rate(Some(start + s(5.0)), FEWEST_STEPS).unwrap();
        assert!((rate.samples_per_s - 100.0).abs() < 1e-6, "{rate:?}");
        assert_eq!(both.ended.len(), 7);
    }

    #[test]
    fn a_warm_up_is_left_out_where_enough_steps_remain() {
        let slow_first = [1.0].into_iter().chain(std::iter::repeat_n(0.1, 6));
        let (track, start) = track(slow_first);
        let warm = start + Duration::from_millis(300);
        let rate = track.rate(Some(warm), FEWEST_STEPS).unwrap();
        assert!((rate.samples_per_s - 100.0).abs() < 1e-6, "{rate:?}");
        let (few, start) = self::track([1.0, 1.0].into_iter());
        let warm = start + Duration::from_millis(300);
        assert!(few.rate(Some(warm), FEWEST_LATE).is_some());
        assert!(few.rate(Some(warm), FEWEST_STEPS).is_none());
    }

    #[test]
    fn one_run_has_a_rate_and_no_error() {
        let s = Duration::from_secs;
        let one = of_runs(&[(s(4), 100)]).unwrap();
        assert_eq!((one.samples_per_s, one.std_error), (25.0, None));
        let two = of_runs(&[(s(4), 100), (s(6), 100)]).unwrap();
        assert_eq!(two.samples_per_s, 20.0);
        assert!(two.std_error.unwrap() > 0.0);
        assert_eq!(of_runs(&[]), None);
    }
}
