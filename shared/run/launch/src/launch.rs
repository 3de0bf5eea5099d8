mod by_hand;

use std::collections::BTreeMap;

use cli::Failure;
use doc::{
    Answer, Any, ByHand, DeviceKind, Duplex, Given, Job, Phase, PhaseKind, Plan, PlanTask, Planned,
    Task, Timeline, Workload,
};
use overlap::{Order, Transfer};
use predict::{PredictError, Predictor};
use units::corun::Setting;
use units::{Batch, Bytes, SamplesPerSec, Seconds, Share, TaskId};

/// The launch: a plan with its workload, and the timeline to follow, if any.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The order of transfers and compute; absent: all tasks start at once, in the plan's order.
    pub timeline: Option<Timeline>,
    /// Batch sizes and shares.
    pub plan: Plan,
    /// The tasks and the device, which is never `replay`.
    pub workload: Workload,
    /// Predicted throughput of each task while all run, at the launched batch sizes.
    predicted: Vec<Option<SamplesPerSec>>,
}

/// One task as it is launched.
#[derive(Debug, Clone, Copy)]
pub struct Assignment<'a> {
    /// The task in the plan.
    pub planned: &'a PlanTask,
    /// The task in the workload.
    pub task: &'a Task,
    /// Batch size, samples per step.
    pub batch: Batch,
    /// Share of the device.
    pub share: Share,
    /// Predicted throughput while all tasks run.
    pub predicted: Option<SamplesPerSec>,
}

impl Launch {
    /// The launch of a plan, in the order of a timeline if there is one.
    ///
    /// # Errors
    /// [`PredictError`] if the timeline varies batch sizes and the plan's model is not valid.
    pub fn of(
        plan: Plan,
        timeline: Option<Timeline>,
        workload: Workload,
    ) -> Result<Self, PredictError> {
        let tasks = 0..plan.tasks.len();
        let mut workload = workload;
        // The plan's settings of a task take precedence over the workload's.
        for task in &plan.tasks {
            if let (Some(index), Some(bytes)) = (workload.task_index(&task.id), task.update_bytes) {
                workload.tasks[index].update_bytes = Some(bytes);
            }
        }
        let mut launch = Self {
            predicted: tasks
                .map(|i| plan.given(i).throughput.map(|e| e.mean))
                .collect(),
            timeline,
            plan,
            workload,
        };
        let mut batches = launch.assignments().map(|a| a.batch).enumerate();
        let varied = batches.any(|(i, batch)| Some(batch) != launch.plan.given(i).batch);
        drop(batches);
        if let Some(model) = launch.plan.model.as_ref().filter(|_| varied) {
            let predictor = Predictor::from_model(model)?;
            launch.predicted = launch.predicted_by(&predictor, &model.workload);
        }
        Ok(launch)
    }

    /// Predictions for every task by a predictor of `known`. All are `None` if the predictor lacks one of the tasks; a
    /// single one is `None` if the task has no prediction.
    fn predicted_by(&self, predictor: &Predictor, known: &Workload) -> Vec<Option<SamplesPerSec>> {
        let rates = self.rates_of(predictor, known);
        let number = |rate| SamplesPerSec::new(rate).ok();
        rates.into_iter().flatten().map(number).collect()
    }

