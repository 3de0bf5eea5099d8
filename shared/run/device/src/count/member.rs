//! One job of a measurement: its current launch, and its progress.

use std::time::{Duration, Instant};

use doc::{Launch, WholeRun};
use efficiency::Moments;
use jobs::JobId;
use units::corun::Setting;
use units::{Samples, Seconds};

use crate::MeasureError;
use crate::pool::Pool;
use crate::track::{JobRate, Track};

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    /// It was launched or ordered to train, and has made no step yet.
    Starting,
    /// It trains.
    Training {
        /// Time of its first step.
        since: Instant,
    },
}

/// A job of a configuration.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) run: Setting,
    pub(crate) job: JobId,
    /// Launch time of the current run; `None` if it was parked, so that this is not a complete run.
    pub(crate) launched: Option<Instant>,
    pub(crate) phase: Phase,
    /// Time of its last output.
    pub(crate) last: Instant,
    /// Time from launch or wake-up to the first step.
    pub(crate) first_step: Duration,
    /// Whether it is counted by whole runs.
    pub(crate) whole: bool,
    pub(crate) track: Track,
    /// Gradient norms of all steps, including the warm-up, since gradients do not depend on the speed of steps.
    pub(crate) gradient: Moments,
    /// Last output of its last run.
    pub(crate) tail: String,
    /// Runs that ended by themselves: duration from launch to exit, and samples.
    pub(crate) runs: Vec<(Duration, u64)>,
    /// Durations of start-ups, in seconds, whose end the job itself reported.
    startups: Vec<f64>,
    /// For launches whose first report was a step: seconds until then, and samples of that step.
    firsts: Vec<(f64, u64)>,
    ready: bool,
    /// Samples of the current run, and number of reports.
    samples: u64,
    heard: u32,
    /// Mean time between steps at its last report.
    pace: Option<Duration>,
}

impl Member {
    /// The member for a setting whose job has been started.
    pub(crate) fn new(pool: &mut Pool, run: &Setting) -> Result<Self, MeasureError> {
        let job = pool.job_of(run)?;
        let (launched, startup) = pool.launch_of(run);
        let now = Instant::now();
        Ok(Self {
            run: *run,
            job,
            launched: launched.filter(|_| !pool.is_of_pool(run)),
            phase: Phase::Starting,
            last: launched.filter(|_| !pool.is_of_pool(run)).unwrap_or(now),
            first_step: Duration::ZERO,
            whole: pool.is_whole(run.task),
            track: Track::default(),
            gradient: Moments::default(),
            tail: String::new(),
            runs: Vec::new(),
            startups: startup.into_iter().map(|s| s.as_secs_f64()).collect(),
            firsts: Vec::new(),
            ready: false,
            samples: 0,
            heard: 0,
            pace: None,
        })
    }

    /// Begins another window: resets the counts, but keeps the data about launches.
    pub(crate) fn renew(&mut self) {
        self.track = Track::default();
    }

    /// The job reports that its start-up is over.
    pub(crate) fn is_ready(&mut self, at: Instant) {
        if let Some(launched) = self.launched
            && !self.ready
        {
            let startup = at.saturating_duration_since(launched);
            self.startups.push(startup.as_secs_f64());
        }
        self.ready = true;
    }

    /// Records steps.
    pub(crate) fn step(&mut self, at: Instant, samples: u64, steps: u64) {
        if self.phase == Phase::Starting {
            self.phase = Phase::Training { since: at };
            self.first_step = at.saturating_duration_since(self.last);
            if let (Some(launched), false) = (self.launched, self.ready) {
                let until = at.saturating_duration_since(launched);
                self.firsts.push((until.as_secs_f64(), samples));
            }
        }
        let between = at.saturating_duration_since(self.last);
        self.pace = u32::try_from(steps).ok().map(|n| between / n.max(1));
        self.last = at;
        self.samples = self.samples.saturating_add(samples);
        self.heard += 1;
    }

    /// Whether its steps are much shorter than `pause`.
    pub(crate) fn is_quick(&self, pause: Duration) -> bool {
        self.pace.is_some_and(|pace| 4 * pace < pause)
    }

    /// Time since which it trains, as far as known.
    pub(crate) fn trains_since(&self) -> Option<Instant> {
        match (self.phase, self.whole) {
            (Phase::Training { since }, false) => Some(since),
            (_, true) => self.launched,
            (Phase::Starting, false) => None,
        }
    }

    /// Records that it ended by itself, and returns how long it trained. A run with fewer than two reports counts as a
    /// whole run, with its reported samples or else `expected`; `None` if neither is known.
    pub(crate) fn end(&mut self, at: Instant, expected: Option<u64>) -> Option<Duration> {
        let time = self.launched.map(|l| at.saturating_duration_since(l));
        // Output at a program's exit is read just before its end, and is no sign of progress.
        self.whole = self.whole || self.heard < 2;
        let samples = match self.samples {
            0 => expected?,
            told => told,
        };
        self.runs.extend(time.map(|time| (time, samples)));
        if self.whole {
            self.last = at;
            self.firsts.clear();
            return time;
        }
        match self.phase {
            Phase::Training { since } => Some(self.last.saturating_duration_since(since)),
            Phase::Starting => None,
        }
    }

    /// Records that it was launched again as `job`.
    pub(crate) fn restarted(&mut self, job: JobId, now: Instant) {
        self.job = job;
        self.launched = Some(now);
        self.last = now;
        self.phase = Phase::Starting;
        self.ready = false;
        self.samples = 0;
        self.heard = 0;
        self.pace = None;
    }

    /// Cost of its launches. If a job reported nothing before its first step, its start-up ended when that step
    /// began, estimated from the mean rate.
    pub(crate) fn launch(&self, rate: &JobRate) -> Launch {
        let begun = |(until, samples): &(f64, u64)| {
            let step = *samples as f64 / rate.samples_per_s;
            (until - step).max(0.0)
        };
        let all: Vec<f64> = self
            .startups
            .iter()
            .copied()
            .chain(self.firsts.iter().map(begun))
            .collect();
        let mean = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            Seconds::new(mean).ok().filter(|_| !values.is_empty())
        };
        let times: Vec<f64> = self.runs.iter().map(|(t, _)| t.as_secs_f64()).collect();
        let total: u64 = self.runs.iter().map(|(_, n)| n).sum();
        let samples = total.checked_div(self.runs.len() as u64);
        let run = mean(&times)
            .zip(samples.and_then(|n| Samples::new(n).ok()))
            .map(|(time, samples)| WholeRun { time, samples });
        let startup = mean(&all).filter(|_| !self.whole);
        Launch {
            // The start-up must not exceed the whole run, although the two are means over different launches.
            startup: match (startup, run) {
                (Some(startup), Some(run)) if startup > run.time => Some(run.time),
                (startup, _) => startup,
            },
            run,
        }
    }
}
