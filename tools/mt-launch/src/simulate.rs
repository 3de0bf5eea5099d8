//! A round on the simulator: the events of a launch with simulated times.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cli::{Console, Exit, Failure, Output, provenance};
use device::{Device, MeasureError, OpenError, Options, Run, Window};
use doc::{EventPayload, PhaseKind, ProcessEnd, RunEvent, TaskProgress, TaskSummary};
use overlap::{Instance, Order, OverlapError, Phase, Rates, Schedule, plan_instance, simulate};
use units::{Batch, SamplesPerSec, Seconds};

use crate::args::Args;
use crate::launch::{Assignment, Launch};

/// Plays every round of a launch and writes its events.
pub fn run(
    launch: &Launch,
    args: &Args,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    let options = Options {
        seed: args.seed.seed,
        ..Options::default()
    };
    let opened = device::open(&launch.workload, &options).map_err(open_failure)?;
    if let Some(note) = &opened.note {
        console.note(note);
    }
    let fingerprint = opened.device.fingerprint();
    let round = Round::new(launch, opened.device)?;
    let provenance = provenance(
        console.tool(),
        env!("CARGO_PKG_VERSION"),
        Some(args.seed.seed),
        Some(fingerprint.name.clone()),
    );
    output.record(&RunEvent {
        time: Seconds::ZERO,
        payload: EventPayload::Launch {
            device: fingerprint,
            planned: Some(launch.planned()),
            provenance: vec![provenance],
        },
    })?;
    let schedule = round.play()?;
    let mut begin = 0.0;
    for number in 0..args.rounds {
        for event in round.events(&schedule, number, begin)? {
            output.record(&event)?;
        }
        begin += schedule.makespan_s;
    }
    let makespan = seconds(begin)?;
    output.record(&RunEvent {
        time: makespan,
        payload: EventPayload::Summary {
            ok: true,
            makespan,
            tasks: round.summaries(&schedule, args.rounds)?,
        },
    })?;
    Ok(Exit::Done)
}

fn open_failure(error: OpenError) -> Failure {
    match error {
        OpenError::Workload(fault) => Failure::Input(format!("the plan's workload: {fault}")),
        OpenError::NoRecording => Failure::Usage(error.to_string()),
        OpenError::Environment { .. } => Failure::Environment(error.to_string()),
    }
}

fn seconds(value: f64) -> Result<Seconds, Failure> {
    Seconds::new(value).map_err(|error| Failure::Input(error.to_string()))
}

fn rate(value: f64) -> Result<SamplesPerSec, Failure> {
    SamplesPerSec::new(value).map_err(|error| Failure::Input(error.to_string()))
}

/// One round: who transfers and computes what, and how fast.
struct Round<'a> {
    tasks: Vec<Assignment<'a>>,
    instance: Instance,
    order: Order,
    rates: SimulatedRates,
    planned_makespan: Option<Seconds>,
}

/// Rates of sets of active tasks as the simulator measures them.
struct SimulatedRates {
    device: RefCell<Box<dyn Device>>,
    /// For each task of the plan its run, and the GPU it is on.
    runs: Vec<(Run, usize)>,
    known: RefCell<BTreeMap<u32, Vec<f64>>>,
    trouble: RefCell<Option<MeasureError>>,
}

/// An interval in which the same tasks compute.
struct Interval {
    end_s: f64,
    length_s: f64,
    active: u32,
    rates: Vec<f64>,
}

impl<'a> Round<'a> {
    fn new(launch: &'a Launch, device: Box<dyn Device>) -> Result<Self, Failure> {
        let tasks: Vec<Assignment<'a>> = launch.assignments().collect();
        let duplex = launch.plan.link.or(launch.workload.link).map(|l| l.duplex);
        let instance = plan_instance(&launch.plan, duplex)
            .map_err(|error| Failure::Input(error.to_string()))?;
        let mut runs = Vec::with_capacity(tasks.len());
        for task in &tasks {
            let index = launch.workload.task_index(&task.planned.id);
            let index = index.ok_or_else(|| Failure::Input("unknown task".to_owned()))?;
            let run = Run {
                task: index,
                batch: task.batch,
                share: task.share,
            };
            runs.push((run, task.gpu()));
        }
        Ok(Self {
            order: launch.order(),
            instance,
            rates: SimulatedRates {
                device: RefCell::new(device),
                runs,
                known: RefCell::default(),
                trouble: RefCell::default(),
            },
            planned_makespan: launch.timeline.as_ref().map(|t| t.makespan),
            tasks,
        })
    }

