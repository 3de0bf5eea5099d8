//! The loop, and what a policy can ask of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use doc::EventPayload;
use host::{Grant, Host, HostError, Regrants, Work};
use jobs::{Event, Exit, Happening, JobId, Journal, Order, OrderError, OutOfMemory, Supervision};
use units::{Seconds, Share};

use crate::device::Device;
use crate::policy::{Ended, Happened, Policy, Stop, Verdict};
use crate::sink::Sink;
use crate::watch::{Ending, Late, Limits, Reports, Watch};

/// A turn of the loop takes [`host::LOOK`] and a moment of work. If it took longer, this process was stopped (Ctrl-Z,
/// SIGSTOP), or the machine slept.
const LONGEST_TURN: Duration = Duration::from_secs(1);

/// For a job that reported nothing.
pub const TELLS_NONE: &str = " (it reported nothing; a program that reports no progress needs \"progress\": {\"none\": true} in its job)";

/// Runs the processes of one policy on a host.
pub struct Runner<'r, K> {
    pub(crate) host: &'r mut dyn Host,
    pub(crate) sink: &'r mut dyn Sink,
    pub(crate) journal: Journal,
    supervision: &'r Supervision,
    pub(crate) running: BTreeMap<JobId, Watch<K>>,
    pub(crate) device: Device,
    stopping: bool,
    /// Why the policy gives up, until it is acted upon.
    given_up: Option<String>,
    /// When the last turn of the loop began, on the clock of this machine.
    turned: Instant,
    /// Number of signals that have been handled.
    signals: u32,
    /// The first of them.
    signal: Option<i32>,
    round: Option<u32>,
}

/// A process to start.
#[derive(Debug)]
pub struct Start<'a> {
    /// The program.
    pub work: &'a Work<'a>,
    /// Under what.
    pub grant: &'a Grant,
    /// When it is late.
    pub limits: Limits,
}

