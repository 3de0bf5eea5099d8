use units::{Batch, Samples, SamplesPerSec, Seconds, Share, TaskId, shown};

use crate::checker::{optional, positive, unique_ids};
use crate::plan::choice;
use crate::wire::{self, FailureCause, StopReason, Wire};
use crate::{
    Aim, Checker, Choice, Code, DesignKind, DeviceFingerprint, Document, GpuUse, GradientNoise,
    Provenance, Workload,
};

/// A profile: measured co-runs of the tasks of a workload on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// What was profiled, and on what.
    pub header: Header,
    /// The measured configurations, in the order of the file.
    pub samples: Vec<Sample>,
    /// The configurations that failed.
    pub failures: Vec<Failure>,
    /// The last record; absent if profiling was stopped half-way.
    pub end: Option<ProfileEnd>,
}

/// First record of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// What was profiled.
    pub workload: Workload,
    /// The device on which it was profiled.
    pub device: DeviceFingerprint,
    /// How the configurations were chosen.
    pub design: DesignKind,
    /// Seed of the design and of the simulator.
    pub seed: u64,
    /// Minimum measurement window requested; `None`: the default of the device.
    pub window: Option<Seconds>,
    /// The objective that the configurations were chosen for; `None` if they were not chosen for a plan.
    pub aim: Option<Aim>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

/// One measured co-run; no task appears twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Number of the configuration.
    pub config: u64,
    /// The tasks that ran together.
    pub tasks: Vec<Measured>,
    /// Length of the window.
    pub window: Seconds,
    /// Number of windows averaged.
    pub repeats: u32,
    /// GPU utilisation during the measurement, if available.
    pub gpu: Option<GpuUse>,
}

/// One task of a measured co-run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Name.
    pub id: TaskId,
    /// Batch size.
    pub batch: Batch,
    /// Share.
    pub share: Share,
    /// Throughput.
    pub throughput: SamplesPerSec,
    /// Standard error of the throughput.
    pub stderr: Option<SamplesPerSec>,
    /// Gradient statistics of its steps, from which its noise scale is estimated.
    pub gradient: Option<GradientNoise>,
    /// Cost of launching its job, if it was launched for this sample.
    pub launch: Launch,
}

/// Cost of launching a job besides its training: means over the launches of one sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Launch {
    /// Time from the launch until the job trained; `None`: the job was parked and woken, or reports no
    /// progress.
    pub startup: Option<Seconds>,
    /// The whole run of the job, if the job ended by itself.
    pub run: Option<WholeRun>,
}

/// A job's run from launch to exit, when it ended by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WholeRun {
    /// Time from launch to exit.
    pub time: Seconds,
    /// Total number of samples trained on.
    pub samples: Samples,
}

/// A configuration that could not be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Number of the configuration.
    pub config: u64,
    /// The tasks that should have run together.
    pub tasks: Vec<Choice>,
    /// Why there is no measurement.
    pub reason: String,
    /// Category of the reason, if known.
    pub cause: Option<FailureCause>,
    /// The task whose job caused the failure.
    pub task: Option<TaskId>,
    /// The last lines printed by this job.
    pub output: Option<String>,
}

/// Last record of a finished profile.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileEnd {
    /// Number of configurations measured.
    pub measured: u64,
    /// Number of configurations that failed.
    pub failed: u64,
    /// Total device time of the measured windows.
    pub cost: Seconds,
    /// Why the profile ended.
    pub stopped: StopReason,
    /// Noise scales estimated from the gradients of all samples.
    pub noise_scales: Vec<MeasuredNoiseScale>,
}

/// The noise scale of one task, from all reports of its training.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredNoiseScale {
    /// Name of the task.
    pub id: TaskId,
    /// Gradient noise scale in samples: above 0.
    pub samples: f64,
    /// Standard error of the noise scale, in samples.
    pub stderr: f64,
    /// Number of training steps whose gradient norms were used.
    pub steps: u64,
}

