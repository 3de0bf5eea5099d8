//! A round on the simulator: the events of a launch with simulated times.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cli::{Console, Exit, Failure, Output, provenance};
use device::{Device, MeasureError, OpenError, Options, Run, Window};
use doc::wire::TaskSummary;
use doc::{EventKind, PhaseKind, RunEvent};
use overlap::{Instance, Order, OverlapError, Phase, Rates, Schedule, plan_instance, simulate};
use units::{Batch, Seconds};

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
    let mut start = RunEvent::new(EventKind::Launch, Seconds::ZERO);
    start.fields.provenance.push(provenance(
        console.tool(),
        env!("CARGO_PKG_VERSION"),
        Some(args.seed.seed),
        Some(fingerprint.name.clone()),
    ));
    start.fields.device = Some(fingerprint);
    start.timeline = launch.timeline.clone();
    start.plan = launch.timeline.is_none().then(|| launch.plan.clone());
    output.record(&start)?;
    let schedule = round.play()?;
    let mut begin = 0.0;
    for number in 0..args.rounds {
        for event in round.events(&schedule, number, begin)? {
            output.record(&event)?;
        }
        begin += schedule.makespan_s;
    }
    let mut summary = RunEvent::new(EventKind::Summary, seconds(begin)?);
    summary.fields.ok = Some(true);
    summary.fields.makespan_s = Some(begin);
    summary.fields.tasks = round.summaries(&schedule, args.rounds)?;
    output.record(&summary)?;
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

/// One round: who transfers and computes what, and how fast.
struct Round<'a> {
    tasks: Vec<Assignment<'a>>,
    instance: Instance,
    order: Order,
    rates: SimulatedRates,
    planned_makespan: Option<f64>,
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
            planned_makespan: launch.timeline.as_ref().map(|t| t.makespan.get()),
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
                let at = seconds(begin + interval.end_s)?;
                let mut event = self.event(EventKind::Progress, at, number, task);
                event.fields.samples = Some(done[i].round() as u64);
                event.fields.samples_per_s = Some(interval.rates[i]);
                events.push(event);
            }
        }
        events.sort_by(|a, b| {
            let by_time = a.fields.time_s.total_cmp(&b.fields.time_s);
            by_time.then(rank(a).cmp(&rank(b)))
        });
        let end = seconds(begin + schedule.makespan_s)?;
        let mut round = RunEvent::new(EventKind::Round, end);
        round.fields.round = Some(number);
        round.fields.ok = Some(true);
        round.fields.makespan_s = Some(schedule.makespan_s);
        round.fields.planned_makespan_s = self.planned_makespan;
        round.fields.tasks = self.summaries(schedule, 1)?;
        events.push(round);
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
            let task = &self.tasks[phase.task];
            let start = seconds(begin + phase.start_s)?;
            let end = seconds(begin + phase.end_s)?;
            if phase.kind == overlap::PhaseKind::Compute {
                let mut event = self.event(EventKind::Start, start, number, task);
                event.fields.batch = Some(u64::from(task.batch.get()));
                event.fields.share_percent = Some(task.share.percent());
                event.fields.predicted_samples_per_s = task.predicted;
                events.push(event);
                events.push(self.event(EventKind::Ready, start, number, task));
                let mut exit = self.event(EventKind::Exit, end, number, task);
                exit.fields.code = Some(0);
                events.push(exit);
            }
            let mut event = self.event(EventKind::Phase, end, number, task);
            event.fields.phase = Some(match phase.kind {
                overlap::PhaseKind::Download => PhaseKind::Download,
                overlap::PhaseKind::Compute => PhaseKind::Compute,
                overlap::PhaseKind::Upload => PhaseKind::Upload,
            });
            event.fields.start_s = Some(phase.start_s);
            event.fields.end_s = Some(phase.end_s);
            events.push(event);
        }
        Ok(events)
    }

    fn event(&self, kind: EventKind, at: Seconds, round: u32, task: &Assignment<'_>) -> RunEvent {
        let mut event = RunEvent::new(kind, at);
        event.fields.round = Some(round);
        event.fields.task = Some(task.planned.id.as_str().to_owned());
        event
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
            let rate = all
                .iter()
                .find(|x| x.active == everyone)
                .map(|x| x.rates[i]);
            summaries.push(TaskSummary {
                id: task.planned.id.as_str().to_owned(),
                finished: true,
                samples: task.samples().unwrap_or(0) * u64::from(rounds),
                samples_per_s: rate.filter(|_| together > 0.0),
                predicted_samples_per_s: task.predicted,
                first_loss: None,
                last_loss: None,
                restarts: 0,
                code: Some(0),
                signal: None,
            });
        }
        Ok(summaries)
    }
}

/// Events of one instant in the order in which they come about.
fn rank(event: &RunEvent) -> u8 {
    match event.kind() {
        EventKind::Progress => 0,
        EventKind::Exit => 1,
        EventKind::Phase => 2,
        EventKind::Start => 3,
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