/// How a loop ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// The first signal that arrived.
    pub signal: Option<i32>,
    /// The device has had a fault from which it does not recover: nothing more can be run on it.
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
    /// A runner without processes. The events of its run count from `journal`.
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
            device: Device::default(),
            stopping: false,
            given_up: None,
            turned: Instant::now(),
            signals: 0,
            signal: None,
            round: None,
        }
    }

    /// Runs until nothing is left to start and no process runs.
    pub fn run(mut self, policy: &mut dyn Policy<Key = K>) -> Over {
        loop {
            self.round = policy.round();
            self.heed_signals(policy);
            self.recover(policy);
            policy.decide(&mut self);
            if let Some(why) = self.given_up.take() {
                self.stop_for(policy, &Stop::GaveUp(why));
            }
            let over = self.stopping || !self.device.is_faulted();
            if over && policy.is_over(&self) && self.running.is_empty() {
                break;
            }
            for event in self.host.poll(self.due(policy)) {
                self.happened(policy, event);
            }
            self.judge(policy);
            policy.turned(&mut self);
            self.show(policy, false);
            if self.sink.is_closed() {
                self.stop_for(policy, &Stop::ReaderGone);
            }
        }
        self.show(policy, true);
        Over {
            signal: self.signal,
            lost: self.device.is_lost(),
        }
    }

    /// Shows the state, if it is time.
    fn show(&mut self, policy: &dyn Policy<Key = K>, last: bool) {
        if self.sink.wants_state(last) {
            let state = policy.state(self);
            self.sink.state(&state);
        }
    }

    /// The first signal asks the jobs to end, a second one kills them.
    fn heed_signals(&mut self, policy: &mut dyn Policy<Key = K>) {
        let arrived = self.host.arrived();
        if arrived.count == self.signals {
            return;
        }
        if self.signal.is_none() {
            self.signal = arrived.first;
            self.stop_for(policy, &Stop::Signal(arrived.first.unwrap_or_default()));
        }
        if arrived.count > 1 {
            for job in self.host.jobs() {
                self.host.stop(job, Duration::ZERO);
            }
        }
        self.signals = arrived.count;
    }

    /// Ends every process, and starts no more.
    pub(crate) fn stop_for(&mut self, policy: &mut dyn Policy<Key = K>, why: &Stop) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.tell(EventPayload::Stop {
            round: self.round,
            task: None,
            reason: why.to_string(),
        });
        policy.stopped(self, why);
        let open: Vec<K> = self.running.values().map(|w| w.key).collect();
        for key in open {
            self.stop(key, why.to_string());
        }
    }

    /// When the next thing is due by the clock.
    fn due(&self, policy: &dyn Policy<Key = K>) -> Option<Instant> {
        let limits = self.running.values().filter_map(Watch::deadline);
        let limits = limits.map(|(at, _)| at);
        policy.due(self).into_iter().chain(limits).min()
    }

    fn happened(&mut self, policy: &mut dyn Policy<Key = K>, event: Event) {
        let Some(watch) = self.running.get_mut(&event.job) else {
            return;
        };
        let (key, at) = (watch.key, event.at);
        let happened = match event.what {
            Happening::Ready { .. } => return self.ready(policy, event.job, at),
            Happening::Steps {
                steps,
                samples,
                loss,
                last,
                gradient,
            } => {
                // A job that only reports steps is ready with its first one.
                let first = !watch.ready;
                self.ready(policy, event.job, at);
                if let Some(watch) = self.running.get_mut(&event.job) {
                    watch.moved(at);
                }
                Happened::Steps {
                    first,
                    steps,
                    samples,
                    loss,
                    last,
                    gradient,
                }
            }
            Happening::Loaded => Happened::Loaded,
            Happening::Parked => Happened::Parked,
            Happening::Done { samples } => Happened::Done { samples },
            Happening::Exited { .. } => return self.exited(policy, event),
            Happening::Overlong(_) => return,
            Happening::LogFailed(why) => {
                let text = format!("the log of {} ends here: {why}", policy.task(key));
                return self.sink.warn(&text);
            }
            Happening::Doubt(why) => {
                return self.sink.warn(&format!("{}: {why}", policy.task(key)));
            }
            Happening::NormsLeftOut(why) => {
                let name = policy.task(key);
                let text = format!("{name}: norms of gradients are left out: {why}");
                return self.sink.warn(&text);
            }
            Happening::Unkillable => {
                let name = policy.task(key);
                return self.sink.warn(&format!(
                    "{name} does not end, even after SIGKILL, and is left running"
                ));
            }
        };
        policy.happened(self, key, at, &happened);
    }

    fn ready(&mut self, policy: &mut dyn Policy<Key = K>, job: JobId, at: Instant) {
        let now = self.host.now();
        let Some(watch) = self.running.get_mut(&job) else {
            return;
        };
        if watch.ready || !watch.on_device {
            return;
        }
        watch.ready = true;
        watch.moved(now);
        let key = watch.key;
        policy.happened(self, key, at, &Happened::Ready);
        self.settle(key);
    }

    fn exited(&mut self, policy: &mut dyn Policy<Key = K>, event: Event) {
        let Happening::Exited {
            exit,
            strays,
            tail,
            out_of_memory,
            ..
        } = event.what
        else {
            return;
        };
        let Some(watch) = self.running.remove(&event.job) else {
            return;
        };
        let (verdict, why) = verdict(&watch, exit, &tail, out_of_memory);
        let ended = Ended {
            verdict,
            why,
            exit,
            strays,
            outstayed: watch.ending == Some(Ending::Outstayed),
            tail,
        };
        if let Err(why) = policy.ended(self, watch.key, &ended) {
            self.look_for_fault(policy, watch.key);
            policy.failed(self, watch.key, why);
        }
    }

    /// Checks time limits, unless this process did not poll its jobs for a while: then output in their pipes must be
    /// read first, and that time counts for no job.
    fn judge(&mut self, policy: &mut dyn Policy<Key = K>) {
        let turn = self.turned.elapsed();
        self.turned = Instant::now();
        let now = self.host.now();
        if turn > LONGEST_TURN {
            for watch in self.running.values_mut() {
                watch.postpone(turn, now);
            }
            return policy.postpone(turn);
        }
        let late = |(&job, watch): (&JobId, &Watch<K>)| Some((job, watch.late(now)?));
        let late: Vec<(JobId, Late)> = self.running.iter().filter_map(late).collect();
        for (job, late) in late {
            let ending = match self.running.get(&job) {
                Some(watch) if watch.finished => Ending::Outstayed,
                _ => Ending::Failure(self.late_text(job, late)),
            };
            self.end(job, ending, self.supervision.grace);
        }
    }

    fn late_text(&self, job: JobId, late: Late) -> String {
        const LAST: usize = 3;
        match late {
            Late::Work(limit) => format!("not done after {} s", limit.as_secs_f64()),
            // After reporting that it is done, a job may take as long to end: it may save a checkpoint.
            Late::Step(limit) => format!("no step for {} s", limit.as_secs_f64()),
            Late::Ready(limit) => {
                let reports = self.running.get(&job).map(|w| w.limits.reports);
                if reports == Some(Reports::Loaded) {
                    return format!("not loaded after {} s", limit.as_secs_f64());
                }
                let advice = if reports == Some(Reports::Matched) {
                    let tail = self.host.tail(job);
                    let mut last: Vec<&str> = tail.lines().rev().take(LAST).collect();
                    last.reverse();
                    let last = last.join(" | ");
                    format!("{}; its last lines: {last}", jobs::NO_MATCH)
                } else {
                    TELLS_NONE.to_owned()
                };
                format!("not ready after {} s{advice}", limit.as_secs_f64())
            }
        }
    }

    pub(crate) fn end(&mut self, job: JobId, ending: Ending, grace: Duration) {
        if let Some(watch) = self.running.get_mut(&job)
            && watch.ending.is_none()
        {
            watch.ending = Some(ending);
            self.host.stop(job, grace);
        }
    }

    fn job(&self, key: K) -> Option<JobId> {
        let found = self.running.iter().find(|(_, watch)| watch.key == key);
        found.map(|(job, _)| *job)
    }
}