/// One record of a profile.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileRecord {
    /// The first record: the header.
    Header(Box<Header>),
    /// A measured co-run.
    Sample(Sample),
    /// A configuration that failed.
    Failure(Failure),
    /// The last record of a finished profile.
    End(ProfileEnd),
}

fn record<W: Wire>() -> (String, String) {
    (
        W::SCHEMA.to_owned(),
        W::RECORD.unwrap_or_default().to_owned(),
    )
}

impl Document for Header {
    type Wire = wire::ProfileHeader;

    fn from_wire(wire: &wire::ProfileHeader, c: &mut Checker) -> Option<Self> {
        let workload = c.field("workload", |c| Workload::from_nested(&wire.workload, c));
        let window = c.optional_unit("window_s", wire.window_s, Seconds::new);
        let aim = optional(c, "aim", wire.aim.as_ref(), aim);
        Some(Self {
            workload: workload?,
            device: wire.device.clone(),
            design: wire.design,
            seed: wire.seed,
            window: window?,
            aim: aim?,
            provenance: wire.provenance.clone(),
        })
    }

    fn to_wire(&self) -> wire::ProfileHeader {
        let (schema, record) = record::<wire::ProfileHeader>();
        wire::ProfileHeader {
            schema,
            record,
            workload: self.workload.to_wire(),
            device: self.device.clone(),
            design: self.design,
            seed: self.seed,
            window_s: self.window.map(Seconds::get),
            aim: self.aim,
            provenance: self.provenance.clone(),
        }
    }
}

/// Checks that the starvation floor is a fraction of the rate alone, from 0 to 1.
pub(crate) fn aim(wire: &Aim, c: &mut Checker) -> Option<Aim> {
    let floor = wire.starvation_floor.unwrap_or(0.0);
    if (0.0..=1.0).contains(&floor) {
        return Some(*wire);
    }
    c.field("starvation_floor", |c| {
        let problem = format_args!("{} is not a fraction of a rate", shown(floor));
        c.fault(Code::OutOfRange, problem, "give 0 to 1");
    });
    None
}

impl Document for Sample {
    type Wire = wire::ProfileSample;

    fn from_wire(wire: &wire::ProfileSample, c: &mut Checker) -> Option<Self> {
        if wire.tasks.is_empty() {
            c.field("tasks", |c| {
                c.fault(Code::NothingToDo, "no task", "name the tasks that ran");
            });
        }
        let tasks = c.list("tasks", &wire.tasks, measured);
        unique_ids(c, "tasks", wire.tasks.iter().map(|t| t.id.as_str()));
        let window = c.unit("window_s", Seconds::new(wire.window_s));
        let gpu = optional(c, "gpu", wire.gpu.as_ref(), |gpu, c| {
            gpu_use(gpu, wire.tasks.len(), c)
        });
        Some(Self {
            config: wire.config,
            tasks: tasks?,
            window: window?,
            repeats: wire.repeats,
            gpu: gpu?,
        })
    }

    fn to_wire(&self) -> wire::ProfileSample {
        let (schema, record) = record::<wire::ProfileSample>();
        let tasks = self.tasks.iter().map(Measured::to_wire);
        wire::ProfileSample {
            schema,
            record,
            config: self.config,
            tasks: tasks.collect(),
            window_s: self.window.get(),
            repeats: self.repeats,
            gpu: self.gpu.clone(),
        }
    }
}

