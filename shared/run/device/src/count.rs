//! Throughput of jobs that run together, from the times of their steps.
//!
//! Only *stretches* in which all jobs train count. A stretch lasts from the first step of the job that starts last
//! until the last step of the job that ends first. A job that ends successfully by itself is restarted during the
//! measurement; start-ups and ends are excluded from the training time. A job that reports no progress, or reports it
//! only at its end, is counted by whole runs.

pub(crate) mod member;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use doc::FailureCause;
use host::{LONGEST_TURN, LOOK};
use jobs::{Event, Exit, Happening, JobId};
use units::corun::Setting;

use crate::MeasureError;
use crate::cause;
use crate::error::Failed;
use crate::pool::Pool;
use crate::track::{self, FEWEST_LATE, FEWEST_STEPS, JobRate};
use member::{Member, Phase};

/// Time limits of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    /// Longest time from the start of a job until it trains.
    pub(crate) ready: Duration,
    /// Longest time between two steps.
    pub(crate) stall: Duration,
    /// Warm-up that is not counted, in addition to each job's first step.
    pub(crate) warm_up: Duration,
    /// Shortest window.
    pub(crate) least: Duration,
    /// Longest window; it is extended further only until each job has [`FEWEST_LATE`] intervals.
    pub(crate) most: Duration,
    /// Relative standard error that is sufficient.
    pub(crate) precision: f64,
}

/// Result of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counted {
    /// One for each job, in the requested order.
    pub(crate) rates: Vec<JobRate>,
    /// Length of the window.
    pub(crate) window: Duration,
}

/// Why there is no throughput.
#[derive(Debug)]
pub(crate) enum CountError {
    /// The configuration has failed because of this job.
    Job(JobId, Box<Failed>),
    /// A job that should be parked trained during the measurement.
    Restless(JobId),
    /// Anything else that ends the measurement.
    Other(MeasureError),
}

impl From<MeasureError> for CountError {
    fn from(error: MeasureError) -> Self {
        Self::Other(error)
    }
}

/// Time between two polls while jobs step quickly. A poll costs about 0.1 ms regardless of the amount of output, so
/// polling at every line took most of a processor at 15,000 lines a second. Steps since the previous poll get the time
/// of the poll; for such quick jobs the error is less than a step.
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of runs of one job in a measurement. Without it, a job whose runs are much shorter than the others',
/// so that they never train together for long, would be restarted for ever.
const MOST_RUNS: usize = 50;

/// A measurement of a configuration in progress.
pub(crate) struct Count<'a> {
    pool: &'a mut Pool,
    members: Vec<Member>,
    limits: Limits,
    interrupted: &'a AtomicBool,
    /// Start of the current stretch.
    stretch: Option<Instant>,
    /// Total length of the stretches that have ended.
    counted: Duration,
    /// Start of the first stretch of the window.
    begun: Option<Instant>,
    /// When steps were last read.
    looked: Instant,
    /// End of the last pause of this program or of the machine.
    resumed: Option<Instant>,
}

