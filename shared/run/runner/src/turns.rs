//! The event loop.

use std::fmt;
use std::time::{Duration, Instant};

use doc::EventPayload;
use host::LONGEST_TURN;
use jobs::{Event, Exit, Happening, JobId, OutOfMemory};

use crate::faults::Role;
use crate::happened::{Ended, Happened, Stop, Verdict};
use crate::policy::Policy;
use crate::runner::{Over, Runner};
use crate::watch::{Ending, Late, Reports, Watch};

/// Added to messages about a job that reported nothing.
pub const TELLS_NONE: &str = " (it reported nothing; a program that reports no progress needs \"progress\": {\"none\": true} in its job)";

impl<K: Copy + Ord + fmt::Debug> Runner<'_, K> {
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
            let over = self.stopping || !self.devices.is_faulted();
            if over && policy.is_over(&self) && self.running.is_empty() {
                break;
            }
            let mut events = self.host.poll(self.due(policy));
            self.culprits_first(&mut events);
            for event in events {
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
            lost: self.devices.is_lost,
        }
    }

    /// Shows the state if it is due; `last`: always.
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

    /// Ends every process; nothing starts any more.
    pub(crate) fn stop_for(&mut self, policy: &mut dyn Policy<Key = K>, why: &Stop) {
        if self.stopping {
            return;
        }
        // Jobs that have ended until now ended by themselves. After this, an exit status does not show whether a job
        // was done: a script that saves a checkpoint when asked to end may also exit with 0.
        for event in self.host.poll(Some(self.host.now())) {
            self.happened(policy, event);
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

    /// Time of the next deadline.
    fn due(&self, policy: &dyn Policy<Key = K>) -> Option<Instant> {
        let limits = self
            .running
            .values()
            .filter_map(Watch::deadline)
            .map(|(at, _)| at);
        policy.due(self).into_iter().chain(limits).min()
    }

    fn happened(&mut self, policy: &mut dyn Policy<Key = K>, event: Event) {
        let Some(watch) = self.running.get_mut(&event.job) else {
            return;
        };
        let (key, at) = (watch.key, event.at);
        let happened = match event.what {
            Happening::Ready { .. } => return self.ready(policy, event.job, at),
            Happening::Steps(steps) => {
                // A job that only reports steps is ready with its first one.
                let first = !watch.ready;
                self.ready(policy, event.job, at);
                if let Some(watch) = self.running.get_mut(&event.job) {
                    watch.moved(at);
                }
                Happened::Steps { first, steps }
            }
            Happening::Loaded => Happened::Loaded,
            Happening::Parked => Happened::Parked,
            Happening::Done { samples } => Happened::Done { samples },
            Happening::Exited { .. } => return self.exited(policy, event),
            ref told @ (Happening::LogFailed(_)
            | Happening::Doubt(_)
            | Happening::NormsLeftOut(_)
            | Happening::Overlong
            | Happening::Unkillable) => {
                return policy.told(self, key, told);
            }
        };
        policy.happened(self, key, at, &happened);
    }

    fn ready(&mut self, policy: &mut dyn Policy<Key = K>, job: JobId, at: Instant) {
        let now = self.host.now();
        let Some(watch) = self.running.get_mut(&job) else {
            return;
        };
        if watch.ready || watch.gpus.is_none() {
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
            peak_bytes,
        } = event.what
        else {
            return;
        };
        let Some(watch) = self.running.remove(&event.job) else {
            return;
        };
        if self.jobs.get(&watch.key) == Some(&event.job) {
            self.jobs.remove(&watch.key);
        }
        let (mut verdict, mut why) = verdict(&watch, exit, &tail, out_of_memory);
        let by_itself = matches!(verdict, Verdict::Failed | Verdict::Ended);
        let mut faults = match by_itself && watch.gpus.is_some() {
            true => self.new_faults(),
            false => Vec::new(),
        };
        let mut culprit = false;
        if by_itself || verdict == Verdict::Fault {
            match self.role(&watch, &tail, &faults) {
                Some(Role::Culprit) => {
                    culprit = true;
                    // Its own error is the reason for the end, and not the reason for which it was being ended.
                    if verdict != Verdict::Failed && exit != Exit::Code(0) {
                        (verdict, why) = by_exit(exit, &tail, None);
                    }
                    let text = why.unwrap_or_default();
                    why = Some(format!("{text}; it made the MPS server fault"));
                }
                Some(Role::Victim(text)) => (verdict, why) = (Verdict::Fault, Some(text)),
                None => {}
            }
        }
        let ended = Ended {
            verdict,
            why,
            exit,
            strays,
            outstayed: watch.ending == Some(Ending::Outstayed),
            culprit,
            tail,
            peak_bytes,
        };
        let done = policy.ended(self, watch.key, &ended);
        if done.is_err() && !by_itself {
            faults = self.new_faults();
        }
        for fault in faults {
            let own = watch
                .gpus
                .as_ref()
                .is_some_and(|gpus| gpus.share_any(&fault.gpus));
            self.declare(policy, watch.key, fault, culprit && own);
        }
        if let Err(why) = done {
            policy.failed(self, watch.key, why);
        }
    }

    /// Checks time limits. If this process did not poll its jobs for a while, the output in their pipes must be read
    /// first, and that time does not count for any job.
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
        let if_late = |(&job, watch): (&JobId, &Watch<K>)| Some((job, watch.late(now)?));
        let late: Vec<(JobId, Late)> = self.running.iter().filter_map(if_late).collect();
        for (job, late) in late {
            let ending = match self.running.get(&job) {
                Some(watch) if watch.finished => Ending::Outstayed,
                _ => Ending::Failure(self.late_text(job, late)),
            };
            self.end(job, ending);
        }
    }

    fn late_text(&self, job: JobId, late: Late) -> String {
        const LAST: usize = 3;
        match late {
            Late::Work(limit) => format!("not done after {} s", limit.as_secs_f64()),
            // The limit also applies to the end of a job after its report that it is done, since it may save a
            // checkpoint.
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
}

/// The verdict on an end, and the reason if the work is not done.
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
    by_exit(exit, tail, out_of_memory)
}

/// The verdict on a process that ended by itself.
fn by_exit(
    exit: Exit,
    tail: &str,
    out_of_memory: Option<OutOfMemory>,
) -> (Verdict, Option<String>) {
    let text = match exit {
        Exit::Code(0) => return (Verdict::Done, None),
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("ended by signal {signal}"),
    };
    let last = tail.lines().last().unwrap_or_default();
    let why = format!("{text}{}", jobs::last_words(last));
    match out_of_memory {
        Some(how) => {
            let why = format!("{text}; it ran out of memory: {how}");
            (Verdict::OutOfMemory(how), Some(why))
        }
        None => (Verdict::Failed, Some(why)),
    }
}
