//! The problem: tasks, constraints, objective, and what a choice is worth.

pub(crate) mod compute;
pub(crate) mod domain;
pub(crate) mod progress;
pub(crate) mod round;
pub(crate) mod to_target;

use doc::{Balance, BatchPolicy, ConstraintKind, Memory, ObjectiveKind, SoloRate, Workload};
use units::{Batch, Bytes, Samples, Share, TaskId, TotalShare, Weight};

use units::corun::{MAX_TASKS, Setting, Throughput};

use crate::error::AllocError;
use crate::problem::progress::TaskProgress;
use crate::problem::round::Round;

/// One task as the search sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its name, for messages.
    pub id: TaskId,
    /// Batch sizes to choose from, ascending, not empty.
    pub batches: Vec<Batch>,
    /// Local data volume `D_i`; needed by the objective `round` and by a mismatch bound.
    pub samples: Option<Samples>,
    /// Weight `w_i` in the weighted objective.
    pub weight: Weight,
    /// Memory need; absent: none.
    pub memory: Option<Memory>,
    /// Work of one sample (any unit, the same for all tasks), for the balance `workload`.
    pub work_per_sample: Option<f64>,
    /// Value of its samples, and distance to its target.
    pub progress: TaskProgress,
}

impl Task {
    /// The batch size that the task keeps if sizes are not chosen: its reference or, if that is not in `batches`, the
    /// first of these.
    ///
    /// # Panics
    /// Without a batch size.
    #[must_use]
    pub fn reference(&self) -> Batch {
        let own = self.progress.reference;
        own.filter(|b| self.batches.contains(b))
            .unwrap_or(self.batches[0])
    }
}

/// Constraints of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Shares are multiples of this, at most [`Share::FULL`].
    pub step: Share,
    /// Required sum `R_v` of the shares; absent: any sum.
    pub rv: Option<TotalShare>,
    /// Starvation floor `phi`: `P_i >= phi S_i` for every task; 0 for none.
    pub floor: f64,
    /// Memory of the GPU: `sum_i memory_i(B_i)` may not exceed it.
    pub memory: Option<Bytes>,
    /// How batch sizes may be chosen.
    pub policy: BatchPolicy,
    /// Largest mismatch (FedMT eq. 6).
    pub mismatch: Option<f64>,
    /// Quantity that should be proportional to the data volumes.
    pub balance: Balance,
    /// Definition of the solo rate `S_i`. By default it is the solo rate of the task's best batch size. Relative to
    /// the solo rate at the chosen size, a slow batch size with a large share would look as good as a fast one (a
    /// resnet50 with 1,478 samples/s as fair as with 2,314).
    pub solo: SoloRate,
    /// Policy for the batch sizes of the solo rates that values are relative to; absent: `policy`. A search with a
    /// freer `policy` than the plan sets it to the plan's policy, so that both values have the same reference.
    pub alone: Option<BatchPolicy>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            step: Share::from_hundredths(500),
            rv: None,
            floor: 0.0,
            memory: None,
            policy: BatchPolicy::Free,
            mismatch: None,
            balance: Balance::Batch,
            solo: SoloRate::Best,
            alone: None,
        }
    }
}

/// An allocation problem: choose `B_i` and `R_i` of every task of one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The tasks, in the order of the predictor's tasks.
    pub tasks: Vec<Task>,
    /// The objective.
    pub objective: ObjectiveKind,
    /// The constraints.
    pub limits: Limits,
    /// Transfers and work of a round, for objectives that are times. `None`: compute alone, with shares as planned.
    pub round: Option<Round>,
}

impl Problem {
    /// Checks what the types cannot express: the number of tasks, the batch lists, the data that the objective or the
    /// constraints need, and the ranges of the limits.
    pub fn check(&self) -> Result<(), AllocError> {
        let n = self.tasks.len();
        if n == 0 || n > MAX_TASKS {
            return Err(AllocError::TaskCount { found: n });
        }
        for t in &self.tasks {
            let task = t.id.clone();
            if t.batches.is_empty() {
                return Err(AllocError::NoBatch { task });
            }
            if self.needs_samples() && t.samples.is_none() {
                return Err(AllocError::NoSamples { task });
            }
            let chooses = matches!(self.limits.policy, BatchPolicy::Free | BatchPolicy::Same);
            let several = chooses && t.batches.len() > 1;
            if self.is_progress() && several && t.progress.law.is_none() {
                return Err(AllocError::NoEfficiency { task });
            }
            let work_is_fine = t.work_per_sample.is_some_and(|w| w.is_finite() && w > 0.0);
            if self.limits.balance == Balance::Workload
                && self.limits.mismatch.is_some()
                && !work_is_fine
            {
                return Err(AllocError::NoWork { task });
            }
        }
        let l = &self.limits;
        if l.step == Share::ZERO || l.step > Share::FULL {
            return Err(AllocError::Step { step: l.step });
        }
        if !(0.0..=1.0).contains(&l.floor) {
            return Err(AllocError::Floor { floor: l.floor });
        }
        if let Some(bound) = l.mismatch.filter(|m| !(m.is_finite() && *m >= 0.0)) {
            return Err(AllocError::Mismatch { bound });
        }
        Ok(())
    }