impl<'a> Count<'a> {
    /// A measurement of a configuration whose jobs have been started.
    pub(crate) fn new(
        pool: &'a mut Pool,
        configuration: &[Setting],
        limits: Limits,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, MeasureError> {
        let members = configuration.iter().map(|run| Member::new(pool, run));
        Ok(Self {
            members: members.collect::<Result<_, _>>()?,
            pool,
            limits,
            interrupted,
            stretch: None,
            counted: Duration::ZERO,
            begun: None,
            looked: Instant::now(),
            resumed: None,
        })
    }

    /// Counts one window: after the warm-up, for at least `least`, until the relative standard error of every job is
    /// at most `precision`, or a job has done its whole work, or `most` has passed.
    pub(crate) fn window(&mut self) -> Result<Counted, CountError> {
        self.open();
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(MeasureError::Interrupted.into());
            }
            let before = self.looked;
            self.pause();
            let events = self.pool.host().poll(Some(Instant::now() + LOOK));
            if before.elapsed() > LONGEST_TURN {
                self.resume();
            }
            for event in events {
                self.pool.note(&event);
                if let Some(counted) = self.happened(event)? {
                    return self.counting(counted);
                }
            }
            // A job that is counted by whole runs trains without reports.
            self.begin();
            let now = Instant::now();
            self.overdue(now)?;
            if let Some(counted) = self.finished(now, false) {
                return self.counting(counted);
            }
        }
    }

    /// Resets the window.
    fn open(&mut self) {
        self.stretch = None;
        self.counted = Duration::ZERO;
        self.begun = None;
        for member in &mut self.members {
            member.renew();
        }
    }

    /// Restarts the window after a pause, because it is unknown whether jobs trained during the pause, and for how long
    /// each was paused. No job counts as late because of the pause.
    fn resume(&mut self) {
        self.open();
        let now = Instant::now();
        self.resumed = Some(now);
        for member in &mut self.members {
            member.last = now;
        }
    }

    /// The result, or an error if a job reported progress without samples: a counter that does not advance, for example
    /// in a line at the end of each epoch.
    fn counting(&self, counted: Counted) -> Result<Counted, CountError> {
        let still = counted.rates.iter().position(|r| r.samples_per_s <= 0.0);
        let Some(index) = still else {
            return Ok(counted);
        };
        let member = &self.members[index];
        let now = self.pool.tail(member.job);
        // If the run has just ended, the job's output so far.
        let tail = if now.is_empty() {
            member.tail.clone()
        } else {
            now
        };
        let what = format!(
            "reported progress whose count stays the same{}",
            cause::last_line(&tail)
        );
        Err(self.failed(index, FailureCause::Silent, &what, &tail))
    }

    /// Ends a job that trains although it should be parked.
    pub(crate) fn distrust(&mut self, job: JobId) {
        self.pool.distrust(job);
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Waits until [`PAUSE`] after the last read of steps.
    fn pause(&mut self) {
        let quick = self.members.iter().any(|m| m.is_quick(PAUSE));
        let since = self.looked.elapsed();
        if quick && since < PAUSE {
            std::thread::sleep(PAUSE - since);
        }
        self.looked = Instant::now();
    }

    fn happened(&mut self, event: Event) -> Result<Option<Counted>, CountError> {
        let Some(index) = self.members.iter().position(|m| m.job == event.job) else {
            return match event.what {
                Happening::Steps { .. } => Err(CountError::Restless(event.job)),
                _ => Ok(None),
            };
        };
        match event.what {
            Happening::Ready { .. } => self.ready(index, event.at)?,
            Happening::Steps(steps) => {
                self.members[index].gradient.merge(&steps.gradient);
                self.step(index, event.at, steps.samples, steps.steps)?;
            }
            Happening::Doubt(why) => return Err(MeasureError::Unusable(why).into()),
            Happening::Exited {
                exit: Exit::Code(0),
                tail,
                ..
            } => return self.ended(index, event.at, &tail),
            Happening::Exited {
                exit,
                tail,
                out_of_memory,
                ..
            } => {
                let cause = cause::of_exit(exit, &tail, out_of_memory.is_some());
                let when = match self.members[index].phase {
                    Phase::Starting => "before its first step",
                    Phase::Training { .. } => "while it was measured",
                };
                let last = cause::last_line(&tail);
                let what = format!("ended ({}) {when}{last}", cause::how(exit));
                return Err(self.failed(index, cause, &what, &tail));
            }
            _ => {}
        }
        Ok(None)
    }

    /// A restarted pool worker is ready, and waits for the order to train.
    fn ready(&mut self, index: usize, at: Instant) -> Result<(), CountError> {
        let member = &mut self.members[index];
        if matches!(member.phase, Phase::Starting) {
            member.is_ready(at);
            if self.pool.is_of_pool(&member.run) {
                self.pool.settled(&member.run)?;
                self.pool.wake(&[member.run])?;
            }
        }
        Ok(())
    }

    fn step(
        &mut self,
        index: usize,
        at: Instant,
        samples: u64,
        steps: u64,
    ) -> Result<(), CountError> {
        let member = &mut self.members[index];
        if matches!(member.phase, Phase::Starting) && !self.pool.is_of_pool(&member.run) {
            self.pool.settled(&member.run)?;
        }
        member.step(at, samples, steps);
        self.begin();
        if self.stretch.is_some() {
            self.members[index].track.step(at, samples);
        }
        Ok(())
    }

    /// Begins a stretch once all jobs train.
    fn begin(&mut self) {
        if self.stretch.is_some() {
            return;
        }
        let since: Option<Vec<Instant>> = self.members.iter().map(Member::trains_since).collect();
        let Some(start) = since.and_then(|all| all.into_iter().max()) else {
            return;
        };
        let start = self.resumed.map_or(start, |at| at.max(start));
        self.stretch = Some(start);
        self.begun.get_or_insert(start);
        for member in &mut self.members {
            member.track.begin();
        }
    }

    /// Time `now` from which the current stretch counts: after the warm-up, or after a quarter of a stretch that is
    /// shorter than four warm-ups.
    fn warm(&self, now: Instant) -> Option<Instant> {
        let start = self.stretch?;
        let length = now.saturating_duration_since(start);
        Some(start + self.limits.warm_up.min(length / 4))
    }

    /// A job has ended successfully by itself.
    fn ended(
        &mut self,
        index: usize,
        at: Instant,
        tail: &str,
    ) -> Result<Option<Counted>, CountError> {
        let samples = self.pool.samples(self.members[index].run.task);
        let member = &mut self.members[index];
        tail.clone_into(&mut member.tail);
        let Some(trained) = member.end(at, samples) else {
            let what = format!(
                "ended (exit code 0) and reported no progress{}",
                cause::last_line(tail)
            );
            return Err(self.failed(index, FailureCause::Silent, &what, tail));
        };
        let last = member.last;
        if trained < self.limits.warm_up {
            let what = format!(
                "trains for {:.2} s in a run, too short a time to be measured or planned for",
                trained.as_secs_f64()
            );
            return Err(self.failed(index, FailureCause::Short, &what, tail));
        }
        if self.members[index].whole {
            let run = self.members[index].run.task;
            self.pool.runs_whole(run, trained);
            self.begin_whole(index);
        }
        if let (Some(start), Some(warm)) = (self.stretch, self.warm(last)) {
            self.counted += last.saturating_duration_since(warm.max(start));
            for member in &mut self.members {
                member.track.close(warm, last);
            }
            self.stretch = None;
        }
        if let Some(counted) = self.finished(at, true) {
            return Ok(Some(counted));
        }
        if self.members[index].runs.len() >= MOST_RUNS {
            let what = format!(
                "ended {MOST_RUNS} times before the others had trained beside it for {} s",
                self.limits.least.as_secs_f64()
            );
            return Err(self.failed(index, FailureCause::Short, &what, tail));
        }
        let run = self.members[index].run;
        self.pool.start(&run)?;
        let job = self.pool.job_of(&run)?;
        self.members[index].restarted(job, Instant::now());
        Ok(None)
    }

    /// A job turned out to need counting by whole runs. So it has trained since its launch, together with all jobs that
    /// trained then.
    fn begin_whole(&mut self, index: usize) {
        if self.stretch.is_none() && self.members.len() == 1 {
            self.stretch = self.members[index].launched;
            self.begun = self.begun.or(self.stretch);
        }
    }

    fn rates(&self, now: Instant, least: usize) -> Option<Vec<JobRate>> {
        let from = self.warm(now);
        let rate = |m: &Member| match m.whole {
            true => track::of_runs(&m.runs),
            false => m.track.rate(from, least),
        };
        self.members.iter().map(rate).collect()
    }

    /// The result, if it is good enough, or as good as possible.
    fn finished(&self, now: Instant, ended: bool) -> Option<Counted> {
        let limits = &self.limits;
        let begun = self.begun?;
        let late = now.saturating_duration_since(begun) >= limits.most + limits.warm_up;
        let current = self
            .warm(now)
            .map(|from| now.saturating_duration_since(from));
        let window = self.counted + current.unwrap_or_default();
        if window < limits.least && !late {
            return None;
        }
        let rates = self.rates(
            now,
            if late || ended {
                FEWEST_LATE
            } else {
                FEWEST_STEPS
            },
        )?;
        let precise = |r: &JobRate| {
            let error = r.std_error.unwrap_or(f64::INFINITY);
            error <= limits.precision * r.samples_per_s
        };
        let done = |(member, rate): (&Member, &JobRate)| {
            !member.runs.is_empty()
                || self.pool.samples(member.run.task).is_some_and(|samples| {
                    window.as_secs_f64() * rate.samples_per_s >= samples as f64
                })
        };
        let enough = late || rates.iter().all(precise) || self.members.iter().zip(&rates).any(done);
        enough.then_some(Counted { rates, window })
    }

    fn overdue(&mut self, now: Instant) -> Result<(), CountError> {
        let together = self.members.len();
        for index in 0..together {
            let member = &self.members[index];
            let job = member.job;
            let silent = now.saturating_duration_since(member.last);
            if let Some(limit) = self.pool.whole_limit(&member.run, together)
                && member.whole
            {
                let limit = limit.max(self.limits.ready);
                if silent > limit {
                    let what = format!("was not done after {} s", tenths(limit));
                    let tail = self.pool.tail(job);
                    return Err(self.failed(index, FailureCause::Timeout, &what, &tail));
                }
                continue;
            }
            // A woken job has no start-up, so the limit between steps applies. A script that prints once per epoch
            // needs as long for each epoch as for the first one.
            let training = member.phase != Phase::Starting || member.launched.is_none();
            let limit = match training {
                true => self.limits.stall.max(2 * member.first_step),
                false => self.limits.ready,
            };
            if silent <= limit {
                continue;
            }
            let tail = self.pool.tail(job);
            let (cause, what) = match training {
                true => (
                    FailureCause::Stall,
                    format!("made no step for {} s", tenths(limit)),
                ),
                false => self.pool.late(&self.members[index].run, limit, &tail),
            };
            let what = format!("{what}{}", cause::last_line(&tail));
            return Err(self.failed(index, cause, &what, &tail));
        }
        Ok(())
    }

    fn failed(&self, index: usize, cause: FailureCause, what: &str, tail: &str) -> CountError {
        let member = &self.members[index];
        let failed = self.pool.failed(&member.run, cause, what, tail);
        CountError::Job(member.job, Box::new(failed))
    }
}

/// Seconds to a tenth.
fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
