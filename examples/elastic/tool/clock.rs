//! Recorded losses on a virtual clock: two trainings with real losses and the speed of the simulated machine, driven
//! by the allocator as by a launcher.

use doc::{Arrival, TrainingEvent, TrainingNews};
use learning::{Allocator, AllocatorSettings, Point, Policy};
use units::{Batch as Samples, Seconds, TaskId};

use crate::forecast::target_and_end;
use crate::machine::{Batch, Beside, Machine};
use crate::paper::Times;

/// Time between two progress reports.
const REPORT_S: f64 = 1.0;
/// Duration of a reconfiguration with processes of the built-in worker.
pub const PAUSE_S: f64 = 0.7;
/// A training alone on 4 GPUs takes this long, and the second arrives after this time: the paper's setting.
const SOLO_S: f64 = 300.0;
const YOUNGER_S: f64 = 200.0;

struct Task<'a> {
    id: TaskId,
    curve: &'a [Point],
    target: f64,
    /// Recorded steps per step of the machine.
    stretch: f64,
    steps: f64,
    gpus: u32,
    paused_until: f64,
    arrives: f64,
    end: Option<f64>,
    recent: Vec<f64>,
    /// Number of recorded reports that were sent.
    reported: usize,
}

impl Task<'_> {
    fn runs(&self, now: f64) -> bool {
        self.end.is_none() && self.gpus > 0 && now >= self.arrives && now >= self.paused_until
    }

    /// The next recorded report that it has reached.
    fn next_report(&mut self) -> Option<Point> {
        let point = *self.curve.get(self.reported)?;
        let come = point.step <= self.steps * self.stretch;
        self.reported += usize::from(come);
        come.then_some(point)
    }
}

/// How the two share the machine.
#[derive(Clone, Copy)]
pub enum Sharing {
    /// The allocator decides.
    By(Policy),
    /// One after the other, each on all GPUs.
    Sequential,
}

/// Runs two trainings to their recorded ends; `None` if one does not end within ten hours.
pub fn play(curves: [&[Point]; 2], sharing: Sharing) -> Option<Times> {
    let machine = Machine::vgg16(0.1);
    let mut allocator = Allocator::new(AllocatorSettings {
        gpus: 4,
        policy: match sharing {
            Sharing::By(policy) => policy,
            Sharing::Sequential => Policy::Equal,
        },
        objective: learning::Objective::Completion,
        pause: Seconds::new(PAUSE_S).ok()?,
        patience: 1000,
    });
    let solo_steps = SOLO_S / machine.step_s(4, Batch::PerTask, Beside::Nobody);
    let mut tasks = Vec::new();
    for (i, curve) in curves.into_iter().enumerate() {
        let (target, end) = target_and_end(curve);
        tasks.push(Task {
            id: TaskId::new(["older", "younger"][i]).ok()?,
            curve,
            target,
            stretch: end / solo_steps,
            steps: 0.0,
            gpus: 0,
            paused_until: 0.0,
            arrives: YOUNGER_S * i as f64,
            end: None,
            recent: Vec::new(),
            reported: 0,
        });
    }
    let mut now = 0.0;
    let mut arrived = 0;
    while tasks.iter().any(|t| t.end.is_none()) {
        if now > 36_000.0 {
            return None;
        }
        while arrived < 2 && tasks[arrived].arrives <= now {
            let news = arrival(&tasks[arrived]);
            arrived += 1;
            tell(&mut allocator, &mut tasks, now, news, sharing);
        }
        advance(&machine, &mut tasks, now);
        now += REPORT_S;
        for i in 0..arrived {
            report(&mut allocator, &mut tasks, i, now, sharing);
        }
    }
    let end = |i: usize| tasks[i].end;
    Some(Times {
        total: end(0)?.max(end(1)?),
        older: end(0)?,
        younger: end(1)? - YOUNGER_S,
    })
}

fn arrival(task: &Task<'_>) -> TrainingNews {
    TrainingNews::Arrive(Box::new(Arrival {
        target_loss: Some(task.target),
        batch: Samples::new(512).ok(),
        ..Arrival::new(task.id.clone())
    }))
}

/// Steps per second of the running trainings.
fn advance(machine: &Machine, tasks: &mut [Task<'_>], now: f64) {
    let gpus: Vec<u32> = tasks
        .iter()
        .map(|t| if t.runs(now) { t.gpus } else { 0 })
        .collect();
    for (i, task) in tasks.iter_mut().enumerate() {
        if gpus[i] > 0 {
            let other = Beside::of(gpus[1 - i]);
            task.steps += REPORT_S / machine.step_s(gpus[i], Batch::PerTask, other);
        }
    }
}

fn report(allocator: &mut Allocator, tasks: &mut [Task<'_>], i: usize, now: f64, sharing: Sharing) {
    // One event for each recorded report, so that a mean of ten is that of the recording.
    while tasks[i].runs(now) {
        let task = &mut tasks[i];
        let Some(point) = task.next_report() else {
            return;
        };
        task.recent.push(point.loss);
        let last = task.recent.iter().rev().take(10);
        let reached = task.recent.len() >= 10 && last.sum::<f64>() / 10.0 <= task.target;
        let over = task.reported == task.curve.len();
        let (id, gpus) = (task.id.clone(), task.gpus);
        let news = match reached || over {
            true => {
                task.end = Some(now);
                task.gpus = 0;
                TrainingNews::Done { task: id }
            }
            false => TrainingNews::Progress {
                task: id,
                step: (point.step / task.stretch) as u64,
                gpus,
                loss: Some(point.loss),
                batch: None,
                gradient: None,
            },
        };
        tell(allocator, tasks, now, news, sharing);
    }
}

/// Passes an event to the allocator and carries out its decision: trainings that change pause.
fn tell(
    allocator: &mut Allocator,
    tasks: &mut [Task<'_>],
    now: f64,
    news: TrainingNews,
    sharing: Sharing,
) {
    if let Sharing::Sequential = sharing {
        let first = tasks.iter().position(|t| t.end.is_none());
        for (i, task) in tasks.iter_mut().enumerate() {
            task.gpus = if Some(i) == first { 4 } else { 0 };
        }
        return;
    }
    let Ok(time) = Seconds::new(now) else {
        return;
    };
    let Ok(Some(decision)) = allocator.take(&TrainingEvent::new(time, news)) else {
        return;
    };
    let mut parked = Vec::new();
    for task in tasks.iter_mut() {
        let Some(given) = decision.trainings.get(&task.id) else {
            continue;
        };
        if given.gpus != task.gpus {
            if task.gpus > 0 {
                parked.push(task.id.clone());
                task.paused_until = now + PAUSE_S;
            }
            task.gpus = given.gpus;
        }
    }
    for task in parked {
        let event = TrainingEvent::new(time, TrainingNews::Parked { task, step: None });
        // It is known, because the decision names it. Parking leads to no decision.
        let _ = allocator.take(&event);
    }
}
