//! Evaluates choices under the model, and finds the constraints that they violate.

use doc::{Balance, BatchPolicy, Constraints, ObjectiveKind, Plan, SoloRate, Workload};
use predict::Predictor;
use units::Batch;
use units::corun::Setting;

use super::choices::{Choices, Value, last_end};
use super::progress::efficiency;
use super::round::{Range, Round};
use crate::judge::Judge;

/// Tolerance for a constraint that is met up to rounding.
const SLACK: f64 = 1e-9;

/// The model, and the objective and constraints of the plan.
pub struct Frame<'a> {
    pub workload: &'a Workload,
    pub predictor: &'a Predictor,
    pub kind: ObjectiveKind,
    pub constraints: Option<&'a Constraints>,
    /// The round with its transfers; `None` if only compute counts.
    pub round: Option<Round>,
    /// Data volume of each task; the damped volume if the plan damps it.
    pub data: Vec<f64>,
}

impl<'a> Frame<'a> {
    pub fn new(plan: &'a Plan, workload: &'a Workload, predictor: &'a Predictor) -> Self {
        let data = workload.tasks.iter().map(|task| {
            let chosen = plan.task_index(&task.id).map(|i| &plan.tasks[i]);
            let of_plan = chosen.and_then(|t| t.load.or(t.samples));
            let load = of_plan.or(task.samples);
            load.map_or(1.0, units::Samples::as_f64)
        });
        let found = plan.feasible();
        Self {
            workload,
            predictor,
            kind: found.map_or(ObjectiveKind::Raw, |found| found.objective.kind),
            constraints: found.map(|found| &found.constraints),
            round: Round::of_workload(workload),
            data: data.collect(),
        }
    }

    /// The same frame for a workload with other efficiencies, whose lengths of rounds are known otherwise.
    pub fn of<'b>(&'b self, workload: &'b Workload) -> Frame<'b> {
        Frame {
            workload,
            round: None,
            data: self.data.clone(),
            ..*self
        }
    }

    /// Predicts every task beside the other tasks on its GPU.
    pub fn evaluate(&self, choices: &Choices) -> Value {
        let n = choices.batch.len();
        let mut value = Value {
            rates: vec![0.0; n],
            batch: choices.batch.clone(),
            errors: vec![0.0; n],
            solo: (0..n).map(|i| self.solo(i, choices.batch[i])).collect(),
            last_end: vec![0.0; n],
        };
        for gpu in choices.gpus() {
            let tasks = choices.on(gpu);
            let active: Vec<Setting> = tasks
                .iter()
                .map(|&task| Setting {
                    task,
                    batch: choices.batch[task],
                    share: choices.share[task],
                })
                .collect();
            for (&i, p) in tasks.iter().zip(self.predictor.predict(&active)) {
                value.rates[i] = p.samples_per_s;
                value.errors[i] = p.std_error;
            }
            if self.is_to_target() && self.round.is_none() {
                let ends = self.computed_times(choices, &tasks, 0.0);
                for &i in &tasks {
                    value.last_end[i] = ends.as_ref().map_or(f64::INFINITY, |ends| ends[i]);
                }
            }
            if self.kind == ObjectiveKind::Round {
                let end = last_end(
                    self.predictor,
                    choices,
                    tasks.clone(),
                    self.data.clone(),
                    0.0,
                );
                for &i in &tasks {
                    value.last_end[i] = end.unwrap_or(f64::INFINITY);
                }
            }
        }
        value
    }

    fn solo(&self, task: usize, own: Batch) -> f64 {
        let compared = self.constraints.map_or(SoloRate::SameBatch, |c| c.solo);
        match compared {
            SoloRate::SameBatch => self.predictor.solo(task, own),
            SoloRate::Best => {
                let sizes = self.sizes(task).into_iter();
                let rates = sizes.map(|b| self.predictor.solo(task, b));
                rates.fold(f64::NEG_INFINITY, f64::max)
            }
        }
    }

