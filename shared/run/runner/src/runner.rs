//! The requests that a policy can make to the loop.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use doc::EventPayload;
use host::{Gpus, Grant, Host, HostError, Regrants, Work};
use jobs::{JobId, JobSpec, Journal, Order, OrderError, Supervision};
use units::{Seconds, Share};

use crate::device::Devices;
use crate::sink::Sink;
use crate::watch::{Ending, Limits, Reports, Watch};

/// Runs the processes of one policy on a host.
pub struct Runner<'r, K> {
    pub(crate) host: &'r mut dyn Host,
    pub(crate) sink: &'r mut dyn Sink,
    pub(crate) journal: Journal,
    pub(crate) supervision: &'r Supervision,
    pub(crate) running: BTreeMap<JobId, Watch<K>>,
    /// The last process of each key.
    pub(crate) jobs: BTreeMap<K, JobId>,
    pub(crate) devices: Devices,
    pub(crate) stopping: bool,
    /// The reason why the policy gives up, until the loop has handled it.
    pub(crate) given_up: Option<String>,
    /// When the last turn of the loop began, on the clock of this machine.
    pub(crate) turned: Instant,
    /// Number of signals that have been handled.
    pub(crate) signals: u32,
    /// The first of them.
    pub(crate) signal: Option<i32>,
    pub(crate) round: Option<u32>,
}

/// A process to start.
#[derive(Debug)]
pub struct Start<'a> {
    /// The program.
    pub work: &'a Work<'a>,
    /// The resources that it may use.
    pub grant: &'a Grant,
    /// Its time limits.
    pub limits: Limits,
}

/// How a loop ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// The first signal that arrived.
    pub signal: Option<i32>,
    /// Whether the device had an unrecoverable fault, so that nothing more can run on it.
    pub lost: bool,
}

impl<K: fmt::Debug> fmt::Debug for Runner<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

impl<'r, K: Copy + Ord + fmt::Debug> Runner<'r, K> {
    /// A runner without processes. The times of its events count from the launch in `journal`.
    pub fn new(
        host: &'r mut dyn Host,
        sink: &'r mut dyn Sink,
        supervision: &'r Supervision,
        journal: Journal,
    ) -> Self {
        Self {
            host,
            sink,
            journal,
            supervision,
            running: BTreeMap::new(),
            jobs: BTreeMap::new(),
            devices: Devices::default(),
            stopping: false,
            given_up: None,
            turned: Instant::now(),
            signals: 0,
            signal: None,
            round: None,
        }
    }

    pub(crate) fn end(&mut self, job: JobId, ending: Ending) {
        let usual = self.supervision.grace;
        if let Some(watch) = self.running.get_mut(&job)
            && watch.ending.is_none()
        {
            // A stopped process could not save its work.
            watch.go_on(self.host.now());
            watch.ending = Some(ending);
            self.host.stop(job, watch.limits.grace.unwrap_or(usual));
        }
    }

    pub(crate) fn job(&self, key: K) -> Option<JobId> {
        self.jobs.get(&key).copied()
    }

    pub(crate) fn follow(&mut self, job: JobId, watch: Watch<K>) {
        self.jobs.insert(watch.key, job);
        self.running.insert(job, watch);
    }
}

