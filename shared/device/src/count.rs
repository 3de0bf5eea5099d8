//! Throughput of jobs that run together, counted by the times of their steps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use efficiency::{Moments, NormsError};
use host::{Host, LOOK};
use jobs::{Exit, Happening, JobId};

/// How long to wait and to count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Longest time between two steps.
    pub stall: Duration,
    /// What is not counted at first, beside each job's first step.
    pub warm_up: Duration,
    /// Shortest window.
    pub least: Duration,
    /// Longest window; it is extended further only until each job has [`FEWEST_STEPS`].
    pub most: Duration,
    /// Relative standard error that is good enough.
    pub precision: f64,
}

/// Fewest steps that give a throughput, beside the first, which only begins the count. The standard
/// error comes from their spread, and of `n` normal values that spread is itself uncertain by about
/// `1 / sqrt(2 (n - 1))`: 41 % of 4, 71 % of 2. More would keep a job with steps of a minute from
/// being measured within the longest window.
pub const FEWEST_STEPS: usize = 4;

/// Throughput of one job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobRate {
    /// Samples per second.
    pub samples_per_s: f64,
    /// Standard error of it.
    pub std_error: f64,
    /// Steps that were counted.
    pub steps: usize,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// One for each job, in the order asked for.
    pub rates: Vec<JobRate>,
    /// Length of the window.
    pub window: Duration,
    /// The last loss of each job, if told.
    pub losses: Vec<Option<f64>>,
    /// Gradients of the steps of each job that reported norms.
    pub gradients: Vec<Moments>,
    /// Jobs whose norms were left out, and why.
    pub bad_norms: Vec<(usize, NormsError)>,
}

/// Why there is no throughput.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// A job ended.
    #[error("job {index} ended ({how}) while it was measured{}", last_words(tail))]
    Ended {
        /// Which, in the order asked for.
        index: usize,
        /// Exit code or signal.
        how: String,
        /// The end of its log.
        tail: String,
        /// Whether it failed for want of memory.
        out_of_memory: bool,
    },
    /// What a job tells may be meant otherwise, so that every rate would be wrong.
    #[error("{0}")]
    Doubt(String),
    /// A job that is not measured trained beside those that are.
    #[error("a job trained that should be parked")]
    Restless(JobId),
    /// A job made no step for too long.
    #[error("job {index} made no step for {} s{}", after.as_secs_f64(), last_words(tail))]
    Stalled {
        /// Which.
        index: usize,
        /// How long it had.
        after: Duration,
        /// The end of its log.
        tail: String,
    },
    /// A signal arrived.
    #[error("interrupted")]
    Interrupted,
}

pub(crate) fn last_words(tail: &str) -> String {
    match tail.lines().last() {
        None => String::new(),
        Some(line) => format!("; its last line was: {line}"),
    }
}

/// Counts the steps of jobs that all run: after the warm-up, for at least `limits.least`, until
/// the relative standard error of every job is at most `limits.precision` or `limits.most` has
/// passed.
///
/// # Errors
/// [`CountError`].
pub fn count(
    host: &mut dyn Host,
    jobs: &[JobId],
    limits: &Limits,
    interrupted: &AtomicBool,
) -> Result<Counted, CountError> {
    let begun = Instant::now();
    let mut tracks: BTreeMap<JobId, Track> = jobs.iter().map(|j| (*j, Track::new(begun))).collect();
    let mut window_start = None;
    let mut bad_norms = Vec::new();
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(CountError::Interrupted);
        }
        for event in host.poll(Some(Instant::now() + LOOK)) {
            match event.what {
                Happening::Steps {
                    samples,
                    loss,
                    gradient,
                    ..
                } => {
                    let track = tracks.get_mut(&event.job);
                    // Steps from before it parked were read before it said so.
                    let track = track.ok_or(CountError::Restless(event.job))?;
                    track.step(event.at, samples, loss, window_start.is_some());
                    track.gradient.merge(&gradient);
                }
                Happening::NormsLeftOut(why) => {
                    bad_norms.extend(jobs.iter().position(|j| *j == event.job).zip(Some(why)));
                }
                Happening::Exited {
                    exit,
                    tail,
                    out_of_memory,
                    ..
                } => ended(jobs, event.job, exit, tail, out_of_memory)?,
                Happening::Doubt(why) => return Err(CountError::Doubt(why)),
                _ => {}
            }
        }
        let now = Instant::now();
        stalled(host, jobs, &tracks, limits.stall, now)?;
        match window_start {
            None => {
                let warm = now.duration_since(begun) >= limits.warm_up;
                if warm && tracks.values().all(|t| t.seen) {
                    window_start = Some(now);
                }
            }
            Some(start) => {
                let window = now.duration_since(start);
                if let Some(rates) = finished(jobs, &tracks, window, limits) {
                    let losses = jobs.iter().map(|j| tracks[j].loss).collect();
                    return Ok(Counted {
                        rates,
                        window,
                        losses,
                        gradients: jobs.iter().map(|j| tracks[j].gradient).collect(),
                        bad_norms,
                    });
                }
            }
        }
    }
}

