//! A host in virtual time whose jobs, device and calls misbehave, depending on a seed.
//!
//! It keeps only the guarantees of [`Host`]: jobs fail to start, are never ready, stall, report completion but stay,
//! end too early, or ignore SIGTERM or even SIGKILL; the device faults and does not recover; settling and regranting
//! fail; signals come at any time.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use doc::{DeviceFingerprint, DeviceKind, PhaseKind};
use host::{
    Fault, FaultKind, Gpus, Grant, Health, Host, HostError, LOOK, Recovery, Regrants, Settled, Work,
};
use jobs::{Arrived, Event, Exit, Happening, JobId, Order, OrderError, Steps};
use units::{Batch, Share};

/// Time from SIGKILL until a job that survives even that is given up.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Numbers drawn from a seed (SplitMix64, Steele et al. 2014).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    /// Whether something that happens in `percent` of all cases happens.
    pub fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Up to `longest` milliseconds.
    pub fn time(&mut self, longest: u64) -> Duration {
        Duration::from_millis(self.below(longest + 1))
    }
}

/// What a test sees of the host after the launcher has dropped it.
#[derive(Default)]
pub struct Seen {
    /// Violations.
    pub wrong: Vec<String>,
    /// When the first signal could be seen.
    pub signalled: Option<Duration>,
    /// Jobs that ran when the host was dropped.
    pub left: usize,
    /// Time on the clock of the host.
    pub now: Duration,
    /// Jobs admitted.
    pub admitted: usize,
}

struct FakeJob {
    task: String,
    compute: bool,
    share: Share,
    /// What it will do, and when.
    script: VecDeque<(Duration, Happening)>,
    /// Reaction to SIGTERM: it ends after this time; `None`: it ignores it.
    obeys: Option<Duration>,
    /// It survives even SIGKILL.
    unkillable: bool,
    /// When SIGKILL is sent.
    kill_at: Option<Duration>,
    /// Process id.
    pid: i32,
}

/// Probability of each fault, in percent.
struct Odds {
    start: u64,
    job: u64,
    device: u64,
    call: u64,
}

pub struct Chaos {
    dice: Dice,
    odds: Odds,
    origin: Instant,
    jobs: BTreeMap<JobId, FakeJob>,
    told: Vec<Event>,
    next: u64,
    /// Maximum sum of granted shares, in hundredths of a percent.
    capacity: u64,
    /// A share that could not be taken back excuses a sum above the capacity.
    excused: bool,
    regrants: Regrants,
    signals: Vec<Duration>,
    faulted: bool,
    /// The launcher knows of the fault.
    told_fault: bool,
    pending: u32,
    seen: Rc<RefCell<Seen>>,
    /// Consecutive calls of poll in which no time passed.
    idle: u32,
}

impl Chaos {
    /// A host for jobs that together may use `capacity` hundredths of a percent.
    pub fn new(seed: u64, capacity: u64, seen: Rc<RefCell<Seen>>) -> Self {
        let mut dice = Dice::new(seed);
        // A third of all launches have only one kind of fault.
        let quiet = dice.happens(33);
        let mut odds = |most: u64| {
            if quiet && dice.happens(75) {
                0
            } else {
                dice.below(most)
            }
        };
        let odds = Odds {
            start: odds(20),
            job: odds(60),
            device: odds(30),
            call: odds(20),
        };
        let signals = match dice.below(4) {
            0 => vec![dice.time(20_000)],
            1 if !quiet => {
                let first = dice.time(20_000);
                vec![first, first + dice.time(4_000)]
            }
            _ => Vec::new(),
        };
        let regrants = if dice.happens(50) {
            Regrants::Now
        } else {
            Regrants::NextStart
        };
        Self {
            dice,
            odds,
            origin: Instant::now(),
            jobs: BTreeMap::new(),
            told: Vec::new(),
            next: 0,
            capacity,
            excused: false,
            regrants,
            signals,
            faulted: false,
            told_fault: false,
            pending: 0,
            seen,
            idle: 0,
        }
    }

    fn elapsed(&self) -> Duration {
        self.seen.borrow().now
    }

    fn wrong(&self, what: String) {
        self.seen.borrow_mut().wrong.push(what);
    }

    fn tell(&mut self, job: JobId, what: Happening) {
        let at = self.now();
        self.told.push(Event { job, at, what });
    }