    /// Builds a launch from a plan or a timeline.
    ///
    /// # Errors
    /// [`Failure::Input`] if the document is of another kind, lacks what a launch needs, or has an invalid model that
    /// is needed; [`Failure::Negative`] if the plan is infeasible.
    pub fn new(document: Any, device: Option<DeviceKind>) -> Result<Self, Failure> {
        let (plan, timeline) = match document {
            Any::Plan(plan) => (*plan, None),
            Any::Timeline(timeline) => (timeline.plan.clone(), Some(*timeline)),
            other => {
                return Err(Failure::Input(format!(
                    "this is {}; give a plan (mt-solve) or a timeline (mt-overlap)",
                    name_of(&other)
                )));
            }
        };
        if let Answer::Infeasible(_) = plan.answer {
            return Err(Failure::Negative(
                "the plan is infeasible: there is nothing to launch".to_owned(),
            ));
        }
        let Some(workload) = plan.workload() else {
            return Err(Failure::Input(
                "the plan carries no workload, which says the device and the jobs; add `workload`"
                    .to_owned(),
            ));
        };
        let mut workload = workload.clone();
        if let Some(kind) = device {
            workload.device.kind = kind;
        }
        let launch = Self::of(plan, timeline, workload).map_err(of_model)?;
        let faults: Vec<String> = (0..launch.plan.tasks.len())
            .filter_map(|i| launch.assign(i).err())
            .collect();
        if faults.is_empty() {
            Ok(launch)
        } else {
            Err(Failure::Input(faults.join("\n")))
        }
    }

    /// A launch of only some of its tasks, with the batch sizes and shares of the whole plan. It counts as a
    /// hand-written plan, because the results of the search do not hold for fewer tasks. Predictions come from the
    /// model for these tasks alone. Transfers keep their order. The phases of a timeline are dropped, because their
    /// times depend on the other tasks.
    ///
    /// # Errors
    /// [`Failure::Usage`] names the tasks that the plan does not have; [`Failure::Input`] if its model is not valid.
    pub fn only(self, tasks: &[String]) -> Result<Self, Failure> {
        if tasks.is_empty() {
            return Ok(self);
        }
        let known = |id: &str| self.plan.tasks.iter().any(|t| t.id.as_str() == id);
        let unknown: Vec<&str> = tasks
            .iter()
            .map(String::as_str)
            .filter(|id| !known(id))
            .collect();
        if !unknown.is_empty() {
            let have: Vec<&str> = self.plan.tasks.iter().map(|t| t.id.as_str()).collect();
            return Err(Failure::Usage(format!(
                "--only {}: the plan has the tasks {}",
                unknown.join(","),
                have.join(", ")
            )));
        }
        let wanted = |id: &TaskId| tasks.iter().any(|t| t == id.as_str());
        let downloads = self.timeline.as_ref();
        let all = 0..self.plan.tasks.len();
        let order = downloads.map_or_else(|| all.collect(), |t| t.download_order.clone());
        let kept: Vec<usize> = order
            .into_iter()
            .filter(|&i| wanted(&self.plan.tasks[i].id))
            .collect();
        let mut given = Vec::new();
        for &i in &kept {
            let task = self.assign(i).map_err(Failure::Input)?;
            given.push(Given {
                batch: Some(task.batch),
                share: Some(task.share),
                ..Given::default()
            });
        }
        let answer = Answer::ByHand(ByHand { given, rv: None });
        let mut workload = self.workload;
        workload.tasks.retain(|t| wanted(&t.id));
        let model = self.plan.model;
        let plan = Plan {
            tasks: kept.iter().map(|&i| self.plan.tasks[i].clone()).collect(),
            answer,
            rates: Vec::new(),
            model: None,
            workload: Some(workload.clone()),
            ..self.plan
        };
        let mut launch = Self::of(plan, None, workload).map_err(of_model)?;
        if let Some(model) = model {
            let predictor = Predictor::from_model(&model).map_err(of_model)?;
            launch.predicted = launch.predicted_by(&predictor, &model.workload);
        }
        Ok(launch)
    }

    /// Description of the launched plan in the events.
    #[must_use]
    pub fn planned(&self) -> Planned {
        match &self.timeline {
            Some(timeline) => Planned::Timeline(Box::new(timeline.clone())),
            None => Planned::Plan(Box::new(self.plan.clone())),
        }
    }

