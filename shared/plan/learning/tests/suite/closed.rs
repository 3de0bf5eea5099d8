//! Trainings that declare only a target loss and report noisy losses, in a closed loop with the allocator.

use doc::{Arrival, TrainingEvent, TrainingNews};
use learning::{Allocator, AllocatorSettings, Objective, Policy};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use units::{Batch, Seconds, TaskId};

/// GPUs of the machine.
const GPUS: u32 = 4;
/// Pause of a training that is moved, seconds.
const PAUSE: f64 = 5.0;
/// The trainings end when their loss without noise is at this target.
const TARGET: f64 = 0.5;
/// Seconds after which a loop is given up.
const LONGEST: f64 = 40_000.0;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A falling loss by step, from 2 to [`TARGET`] and below.
#[derive(Debug, Clone, Copy)]
pub enum Curve {
    /// `2 / (1 + step / scale)^power`.
    Power { scale: f64, power: f64 },
    /// `0.4 + 1.6 exp(-step / scale)`.
    Exponential { scale: f64 },
    /// A learning rate that falls to zero: half a cosine from 2 to 0.45.
    Cosine { end: f64 },
    /// Never ends: `1 + step / scale`.
    Rising { scale: f64 },
    /// Never ends: falls to 1.2 within `scale` steps, and stays there.
    Flat { scale: f64 },
}

impl Curve {
    fn at(self, step: f64) -> f64 {
        match self {
            Curve::Power { scale, power } => 2.0 / (1.0 + step / scale).powf(power),
            Curve::Exponential { scale } => 0.4 + 1.6 * (-step / scale).exp(),
            Curve::Cosine { end } => {
                0.45 + 0.775 * (1.0 + (std::f64::consts::PI * (step / end).min(1.0)).cos())
            }
            Curve::Rising { scale } => 1.0 + step / scale,
            Curve::Flat { scale } => 2.0 - 0.8 * (step / scale).min(1.0),
        }
    }

    /// Steps to the target; infinite where it is never reached.
    fn steps(self) -> f64 {
        match self {
            Curve::Power { scale, power } => scale * ((2.0 / TARGET).powf(1.0 / power) - 1.0),
            Curve::Exponential { scale } => scale * 16_f64.ln(),
            Curve::Cosine { end } => {
                end / std::f64::consts::PI * ((TARGET - 0.45) / 0.775 - 1.0).acos()
            }
            Curve::Rising { .. } | Curve::Flat { .. } => f64::INFINITY,
        }
    }
}

/// A training of a case.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    pub curve: Curve,
    /// Second at which it arrives.
    pub arrives: f64,
    /// Steps per second on one GPU.
    pub rate: f64,
    /// Steps per second grow with this power of the GPUs.
    pub exponent: f64,
}

/// Which trainings a case is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Two, sometimes three, power laws that arrive together and speed up almost linearly.
    Powers,
    /// Two to four of all shapes that arrive apart, with speed-ups from poor to linear.
    Mixed,
    /// A power law beside a training whose loss rises.
    Rising,
    /// A power law beside a training whose loss stays above its target.
    Flat,
}

/// Trainings, and how they report.
#[derive(Debug, Clone)]
pub struct Case {
    pub members: Vec<Member>,
    /// Standard deviation of a reported loss, as a fraction of the loss.
    pub noise: f64,
    /// Seconds between two reports.
    pub report_s: f64,
    pub seed: u64,
}

/// What came of a case.
#[derive(Debug, Clone, Copy)]
pub struct Played {
    /// Sum of the times from arrival to end of the trainings that can end, seconds.
    pub sum: f64,
    pub decisions: usize,
}