    /// What a job will do that trains on `wanted` samples, or transfers.
    fn script(&mut self, wanted: Option<u64>, batch: u64) -> VecDeque<(Duration, Happening)> {
        let mut at = self.elapsed() + self.dice.time(2_000);
        let mut script = VecDeque::new();
        let fails = self.dice.happens(self.odds.job);
        let exit = |dice: &mut Dice| match dice.below(3) {
            0 => Exit::Code(0),
            1 => Exit::Code(1),
            _ => Exit::Signal(9),
        };
        let Some(wanted) = wanted else {
            let end = if fails {
                exit(&mut self.dice)
            } else {
                Exit::Code(0)
            };
            if !(fails && self.dice.happens(20)) {
                script.push_back((at, exited(&mut self.dice, end)));
            }
            return script;
        };
        if !self.dice.happens(20) {
            let (sms, mps) = (None, None);
            script.push_back((at, Happening::Ready { sms, mps }));
        }
        let steps = wanted.div_ceil(batch);
        let breaks = self.dice.below(steps + 1);
        for step in 0..steps {
            at += self.dice.time(1_500);
            if fails && step == breaks {
                // Half of the broken ones end, the other half hang.
                if self.dice.happens(50) {
                    let end = exit(&mut self.dice);
                    script.push_back((at, exited(&mut self.dice, end)));
                }
                return script;
            }
            let loss = self.dice.happens(50).then_some(1.0 / (step + 1) as f64);
            let (steps, samples) = (1, batch);
            script.push_back((
                at,
                Happening::Steps(Steps {
                    steps,
                    samples,
                    loss,
                    ..Steps::default()
                }),
            ));
            if self.dice.happens(3) {
                script.push_back((at, Happening::Overlong));
            }
        }
        if self.dice.happens(50) {
            let samples = Some(steps * batch);
            script.push_back((at, Happening::Done { samples }));
            if fails && self.dice.happens(50) {
                return script; // It stays.
            }
        }
        at += self.dice.time(500);
        script.push_back((at, exited(&mut self.dice, Exit::Code(0))));
        script
    }

    /// When the next thing happens by itself.
    fn due(&self) -> Option<Duration> {
        let of_job = |job: &FakeJob| {
            let acts = job.script.front().map(|(at, _)| *at);
            let given_up = job
                .kill_at
                .map(|at| if job.unkillable { at + PATIENCE } else { at });
            acts.into_iter().chain(given_up).min()
        };
        self.jobs.values().filter_map(of_job).min()
    }

    /// Lets happen what is due now.
    fn events_due(&mut self) {
        let now = self.elapsed();
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            let mut ended = false;
            let mut acts = Vec::new();
            while !ended && job.script.front().is_some_and(|(at, _)| *at <= now) {
                let (_, act) = job.script.pop_front().expect("there is one");
                ended = matches!(act, Happening::Exited { .. });
                acts.push(act);
            }
            let killed = job.kill_at.is_some_and(|at| at <= now);
            if !ended && killed && !job.unkillable {
                acts.push(exited(&mut self.dice, Exit::Signal(9)));
                ended = true;
            }
            if !ended && killed && job.kill_at.is_some_and(|at| at + PATIENCE <= now) {
                acts.push(Happening::Unkillable);
                acts.push(exited(&mut self.dice, Exit::Signal(9)));
                ended = true;
            }
            for act in acts {
                self.tell(id, act);
            }
            if ended {
                self.jobs.remove(&id);
                if self.dice.happens(self.odds.device) {
                    self.faulted = true;
                }
            }
        }
    }

    fn judge_shares(&self) {
        let computing = self.jobs.values().filter(|j| j.compute);
        let sum: u64 = computing.map(|j| u64::from(j.share.hundredths())).sum();
        if sum > self.capacity && !self.excused {
            self.wrong(format!("{sum} of {} granted", self.capacity));
        }
    }
}

/// The end of a job, perhaps with strays and a last line.
fn exited(dice: &mut Dice, exit: Exit) -> Happening {
    Happening::Exited {
        exit,
        strays: vec!["sleep (pid 9)".to_owned(); usize::from(dice.happens(5))],
        tail: if dice.happens(20) {
            "out\nof luck".to_owned()
        } else {
            String::new()
        },
        out_of_memory: None,
        peak_bytes: None,
    }
}

impl Host for Chaos {
    fn fingerprint(&self) -> DeviceFingerprint {
        DeviceFingerprint {
            kind: DeviceKind::Cpu,
            name: "chaos".to_owned(),
            simulated: false,
            units: Some(4),
            detail: None,
            noise_percent: None,
        }
    }

    fn regrants(&self) -> Regrants {
        self.regrants
    }

    fn now(&self) -> Instant {
        self.origin + self.elapsed()
    }

    fn admit(&mut self, work: &Work<'_>, grant: &Grant) -> Result<Option<JobId>, HostError> {
        let task = work.task.id.to_string();
        let compute = work.phase == PhaseKind::Compute;
        if self.jobs.values().any(|j| j.task == task) {
            self.wrong(format!("{task} was started twice"));
        }
        if self.seen.borrow().signalled.is_some() {
            self.wrong(format!("{task} was started after a signal"));
        }
        if compute && self.told_fault {
            self.wrong(format!("{task} was started on a device with a fault"));
        }
        if !compute && self.dice.happens(30) {
            return Ok(None);
        }
        if self.dice.happens(self.odds.start) {
            return Err(HostError::NoGpu { gpu: 7 });
        }
        let id = JobId::numbered(self.next);
        self.next += 1;
        self.seen.borrow_mut().admitted += 1;
        let batch = u64::from(work.batch.unwrap_or(Batch::ONE).get());
        let wanted = compute.then(|| work.samples.unwrap_or(10 * batch));
        let job = FakeJob {
            task,
            compute,
            share: grant.share,
            script: self.script(wanted, batch),
            obeys: (!self.dice.happens(self.odds.job)).then(|| self.dice.time(3_000)),
            unkillable: self.dice.happens(self.odds.device / 4),
            kill_at: None,
            pid: 1000 + i32::try_from(self.next).expect("few jobs"),
        };
        self.jobs.insert(id, job);
        Ok(Some(id))
    }

