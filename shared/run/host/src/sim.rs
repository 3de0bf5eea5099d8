//! The simulator as a host: jobs of a workload on a simulated GPU, in virtual time.
//!
//! Jobs follow a fluid model: a computing job advances at the throughput that the simulator gives for the set of jobs
//! computing on its GPU, at their batch sizes and shares, and when the set changes, the rates change at once. The rates
//! come from windows of the same length and number as those of a profile. A transfer takes `8 bytes / bandwidth`
//! seconds; on a link whose duplex is `shared`, transfers of a direction divide it equally. Time passes only in
//! [`Host::poll`], to the next end of a job or to the time until which the caller waits, so a round of hours takes
//! milliseconds. The same workload and seed give the same events.

mod gpu;
mod seeds;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use doc::{DeviceFingerprint, Duplex, Link, PhaseKind, Workload};
use jobs::{Arrived, Event, Exit, Happening, JobId, Order, OrderError, OutOfMemory, Steps};
use units::Share;
use units::corun::Setting;

pub use crate::error::SimError;
use crate::{Gpus, Grant, Health, Host, HostError, OpenError, Recovery, Regrants, Settled, Work};
pub use gpu::{STEADY_REPEATS, STEADY_WINDOW_S, SimulatedGpu};
pub use seeds::{of_repeat, scatter};

/// Simulated jobs.
#[derive(Debug)]
pub struct SimHost {
    gpu: SimulatedGpu,
    seed: u64,
    link: Option<Link>,
    origin: Instant,
    elapsed: Duration,
    jobs: BTreeMap<JobId, SimulatedJob>,
    next: u64,
    told: Vec<Event>,
    /// Rates of sets of jobs on one GPU, which recur in every round.
    known: BTreeMap<Vec<Setting>, Vec<f64>>,
}

#[derive(Debug)]
struct SimulatedJob {
    work: JobWork,
    /// Samples per second for a computing job, fraction of the link for a transfer.
    rate: f64,
    /// Remaining samples, or for a transfer the remaining seconds on an unshared link.
    left: f64,
}

#[derive(Debug, Clone, Copy)]
enum JobWork {
    Compute {
        run: Setting,
        gpu: usize,
        wanted: u64,
        told: u64,
    },
    Transfer(PhaseKind),
}

/// Longest job, in seconds: 30,000 years. After a longer time, the 15 digits of a number could no longer distinguish
/// the start and the end of a job of one second; an endless job would overflow the clock.
const LONGEST_JOB_S: f64 = 1e12;

/// Remaining seconds below which a job has ended: virtual time counts whole nanoseconds, and this is two of them.
const ROUNDING_S: f64 = 2e-9;

/// Longest step of virtual time, 30 years, so that an extremely small rate does not overflow the clock. A longer wait
/// consists of several steps.
const LONGEST_STEP_S: f64 = 1e9;

impl SimHost {
    /// Opens the simulated GPU of a workload. `link` carries the transfers; absent: they take no time.
    ///
    /// # Errors
    /// Like [`SimulatedGpu::open`].
    pub fn open(workload: &Workload, link: Option<Link>, seed: u64) -> Result<Self, OpenError> {
        Ok(Self {
            gpu: SimulatedGpu::open(workload)?,
            seed,
            link,
            origin: Instant::now(),
            elapsed: Duration::ZERO,
            jobs: BTreeMap::new(),
            next: 0,
            told: Vec::new(),
            known: BTreeMap::new(),
        })
    }

    fn work(&self, work: &Work<'_>, grant: &Grant) -> Result<(JobWork, f64), HostError> {
        let name = || work.task.id.to_string();
        let seconds = |down: bool| {
            let bytes = work.task.update_bytes.unwrap_or_default();
            self.link.map_or(0.0, |link| match down {
                true => bytes.down.transfer_seconds(link.down),
                false => bytes.up.transfer_seconds(link.up),
            })
        };
        match work.phase {
            PhaseKind::Download => Ok((JobWork::Transfer(work.phase), seconds(true))),
            PhaseKind::Upload => Ok((JobWork::Transfer(work.phase), seconds(false))),
            PhaseKind::Compute => {
                let gpu = grant.gpus.only().ok_or_else(|| HostError::OneSimulated {
                    gpus: grant.gpus.clone(),
                })?;
                let task = self.gpu.task_index(work.task);
                let run = Setting {
                    task: task.ok_or_else(|| SimError::UnknownTask { task: name() })?,
                    batch: work.batch.ok_or(SimError::NoBatch)?,
                    share: grant.share,
                };
                let wanted = work
                    .samples
                    .ok_or_else(|| SimError::Endless { task: name() })?;
                let compute = JobWork::Compute {
                    run,
                    gpu,
                    wanted,
                    told: 0,
                };
                Ok((compute, wanted as f64))
            }
        }
    }