    /// The tasks in the order of the plan. [`Launch::new`] refuses a plan with a task that cannot be assigned.
    pub fn assignments(&self) -> impl Iterator<Item = Assignment<'_>> {
        (0..self.plan.tasks.len()).filter_map(|i| self.assign(i).ok())
    }

    fn assign(&self, index: usize) -> Result<Assignment<'_>, String> {
        let planned = &self.plan.tasks[index];
        let given = self.plan.given(index);
        let lacks = |what: &str| {
            format!(
                "$.tasks[{index}]: task {} has no {what}, which a launch needs",
                planned.id
            )
        };
        let task = self.workload.task_index(&planned.id);
        let varied = self.timeline.as_ref().and_then(|t| t.batches[index]);
        Ok(Assignment {
            planned,
            task: &self.workload.tasks[task.ok_or_else(|| lacks("entry in the workload"))?],
            batch: varied.or(given.batch).ok_or_else(|| lacks("batch"))?,
            share: given.share.ok_or_else(|| lacks("share_percent"))?,
            predicted: self.predicted.get(index).copied().flatten(),
        })
    }

    /// Predictions of a predictor of the plan's workload for all tasks together, each on its GPU; `None` if it lacks
    /// one of them.
    #[must_use]
    pub fn together(&self, predictor: &Predictor) -> Option<Vec<f64>> {
        self.rates_of(predictor, &self.plan.model.as_ref()?.workload)
    }

    /// Like [`Launch::together`], for a predictor of the workload `known`.
    fn rates_of(&self, predictor: &Predictor, known: &Workload) -> Option<Vec<f64>> {
        let mut gpus = BTreeMap::<usize, (Vec<usize>, Vec<Setting>)>::new();
        for (i, task) in self.assignments().enumerate() {
            let (tasks, active) = gpus.entry(task.gpu()).or_default();
            tasks.push(i);
            active.push(Setting {
                task: known.task_index(&task.planned.id)?,
                batch: task.batch,
                share: task.share,
            });
        }
        let mut rates = vec![0.0; self.plan.tasks.len()];
        for (tasks, active) in gpus.values() {
            let mut here = vec![0.0; active.len()];
            predictor.means(active, &mut here);
            for (&i, rate) in tasks.iter().zip(here) {
                rates[i] = rate;
            }
        }
        Some(rates)
    }

    /// The holds of the timeline.
    #[must_use]
    pub fn holds(&self) -> Vec<doc::Hold> {
        let timeline = self.timeline.as_ref();
        timeline.map_or_else(Vec::new, |t| t.holds.clone())
    }

    /// The order of transfers: the timeline's, or that of the plan's tasks.
    #[must_use]
    pub fn order(&self) -> Order {
        let link = self.plan.link.or(self.workload.link);
        let plain: Vec<usize> = (0..self.plan.tasks.len()).collect();
        let (downloads, uploads) = match &self.timeline {
            Some(t) => (t.download_order.clone(), t.upload_order.clone()),
            None => (plain.clone(), plain),
        };
        match link.map(|l| l.duplex).unwrap_or_default() {
            Duplex::Full => Order::PerDirection { downloads, uploads },
            Duplex::Shared => Order::Together,
            Duplex::Half => Order::OneByOne(match &self.timeline {
                Some(timeline) => {
                    let transfers = timeline.phases.iter().filter_map(|p| match p.kind {
                        PhaseKind::Download => Some(Transfer::Download(p.task)),
                        PhaseKind::Compute => None,
                        PhaseKind::Upload => Some(Transfer::Upload(p.task)),
                    });
                    transfers.collect()
                }
                None => {
                    let downloads = downloads.into_iter().map(Transfer::Download);
                    downloads
                        .chain(uploads.into_iter().map(Transfer::Upload))
                        .collect()
                }
            }),
        }
    }

    /// Whether every task has a program to start.
    ///
    /// # Errors
    /// [`Failure::Input`] names those that have none.
    pub fn check_jobs(&self) -> Result<(), Failure> {
        let without: Vec<String> = self
            .assignments()
            .filter(|a| a.job().is_none())
            .map(|a| {
                format!(
                    "task {} has no job, so there is nothing to start; give it one in the \
                     workload, or use --device sim",
                    a.planned.id
                )
            })
            .collect();
        if without.is_empty() {
            Ok(())
        } else {
            Err(Failure::Input(without.join("\n")))
        }
    }

    /// The phases to follow: the timeline's, or those of a plan, whose times are unknown.
    #[must_use]
    pub fn phases(&self) -> Vec<Phase> {
        if let Some(timeline) = &self.timeline {
            return timeline.phases.clone();
        }
        let zero = Seconds::ZERO;
        let kinds = [PhaseKind::Download, PhaseKind::Compute, PhaseKind::Upload];
        kinds
            .into_iter()
            .flat_map(|kind| {
                let with_program = move |a: &(usize, Assignment<'_>)| match kind {
                    PhaseKind::Download => a.1.job().is_some_and(|j| !j.download.is_empty()),
                    PhaseKind::Compute => true,
                    PhaseKind::Upload => a.1.job().is_some_and(|j| !j.upload.is_empty()),
                };
                self.assignments()
                    .enumerate()
                    .filter(with_program)
                    .map(move |(task, _)| Phase {
                        task,
                        kind,
                        start: zero,
                        end: zero,
                    })
            })
            .collect()
    }
}