    fn settle(&mut self, job: JobId) -> Result<Settled, HostError> {
        if !self.jobs.contains_key(&job) {
            return Err(HostError::Ended);
        }
        if self.dice.happens(self.odds.call) {
            return Err(HostError::NoGpu { gpu: 8 });
        }
        Ok(Settled::default())
    }

    fn regrant(&mut self, job: JobId, share: Share) -> Result<(), HostError> {
        let Some(job) = self.jobs.get_mut(&job) else {
            return Err(HostError::Ended);
        };
        if self.dice.happens(self.odds.call) {
            self.excused = true;
            return Err(HostError::NoGpu { gpu: 9 });
        }
        job.share = share;
        Ok(())
    }

    fn order(&mut self, _: JobId, _: Order) -> Result<(), OrderError> {
        Err(OrderError::NotRead("nobody asks for orders".to_owned()))
    }

    fn stop(&mut self, job: JobId, grace: Duration) {
        let now = self.elapsed();
        let Some(job) = self.jobs.get_mut(&job) else {
            return;
        };
        if let (None, Some(after)) = (job.kill_at, job.obeys.filter(|after| *after <= grace)) {
            job.script.retain(|(at, _)| *at <= now + after);
            if !job
                .script
                .iter()
                .any(|(_, act)| matches!(act, Happening::Exited { .. }))
            {
                let end = exited(&mut self.dice, Exit::Signal(15));
                job.script.push_back((now + after, end));
            }
        }
        // A second stop may only bring the end forward.
        let kill_at = now + grace;
        job.kill_at = Some(job.kill_at.map_or(kill_at, |before| before.min(kill_at)));
    }

    fn health(&mut self) -> Health {
        if self.dice.happens(self.odds.call) {
            return Health::Unknown(HostError::NoGpu { gpu: 6 });
        }
        match self.faulted {
            true => {
                self.told_fault = true;
                Health::Faulted(vec![Fault {
                    gpus: Gpus::one(0),
                    kind: FaultKind::Server,
                }])
            }
            false => Health::Good,
        }
    }

    fn recover(&mut self, _: &Gpus) -> Result<Recovery, HostError> {
        if self.jobs.values().any(|j| j.compute) {
            self.wrong("a device was recovered with jobs on it".to_owned());
        }
        if self.dice.happens(60) && self.pending < 20 {
            self.pending += 1;
            return Ok(Recovery::Pending);
        }
        self.pending = 0;
        if self.dice.happens(self.odds.call) {
            return Err(HostError::AttachedFault);
        }
        self.faulted = false;
        self.told_fault = false;
        Ok(match self.dice.happens(50) {
            true => Recovery::Recovered,
            false => Recovery::Replaced,
        })
    }

    fn poll(&mut self, until: Option<Instant>) -> Vec<Event> {
        self.judge_shares();
        let now = self.elapsed();
        // As on the machine's clock: no later than after one look.
        let mut next = now + LOOK;
        next = next.min(self.due().unwrap_or(next)).max(now);
        if let Some(until) = until {
            next = next
                .min(until.saturating_duration_since(self.origin))
                .max(now);
        }
        self.seen.borrow_mut().now = next;
        self.events_due();
        self.idle = if next == now && self.told.is_empty() {
            self.idle + 1
        } else {
            0
        };
        if self.idle == 1000 {
            // A failing seed is more useful than a test that hangs.
            panic!("the launcher spins at {now:?}, asked to wait until {until:?}");
        }
        std::mem::take(&mut self.told)
    }

    fn jobs(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    fn pid(&self, job: JobId) -> Option<i32> {
        self.jobs.get(&job).map(|j| j.pid)
    }

    fn tail(&self, _: JobId) -> String {
        String::new()
    }

    fn arrived(&mut self) -> Arrived {
        let now = self.elapsed();
        let count = self.signals.iter().filter(|at| **at <= now).count();
        if count > 0 && self.seen.borrow().signalled.is_none() {
            self.seen.borrow_mut().signalled = Some(now);
        }
        Arrived {
            first: (count > 0).then_some(15),
            count: u32::try_from(count).expect("two at most"),
        }
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.seen.borrow_mut().left = self.jobs.len();
    }
}
