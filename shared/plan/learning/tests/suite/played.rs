//! Trainings on a virtual clock under the allocator.

use doc::{Allocation, Arrival, TrainingEvent, TrainingNews};
use learning::{Allocator, AllocatorSettings, Objective, Policy};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use units::{Batch, Seconds, TaskId};

pub fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

pub fn allocator(policy: Policy, gpus: u32) -> Allocator {
    patient(policy, gpus, 1000)
}

/// With another patience than the default.
pub fn patient(policy: Policy, gpus: u32, patience: u64) -> Allocator {
    Allocator::new(AllocatorSettings {
        gpus,
        policy,
        objective: Objective::Completion,
        pause: Seconds::new(2.0).unwrap(),
        patience,
    })
}

pub fn at(time: f64, what: TrainingNews) -> TrainingEvent {
    TrainingEvent::new(Seconds::new(time).unwrap(), what)
}

pub fn arrival(name: &str) -> Arrival {
    Arrival {
        batch: Some(Batch::new(512).unwrap()),
        ..Arrival::new(id(name))
    }
}

pub fn arrive(time: f64, arrival: Arrival) -> TrainingEvent {
    at(time, TrainingNews::Arrive(Box::new(arrival)))
}

pub fn progress(time: f64, name: &str, step: u64, gpus: u32, loss: Option<f64>) -> TrainingEvent {
    let task = id(name);
    at(
        time,
        TrainingNews::Progress {
            task,
            step,
            gpus,
            loss,
            batch: None,
            gradient: None,
        },
    )
}

/// A pause of a training whose processes change, seconds.
pub const PAUSE: f64 = 2.0;
/// Steps between two reports.
const REPORT: f64 = 10.0;

/// Trainings on a virtual clock that carry out every decision at once, and pause for it.
pub struct Machine<'a> {
    pub gpus: u32,
    /// Seconds of a step of a training (by index) on some GPUs while the others have the given numbers.
    pub step_s: &'a dyn Fn(usize, u32, u32) -> f64,
    /// Standard deviation of the logarithm of the time between two reports.
    pub noise: f64,
    /// Whether trainings declare their speed on every number of GPUs when they arrive.
    pub known: bool,
    /// A training (by index) that never ends, with its loss by step.
    pub broken: Option<(usize, Loss)>,
}

/// A loss by step; `None`: it is not a number.
pub type Loss = fn(u64) -> Option<f64>;