    /// Batch sizes at which a task alone may be compared: those of its workload, or only the reference size if the
    /// plan keeps reference sizes.
    pub fn sizes(&self, task: usize) -> Vec<Batch> {
        let task = &self.workload.tasks[task];
        match self.constraints.map(|c| c.batch) {
            Some(BatchPolicy::Reference) => vec![task.batch.unwrap_or(task.batch_sizes[0])],
            _ => task.batch_sizes.clone(),
        }
    }

    /// Total throughput, and the sum of throughputs relative to solo.
    pub fn totals(value: &Value, tasks: &[usize]) -> (f64, f64) {
        let raw = tasks.iter().map(|&i| value.rates[i]).sum();
        let fair = tasks.iter().map(|&i| value.rates[i] / value.solo[i]).sum();
        (raw, fair)
    }

    /// The objective over some tasks of one GPU.
    pub fn objective(&self, value: &Value, tasks: &[usize]) -> f64 {
        let of = |i: usize| match self.kind {
            ObjectiveKind::Raw => value.rates[i],
            ObjectiveKind::Fairness | ObjectiveKind::MaxMin => value.rates[i] / value.solo[i],
            ObjectiveKind::Weighted => self.weight(i) * value.rates[i],
            ObjectiveKind::Round => -value.last_end[i],
            ObjectiveKind::ProgressLast if self.is_to_target() => -value.last_end[i],
            ObjectiveKind::Progress if self.is_to_target() => -self.part(i) * value.last_end[i],
            ObjectiveKind::ProgressLast => self.progress(i, value.batch[i], value.rates[i]),
            ObjectiveKind::Progress => {
                self.part(i) * self.progress(i, value.batch[i], value.rates[i])
            }
        };
        self.join(tasks.iter().map(|&i| of(i)))
    }

    /// Judges a claimed objective: against `truth` or, if it is the length of a round with transfers, against its
    /// bounds.
    pub fn judge_objective(
        &self,
        name: &str,
        claimed: f64,
        choices: &Choices,
        truth: f64,
        j: &mut Judge,
    ) {
        match self.round_of_objective() {
            None => j.number(name, claimed, truth),
            Some(_) => match self.played(choices) {
                Some(range) => range.judge(name, -claimed, j),
                None => j.same(name, claimed, f64::NEG_INFINITY),
            },
        }
    }

    /// The round with transfers, if the objective depends on the length of rounds.
    pub fn round_of_objective(&self) -> Option<&Round> {
        self.round
            .as_ref()
            .filter(|_| self.kind == ObjectiveKind::Round || self.is_to_target())
    }

    /// Combines the objectives of several tasks or GPUs into one.
    pub fn join(&self, values: impl Iterator<Item = f64>) -> f64 {
        match self.kind {
            ObjectiveKind::MaxMin | ObjectiveKind::Round | ObjectiveKind::ProgressLast => {
                values.fold(f64::INFINITY, f64::min)
            }
            _ => values.sum(),
        }
    }

    /// Weight of a task in the weighted objective.
    pub fn weight(&self, task: usize) -> f64 {
        self.workload.tasks[task]
            .weight
            .map_or(1.0, units::Weight::get)
    }

    /// Mismatch of the loads of some tasks of one GPU: `sum_a sum_b |D_a/D_b - q_a/q_b|` (FedMT eq. 6), where `q`
    /// depends on the balance.
    pub fn mismatch(&self, choices: &Choices, value: &Value, tasks: &[usize]) -> f64 {
        let balance = self.constraints.map_or(Balance::Batch, |c| c.balance);
        let load = |i: usize| match balance {
            Balance::Batch => choices.batch[i].as_f64(),
            Balance::Workload => self.work_per_sample(i) * choices.batch[i].as_f64(),
            Balance::Time => value.rates[i],
        };
        let mut sum = 0.0;
        for &a in tasks {
            for &b in tasks {
                sum += (self.data[a] / self.data[b] - load(a) / load(b)).abs();
            }
        }
        sum
    }

    /// Solo step time per additional sample: the slope from the smallest batch size to the largest, or the mean time
    /// per sample if the slope is not positive.
    fn work_per_sample(&self, task: usize) -> f64 {
        let sizes = &self.workload.tasks[task].batch_sizes;
        let step = |b: Batch| b.as_f64() / self.predictor.solo(task, b);
        let (small, large) = (sizes[0], sizes[sizes.len() - 1]);
        let slope = (step(large) - step(small)) / (large.as_f64() - small.as_f64());
        if small < large && slope > 0.0 {
            slope
        } else {
            step(large) / large.as_f64()
        }
    }

