//! The placement of one program, and the variables that describe it.

use std::path::{Path, PathBuf};

use cli::{Console, Failure, Input};
use doc::{Any, DeviceKind};
use units::{Batch, Bytes, SamplesPerSec, Share, TaskId};

use crate::launch::Launch;

/// What a placement is to be, besides the plan.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Limit on device memory, instead of what the workload says (cuda only).
    pub memory: Option<Bytes>,
    /// Where to run, instead of what the workload says.
    pub device: Option<DeviceKind>,
    /// Number of the round, from 0.
    pub round: u32,
}

/// The source of the share to apply.
#[derive(Debug, Clone, PartialEq)]
pub enum Which {
    /// An explicit share.
    Share(Share),
    /// The share of a task in a plan.
    Task {
        /// File of the plan or timeline with the task; absent if none was named.
        plan: Option<PathBuf>,
        /// Its name.
        task: String,
    },
}

/// The share of one program.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// `cpu` or `cuda`; other kinds are only valid for [`Placement::variables`].
    pub device: DeviceKind,
    /// The task, if a plan names it.
    pub task: Option<TaskId>,
    /// Share of the device.
    pub share: Share,
    /// Batch size, samples per step.
    pub batch: Option<Batch>,
    /// Samples of a round.
    pub samples: Option<u64>,
    /// Round, from 0.
    pub round: u32,
    /// Maximum device memory.
    pub memory: Option<Bytes>,
    /// Number of its GPU, from 0.
    pub gpu: usize,
    /// UUIDs of the GPUs that the plan is for, if it names them.
    pub gpu_names: Vec<String>,
    /// Predicted throughput while all tasks of the plan run.
    pub predicted: Option<SamplesPerSec>,
    /// How it reports its progress.
    pub progress: doc::Progress,
}

impl Placement {
    /// A share without a plan.
    #[must_use]
    pub fn of_share(share: Share, wanted: &Wanted) -> Self {
        Self {
            device: wanted.device.unwrap_or(DeviceKind::Auto),
            task: None,
            share,
            batch: None,
            samples: None,
            round: wanted.round,
            memory: wanted.memory,
            gpu: 0,
            gpu_names: Vec::new(),
            predicted: None,
            progress: doc::Progress::default(),
        }
    }

    /// The share for a program that starts now.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a task without a plan, a task that the plan does not have, a device on which no process
    /// can run, and a memory limit that the device cannot enforce; [`Failure`] of reading.
    pub fn to_run(which: &Which, wanted: &Wanted, console: &Console) -> Result<Self, Failure> {
        let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
        let mut placement = match which {
            Which::Share(share) => Self::of_share(*share, wanted),
            Which::Task { plan: None, .. } => {
                return usage("--task needs --plan FILE, or MT_PLAN in the environment");
            }
            Which::Task { plan, task } => {
                Self::choose(Self::of_file(plan.as_deref(), wanted, console)?, task)?
            }
        };
        placement.settle_device(console)?;
        if wanted.memory.is_some() && placement.device != DeviceKind::Cuda {
            return usage("--memory limits the memory of a GPU; the device here is cpu");
        }
        Ok(placement)
    }

    /// The tasks of the plans or timelines in a file or on standard input, in the order of the input.
    ///
    /// # Errors
    /// [`Failure`] of reading, and as [`Launch::new`].
    pub fn of_file(
        plan: Option<&Path>,
        wanted: &Wanted,
        console: &Console,
    ) -> Result<Vec<Self>, Failure> {
        let files: Vec<PathBuf> = plan.into_iter().map(Path::to_owned).collect();
        let mut all = Vec::new();
        for document in Input::open(&files, "plans or timelines", console)?.named() {
            let (source, document) = document?;
            all.extend(Self::of_plan(document, wanted).map_err(|f| f.of_source(&source))?);
        }
        Ok(all)
    }

    /// The tasks of a plan or timeline, in the order of the document.
    ///
    /// # Errors
    /// Like [`Launch::new`].
    pub fn of_plan(document: Any, wanted: &Wanted) -> Result<Vec<Self>, Failure> {
        let launch = Launch::new(document, wanted.device)?;
        let device = &launch.workload.device;
        let all = launch.assignments().map(|a| Self {
            device: device.kind,
            task: Some(a.planned.id.clone()),
            share: a.share,
            batch: Some(a.batch),
            samples: a.samples(),
            round: wanted.round,
            memory: wanted.memory.or_else(|| a.memory()),
            gpu: a.gpu(),
            gpu_names: device.gpu_names.clone(),
            predicted: a.predicted,
            progress: a.job().map(|j| j.progress.clone()).unwrap_or_default(),
        });
        Ok(all.collect())
    }

    /// Selects one task by name.
    ///
    /// # Errors
    /// [`Failure::Usage`] names the existing tasks.
    pub fn choose(all: Vec<Self>, task: &str) -> Result<Self, Failure> {
        let known: Vec<String> = all.iter().filter_map(Self::name).collect();
        let mut all = all.into_iter();
        all.find(|p| p.name().as_deref() == Some(task))
            .ok_or_else(|| {
                let known = known.join(", ");
                Failure::Usage(format!("--task {task}: the plan's tasks are {known}"))
            })
    }

    /// The task's name.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.task.as_ref().map(ToString::to_string)
    }

    /// Resolves `auto`: a GPU that MPS can share if there is one, otherwise the processors; reports which.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the plan is for a simulated or recorded device: no process runs there.
    pub fn settle_device(&mut self, console: &Console) -> Result<(), Failure> {
        match self.device {
            DeviceKind::Cpu | DeviceKind::Cuda => {}
            DeviceKind::Auto => {
                let found = host::discovery::shareable(&self.gpu_names, 1);
                self.device = match found {
                    Ok(_) => DeviceKind::Cuda,
                    Err(error) => {
                        console.note(&format!(
                            "a share of the processors, because there is {error}"
                        ));
                        DeviceKind::Cpu
                    }
                };
            }
            DeviceKind::Sim | DeviceKind::Replay => {
                return Err(Failure::Usage(format!(
                    "the plan is for the device {}, on which no process runs; give --device cpu or \
                     --device cuda",
                    host::word(self.device)
                )));
            }
        }
        Ok(())
    }

    /// The variables of the worker protocol, and those that MPS reads when CUDA starts.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let assignment = jobs::Assignment {
            batch: self.batch,
            share: Some(self.share),
            device: host::word(self.device),
            round: self.round,
            samples: self.samples,
            orders: false,
        };
        let protocol = assignment.variables(self.task.as_ref().map_or("", TaskId::as_str));
        let mut all: Vec<(String, String)> = protocol
            .into_iter()
            .filter(|(name, _)| self.task.is_some() || *name != "MT_TASK")
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        if self.device == DeviceKind::Cuda {
            let share = self.share.percent().to_string();
            all.push(("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE".to_owned(), share));
            let limit = self.memory.map(|m| jobs::mps::memory_limit(m, 1));
            all.extend(limit.map(|(name, value)| (name.to_owned(), value)));
            let gpu = self.gpu_names.get(self.gpu);
            all.extend(gpu.map(|uuid| ("CUDA_VISIBLE_DEVICES".to_owned(), uuid.clone())));
        }
        all
    }
}