/// A training: name, arrival, steps.
pub type Length = (&'static str, f64, u64);

struct Task {
    made: f64,
    gpus: u32,
    arrived: bool,
    runs_from: f64,
    end: Option<f64>,
}

impl Task {
    fn runs(&self, now: f64) -> bool {
        self.arrived && self.end.is_none() && self.gpus > 0 && now >= self.runs_from
    }

    /// The step of its next report.
    fn report(&self, total: u64) -> f64 {
        let next = ((self.made + 1e-6) / REPORT).floor() * REPORT + REPORT;
        next.min(total as f64)
    }
}

impl Machine<'_> {
    /// A machine without noise where all trainings are alike.
    pub fn quiet(gpus: u32, step_s: &dyn Fn(usize, u32, u32) -> f64) -> Machine<'_> {
        Machine {
            gpus,
            step_s,
            noise: 0.0,
            known: false,
            broken: None,
        }
    }

    /// Simulates trainings under a policy; either their lengths are declared, or only their target losses. Returns
    /// completion times and decisions.
    pub fn play(
        &self,
        policy: Policy,
        lengths: &[Length],
        declared: bool,
    ) -> (Vec<f64>, Vec<Allocation>) {
        let mut allocator = allocator(policy, self.gpus);
        let mut decisions = Vec::new();
        let task = |_: &Length| Task {
            made: 0.0,
            gpus: 0,
            arrived: false,
            runs_from: 0.0,
            end: None,
        };
        let mut tasks: Vec<Task> = lengths.iter().map(task).collect();
        let mut now = 0.0;
        let broken = self.broken.map(|b| b.0);
        let open = |(i, t): (usize, &Task)| Some(i) != broken && t.end.is_none();
        while tasks.iter().enumerate().any(open) {
            let next = self.next(&tasks, lengths, now);
            assert!(next.is_finite(), "nothing runs any more");
            let rates: Vec<f64> = (0..tasks.len())
                .map(|i| self.rate(&tasks, i, now))
                .collect();
            for (task, rate) in tasks.iter_mut().zip(rates) {
                task.made += rate * (next - now);
            }
            now = next;
            for i in 0..tasks.len() {
                let Some(event) = self.happened(&mut tasks[i], i, lengths[i], declared, now) else {
                    continue;
                };
                if let Some(decision) = allocator.take(&event).unwrap() {
                    obey(&mut tasks, lengths, &decision, now, &mut allocator);
                    decisions.push(decision);
                }
            }
        }
        // The broken training has not ended, and is not counted.
        let ends = tasks.iter().map(|t| t.end.unwrap_or(0.0));
        (ends.collect(), decisions)
    }

    /// Steps per second of training `i`.
    fn rate(&self, tasks: &[Task], i: usize, now: f64) -> f64 {
        let task = &tasks[i];
        if !task.runs(now) {
            return 0.0;
        }
        let others = tasks
            .iter()
            .enumerate()
            .filter(|(k, t)| *k != i && t.runs(now));
        let beside = others.map(|(_, t)| t.gpus).sum();
        let seed = (task.made / REPORT) as u64 * 64 + i as u64;
        1.0 / (self.step_s)(i, task.gpus, beside) * (self.noise * normal(seed)).exp()
    }

    /// The event of a training that is due.
    fn happened(
        &self,
        task: &mut Task,
        i: usize,
        length: Length,
        declared: bool,
        now: f64,
    ) -> Option<TrainingEvent> {
        let (name, arrives, total) = length;
        let broken = self.broken.filter(|b| b.0 == i).map(|b| b.1);
        let declared = declared && broken.is_none();
        if !task.arrived {
            task.arrived = now >= arrives;
            let mut news = arrival(name);
            news.total_steps = declared.then_some(total);
            news.target_loss = (!declared).then(|| loss(total));
            if self.known {
                let rate = |g| (g, 1.0 / (self.step_s)(i, g, 0));
                news.steps_per_s = (1..=self.gpus).map(rate).collect();
            }
            return task.arrived.then(|| arrive(now, news));
        }
        let near = task.made.round();
        let told = near % REPORT == 0.0 || (broken.is_none() && near == total as f64);
        if task.end.is_some()
            || !task.runs(now)
            || !told
            || (task.made - near).abs() > 1e-6
            || near == 0.0
        {
            return None;
        }
        // A reported step is not reported again.
        task.made = near + 2e-6;
        if broken.is_none() && near >= total as f64 {
            task.end = Some(now);
            return Some(at(now, TrainingNews::Done { task: id(name) }));
        }
        let loss = match broken {
            Some(law) => law(near as u64),
            None => Some(loss(near as u64)),
        };
        Some(progress(now, name, near as u64, task.gpus, loss))
    }

    /// When the next thing happens.
    fn next(&self, tasks: &[Task], lengths: &[Length], now: f64) -> f64 {
        let times = tasks.iter().zip(lengths).enumerate().map(|(i, (t, l))| {
            if t.end.is_some() {
                f64::INFINITY
            } else if !t.arrived {
                l.1
            } else if t.gpus > 0 && now < t.runs_from {
                t.runs_from
            } else {
                let endless = self.broken.is_some_and(|b| b.0 == i);
                let total = if endless { u64::MAX } else { l.2 };
                now + (t.report(total) - t.made) / self.rate(tasks, i, now)
            }
        });
        times.fold(f64::INFINITY, f64::min).max(now)
    }
}

fn obey(
    tasks: &mut [Task],
    lengths: &[Length],
    decision: &Allocation,
    now: f64,
    allocator: &mut Allocator,
) {
    for (task, (name, _, _)) in tasks.iter_mut().zip(lengths) {
        let granted = decision.trainings.get(&id(name)).map_or(0, |a| a.gpus);
        if task.end.is_some() || !task.arrived || granted == task.gpus {
            continue;
        }
        if task.gpus > 0 {
            let parked = TrainingNews::Parked {
                task: id(name),
                step: None,
            };
            allocator.take(&at(now, parked)).unwrap();
        }
        task.gpus = granted;
        task.runs_from = now + PAUSE;
    }
}

pub fn step_s(gpus: u32) -> f64 {
    0.2 + 0.8 / f64::from(gpus)
}

pub fn loss(step: u64) -> f64 {
    2.0 / (1.0 + 0.01 * step as f64) + 0.1
}

/// A standard normal number of a seed (Box and Muller).
fn normal(seed: u64) -> f64 {
    let mut rng = StdRng::seed_from_u64(seed);
    let (u, v): (f64, f64) = (rng.random_range(1e-12..1.0), rng.random_range(0.0..1.0));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}
