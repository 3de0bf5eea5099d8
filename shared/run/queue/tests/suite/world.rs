//! A device in virtual time, with jobs that arrive, fail and are cancelled, and a server that dies.

use std::collections::BTreeMap;

use queue::book::{Book, Demand, Id, JobEnd, JobState, Record};
use queue::learnt::Learnt;
use queue::policy::{Decision, Gone, Limits, Policy};
use queue::processors::Look;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::made::{group, job};

/// Plan of a job in the world.
#[derive(Debug, Clone)]
pub struct Plan {
    /// When it is added.
    pub arrives: f64,
    /// Template.
    pub template: usize,
    /// Seconds of start-up, and of work alone.
    pub seconds: (f64, f64),
    /// Whether it prints progress.
    pub tells: bool,
    /// It fails after this fraction of its work.
    pub fails: Option<f64>,
    /// It is cancelled at this time.
    pub cancelled: Option<f64>,
    /// From this time on, it is held for a minute, if it waits.
    pub held: Option<f64>,
    /// Its requirements.
    pub demand: Demand,
    /// Memory that it really needs beside others; if there is less, it runs out of memory.
    pub needs: u64,
    /// Number of processors that it keeps busy, if it runs on processors.
    pub wants: f64,
    /// One job of it fills a GPU.
    pub fills: bool,
}

/// How a device slows down jobs that share it.
#[derive(Debug, Clone, Copy)]
pub struct Device {
    /// Number of jobs that it runs at full speed.
    pub free: f64,
    /// Slow-down of all jobs by each further one.
    pub toll: f64,
    /// Its memory.
    pub memory: u64,
    /// It has this many processors, and the demand of jobs is observed; `free` and `toll` are then unused.
    pub cores: Option<usize>,
}

impl Device {
    /// Number of busy processors for these demands. Some jobs compute all the time, others wait at random moments, so
    /// that sometimes none of them is ready.
    fn busy(cores: f64, wants: &[f64]) -> f64 {
        let (compute, wait): (Vec<f64>, Vec<f64>) = wants.iter().partition(|w| **w >= 0.95);
        let compute = compute.iter().sum::<f64>().min(cores);
        let left = cores - compute;
        match left > 0.0 {
            true => compute + left * (1.0 - (-wait.iter().sum::<f64>() / left).exp()),
            false => cores,
        }
    }

    /// Speed of each of `n` jobs, relative to alone.
    pub fn speed(&self, n: usize) -> f64 {
        let n = n as f64;
        let shared = (self.free / n).min(1.0);
        shared / (1.0 + self.toll * (n - self.free).max(0.0))
    }
}

/// A job that runs.
#[derive(Debug, Clone)]
struct Run {
    plan: usize,
    startup: f64,
    work: f64,
    age: f64,
}

/// A policy for the one device of such a world.
pub fn policy(learnt: BTreeMap<String, Learnt>, limits: Limits, device: Device) -> Policy {
    let seen = queue::devices::Device {
        id: "d".to_owned(),
        kind: KIND.to_owned(),
        total: device.memory,
        clients: usize::MAX,
        cores: device.cores,
    };
    let learnt = BTreeMap::from([(KIND.to_owned(), learnt)]);
    Policy::new(vec![seen], limits, &learnt)
}

/// Name of the only kind of device.
const KIND: &str = "simulated";

/// Start and end of the pause of a random world.
const PAUSED: (f64, f64) = (20.0, 40.0);

/// The world.
pub struct World {
    /// All jobs.
    pub plans: Vec<Plan>,
    /// The device.
    pub device: Device,
    /// Limits that must not be exceeded.
    pub limits: Limits,
    /// The processors are not observed.
    pub blind: bool,
    /// The queue is paused for a while.
    pauses: bool,
    /// The journal, as text: everything confirmed.
    journal: String,
    book: Book,
    policy: Policy,
    now: f64,
    step: f64,
    runs: BTreeMap<Id, Run>,
    /// Job of each plan that was added.
    ids: BTreeMap<usize, Id>,
    /// Starts and completions, by job, as the world saw them.
    pub starts: BTreeMap<Id, u32>,
    /// Completions.
    pub completions: BTreeMap<Id, u32>,
    deaths: u32,
}