    /// Memory that each of the tasks needs at its batch size, in bytes.
    pub fn memory(&self, choices: &Choices, tasks: &[usize]) -> Vec<f64> {
        let need = |&i: &usize| {
            self.workload.tasks[i]
                .memory
                .map_or(0.0, |m| m.at(choices.batch[i]))
        };
        tasks.iter().map(need).collect()
    }

    /// The first constraint that choices violate, except step, `R_v` and, if requested, mismatch.
    pub fn broken(&self, choices: &Choices, value: &Value, with_mismatch: bool) -> Option<String> {
        let c = self.constraints?;
        for gpu in choices.gpus() {
            let tasks = choices.on(gpu);
            let floor = c.starvation_floor.unwrap_or(0.0);
            for &i in &tasks {
                let relative = value.rates[i] / value.solo[i];
                if relative < floor * (1.0 - SLACK) {
                    let id = &self.workload.tasks[i].id;
                    return Some(format!(
                        "task {id} gets {relative} of its solo rate, at least {floor} is asked for"
                    ));
                }
            }
            let need: f64 = self.memory(choices, &tasks).iter().sum();
            if let Some(most) = c.memory.filter(|most| need > most.get() as f64) {
                let most = most.get();
                return Some(format!("{need} bytes of memory are needed, {most} allowed"));
            }
            let mismatch = self.mismatch(choices, value, &tasks);
            if let Some(most) = c
                .mismatch
                .filter(|most| with_mismatch && mismatch > most + SLACK)
            {
                return Some(format!(
                    "the mismatch is {mismatch}, at most {most} is allowed"
                ));
            }
        }
        self.batches_broken(choices, c.batch)
    }

    fn batches_broken(&self, choices: &Choices, policy: BatchPolicy) -> Option<String> {
        for (i, task) in self.workload.tasks.iter().enumerate() {
            let batch = choices.batch[i];
            let largest = task.batch_sizes.last().copied();
            let first = choices
                .gpu
                .iter()
                .position(|g| *g == choices.gpu[i])
                .unwrap_or(i);
            let reference = task.batch.unwrap_or(task.batch_sizes[0]);
            let fault = match policy {
                _ if !task.batch_sizes.contains(&batch) => "it is none of the task's",
                BatchPolicy::Fixed if Some(batch) != largest => "it is not the task's largest",
                BatchPolicy::Reference if batch != reference => {
                    "it is not the task's reference size"
                }
                BatchPolicy::Same if batch != choices.batch[first] => "others differ",
                _ => continue,
            };
            return Some(format!("batch size {batch} of task {}: {fault}", task.id));
        }
        None
    }
}