    fn play(&self) -> Result<Schedule, Failure> {
        let batches: Vec<Batch> = self.tasks.iter().map(|t| t.batch).collect();
        simulate(&self.instance, &self.rates, &batches, &self.order).map_err(|error| {
            match self.rates.trouble.take() {
                Some(MeasureError::Unusable(reason)) => Failure::Environment(reason),
                Some(trouble) => Failure::Negative(format!("the plan cannot run: {trouble}")),
                None => Failure::Input(error.to_string()),
            }
        })
    }

    /// The intervals between changes of the set of computing tasks.
    fn intervals(&self, schedule: &Schedule) -> Vec<Interval> {
        let computes = |p: &&Phase| p.kind == overlap::PhaseKind::Compute;
        let phases: Vec<&Phase> = schedule.phases.iter().filter(computes).collect();
        let mut times: Vec<f64> = phases.iter().flat_map(|p| [p.start_s, p.end_s]).collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let batches: Vec<Batch> = self.tasks.iter().map(|t| t.batch).collect();
        times
            .windows(2)
            .filter_map(|pair| {
                let (start, end) = (pair[0], pair[1]);
                let on = phases
                    .iter()
                    .filter(|p| p.start_s <= start && end <= p.end_s);
                let active = on.fold(0, |set, p| set | (1 << p.task));
                let mut rates = vec![0.0; self.tasks.len()];
                self.rates.rates(active, &batches, &mut rates).ok()?;
                Some(Interval {
                    end_s: end,
                    length_s: end - start,
                    active,
                    rates,
                })
            })
            .collect()
    }

    fn events(
        &self,
        schedule: &Schedule,
        number: u32,
        begin: f64,
    ) -> Result<Vec<RunEvent>, Failure> {
        let mut events = self.phase_events(schedule, number, begin)?;
        let mut done = vec![0.0; self.tasks.len()];
        for interval in self.intervals(schedule) {
            for (i, task) in self.tasks.iter().enumerate() {
                if interval.active & (1 << i) == 0 {
                    continue;
                }
                done[i] += interval.rates[i] * interval.length_s;
                let progress = TaskProgress {
                    samples: done[i].round() as u64,
                    rate: Some(rate(interval.rates[i])?),
                    ..TaskProgress::default()
                };
                events.push(RunEvent {
                    time: seconds(begin + interval.end_s)?,
                    payload: EventPayload::Progress {
                        round: number,
                        task: task.planned.id.clone(),
                        progress,
                    },
                });
            }
        }
        events.sort_by(|a, b| {
            let by_time = a.time.get().total_cmp(&b.time.get());
            by_time.then(rank(a).cmp(&rank(b)))
        });
        events.push(RunEvent {
            time: seconds(begin + schedule.makespan_s)?,
            payload: EventPayload::Round {
                round: number,
                ok: true,
                makespan: seconds(schedule.makespan_s)?,
                planned_makespan: self.planned_makespan,
                tasks: self.summaries(schedule, 1)?,
            },
        });
        Ok(events)
    }