impl World {
    /// A world of these plans in which the server sometimes dies.
    pub fn new(
        plans: Vec<Plan>,
        device: Device,
        limits: Limits,
        learnt: BTreeMap<String, Learnt>,
    ) -> Self {
        Self {
            plans,
            device,
            limits,
            blind: false,
            pauses: false,
            journal: String::new(),
            book: Book::default(),
            policy: policy(learnt, limits, device),
            now: 0.0,
            step: if device.cores.is_some() { 0.25 } else { 0.5 },
            runs: BTreeMap::new(),
            ids: BTreeMap::new(),
            starts: BTreeMap::new(),
            completions: BTreeMap::new(),
            deaths: 0,
        }
    }

    /// A random one.
    pub fn random(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let device = Device {
            free: rng.random_range(1.0..6.0),
            toll: rng.random_range(0.0..0.5),
            memory: 1000,
            cores: rng.random_bool(0.3).then(|| rng.random_range(1..=8)),
        };
        let most = rng.random_range(1..=12);
        let limits = Limits {
            most,
            memory: Some(device.memory),
        };
        let bad = rng.random_range(0..4);
        let burst = rng.random_bool(0.5);
        let plan = |rng: &mut SmallRng| {
            let template = rng.random_range(0..3);
            let whole = rng.random_range(0.5..60.0);
            let fails = template == bad || rng.random_bool(0.05);
            Plan {
                arrives: if burst {
                    0.0
                } else {
                    rng.random_range(0.0..300.0)
                },
                template,
                seconds: (rng.random_range(0.0..5.0), whole),
                tells: template != 1,
                fails: fails.then(|| rng.random_range(0.0..1.0)),
                cancelled: rng.random_bool(0.1).then(|| rng.random_range(0.0..400.0)),
                held: rng.random_bool(0.1).then(|| rng.random_range(0.0..100.0)),
                demand: Demand {
                    memory: rng.random_bool(0.5).then(|| rng.random_range(1..=1000)),
                    priority: rng.random_range(-1..=1),
                    share: rng.random_bool(0.2).then(|| rng.random_range(1..=10_000)),
                    once: rng.random_bool(0.2),
                    ..Demand::default()
                },
                needs: rng.random_range(0..400),
                wants: [0.1, 1.0, 2.0][template],
                fills: false,
            }
        };
        let count = rng.random_range(1..40);
        let plans = (0..count).map(|_| plan(&mut rng)).collect();
        let mut world = Self::new(plans, device, limits, BTreeMap::new());
        world.pauses = rng.random_bool(0.3);
        world
    }

    /// The book.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// What was learnt.
    pub fn learnt(&self) -> BTreeMap<String, Learnt> {
        let (_, learnt) = self.policy.learnt().next().expect("one kind of device");
        learnt.clone()
    }

    fn note(&mut self, record: Record) {
        self.book
            .apply(&record)
            .expect("no record contradicts the book");
        self.journal += &serde_json::to_string(&record).expect("a record is JSON");
        self.journal.push('\n');
    }

    /// Runs until every job has ended, with a server that dies with probability `death` in each step; returns the
    /// seconds until then.
    pub fn play(&mut self, rng: &mut SmallRng, death: f64) -> f64 {
        for _ in 0..40_000 {
            self.arrivals();
            self.advance();
            if rng.random_bool(death) && self.deaths < 6 {
                self.die(rng);
            }
            self.decide();
            self.check();
            let ended = self.book.entries.values().all(|e| e.is_ended());
            if ended && self.ids.len() == self.plans.len() {
                return self.now;
            }
            self.now += self.step;
        }
        let left: Vec<_> = self
            .book
            .entries
            .values()
            .filter(|e| !e.is_ended())
            .collect();
        panic!("not all jobs end: {left:#?}");
    }