/// How an end is judged, and why its work is not done.
fn verdict<K>(
    watch: &Watch<K>,
    exit: Exit,
    tail: &str,
    out_of_memory: Option<OutOfMemory>,
) -> (Verdict, Option<String>) {
    match &watch.ending {
        Some(Ending::Failure(why)) => return (Verdict::Ended, Some(why.clone())),
        Some(Ending::Stopped(why)) => return (Verdict::Stopped, Some(why.clone())),
        Some(Ending::Fault) => {
            let why = "stopped because of a fault of the MPS server";
            return (Verdict::Fault, Some(why.to_owned()));
        }
        Some(Ending::Outstayed) => return (Verdict::Done, None),
        None => {}
    }
    let text = match exit {
        Exit::Code(0) => return (Verdict::Done, None),
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("ended by signal {signal}"),
    };
    let last = tail.lines().last().unwrap_or_default();
    let why = match last {
        "" => text.clone(),
        last => format!("{text}; its last line was: {last}"),
    };
    match out_of_memory {
        Some(how) => {
            let why = format!("{text}; it ran out of memory: {how}");
            (Verdict::OutOfMemory(how), Some(why))
        }
        None => (Verdict::Failed, Some(why)),
    }
}

/// What a policy can ask.
impl<K: Copy + Ord + fmt::Debug> Runner<'_, K> {
    /// The time of the host.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.host.now()
    }

    /// The same in seconds since the launch.
    #[must_use]
    pub fn elapsed(&self) -> Seconds {
        self.journal.time(self.host.now())
    }

    /// Writes an event of now.
    pub fn tell(&mut self, payload: EventPayload) {
        let now = self.host.now();
        self.sink.event(&self.journal.event(now, payload));
    }

    /// Writes progress. Returns whether it is reported: if the reader does not read, the next one includes it.
    pub fn tell_progress(&mut self, payload: EventPayload) -> bool {
        let now = self.host.now();
        self.sink.progress(&self.journal.event(now, payload))
    }

    /// A warning that is not an event.
    pub fn warn(&mut self, text: &str) {
        self.sink.warn(text);
    }

    /// What was decided, for a person.
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
        let watch = Watch::new(key, start.limits, on_device, self.host.now());
        self.running.insert(job, watch);
        // It will never report that it is ready. A quota can be set at once; a client of MPS cannot be verified
        // before it connects, and the time of that is unknown.
        let silent = start.limits.reports == Reports::Nothing;
        if on_device && silent && self.host.regrants() == Regrants::Now {
            self.settle(key);
        }
        Ok(true)
    }

    /// Suspends the time limits of a process that waits for an order, until [`Runner::limit`]. Its policy must know that
    /// it will get one.
    pub fn suspend(&mut self, key: K) {
        if let Some(job) = self.job(key)
            && let Some(watch) = self.running.get_mut(&job)
        {
            watch.suspend();
        }
    }

    /// Sets the time limits of a process anew, counted from now: it was given an order, or became `ready`.
    pub fn limit(&mut self, key: K, limits: Limits, ready: bool) {
        let now = self.host.now();
        if let Some(job) = self.job(key)
            && let Some(watch) = self.running.get_mut(&job)
        {
            watch.limit(limits, ready, now);
        }
    }

    /// The work of a process is done and counts, even if it has to be ended because it does not end by itself (a data
    /// loader's thread that is never joined).
    pub fn finished(&mut self, key: K) {
        if let Some(job) = self.job(key)
            && let Some(watch) = self.running.get_mut(&job)
        {
            watch.finished = true;
        }
    }

    /// Gives a process another name.
    pub fn rename(&mut self, from: K, to: K) {
        if let Some(job) = self.job(from)
            && let Some(watch) = self.running.get_mut(&job)
        {
            watch.key = to;
        }
    }

    /// Ensures that a process that is ready runs under its grant; one that does not is ended.
    pub fn settle(&mut self, key: K) {
        let Some(job) = self.job(key) else { return };
        match self.host.settle(job) {
            // It has ended meanwhile; the next event says how.
            Ok(_) | Err(HostError::Ended) => {}
            Err(why) => self.end(
                job,
                Ending::Failure(why.to_string()),
                self.supervision.grace,
            ),
        }
    }

    /// Ends a process, which is not its fault.
    pub fn stop(&mut self, key: K, why: String) {
        self.stop_within(key, self.supervision.grace, why);
    }

    /// Ends a process, which is not its fault, and gives it another time than the usual from SIGTERM to SIGKILL. A
    /// process that is being ended already gets the new time.
    pub fn stop_within(&mut self, key: K, grace: Duration, why: String) {
        let Some(job) = self.job(key) else { return };
        if let Some(watch) = self.running.get_mut(&job) {
            watch.ending.get_or_insert(Ending::Stopped(why));
            self.host.stop(job, grace);
        }
    }

    /// Ends a process, which counts as its failure.
    pub fn fail(&mut self, key: K, why: String) {
        if let Some(job) = self.job(key) {
            self.end(job, Ending::Failure(why), self.supervision.grace);
        }
    }

    /// Changes the share of a process, at once or at its next start, as [`Runner::regrants`] says.
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

    /// Ends everything, as a signal does.
    pub fn give_up(&mut self, why: String) {
        self.given_up.get_or_insert(why);
    }

    /// The moment of the launch.
    #[must_use]
    pub const fn launched(&self) -> Instant {
        self.journal.launched()
    }

    /// When a task that has failed may be tried again; `restart` counts from 1.
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

    /// Whether a process has not ended.
    #[must_use]
    pub fn is_running(&self, key: K) -> bool {
        self.job(key).is_some()
    }

    /// Number of processes that have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether nothing may be started any more.
    #[must_use]
    pub const fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether nothing may be started now: the device has had a fault and has not recovered.
    #[must_use]
    pub const fn is_faulted(&self) -> bool {
        self.device.is_faulted()
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