/// Requests of a policy.
impl<K: Copy + Ord + fmt::Debug> Runner<'_, K> {
    /// The time of the host.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.host.now()
    }

    /// Time since the launch.
    #[must_use]
    pub fn elapsed(&self) -> Seconds {
        self.journal.time(self.host.now())
    }

    /// Writes an event with the current time.
    pub fn tell(&mut self, payload: EventPayload) {
        let now = self.host.now();
        self.sink.event(&self.journal.event(now, payload));
    }

    /// Writes a progress event. Returns whether it was delivered; if the reader does not read, the next event includes
    /// it.
    pub fn tell_progress(&mut self, payload: EventPayload) -> bool {
        let now = self.host.now();
        self.sink.progress(&self.journal.event(now, payload))
    }

    /// A warning that is not an event.
    pub fn warn(&mut self, text: &str) {
        self.sink.warn(text);
    }

    /// Reports a decision to the user.
    pub fn note(&mut self, text: &str) {
        self.sink.note(text);
    }

    /// Starts a process. `Ok(false)`: the task has no program for this phase, and the phase takes no time.
    ///
    /// # Errors
    /// [`HostError`]; nothing runs then.
    pub fn start(&mut self, key: K, start: &Start<'_>) -> Result<bool, HostError> {
        let Some(job) = self.host.admit(start.work, start.grant)? else {
            return Ok(false);
        };
        let on_device = start.work.phase == doc::PhaseKind::Compute;
        let gpus = on_device.then(|| start.grant.gpus.clone());
        let watch = Watch::new(key, start.limits, gpus, self.host.now());
        self.follow(job, watch);
        // A job without reports never becomes ready, so it is settled now: a quota can be set at once. A client of MPS
        // cannot be verified, because it connects at an unknown time.
        let silent = start.limits.reports == Reports::Nothing;
        if on_device && silent && self.host.regrants() == Regrants::Now {
            self.settle(key);
        }
        Ok(true)
    }

    /// Starts a program unchanged, see [`Host::enter`].
    ///
    /// # Errors
    /// [`HostError`]; nothing runs then.
    pub fn enter(
        &mut self,
        key: K,
        spec: JobSpec,
        grant: &Grant,
        limits: Limits,
    ) -> Result<(), HostError> {
        let job = self.host.enter(spec, grant)?;
        let gpus = Some(grant.gpus.clone());
        let watch = Watch::new(key, limits, gpus, self.host.now());
        self.follow(job, watch);
        Ok(())
    }

    /// Variables for a program that another process starts, see [`Host::lend`].
    ///
    /// # Errors
    /// [`HostError`] if the host cannot provide the grant.
    pub fn lend(&mut self, grant: &Grant) -> Result<Vec<(OsString, OsString)>, HostError> {
        self.host.lend(grant)
    }

    /// Suspends the time limits of a process that waits for an order, until [`Runner::limit`]. The policy must ensure
    /// that the process will get an order.
    pub fn suspend(&mut self, key: K) {
        if let Some(job) = self.job(key)
            && let Some(watch) = self.running.get_mut(&job)
        {
            watch.suspend();
        }
    }

    /// Sets new time limits for a process, counted from now, because it got an order. `ready`: it counts as ready.
    pub fn limit(&mut self, key: K, limits: Limits, ready: bool) {
        let now = self.host.now();
        if let Some(job) = self.job(key)
            && let Some(watch) = self.running.get_mut(&job)
        {
            watch.limit(limits, ready, now);
        }
    }

    /// Marks the work of a process as done. It counts even if the process must be ended because it does not end by
    /// itself (for example because of a data loader's thread that is never joined).
    pub fn finished(&mut self, key: K) {
        if let Some(job) = self.job(key)
            && let Some(watch) = self.running.get_mut(&job)
        {
            watch.finished = true;
        }
    }

    /// Ensures that a ready process runs under its grant; ends it if it does not.
    pub fn settle(&mut self, key: K) {
        let Some(job) = self.job(key) else { return };
        match self.host.settle(job) {
            // It has ended meanwhile; the next event says how.
            Ok(_) | Err(HostError::Ended) => {}
            Err(why) => self.end(job, Ending::Failure(why.to_string())),
        }
    }

    /// Ends a process; this does not count as its failure.
    pub fn stop(&mut self, key: K, why: String) {
        let watch = self.job(key).and_then(|job| self.running.get(&job));
        let own = watch.and_then(|watch| watch.limits.grace);
        self.stop_within(key, own.unwrap_or(self.supervision.grace), why);
    }

    /// Ends a process like [`Runner::stop`], with a special time from SIGTERM to SIGKILL. A process that is already
    /// being ended gets the new time.
    pub fn stop_within(&mut self, key: K, grace: Duration, why: String) {
        let Some(job) = self.job(key) else { return };
        if let Some(watch) = self.running.get_mut(&job) {
            watch.go_on(self.host.now());
            watch.ending.get_or_insert(Ending::Stopped(why));
            self.host.stop(job, grace);
        }
    }

    /// Stops a process with all its descendants, until [`Runner::go_on`] or a request to end it.
    pub fn hold(&mut self, key: K) {
        if let Some(job) = self.job(key)
            && let (Some(first), Some(watch)) = (self.host.pid(job), self.running.get_mut(&job))
        {
            watch.hold(first);
        }
    }

    /// Lets a stopped process continue.
    pub fn go_on(&mut self, key: K) {
        let now = self.host.now();
        if let Some(job) = self.job(key)
            && let Some(watch) = self.running.get_mut(&job)
        {
            watch.go_on(now);
        }
    }

    /// Changes the share of a process, at once or at its next start, see [`Runner::regrants`].
    ///
    /// # Errors
    /// [`HostError`]; the share is then unchanged.
    pub fn regrant(&mut self, key: K, share: Share) -> Result<(), HostError> {
        let job = self.job(key).ok_or(HostError::Ended)?;
        self.host.regrant(job, share)
    }

    /// When a new share of a running process takes effect.
    #[must_use]
    pub fn regrants(&self) -> Regrants {
        self.host.regrants()
    }

    /// Sends an order to a process.
    ///
    /// # Errors
    /// [`OrderError`].
    pub fn order(&mut self, key: K, order: Order) -> Result<(), OrderError> {
        let job = self.job(key).ok_or(OrderError::Ended)?;
        self.host.order(job, order)
    }

    /// Ends everything, like a signal.
    pub fn give_up(&mut self, why: String) {
        self.given_up.get_or_insert(why);
    }

    /// The moment of the launch.
    #[must_use]
    pub const fn launched(&self) -> Instant {
        self.journal.launched()
    }

    /// Time at which a failed task may be retried; `restart` counts from 1.
    #[must_use]
    pub fn retry_at(&self, restart: u32) -> Instant {
        self.host.now() + self.supervision.pause(restart)
    }

    /// Process group of a process.
    #[must_use]
    pub fn pid(&self, key: K) -> Option<u32> {
        let pid = self.host.pid(self.job(key)?)?;
        // A process id is never negative.
        u32::try_from(pid).ok()
    }

    /// `cgroup.procs` of the control group that contains a process with all its descendants, if there is one.
    #[must_use]
    pub fn procs(&self, key: K) -> Option<&Path> {
        self.host.procs(self.job(key)?)
    }

    /// Whether nothing may be started any more.
    #[must_use]
    pub const fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether some GPU has a fault from which it has not recovered. Then processes may only be started on GPUs for
    /// which [`Runner::serves`] is true.
    #[must_use]
    pub const fn is_faulted(&self) -> bool {
        self.devices.is_faulted()
    }

    /// Whether a job may be started on all of these GPUs now: none is lost, and none has an unrecovered fault.
    #[must_use]
    pub fn serves(&self, gpus: &Gpus) -> bool {
        self.devices.serve(gpus)
    }

    /// How jobs are supervised.
    #[must_use]
    pub const fn supervision(&self) -> &Supervision {
        self.supervision
    }

    /// Kind of the device.
    #[must_use]
    pub fn kind(&self) -> doc::DeviceKind {
        self.host.fingerprint().kind
    }
}