    fn needs_samples(&self) -> bool {
        self.objective == ObjectiveKind::Round || self.limits.mismatch.is_some()
    }

    /// Whether a constraint limits the choices.
    pub(crate) fn is_limited(&self, kind: ConstraintKind) -> bool {
        let l = &self.limits;
        match kind {
            ConstraintKind::StarvationFloor => l.floor > 0.0,
            ConstraintKind::Mismatch => l.mismatch.is_some(),
            ConstraintKind::Memory => l.memory.is_some(),
            ConstraintKind::Rv => l.rv.is_some(),
            ConstraintKind::Batch => l.policy != BatchPolicy::Free,
            // The domain limits the rates and not the problem: see `DomainPenalty`.
            ConstraintKind::Domain => false,
        }
    }

    /// Removes the constraint.
    pub(crate) fn drop_limit(&mut self, kind: ConstraintKind) {
        let l = &mut self.limits;
        match kind {
            ConstraintKind::StarvationFloor => l.floor = 0.0,
            ConstraintKind::Mismatch => l.mismatch = None,
            ConstraintKind::Memory => l.memory = None,
            ConstraintKind::Rv => l.rv = None,
            ConstraintKind::Batch => l.policy = BatchPolicy::Free,
            ConstraintKind::Domain => {}
        }
    }

    /// Whether the objective is progress, by time or by rate.
    pub(crate) fn is_progress(&self) -> bool {
        self.objective.is_progress()
    }

    /// Whether the objective is a time: the length of a round, or the time to target, which needs the samples of
    /// every task.
    pub(crate) fn is_timed(&self) -> bool {
        let volumes = || self.tasks.iter().all(|t| t.samples.is_some());
        self.objective == ObjectiveKind::Round || (self.is_progress() && volumes())
    }