    /// Start, ready, exit and end of every phase.
    fn phase_events(
        &self,
        schedule: &Schedule,
        number: u32,
        begin: f64,
    ) -> Result<Vec<RunEvent>, Failure> {
        let mut events = Vec::new();
        for phase in &schedule.phases {
            let assignment = &self.tasks[phase.task];
            let task = || assignment.planned.id.clone();
            let round = number;
            let start = seconds(begin + phase.start_s)?;
            let end = seconds(begin + phase.end_s)?;
            let mut push = |time, payload| events.push(RunEvent { time, payload });
            if phase.kind == overlap::PhaseKind::Compute {
                push(
                    start,
                    EventPayload::Start {
                        round,
                        task: task(),
                        batch: Some(assignment.batch),
                        share: Some(assignment.share),
                        pid: None,
                        predicted: assignment.predicted,
                    },
                );
                let ready = EventPayload::Ready {
                    round,
                    task: task(),
                };
                push(start, ready);
                push(
                    end,
                    EventPayload::Exit {
                        round,
                        task: task(),
                        phase: None,
                        end: ProcessEnd::Code(0),
                        reason: None,
                    },
                );
            }
            push(
                end,
                EventPayload::Phase {
                    round,
                    task: task(),
                    phase: match phase.kind {
                        overlap::PhaseKind::Download => PhaseKind::Download,
                        overlap::PhaseKind::Compute => PhaseKind::Compute,
                        overlap::PhaseKind::Upload => PhaseKind::Upload,
                    },
                    start: seconds(phase.start_s)?,
                    end: seconds(phase.end_s)?,
                    reason: None,
                },
            );
        }
        Ok(events)
    }

    fn summaries(&self, schedule: &Schedule, rounds: u32) -> Result<Vec<TaskSummary>, Failure> {
        let everyone = (0..self.tasks.len()).fold(0u32, |set, i| set | (1 << i));
        let all: Vec<Interval> = self.intervals(schedule);
        let together: f64 = all
            .iter()
            .filter(|i| i.active == everyone)
            .map(|i| i.length_s)
            .sum();
        let mut summaries = Vec::new();
        for (i, task) in self.tasks.iter().enumerate() {
            let met = all.iter().find(|x| x.active == everyone && together > 0.0);
            summaries.push(TaskSummary {
                id: task.planned.id.clone(),
                finished: true,
                samples: task.samples().unwrap_or(0) * u64::from(rounds),
                rate: met.map(|x| rate(x.rates[i])).transpose()?,
                predicted: task.predicted,
                first_loss: None,
                last_loss: None,
                restarts: 0,
                end: Some(ProcessEnd::Code(0)),
            });
        }
        Ok(summaries)
    }
}

/// Events of one instant in the order in which they come about.
fn rank(event: &RunEvent) -> u8 {
    match event.payload {
        EventPayload::Progress { .. } => 0,
        EventPayload::Exit { .. } => 1,
        EventPayload::Phase { .. } => 2,
        EventPayload::Start { .. } => 3,
        _ => 4,
    }
}

impl SimulatedRates {
    /// Measures the active tasks of each GPU together.
    fn measure(&self, active: u32) -> Result<Vec<f64>, MeasureError> {
        let window = Window {
            least: Seconds::ZERO,
            most: Seconds::ZERO,
            precision: 0.0,
            repeats: 1,
        };
        let mut rates = vec![0.0; self.runs.len()];
        let mut by_gpu: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (i, (_, gpu)) in self.runs.iter().enumerate() {
            if active & (1 << i) != 0 {
                by_gpu.entry(*gpu).or_default().push(i);
            }
        }
        for mut places in by_gpu.into_values() {
            places.sort_by_key(|&i| self.runs[i].0.task);
            let runs: Vec<Run> = places.iter().map(|&i| self.runs[i].0).collect();
            let measured = self.device.borrow_mut().measure(&runs, &window)?;
            for (&i, rate) in places.iter().zip(&measured.rates) {
                rates[i] = rate.throughput.get();
            }
        }
        Ok(rates)
    }
}

impl Rates for SimulatedRates {
    fn rates(&self, active: u32, _: &[Batch], out: &mut [f64]) -> Result<(), OverlapError> {
        if let Some(known) = self.known.borrow().get(&active) {
            out.copy_from_slice(known);
            return Ok(());
        }
        match self.measure(active) {
            Ok(rates) => {
                out.copy_from_slice(&rates);
                self.known.borrow_mut().insert(active, rates);
                Ok(())
            }
            Err(trouble) => {
                *self.trouble.borrow_mut() = Some(trouble);
                let tasks = (0..self.runs.len()).filter(|i| active & (1 << i) != 0);
                Err(OverlapError::MissingRates {
                    active: tasks.collect(),
                })
            }
        }
    }
}