    fn arrivals(&mut self) {
        let paused = (PAUSED.0..PAUSED.1).contains(&self.now);
        if self.book.paused != paused && self.pauses {
            self.note(Record::Paused(paused));
        }
        for index in 0..self.plans.len() {
            let plan = self.plans[index].clone();
            if plan.arrives <= self.now && !self.ids.contains_key(&index) {
                let id = self.book.next_ids(1)[0];
                let template = format!("t{}", plan.template);
                let group = group(&index.to_string(), plan.demand.clone());
                let (jobs, at_s) = (vec![job(id, &template)], self.now);
                self.note(Record::Added { group, jobs, at_s });
                self.policy.added(&template);
                self.ids.insert(index, id);
            }
            let Some(&id) = self.ids.get(&index) else {
                continue;
            };
            self.hold(id, plan.held);
            if plan.cancelled.is_some_and(|at| at <= self.now) {
                let entry = &self.book.entries[&id];
                if entry.is_running() && !entry.cancelled {
                    self.note(Record::Cancelled(id));
                } else if !entry.is_running() && !entry.is_ended() {
                    self.end(id, JobEnd::Cancelled);
                }
            }
        }
    }

    /// A job is held for a minute from a time on, if it waits.
    fn hold(&mut self, id: Id, from: Option<f64>) {
        let Some(from) = from else { return };
        let on = (from..from + 60.0).contains(&self.now);
        let entry = &self.book.entries[&id];
        let waits = !entry.is_running() && !entry.is_ended();
        if waits && entry.held != on {
            self.note(Record::Held { id, on });
        }
    }

    fn end(&mut self, id: Id, outcome: JobEnd) {
        let entry = self.book.entries[&id].clone();
        let at_s = self.now;
        self.note(Record::Ended {
            id,
            at_s,
            outcome: outcome.clone(),
        });
        if entry.is_running() {
            self.policy.ended(&entry, &outcome, at_s);
        }
    }

    /// A step of all that runs.
    fn advance(&mut self) {
        // A job that starts up does not use a GPU yet.
        let active = (self.runs.values())
            .filter(|run| run.startup >= self.plans[run.plan].seconds.0)
            .count();
        let wants: Vec<f64> = (self.runs.values())
            .map(|run| self.plans[run.plan].wants)
            .collect();
        let speed = match self.device.cores {
            Some(cores) if !wants.is_empty() => {
                let all = wants.iter().filter(|w| **w >= cores as f64).count();
                // Threads that spin while they wait for each other.
                let spins = if all > 1 { 0.86 } else { 1.0 };
                spins * (Device::busy(cores as f64, &wants) / wants.iter().sum::<f64>()).min(1.0)
            }
            _ if self.runs.values().any(|run| self.plans[run.plan].fills) => {
                1.0 / active.max(1) as f64
            }
            _ => self.device.speed(active.max(1)),
        };
        let need: u64 = self
            .runs
            .values()
            .map(|run| self.plans[run.plan].needs)
            .sum();
        let short = need > self.device.memory && self.runs.len() > 1;
        let mut ends = Vec::new();
        for (index, (id, run)) in self.runs.iter_mut().enumerate() {
            let plan = &self.plans[run.plan];
            run.age += self.step;
            if short && index == 0 {
                ends.push((*id, None));
                continue;
            }
            if run.startup < plan.seconds.0 {
                run.startup += self.step;
                continue;
            }
            run.work += speed * self.step;
            let all = plan.seconds.1;
            if plan.fails.is_some_and(|part| run.work >= part * all) {
                ends.push((*id, Some(JobEnd::Failed(1))));
            } else if run.work >= all - 1e-9 {
                *self.completions.entry(*id).or_default() += 1;
                ends.push((*id, Some(JobEnd::Done)));
            } else if plan.tells {
                self.policy.progress(*id, self.now, run.work, None);
            }
        }
        if let Some(cores) = self.device.cores.filter(|_| !self.blind) {
            let seen =
                |(id, run): (&Id, &Run)| (*id, (run.age, run.age * self.plans[run.plan].wants));
            self.policy.look(&Look {
                seconds: self.step,
                busy: Device::busy(cores as f64, &wants).min(speed * wants.iter().sum::<f64>()),
                wanted: self.runs.iter().map(seen).collect(),
            });
        }
        for (id, outcome) in ends {
            self.runs.remove(&id);
            let entry = self.book.entries[&id].clone();
            let short = outcome.is_none();
            let outcome = outcome.unwrap_or(JobEnd::Failed(1));
            let gone = Gone {
                out_of_memory: short,
                ..Gone::from(outcome)
            };
            let record = self.policy.exited(&self.book, &entry, gone, self.now);
            self.note(record);
        }
    }