impl Case {
    /// The case of a seed.
    pub fn draw(family: Family, noise: f64, report_s: f64, seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed);
        let members = match family {
            Family::Powers => {
                let n = if rng.random_bool(0.25) { 3 } else { 2 };
                (0..n).map(|_| power(rng)).collect()
            }
            Family::Mixed => {
                let n = rng.random_range(2..=4);
                (0..n).map(|i| mixed(rng, i)).collect()
            }
            Family::Rising => vec![power(rng), broken(rng, |scale| Curve::Rising { scale })],
            Family::Flat => vec![power(rng), broken(rng, |scale| Curve::Flat { scale })],
        };
        Self {
            members,
            noise,
            report_s,
            seed,
        }
    }

    /// Sum of completions under the allocator, over that of equal shares; and its decisions.
    pub fn over_equal(&self) -> (f64, usize) {
        let ours = self.play(Policy::Ours);
        (ours.sum / self.play(Policy::Equal).sum, ours.decisions)
    }

    /// Plays the case second by second.
    pub fn play(&self, policy: Policy) -> Played {
        let mut play = Loop::new(self, policy);
        let mut now = 0.0;
        while !play.is_done() && now < LONGEST {
            play.arrivals(now);
            now += 1.0;
            play.second(now);
        }
        play.played(now)
    }
}

fn power(rng: &mut StdRng) -> Member {
    let scale = 400.0 * f64::from(rng.random_range(1..=4));
    let power = rng.random_range(0.7..1.3);
    Member {
        curve: Curve::Power { scale, power },
        arrives: 0.0,
        rate: 4.0,
        exponent: 0.9,
    }
}

fn mixed(rng: &mut StdRng, i: usize) -> Member {
    let length = rng.random_range(1000_f64.ln()..8000_f64.ln()).exp();
    let curve = match rng.random_range(0..3) {
        0 => {
            let power: f64 = rng.random_range(0.5..1.5);
            let scale = length / ((2.0 / TARGET).powf(1.0 / power) - 1.0);
            Curve::Power { scale, power }
        }
        1 => Curve::Exponential {
            scale: length / 16_f64.ln(),
        },
        _ => Curve::Cosine {
            end: length / 0.836,
        },
    };
    Member {
        curve,
        arrives: (i as f64 * rng.random_range(0.0..200.0_f64)).round(),
        rate: rng.random_range(2.0..6.0),
        exponent: rng.random_range(0.5..1.0),
    }
}

fn broken(rng: &mut StdRng, curve: impl Fn(f64) -> Curve) -> Member {
    Member {
        curve: curve(rng.random_range(300.0..3000.0)),
        ..power(rng)
    }
}

/// State of a training in the loop.
struct Run {
    gpus: u32,
    step: f64,
    arrived: bool,
    held_until: f64,
    end: Option<f64>,
}

struct Loop<'a> {
    case: &'a Case,
    allocator: Allocator,
    runs: Vec<Run>,
    decisions: usize,
    /// The decision that is acknowledged when the pauses for it are over.
    unacknowledged: Option<(f64, u64)>,
    latest: Option<doc::Allocation>,
    next_report: f64,
    rng: StdRng,
}

impl<'a> Loop<'a> {
    fn new(case: &'a Case, policy: Policy) -> Self {
        let run = |_: &Member| Run {
            gpus: 0,
            step: 0.0,
            arrived: false,
            held_until: 0.0,
            end: None,
        };
        Self {
            case,
            allocator: Allocator::new(AllocatorSettings {
                gpus: GPUS,
                policy,
                objective: Objective::Completion,
                pause: Seconds::new(PAUSE).unwrap(),
                patience: 1000,
            }),
            runs: case.members.iter().map(run).collect(),
            decisions: 0,
            unacknowledged: None,
            latest: None,
            next_report: case.report_s,
            // Other numbers than those that drew the case.
            rng: StdRng::seed_from_u64(case.seed ^ 0x5eed_1055),
        }
    }

    fn is_done(&self) -> bool {
        let endless = |i: usize| self.case.members[i].curve.steps().is_infinite();
        (0..self.runs.len()).all(|i| self.runs[i].end.is_some() || endless(i))
    }