    /// Whether virtual time can count to the end of a job.
    fn ends_in_time(&self, id: JobId) -> Result<(), SimError> {
        let seconds = self.jobs[&id].left / self.jobs[&id].rate;
        if seconds <= LONGEST_JOB_S {
            return Ok(());
        }
        Err(SimError::TooLong { seconds })
    }

    /// Updates the rates of all jobs after one has started or ended.
    fn share_out(&mut self) -> Result<(), SimError> {
        let mut gpus: BTreeMap<usize, Vec<(Setting, JobId)>> = BTreeMap::new();
        for (&id, job) in &self.jobs {
            if let JobWork::Compute { run, gpu, .. } = job.work {
                gpus.entry(gpu).or_default().push((run, id));
            }
        }
        for mut computing in gpus.into_values() {
            // The simulator takes the order of tasks as their order of arrival.
            computing.sort_by_key(|(run, _)| run.task);
            let runs: Vec<Setting> = computing.iter().map(|(run, _)| *run).collect();
            if !self.known.contains_key(&runs) {
                let rates = self.gpu.steady(&runs, self.seed)?;
                self.known.insert(runs.clone(), rates);
            }
            for ((_, id), rate) in computing.iter().zip(&self.known[&runs]) {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.rate = *rate;
                }
            }
        }
        let shared = self.link.is_some_and(|l| l.duplex == Duplex::Shared);
        let transfers = |jobs: &BTreeMap<JobId, SimulatedJob>, kind| {
            let same = |j: &&SimulatedJob| matches!(j.work, JobWork::Transfer(k) if k == kind);
            jobs.values().filter(same).count()
        };
        for kind in [PhaseKind::Download, PhaseKind::Upload] {
            let part = if shared {
                1.0 / transfers(&self.jobs, kind).max(1) as f64
            } else {
                1.0
            };
            for job in self.jobs.values_mut() {
                if matches!(job.work, JobWork::Transfer(k) if k == kind) {
                    job.rate = part;
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, job: JobId, what: Happening) {
        let at = self.now();
        self.told.push(Event { job, at, what });
    }

    /// Reports what every computing job has trained so far. Called whenever a rate changes, even if it is still zero,
    /// so that the samples between two reports have one rate.
    fn tell_steps(&mut self) {
        let mut all = Vec::new();
        for (&id, job) in &mut self.jobs {
            if let JobWork::Compute {
                run, wanted, told, ..
            } = &mut job.work
            {
                let done = wanted.saturating_sub(job.left.round() as u64);
                let samples = done.saturating_sub(*told);
                *told = (*told).max(done);
                let steps = samples / u64::from(run.batch.get());
                all.push((id, steps, samples));
            }
        }
        for (id, steps, samples) in all {
            self.tell(
                id,
                Happening::Steps(Steps {
                    steps,
                    samples,
                    ..Steps::default()
                }),
            );
        }
    }

    /// Ends a job. The rates of the others change with it.
    fn end(&mut self, id: JobId, exit: Exit, tail: String) {
        if self.jobs.remove(&id).is_none() {
            return;
        }
        let exited = Happening::Exited {
            exit,
            strays: Vec::new(),
            tail,
            out_of_memory: None,
            peak_bytes: None,
        };
        self.tell(id, exited);
        if let Err(error) = self.share_out() {
            // The remaining jobs cannot run, although they could with the ended job; they are ended with this error, so
            // that nothing waits for ever.
            for other in self.jobs() {
                self.jobs.remove(&other);
                let exited = Happening::Exited {
                    exit: Exit::Code(1),
                    strays: Vec::new(),
                    tail: error.to_string(),
                    out_of_memory: matches!(error, SimError::OutOfMemory { .. })
                        .then(|| OutOfMemory::Said(error.to_string())),
                    peak_bytes: None,
                };
                self.tell(other, exited);
            }
        }
    }

    /// Advances virtual time to the first end of a job, to `until`, or by the longest step, whichever comes first.
    fn advance(&mut self, until: Option<Instant>) {
        let first = self
            .jobs
            .values()
            .map(|job| job.left / job.rate)
            .fold(f64::INFINITY, f64::min);
        let next = (!self.jobs.is_empty())
            .then(|| Duration::from_secs_f64(first.clamp(0.0, LONGEST_STEP_S)));
        let limit = until.map(|at| at.saturating_duration_since(self.now()));
        let Some(step) = next.into_iter().chain(limit).min() else {
            return;
        };
        self.elapsed += step;
        let seconds = step.as_secs_f64();
        let mut ended = Vec::new();
        for (&id, job) in &mut self.jobs {
            job.left = (job.left - job.rate * seconds).max(0.0);
            if job.left <= job.rate * ROUNDING_S {
                job.left = 0.0;
                ended.push(id);
            }
        }
        // The end of a transfer changes no rate.
        let computed = |id: &JobId| matches!(self.jobs[id].work, JobWork::Compute { .. });
        if limit == Some(step) || ended.iter().any(computed) {
            self.tell_steps();
        }
        for id in ended {
            self.end(id, Exit::Code(0), String::new());
        }
    }
}

impl Host for SimHost {
    fn fingerprint(&self) -> DeviceFingerprint {
        self.gpu.fingerprint(0.0)
    }

    /// As under MPS, the share of a task is fixed when it starts.
    fn regrants(&self) -> Regrants {
        Regrants::NextStart
    }

    fn now(&self) -> Instant {
        self.origin + self.elapsed
    }

    fn admit(&mut self, work: &Work<'_>, grant: &Grant) -> Result<Option<JobId>, HostError> {
        if grant.memory.is_some() {
            return Err(HostError::NoMemoryLimit);
        }
        let (work, left) = self.work(work, grant)?;
        let id = JobId::numbered(self.next);
        let rate = 1.0;
        if let JobWork::Compute { .. } = work {
            self.tell_steps();
        }
        self.jobs.insert(id, SimulatedJob { work, rate, left });
        if let Err(error) = self.share_out().and_then(|()| self.ends_in_time(id)) {
            self.jobs.remove(&id);
            self.share_out()?;
            return Err(error.into());
        }
        self.next += 1;
        if let JobWork::Compute { .. } = work {
            let ready = Happening::Ready {
                sms: None,
                mps: None,
            };
            self.tell(id, ready);
            self.tell_steps();
        }
        Ok(Some(id))
    }

    fn settle(&mut self, job: JobId) -> Result<Settled, HostError> {
        match self.is_running(job) {
            true => Ok(Settled::default()),
            false => Err(HostError::Ended),
        }
    }

    /// Nothing to do, because the next start gets the new share.
    fn regrant(&mut self, _: JobId, _: Share) -> Result<(), HostError> {
        Ok(())
    }

    fn order(&mut self, _: JobId, _: Order) -> Result<(), OrderError> {
        Err(OrderError::NotRead("a simulated job has none".to_owned()))
    }

    fn stop(&mut self, job: JobId, _: Duration) {
        self.tell_steps();
        let terminated = 15;
        self.end(job, Exit::Signal(terminated), String::new());
    }

    fn health(&mut self) -> Health {
        Health::Good
    }

    fn recover(&mut self, _: &Gpus) -> Result<Recovery, HostError> {
        Ok(Recovery::Recovered)
    }

    fn poll(&mut self, until: Option<Instant>) -> Vec<Event> {
        if self.told.is_empty() {
            self.advance(until);
        }
        std::mem::take(&mut self.told)
    }

    fn jobs(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    fn pid(&self, _: JobId) -> Option<i32> {
        None
    }

    fn tail(&self, _: JobId) -> String {
        String::new()
    }

    /// Virtual time does not wait for signals: a signal ends this program as it ends any other.
    fn arrived(&mut self) -> Arrived {
        Arrived::default()
    }
}