    /// The server is killed, its jobs die with it, and a new one starts from the journal.
    fn die(&mut self, rng: &mut SmallRng) {
        self.deaths += 1;
        self.runs.clear();
        // Half a record was written when it was killed, and not confirmed to any client.
        let half = r#"{"added":{"group":{"token":"#;
        self.journal += &half[..rng.random_range(0..half.len())];
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(queue::journal::FILE);
        std::fs::write(&path, &self.journal).expect("a journal");
        let found = queue::journal::read(&path).expect("a journal is read");
        assert_eq!(found.book, self.book, "what was confirmed is what is read");
        let whole = self.journal.rfind('\n').map_or(0, |end| end + 1);
        self.journal.truncate(whole);
        self.policy = policy(self.learnt(), self.limits, self.device);
        for record in self.book.recover("boot", self.now, |_| false) {
            self.note(record);
        }
    }

    fn decide(&mut self) {
        for decision in self.policy.decide(&self.book, self.now) {
            match decision {
                Decision::Stop(id) => {
                    self.runs.remove(&id);
                    self.end(id, JobEnd::Cancelled);
                }
                Decision::Skip(id, why) => self.end(id, JobEnd::Skipped(why)),
                Decision::Start(id, spot) => {
                    let at_s = self.now;
                    let placed = None;
                    self.note(Record::Started { id, at_s, placed });
                    let plan = self
                        .ids
                        .iter()
                        .find(|(_, i)| **i == id)
                        .map(|(plan, _)| *plan);
                    let run = Run {
                        plan: plan.expect("a job of a plan"),
                        startup: 0.0,
                        work: 0.0,
                        age: 0.0,
                    };
                    assert!(self.runs.insert(id, run).is_none(), "{id} runs twice");
                    *self.starts.entry(id).or_default() += 1;
                    let entry = self.book.entries[&id].clone();
                    self.policy.started(&entry, &spot, at_s);
                }
            }
        }
    }

    fn check(&self) {
        let running: Vec<_> = self.book.running().collect();
        assert!(running.len() <= self.limits.most, "{} run", running.len());
        assert_eq!(running.len(), self.runs.len(), "the book knows what runs");
        let memory: u64 = running
            .iter()
            .filter_map(|e| self.book.demand(e).memory)
            .sum();
        let most = self.limits.memory.unwrap_or(self.device.memory);
        assert!(memory <= most, "memory {memory}");
        let paused = self.pauses && (PAUSED.0..PAUSED.1).contains(&self.now);
        assert!(
            running.iter().all(|e| !e.held),
            "a job that is held was started"
        );
        for entry in &running {
            if let JobState::Running(at) = entry.state {
                assert!(!paused || at < PAUSED.0, "started at {at}, in a pause");
            }
        }
        let alone = running.iter().any(|e| e.alone);
        assert!(
            !alone || running.len() == 1,
            "one runs alone and another beside it"
        );
    }
}