    fn played(&self, now: f64) -> Played {
        let spent = |(run, member): (&Run, &Member)| {
            let ends = member.curve.steps().is_finite();
            ends.then(|| run.end.unwrap_or(now) - member.arrives)
        };
        Played {
            sum: self
                .runs
                .iter()
                .zip(&self.case.members)
                .filter_map(spent)
                .sum(),
            decisions: self.decisions,
        }
    }

    fn tell(&mut self, time: f64, what: TrainingNews) {
        let event = TrainingEvent::new(Seconds::new(time).unwrap(), what);
        let decision = self.allocator.take(&event).unwrap();
        self.latest = decision.or(self.latest.take());
    }

    fn arrivals(&mut self, now: f64) {
        for (i, name) in NAMES.iter().enumerate().take(self.runs.len()) {
            if !self.runs[i].arrived && self.case.members[i].arrives <= now {
                self.runs[i].arrived = true;
                self.tell(now, TrainingNews::Arrive(Box::new(arrival(name))));
            }
        }
        self.obey(now);
    }

    /// What happens in the second before `now`.
    fn second(&mut self, now: f64) {
        if let Some((_, seq)) = self.unacknowledged.filter(|u| now >= u.0) {
            self.unacknowledged = None;
            self.tell(now, TrainingNews::Ack { seq });
        }
        let reports = now >= self.next_report;
        if reports {
            self.next_report += self.case.report_s;
        }
        for i in 0..self.runs.len() {
            self.train(i, now, reports);
        }
        self.obey(now);
    }

    fn train(&mut self, i: usize, now: f64, reports: bool) {
        let member = self.case.members[i];
        let run = &mut self.runs[i];
        if !run.arrived || run.end.is_some() || run.gpus == 0 {
            return;
        }
        let ran = (now - run.held_until.max(now - 1.0)).max(0.0);
        run.step += ran * member.rate * f64::from(run.gpus).powf(member.exponent);
        let (step, gpus) = (run.step.min(member.curve.steps()), run.gpus);
        let ended = run.step >= member.curve.steps();
        if ended {
            run.end = Some(now);
            run.gpus = 0;
        }
        let task = id(NAMES[i]);
        if reports && ran > 0.0 {
            let noise = 1.0 + self.case.noise * normal(&mut self.rng);
            // It ends by its steps, not because noise once takes its loss below the target.
            let loss = (member.curve.at(step) * noise).max(1.0001 * TARGET);
            let what = TrainingNews::Progress {
                task: task.clone(),
                step: step as u64,
                gpus,
                loss: Some(loss),
                batch: None,
                gradient: None,
            };
            self.tell(now, what);
        }
        if ended {
            self.tell(now, TrainingNews::Done { task });
        }
    }

    /// Carries out the latest decision.
    fn obey(&mut self, now: f64) {
        let Some(decision) = self.latest.take() else {
            return;
        };
        self.decisions += 1;
        let mut until = now;
        for (i, name) in NAMES.iter().enumerate().take(self.runs.len()) {
            let task = id(name);
            let granted = decision.trainings.get(&task).map_or(0, |a| a.gpus);
            let run = &mut self.runs[i];
            if !run.arrived || run.end.is_some() || granted == run.gpus {
                continue;
            }
            let ran = run.gpus > 0;
            run.gpus = granted;
            if ran || run.step > 0.0 {
                run.held_until = now + PAUSE;
                until = now + PAUSE;
            }
            if ran {
                self.tell(now, TrainingNews::Parked { task, step: None });
            }
        }
        self.unacknowledged = Some((until, decision.seq));
    }
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn arrival(name: &str) -> Arrival {
    Arrival {
        min_gpus: Some(1),
        max_gpus: Some(GPUS),
        target_loss: Some(TARGET),
        batch: Some(Batch::new(512).unwrap()),
        ..Arrival::new(id(name))
    }
}

/// A standard normal number (Box and Muller).
fn normal(rng: &mut StdRng) -> f64 {
    let (u, v): (f64, f64) = (rng.random_range(1e-12..1.0), rng.random_range(0.0..1.0));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}