impl Frame<'_> {
    /// Whether the objective is progress.
    pub fn is_progress(&self) -> bool {
        self.kind.is_progress()
    }

    /// Whether the objective is a time to target.
    pub fn is_to_target(&self) -> bool {
        self.is_progress() && self.workload.tasks.iter().all(|t| t.samples.is_some())
    }

    /// Number of rounds that a task needs to its target at a batch size.
    pub fn rounds(&self, task: usize, batch: Batch) -> f64 {
        let task = &self.workload.tasks[task];
        task.rounds_at_reference().unwrap_or(1.0) / efficiency(task, batch)
    }

    /// Weight of a task divided by the sum of all weights.
    pub fn part(&self, task: usize) -> f64 {
        let all = 0..self.workload.tasks.len();
        self.weight(task) / all.map(|i| self.weight(i)).sum::<f64>()
    }

    /// Progress per second of a task at this rate, relative to its maximum alone.
    pub fn progress(&self, task: usize, batch: Batch, rate: f64) -> f64 {
        let own = &self.workload.tasks[task];
        let alone = self
            .sizes(task)
            .into_iter()
            .map(|b| self.predictor.solo(task, b) * efficiency(own, b));
        rate * efficiency(own, batch) / alone.fold(0.0, f64::max)
    }

    /// Combines the times to target: their weighted mean, or the last one.
    pub fn joined(&self, times: &[f64]) -> f64 {
        if self.kind == ObjectiveKind::ProgressLast {
            return times.iter().copied().fold(0.0, f64::max);
        }
        (0..times.len()).map(|i| self.part(i) * times[i]).sum()
    }

    /// Seconds to target of the tasks of one GPU, counting compute alone.
    pub fn computed_times(
        &self,
        choices: &Choices,
        tasks: &[usize],
        errors: f64,
    ) -> Option<Vec<f64>> {
        each_time(self, choices, tasks, |left| {
            last_end(
                self.predictor,
                choices,
                left.to_vec(),
                self.data.clone(),
                errors,
            )
        })
    }

    /// Bounds on the seconds to target of each task; `None` if transfers do not count.
    pub fn played_times(&self, choices: &Choices) -> Option<Vec<Range>> {
        let round = self.round.as_ref()?;
        let all: Vec<usize> = (0..choices.batch.len()).collect();
        let range = |left: &[usize]| round.of(left).together(self.predictor, choices);
        let low = each_time(self, choices, &all, |left| Some(range(left)?.low))?;
        let high = each_time(self, choices, &all, |left| Some(range(left)?.high))?;
        let each = low.into_iter().zip(high);
        Some(each.map(|(low, high)| Range { low, high }).collect())
    }

    /// Bounds on the seconds of the objective; `None` if it has no round with transfers.
    pub fn played(&self, choices: &Choices) -> Option<Range> {
        let round = self.round_of_objective()?;
        if !self.is_progress() {
            return round.together(self.predictor, choices);
        }
        let times = self.played_times(choices)?;
        let of = |end: fn(&Range) -> f64| self.joined(&times.iter().map(end).collect::<Vec<_>>());
        Some(Range {
            low: of(|r| r.low),
            high: of(|r| r.high),
        })
    }

    /// Bounds on the seconds of the objective if the tasks run one after another in each round.
    pub fn one_after_another(&self, choices: &Choices) -> Option<Range> {
        let alone = |i: usize| self.predictor.solo(i, choices.batch[i]);
        let serial = |left: &[usize]| match &self.round {
            Some(round) => {
                let solo: Vec<f64> = left.iter().map(|&i| alone(i)).collect();
                round.of(left).one_after_another(&solo)
            }
            None => {
                let seconds = left.iter().map(|&i| self.data[i] / alone(i)).sum();
                Range {
                    low: seconds,
                    high: seconds,
                }
            }
        };
        let end = |end: fn(Range) -> f64| {
            let mut times = vec![0.0; choices.batch.len()];
            for gpu in choices.gpus() {
                let tasks = choices.on(gpu);
                let own = each_time(self, choices, &tasks, |left| Some(end(serial(left))))?;
                for i in tasks {
                    times[i] = own[i];
                }
            }
            Some(self.joined(&times))
        };
        Some(Range {
            low: end(|r| r.low)?,
            high: end(|r| r.high)?,
        })
    }
}

/// Seconds until each task reaches its target; 0 for tasks not in `tasks`. Until the next task reaches its target,
/// every round takes as long as a round of the remaining tasks.
pub(super) fn each_time(
    frame: &Frame<'_>,
    choices: &Choices,
    tasks: &[usize],
    length: impl Fn(&[usize]) -> Option<f64>,
) -> Option<Vec<f64>> {
    let rounds = |i: usize| frame.rounds(i, choices.batch[i]);
    let mut left = tasks.to_vec();
    let (mut passed, mut now) = (0.0, 0.0);
    let mut times = vec![0.0; choices.batch.len()];
    while !left.is_empty() {
        let next = left
            .iter()
            .map(|&i| rounds(i))
            .fold(f64::INFINITY, f64::min);
        now += (next - passed) * length(&left)?;
        passed = next;
        for &i in left.iter().filter(|&&i| rounds(i) <= next) {
            times[i] = now;
        }
        left.retain(|&i| rounds(i) > next);
    }
    Some(times)
}