fn finished(
    jobs: &[JobId],
    tracks: &BTreeMap<JobId, Track>,
    window: Duration,
    limits: &Limits,
) -> Option<Vec<JobRate>> {
    if window < limits.least {
        return None;
    }
    let rates: Option<Vec<JobRate>> = jobs.iter().map(|j| tracks[j].rate()).collect();
    let rates = rates?;
    let good = |r: &JobRate| r.std_error <= limits.precision * r.samples_per_s;
    (window >= limits.most || rates.iter().all(good)).then_some(rates)
}

fn stalled(
    host: &dyn Host,
    jobs: &[JobId],
    tracks: &BTreeMap<JobId, Track>,
    limit: Duration,
    now: Instant,
) -> Result<(), CountError> {
    for (job, track) in tracks {
        if now.duration_since(track.last) > limit {
            return Err(CountError::Stalled {
                index: position(jobs, *job),
                after: limit,
                tail: host.tail(*job),
            });
        }
    }
    Ok(())
}

fn ended(
    jobs: &[JobId],
    job: JobId,
    exit: Exit,
    tail: String,
    out_of_memory: bool,
) -> Result<(), CountError> {
    let Some(index) = jobs.iter().position(|j| *j == job) else {
        return Ok(());
    };
    let how = how(exit);
    Err(CountError::Ended {
        index,
        how,
        tail,
        out_of_memory,
    })
}

/// How a process ended, in words.
pub(crate) fn how(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}

fn position(jobs: &[JobId], job: JobId) -> usize {
    jobs.iter().position(|j| *j == job).unwrap_or_default()
}

/// The steps of one job.
struct Track {
    /// A step has been seen at all.
    seen: bool,
    last: Instant,
    loss: Option<f64>,
    /// Also of the warm-up: gradients do not depend on how fast steps are made.
    gradient: Moments,
    /// Times of the steps in the window, with the samples of each. The first only begins the
    /// count.
    steps: Vec<(Instant, u64)>,
}

/// Parts of a window whose spread gives the standard error, uncertain by 16 % with 20. Successive
/// steps are not independent, and long parts are nearly so: 10 to 30 of them are the usual number
/// (Schmeiser, Batch Size Effects in the Analysis of Simulation Output, 1982). A window of fewer
/// steps has one part for each.
const MOST_GROUPS: usize = 20;

impl Track {
    fn new(begun: Instant) -> Self {
        Self {
            seen: false,
            last: begun,
            loss: None,
            gradient: Moments::default(),
            steps: Vec::new(),
        }
    }

    fn step(&mut self, at: Instant, samples: u64, loss: Option<f64>, counted: bool) {
        self.seen = true;
        self.last = at;
        self.loss = loss.or(self.loss);
        if counted {
            self.steps.push((at, samples));
        }
    }

    /// `sum of samples / time` from the first to the last step; its standard error from groups of
    /// successive steps as batch means: with `d_g = samples_g - rate * time_g`, it is
    /// `sqrt(G / (G - 1) * sum d_g^2) / time` (ratio estimator).
    fn rate(&self) -> Option<JobRate> {
        let steps = self
            .steps
            .len()
            .checked_sub(1)
            .filter(|n| *n >= FEWEST_STEPS)?;
        let time = |a: usize, b: usize| {
            self.steps[b]
                .0
                .duration_since(self.steps[a].0)
                .as_secs_f64()
        };
        let samples = |a: usize, b: usize| -> f64 {
            self.steps[a + 1..=b].iter().map(|(_, n)| *n as f64).sum()
        };
        let total = time(0, steps);
        if total <= 0.0 {
            return None;
        }
        let rate = samples(0, steps) / total;
        let groups = steps.min(MOST_GROUPS);
        let spread: f64 = (0..groups)
            .map(|g| {
                let (a, b) = (steps * g / groups, steps * (g + 1) / groups);
                (samples(a, b) - rate * time(a, b)).powi(2)
            })
            .sum();
        let groups = groups as f64;
        Some(JobRate {
            samples_per_s: rate,
            std_error: (groups / (groups - 1.0) * spread).sqrt() / total,
            steps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(intervals: impl Iterator<Item = f64>) -> Track {
        let mut at = Instant::now();
        let mut track = Track::new(at);
        track.step(at, 10, None, true);
        for s in intervals {
            at += Duration::from_secs_f64(s);
            track.step(at, 10, None, true);
        }
        track
    }

    #[test]
    fn even_steps_have_no_error() {
        let rate = track(std::iter::repeat_n(0.1, 50)).rate().unwrap();
        assert!((rate.samples_per_s - 100.0).abs() < 1e-6);
        assert!(rate.std_error < 1e-6);
        assert_eq!(rate.steps, 50);
        assert!(track(std::iter::repeat_n(0.1, 3)).rate().is_none());
    }

    #[test]
    fn the_error_is_that_of_the_mean() {
        // Independent intervals of 0.1 s +- 20 %: over 2000 steps the mean is known to
        // 0.2 / sqrt(2000) = 0.45 %.
        let mut state = 1u64;
        let intervals = (0..2000).map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            if state >> 63 == 0 { 0.08 } else { 0.12 }
        });
        let rate = track(intervals).rate().unwrap();
        let relative = rate.std_error / rate.samples_per_s;
        assert!((0.002..0.009).contains(&relative), "{relative}");
    }
}