impl Assignment<'_> {
    /// The training program, if the task has one.
    #[must_use]
    pub fn job(&self) -> Option<&Job> {
        self.task.job.as_ref()
    }

    /// Whether its job declares that it reports no progress.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.job().is_some_and(|job| job.progress.none)
    }

    /// Number of the GPU that it runs on.
    #[must_use]
    pub fn gpu(&self) -> usize {
        self.planned.gpu.unwrap_or(0) as usize
    }

    /// Limit on its device memory: the need of its batch according to the workload.
    #[must_use]
    pub fn memory(&self) -> Option<Bytes> {
        // The workload's own check keeps the sum below 2^53.
        let needed = self.task.memory.map(|m| m.at(self.batch).ceil() as u64);
        needed.and_then(|bytes| Bytes::new(bytes).ok())
    }

    /// Samples of a round, if known.
    #[must_use]
    pub fn samples(&self) -> Option<u64> {
        let samples = self.planned.samples.or(self.task.samples);
        samples.map(units::Samples::get)
    }
}

/// The workload that a document is or contains, on `device` instead of its own.
///
/// # Errors
/// [`Failure::Input`] if it has none.
pub fn workload_of(document: Any, device: Option<DeviceKind>) -> Result<Workload, Failure> {
    let mut workload = carried(document)?;
    workload.device.kind = device.unwrap_or(workload.device.kind);
    Ok(workload)
}

fn carried(document: Any) -> Result<Workload, Failure> {
    let plan = match document {
        Any::Workload(workload) => return Ok(*workload),
        Any::Plan(plan) => *plan,
        Any::Timeline(timeline) => timeline.plan,
        other => {
            return Err(Failure::Input(format!(
                "this is {}; give a workload, or a plan or timeline that carries one",
                name_of(&other)
            )));
        }
    };
    plan.workload().cloned().ok_or_else(|| {
        Failure::Input(
            "the plan carries no workload, which says the device and the jobs; add `workload`"
                .to_owned(),
        )
    })
}

fn of_model(error: PredictError) -> Failure {
    Failure::Input(format!("$.model: {error}"))
}

fn name_of(document: &Any) -> &'static str {
    match document {
        Any::Workload(_) => "a workload",
        Any::Profile(_) => "a profile",
        Any::Model(_) => "a model",
        Any::Plan(_) => "a plan",
        Any::Timeline(_) => "a timeline",
        Any::Run(_) => "a run",
        Any::Allocations(_) => "allocations of GPUs",
        Any::Cluster(_) => "a cluster",
        Any::Schedule(_) => "a schedule",
        Any::Status(_) => "how far the jobs of a cluster are",
    }
}