/// Checks that percentages are at most 100, and that the tasks together use no more than the whole
/// device reports.
fn gpu_use(wire: &GpuUse, tasks: usize, c: &mut Checker) -> Option<GpuUse> {
    let parts = [
        ("utilisation_percent", wire.utilisation_percent),
        ("sm_active_percent", wire.sm_active_percent),
        ("sm_occupancy_percent", wire.sm_occupancy_percent),
    ];
    let mut good = true;
    let mut wrong = |c: &mut Checker, field: &str, problem: String, advice: &str| {
        good = false;
        c.field(field, |c| c.fault(Code::OutOfRange, problem, advice));
    };
    for (field, value) in parts {
        if let Some(value) = value.filter(|v| !(0.0..=100.0).contains(v)) {
            wrong(
                c,
                field,
                format!("{value} is not a fraction"),
                "give 0 to 100",
            );
        }
    }
    if let Some(memory) = &wire.tasks_memory_bytes {
        let field = "tasks_memory_bytes";
        if memory.len() != tasks {
            let problem = format!("{} figures for {tasks} tasks", memory.len());
            wrong(c, field, problem, "give one for each task, in their order");
        }
        let sum = memory
            .iter()
            .fold(0, |sum: u64, &bytes| sum.saturating_add(bytes));
        if let Some(all) = wire.memory_bytes.filter(|&all| sum > all) {
            let problem = format!("the tasks hold {sum} bytes of {all} that are in use");
            wrong(c, field, problem, "a part is at most the whole");
        }
    }
    good.then(|| wire.clone())
}

pub(crate) fn measured(wire: &wire::MeasuredTask, c: &mut Checker) -> Option<Measured> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let batch = c.unit("batch", Batch::new(wire.batch));
    let share = c.unit("share_percent", Share::from_percent(wire.share_percent));
    let throughput = c.unit("samples_per_s", SamplesPerSec::new(wire.samples_per_s));
    let stderr = c.optional_unit(
        "stderr_samples_per_s",
        wire.stderr_samples_per_s,
        SamplesPerSec::new,
    );
    let gradient = optional(c, "gradient", wire.gradient.as_ref(), gradient);
    let launch = launch(wire, c);
    Some(Measured {
        gradient: gradient?,
        id: id?,
        batch: batch?,
        share: share?,
        throughput: throughput?,
        stderr: stderr?,
        launch: launch?,
    })
}

/// Checks that both means are finite; the estimator decides whether they are far enough apart.
pub(crate) fn gradient(wire: &GradientNoise, c: &mut Checker) -> Option<GradientNoise> {
    let figures = [
        ("squared_norm", wire.squared_norm),
        ("variance", wire.variance),
    ];
    let wrong = figures
        .into_iter()
        .find(|(_, value)| value.abs() > units::MOST);
    if wire.steps > 0 && wrong.is_none() {
        return Some(*wire);
    }
    let (field, value) = wrong.unwrap_or(("steps", 0.0));
    c.field(field, |c| {
        let problem = format_args!(
            "{} is not a mean over the steps of a training",
            shown(value)
        );
        let advice = "leave `gradient` out where nothing was measured; give numbers up to 1e30";
        c.fault(Code::OutOfRange, problem, advice);
    });
    None
}

fn noise_scale(wire: &wire::MeasuredNoiseScale, c: &mut Checker) -> Option<MeasuredNoiseScale> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let samples = positive(c, "noise_scale", wire.noise_scale, "noise scale", false);
    let stderr = positive(c, "stderr", wire.stderr, "standard error", true);
    Some(MeasuredNoiseScale {
        id: id?,
        samples: samples?,
        stderr: stderr?,
        steps: wire.steps,
    })
}

impl MeasuredNoiseScale {
    fn to_wire(&self) -> wire::MeasuredNoiseScale {
        wire::MeasuredNoiseScale {
            id: self.id.as_str().to_owned(),
            noise_scale: self.samples,
            stderr: self.stderr,
            steps: self.steps,
        }
    }
}