    /// Progress per second of a task at `rate`, relative to its maximum alone: `P E(B) / max_B S(B) E(B)`.
    pub(crate) fn relative_progress<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        i: usize,
        batch: Batch,
        rate: f64,
    ) -> f64 {
        let task = &self.tasks[i];
        let alone = self
            .sizes(i)
            .into_iter()
            .map(|b| rates.solo(i, b) * task.progress.efficiency(b));
        let most = alone.fold(0.0, f64::max);
        rate * task.progress.efficiency(batch) / most
    }

    /// Whether evaluating a choice includes ordering its transfers.
    pub(crate) fn is_ordered(&self) -> bool {
        self.is_timed() && self.round.is_some()
    }

    /// The objective at the throughputs `p` of a choice, with the solo rates `solo` as reference. For a round, it is
    /// minus the seconds of the slowest task, with all tasks active forever. Not valid for times to target.
    pub(crate) fn value<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        p: &[f64],
        solo: &[f64],
    ) -> f64 {
        let relative = p.iter().zip(solo).map(|(p, s)| p / s);
        let tasks = || self.tasks.iter().zip(p);
        let progress = |i: usize| self.relative_progress(rates, i, settings[i].batch, p[i]);
        match self.objective {
            ObjectiveKind::Raw => p.iter().sum(),
            ObjectiveKind::Fairness => relative.sum(),
            ObjectiveKind::MaxMin => relative.fold(f64::INFINITY, f64::min),
            ObjectiveKind::Weighted => tasks().map(|(t, p)| t.weight.get() * p).sum(),
            ObjectiveKind::Round => {
                let ends = tasks().map(|(t, p)| t.samples.map_or(1.0, Samples::as_f64) / p);
                -ends.fold(0.0, f64::max)
            }
            ObjectiveKind::Progress => {
                let each = (0..p.len()).map(|i| self.tasks[i].progress.part * progress(i));
                each.sum()
            }
            ObjectiveKind::ProgressLast => (0..p.len()).map(progress).fold(f64::INFINITY, f64::min),
        }
    }

    /// Mismatch `sum_a sum_b | D_a/D_b - q_a/q_b |` of a choice (FedMT eq. 6); the loads `q` are batch sizes,
    /// workloads or throughputs `rates`, depending on the balance. A task without a data volume counts as 1 sample.
    #[must_use]
    pub fn mismatch(&self, settings: &[Setting], rates: &[f64]) -> f64 {
        let of = |i: usize| {
            let task = &self.tasks[i];
            let load = match self.limits.balance {
                Balance::Batch => settings[i].batch.as_f64(),
                Balance::Workload => {
                    task.work_per_sample.unwrap_or(1.0) * settings[i].batch.as_f64()
                }
                Balance::Time => rates[i],
            };
            (task.samples.map_or(1.0, Samples::as_f64), load)
        };
        let mut sum = 0.0;
        for a in 0..self.tasks.len() {
            for b in 0..a {
                let ((da, qa), (db, qb)) = (of(a), of(b));
                sum += (da / db - qa / qb).abs() + (db / da - qb / qa).abs();
            }
        }
        sum
    }

    /// Batch sizes considered for a task's solo rate: all of them, or only the reference if the policy keeps it,
    /// because the value of samples at other sizes is unknown.
    #[must_use]
    pub fn sizes(&self, i: usize) -> Vec<Batch> {
        match self.limits.alone.unwrap_or(self.limits.policy) {
            BatchPolicy::Reference => vec![self.tasks[i].reference()],
            _ => self.tasks[i].batches.clone(),
        }
    }

    /// `S_i` of task `i` at batch size `batch`, as [`Limits::solo`] defines it; samples per second.
    #[must_use]
    pub fn solo<C: Throughput + ?Sized>(&self, rates: &C, i: usize, batch: Batch) -> f64 {
        match self.limits.solo {
            SoloRate::SameBatch => rates.solo(i, batch),
            SoloRate::Best => {
                let all = self.sizes(i).into_iter().map(|b| rates.solo(i, b));
                all.fold(0.0, f64::max)
            }
        }
    }

    /// The same problem for some of the tasks only. A given `R_v` is limited to 100 % per task. The round includes
    /// only compute, because other tasks use the link, too.
    #[must_use]
    pub fn restricted(&self, tasks: &[usize]) -> Problem {
        let mut limits = self.limits.clone();
        let step = limits.step.hundredths();
        let most = (Share::FULL.hundredths() / step * step) * tasks.len() as u32;
        limits.rv = limits
            .rv
            .map(|rv| rv.min(TotalShare::from_hundredths(most)));
        Problem {
            tasks: tasks.iter().map(|&i| self.tasks[i].clone()).collect(),
            objective: self.objective,
            limits,
            round: self
                .round
                .clone()
                .filter(|_| tasks.len() == self.tasks.len()),
        }
    }
}

impl Problem {
    /// The problem of a workload. The work of a sample, for the balance `workload`, is the increase of the solo step
    /// time per sample (`gamma_1 (alpha f + beta m)` in FedMT's law).
    #[must_use]
    pub fn of_workload<C: Throughput + ?Sized>(
        rates: &C,
        workload: &Workload,
        objective: ObjectiveKind,
        limits: Limits,
    ) -> Problem {
        let one = Weight::new(1.0);
        let weight = |t: &doc::Task| t.weight.map_or(1.0, Weight::get);
        let weights: f64 = workload.tasks.iter().map(weight).sum();
        let tasks = workload
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(i, t)| {
                Some(Task {
                    id: t.id.clone(),
                    batches: t.batch_sizes.clone(),
                    samples: t.samples,
                    weight: t.weight.or(one.as_ref().ok().copied())?,
                    memory: t.memory,
                    work_per_sample: work_per_sample(rates, i, &t.batch_sizes),
                    progress: TaskProgress {
                        part: weight(t) / weights,
                        ..TaskProgress::of_task(t)
                    },
                })
            })
            .collect();
        Problem {
            tasks,
            objective,
            limits,
            // `notes::transfers` explains why there is no round.
            round: Round::of_workload(workload).ok(),
        }
    }
}

/// Slope of the solo step time over the batch size, or its mean if only one size is known.
fn work_per_sample<C: Throughput + ?Sized>(
    rates: &C,
    task: usize,
    batches: &[Batch],
) -> Option<f64> {
    let (&first, &last) = (batches.first()?, batches.last()?);
    let step = |b: Batch| b.as_f64() / rates.solo(task, b);
    let slope = (step(last) - step(first)) / (last.as_f64() - first.as_f64());
    let mean = 1.0 / rates.solo(task, last);
    Some(if first < last && slope > 0.0 {
        slope
    } else {
        mean
    })
}