/// Reads the launch cost. A run needs both its samples and its time, and the time includes the start-up.
fn launch(wire: &wire::MeasuredTask, c: &mut Checker) -> Option<Launch> {
    let startup = c.optional_unit("startup_s", wire.startup_s, Seconds::new);
    let time = c.optional_unit("run_s", wire.run_s, Seconds::new);
    let samples = c.optional_unit("run_samples", wire.run_samples, Samples::new);
    let (startup, time, samples) = (startup?, time?, samples?);
    let run = match (time, samples) {
        (None, None) => None,
        (Some(time), Some(samples)) => Some(WholeRun { time, samples }),
        (time, _) => {
            let (field, problem) = match time {
                Some(_) => ("run_samples", "a run has a time and no samples"),
                None => ("run_s", "a run has samples and no time"),
            };
            let advice = "give both run_s and run_samples, or neither";
            c.field(field, |c| c.fault(Code::NeedsMore, problem, advice));
            return None;
        }
    };
    if let (Some(startup), Some(run)) = (startup, run)
        && startup > run.time
    {
        let problem = format!(
            "{} s of start-up in a run of {} s",
            startup.get(),
            run.time.get()
        );
        c.field("startup_s", |c| {
            c.fault(Code::OutOfRange, problem, "a part is at most the whole");
        });
        return None;
    }
    Some(Launch { startup, run })
}

impl Measured {
    pub(crate) fn to_wire(&self) -> wire::MeasuredTask {
        wire::MeasuredTask {
            id: self.id.as_str().to_owned(),
            batch: u64::from(self.batch.get()),
            share_percent: self.share.percent(),
            samples_per_s: self.throughput.get(),
            stderr_samples_per_s: self.stderr.map(SamplesPerSec::get),
            gradient: self.gradient,
            startup_s: self.launch.startup.map(Seconds::get),
            run_s: self.launch.run.map(|run| run.time.get()),
            run_samples: self.launch.run.map(|run| run.samples.get()),
        }
    }
}

impl Document for Failure {
    type Wire = wire::ProfileFailure;

    fn from_wire(wire: &wire::ProfileFailure, c: &mut Checker) -> Option<Self> {
        let tasks = c.list("tasks", &wire.tasks, choice);
        let task = c.optional_unit("task", wire.task.as_deref(), TaskId::new);
        if let Some(id) = wire.task.as_deref()
            && !wire.tasks.iter().any(|t| t.id == id)
        {
            c.field("task", |c| {
                let problem = format_args!("{id:?} was not to run");
                c.fault(Code::UnknownName, problem, "name one of the record's tasks");
            });
        }
        Some(Self {
            config: wire.config,
            tasks: tasks?,
            reason: wire.reason.clone(),
            cause: wire.cause,
            task: task?,
            output: wire.output.clone(),
        })
    }

    fn to_wire(&self) -> wire::ProfileFailure {
        let (schema, record) = record::<wire::ProfileFailure>();
        wire::ProfileFailure {
            schema,
            record,
            config: self.config,
            tasks: self.tasks.iter().map(Choice::to_wire).collect(),
            reason: self.reason.clone(),
            cause: self.cause,
            task: self.task.as_ref().map(|t| t.as_str().to_owned()),
            output: self.output.clone(),
        }
    }
}

impl Document for ProfileEnd {
    type Wire = wire::ProfileEnd;

    fn from_wire(wire: &wire::ProfileEnd, c: &mut Checker) -> Option<Self> {
        let cost = c.unit("cost_s", Seconds::new(wire.cost_s));
        let noise_scales = c.list("noise_scales", &wire.noise_scales, noise_scale);
        let ids = wire.noise_scales.iter().map(|n| n.id.as_str());
        unique_ids(c, "noise_scales", ids);
        Some(Self {
            measured: wire.measured,
            failed: wire.failed,
            cost: cost?,
            stopped: wire.stopped,
            noise_scales: noise_scales?,
        })
    }

    fn to_wire(&self) -> wire::ProfileEnd {
        let (schema, record) = record::<wire::ProfileEnd>();
        wire::ProfileEnd {
            schema,
            record,
            measured: self.measured,
            failed: self.failed,
            cost_s: self.cost.get(),
            stopped: self.stopped,
            noise_scales: self
                .noise_scales
                .iter()
                .map(MeasuredNoiseScale::to_wire)
                .collect(),
        }
    }
}
