use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use doc::{Balance, BatchPolicy, ObjectiveKind};
use units::{Batch, Share};

use units::corun::{Setting, Throughput};

use crate::error::AllocError;
use crate::problem::Problem;
use crate::problem::compute::finish;
use crate::problem::domain::beyond;
use crate::problem::progress::{active, times};
use crate::problem::round::{Guide, Round};
use crate::search::answer::Solution;
use crate::search::point::Point;
use crate::tolerance::TOLERANCE;

/// What a search maximises: a sum or a minimum of gains, one per task. The length of a round is neither
/// ([`Instance::round_value`]); for a round, the gains assume that all tasks stay active forever.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// One of the objectives of a plan.
    Objective(ObjectiveKind),
    /// `raw sum P_i + fair sum P_i / S_i`, for fronts.
    Blend { raw: f64, fair: f64 },
    /// Minimises a quantity that a constraint bounds from above, within the measured domain. This is not a sum or
    /// minimum of gains either.
    Least(Quantity),
}

/// Quantity that a constraint bounds from above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Mismatch in the sense of the balance.
    Mismatch,
    /// Bytes of all tasks.
    Memory,
}

/// How the gains of the tasks form the objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fold {
    Sum,
    Min,
}

impl Fold {
    pub fn start(self) -> f64 {
        match self {
            Fold::Sum => 0.0,
            Fold::Min => f64::INFINITY,
        }
    }

    pub fn join(self, a: f64, b: f64) -> f64 {
        match self {
            Fold::Sum => a + b,
            Fold::Min => a.min(b),
        }
    }
}

/// Result of a choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judged {
    pub value: f64,
    pub mismatch: f64,
    pub raw: f64,
    pub fairness: f64,
    /// `min P_i / S_i`.
    pub least: f64,
    /// Violation of the constraints, 0 if they hold.
    pub violation: f64,
}

/// A problem, and tables of everything that does not depend on the choice.
pub(crate) struct Instance<'a, C: Throughput + ?Sized> {
    pub rates: &'a C,
    pub problem: &'a Problem,
    pub goal: Goal,
    /// Number of tasks.
    pub n: usize,
    /// Levels per task: a share is `1..=levels` times the step.
    pub levels: u16,
    /// Batch sizes that the policy allows.
    pub batches: Vec<Vec<Batch>>,
    /// Width of a row of the tables below.
    pub width: usize,
    /// `S_i`, row by row ([`Problem::solo`]).
    pub solo: Vec<f64>,
    /// Relative progress per sample ([`Problem::relative_progress`] at rate 1), row by row; empty unless the
    /// objective is progress.
    pub worth: Vec<f64>,
    /// Bytes, row by row.
    pub memory: Vec<f64>,
    /// Capacity in bytes.
    pub capacity: f64,
    /// Static loads for the mismatch (not for balance `time`), row by row.
    pub load: Option<Vec<f64>>,
    /// Data volumes.
    pub data: Vec<f64>,
    /// Bound on the mismatch, infinite if there is none.
    pub epsilon: f64,
    /// Whether all tasks have the same batch size, hence the same batch index.
    pub same: bool,
    /// Cache of the lengths of rounds of subsets of the tasks.
    lengths: Lengths,
    /// Whether a search for a best order was cut short, so that some choice was ranked by an unproven one.
    cut_short: AtomicBool,
}

/// The time to target as a function of the round of all tasks: `seconds + counts * length of that round`.
struct Rest {
    seconds: f64,
    counts: f64,
}

impl Rest {
    /// Maximum seconds of the round of all tasks for which the time to target is worth at least `cutoff`.
    fn most_s(&self, cutoff: f64) -> f64 {
        (-cutoff - self.seconds) / self.counts
    }
}

/// Lengths of rounds of subsets of the tasks, by their settings: in the best order (`true`), or in the order by which
/// choices are ranked (`false`). Choices that differ only in a task that has left share these rounds.
type Lengths = Mutex<HashMap<(bool, Vec<Setting>), Option<f64>>>;

/// Maximum number of lengths kept: each takes 100 bytes or more.
const MOST_LENGTHS: usize = 400_000;

impl<'a, C: Throughput + ?Sized> Instance<'a, C> {
    pub fn new(rates: &'a C, problem: &'a Problem) -> Result<Self, AllocError> {
        problem.check()?;
        let n = problem.tasks.len();
        if rates.task_count() != n {
            return Err(AllocError::OtherTasks {
                predictor: rates.task_count(),
                problem: n,
            });
        }
        let limits = &problem.limits;
        let batches = allowed_batches(problem);
        let width = batches.iter().map(Vec::len).max().unwrap_or(0);
        let table = |f: &dyn Fn(usize, Batch) -> f64| {
            let mut rows = vec![f64::NAN; n * width];
            for (i, list) in batches.iter().enumerate() {
                for (b, &batch) in list.iter().enumerate() {
                    rows[i * width + b] = f(i, batch);
                }
            }
            rows
        };
        let tasks = &problem.tasks;
        let work = |i: usize| tasks[i].work_per_sample.unwrap_or(1.0);
        Ok(Self {
            goal: Goal::Objective(problem.objective),
            levels: (Share::FULL.hundredths() / limits.step.hundredths()) as u16,
            solo: table(&|i, b| problem.solo(rates, i, b)),
            worth: if problem.is_progress() {
                table(&|i, b| problem.relative_progress(rates, i, b, 1.0))
            } else {
                Vec::new()
            },
            lengths: Lengths::default(),
            cut_short: AtomicBool::new(false),
            memory: table(&|i, b| tasks[i].memory.map_or(0.0, |m| m.at(b))),
            capacity: limits.memory.map_or(f64::INFINITY, |m| m.get() as f64),
            load: match limits.balance {
                Balance::Batch => Some(table(&|_, b| b.as_f64())),
                Balance::Workload => Some(table(&|i, b| work(i) * b.as_f64())),
                Balance::Time => None,
            },
            data: tasks
                .iter()
                .map(|t| t.samples.map_or(1.0, units::Samples::as_f64))
                .collect(),
            epsilon: limits.mismatch.unwrap_or(f64::INFINITY),
            same: limits.policy == BatchPolicy::Same,
            rates,
            problem,
            n,
            batches,
            width,
        })
    }

    /// Minimum total memory of the tasks from each index on; has `n + 1` entries.
    pub fn rest_memory(&self) -> Vec<f64> {
        let mut rest = vec![0.0; self.n + 1];
        for i in (0..self.n).rev() {
            let row = &self.memory[i * self.width..][..self.batches[i].len()];
            rest[i] = rest[i + 1] + row.iter().copied().fold(f64::INFINITY, f64::min);
        }
        rest
    }

    pub fn fold(&self) -> Fold {
        match self.goal {
            Goal::Objective(
                ObjectiveKind::MaxMin | ObjectiveKind::Round | ObjectiveKind::ProgressLast,
            ) => Fold::Min,
            _ => Fold::Sum,
        }
    }

    /// Contribution of task `i` at batch index `b` to the objective at `rate` samples per second; never decreases
    /// with the rate.
    pub fn gain(&self, i: usize, b: usize, rate: f64) -> f64 {
        let solo = self.solo[i * self.width + b];
        match self.goal {
            Goal::Objective(ObjectiveKind::Raw) => rate,
            Goal::Objective(ObjectiveKind::Fairness | ObjectiveKind::MaxMin) => rate / solo,
            Goal::Objective(ObjectiveKind::Weighted) => self.problem.tasks[i].weight.get() * rate,
            Goal::Objective(ObjectiveKind::Round) => -self.data[i] / rate,
            Goal::Objective(ObjectiveKind::Progress) => {
                self.problem.tasks[i].progress.part * self.worth[i * self.width + b] * rate
            }
            Goal::Objective(ObjectiveKind::ProgressLast) => self.worth[i * self.width + b] * rate,
            Goal::Blend { raw, fair } => raw * rate + fair * rate / solo,
            Goal::Least(_) => 0.0,
        }
    }

    /// Multiples of the step that the shares may sum to; empty if there are none.
    pub fn sums(&self) -> Vec<u32> {
        let n = self.n as u32;
        let step = self.problem.limits.step.hundredths();
        let all = n..=n * u32::from(self.levels);
        match self.problem.limits.rv {
            None => all.collect(),
            Some(rv) => {
                let units = rv.hundredths() / step;
                let fits = rv.hundredths() % step == 0 && all.contains(&units);
                fits.then_some(units).into_iter().collect()
            }
        }
    }

    /// The share of one task at a level: `level` times the step.
    pub fn share(&self, level: u16) -> Share {
        Share::from_hundredths(self.problem.limits.step.hundredths() * u32::from(level))
    }

    /// Appends the setting of each task at a point to `active`.
    pub fn fill(&self, point: &Point, active: &mut Vec<Setting>) {
        for i in 0..self.n {
            active.push(Setting {
                task: i,
                batch: self.batches[i][usize::from(point.batch[i])],
                share: self.share(point.level[i]),
            });
        }
    }

    pub fn settings(&self, point: &Point) -> Vec<Setting> {
        (0..self.n)
            .map(|i| Setting {
                task: i,
                batch: self.batches[i][usize::from(point.batch[i])],
                share: self.share(point.level[i]),
            })
            .collect()
    }

    /// The point of these settings, one per task in order; `None` if a share is not a multiple of the step or a batch
    /// size is not allowed.
    pub fn point_of(&self, settings: &[Setting]) -> Option<Point> {
        let step = self.problem.limits.step.hundredths();
        let batch = settings.iter().map(|s| {
            let at = self.batches[s.task].iter().position(|b| *b == s.batch)?;
            u8::try_from(at).ok()
        });
        let level = settings.iter().map(|s| {
            let whole = s.share.hundredths() % step == 0;
            u16::try_from(s.share.hundredths() / step)
                .ok()
                .filter(|_| whole)
        });
        Some(Point {
            batch: batch.collect::<Option<_>>()?,
            level: level.collect::<Option<_>>()?,
        })
    }

    /// Mismatch of two tasks in both orders:
    /// `| D_a/D_b - q_a/q_b | + | D_b/D_a - q_b/q_a |` (FedMT eq. 6), `q` the loads.
    pub fn pair_mismatch(&self, a: usize, qa: f64, b: usize, qb: f64) -> f64 {
        let (da, db) = (self.data[a], self.data[b]);
        (da / db - qa / qb).abs() + (db / da - qb / qa).abs()
    }

    /// Load `q` of a task, as the balance defines it.
    pub fn load_at(&self, i: usize, b: usize, rate: f64) -> f64 {
        self.load
            .as_ref()
            .map_or(rate, |load| load[i * self.width + b])
    }

    /// Objective, mismatch and constraints of a point at the given rates.
    pub fn judge(&self, point: &Point, rates: &[f64]) -> Judged {
        self.judge_above(point, rates, |_| f64::NEG_INFINITY, None)
    }

    /// Like [`Instance::judge`], but may return the worst judgement for a round whose value is below `cutoff` of its
    /// other results.
    pub fn judge_above(
        &self,
        point: &Point,
        rates: &[f64],
        cutoff: impl FnOnce(&Judged) -> f64,
        guide: Option<&mut Guide>,
    ) -> Judged {
        let fold = self.fold();
        let phi = self.problem.limits.floor;
        let mut j = Judged {
            value: fold.start(),
            mismatch: 0.0,
            raw: 0.0,
            fairness: 0.0,
            least: f64::INFINITY,
            violation: 0.0,
        };
        let mut memory = 0.0;
        for i in 0..self.n {
            let b = usize::from(point.batch[i]);
            let relative = rates[i] / self.solo[i * self.width + b];
            j.value = fold.join(j.value, self.gain(i, b, rates[i]));
            j.raw += rates[i];
            j.fairness += relative;
            j.least = j.least.min(relative);
            j.violation += excess(phi * (1.0 - TOLERANCE) - relative);
            memory += self.memory[i * self.width + b];
            for k in 0..i {
                let c = usize::from(point.batch[k]);
                let qi = self.load_at(i, b, rates[i]);
                let qk = self.load_at(k, c, rates[k]);
                j.mismatch += self.pair_mismatch(i, qi, k, qk);
            }
            if self.same && point.batch[i] != point.batch[0] {
                j.violation += 1.0;
            }
        }
        j.violation += excess(j.mismatch - self.epsilon - TOLERANCE);
        j.violation += excess(memory / self.capacity - 1.0);
        if self.is_round() {
            let settings = self.settings(point);
            // If tasks wait for one another, there is no single co-run that a penalty could slow.
            j.violation += beyond(self.rates, &settings) as f64;
            // A round is expensive to evaluate, so skip infeasible ones and those that cannot beat the incumbent.
            j.value = match j.violation == 0.0 {
                true => self.round_value(&settings, cutoff(&j), guide),
                false => f64::NEG_INFINITY,
            };
        }
        if let Goal::Least(quantity) = self.goal {
            j.value = match quantity {
                Quantity::Mismatch => -j.mismatch,
                Quantity::Memory => -memory,
            };
            // Mismatch and memory do not depend on the rates, so a penalty on rates has no effect on them.
            j.violation += beyond(self.rates, &self.settings(point)) as f64;
        }
        if j.value.is_nan() {
            j.value = f64::NEG_INFINITY;
            j.violation += 1.0;
        }
        j
    }

    /// Value of the objective `round` by which choices are ranked: minus the seconds until the round ends
    /// ([`crate::Round`]). Without transfers, these are the seconds until the last task has trained on its samples; a
    /// task that ends leaves the device to the others ([`finish`]). Minus infinity if a task makes no progress, or if
    /// the value is below `cutoff` and that is cheaper to detect.
    pub fn round_value(&self, settings: &[Setting], cutoff: f64, guide: Option<&mut Guide>) -> f64 {
        match &self.problem.round {
            _ if cutoff == f64::INFINITY => f64::NEG_INFINITY,
            _ if self.problem.is_progress() => self.target_value(settings, cutoff, Some(guide)),
            Some(round) => -self.rank(round, settings, -cutoff, guide),
            None => finish(self.rates, settings, &self.data, 0.0).map_or(f64::NEG_INFINITY, |s| -s),
        }
    }

    fn rank(
        &self,
        round: &Round,
        settings: &[Setting],
        most_s: f64,
        guide: Option<&mut Guide>,
    ) -> f64 {
        if !round.is_exact() {
            return round.rank(self.rates, settings, most_s, guide);
        }
        let (seconds, proven) = round.best(self.rates, settings, most_s);
        if !proven {
            self.cut_short.store(true, Ordering::Relaxed);
        }
        seconds
    }

    /// Whether every best order that ranked a choice is proven.
    pub fn all_proven(&self) -> bool {
        !self.cut_short.load(Ordering::Relaxed)
    }

    /// Value of a round after a short descent over the orders of its transfers; `None` if choices are not ranked by
    /// the order of a neighbour.
    pub fn reordered_value(&self, point: &Point, guide: &mut Guide) -> Option<f64> {
        let round = self.problem.round.as_ref()?;
        let ranked = self.orders_roughly() && !self.problem.is_progress();
        ranked.then(|| -round.reordered(self.rates, &self.settings(point), guide))
    }

    /// Like [`Instance::round_value`], in the best order that a thorough search finds.
    pub fn settled_value(&self, settings: &[Setting]) -> f64 {
        match &self.problem.round {
            _ if self.problem.is_progress() => self.target_value(settings, f64::NEG_INFINITY, None),
            Some(round) => -round.seconds(self.rates, settings),
            None => self.round_value(settings, f64::NEG_INFINITY, None),
        }
    }

    /// Minus the time to target, in the orders by which choices are ranked or, if `settled`, in the best orders
    /// found; minus infinity as in [`Instance::round_value`].
    ///
    /// The rounds of the remaining tasks are computed first: they are often known from other choices, and what they
    /// leave bounds the length of the round of all tasks.
    fn target_value(
        &self,
        settings: &[Setting],
        cutoff: f64,
        ranked: Option<Option<&mut Guide>>,
    ) -> f64 {
        let settled = ranked.is_none();
        let Some(rest) = self.rest(settings, settled) else {
            return f64::NEG_INFINITY;
        };
        let most = rest.most_s(cutoff);
        if most <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let first = match &self.problem.round {
            Some(round) if !settled => self.rank(round, settings, most, ranked.flatten()),
            _ => {
                let everyone: Vec<usize> = (0..self.n).collect();
                let length = self.problem.round_of(self.rates, &everyone, settings, 0.0);
                length.unwrap_or(f64::INFINITY)
            }
        };
        -(rest.seconds + rest.counts * first)
    }

    /// The rounds after the first task has left, as a function of the first phase; `None` if a task makes no
    /// progress.
    fn rest(&self, settings: &[Setting], settled: bool) -> Option<Rest> {
        let mut later = self.problem.phases(settings);
        let whole = later.remove(0);
        let lengths: Option<Vec<f64>> = later
            .iter()
            .map(|phase| self.length(&phase.active, active(settings, phase), settled))
            .collect();
        let after = times(&later, &lengths?, self.n);
        // The round of all tasks adds the same time to every task, so its factor is 1 in the last time, and the sum
        // of the weights in the mean.
        let parts: f64 = match self.problem.objective {
            ObjectiveKind::ProgressLast => 1.0,
            _ => self.problem.tasks.iter().map(|t| t.progress.part).sum(),
        };
        Some(Rest {
            seconds: self.problem.joined_times(&after),
            counts: whole.rounds * parts,
        })
    }

    /// Maximum seconds of a round of all tasks with which a point reaches the value `cutoff`; 0 or less if it cannot.
    pub fn most_seconds(&self, point: &Point, cutoff: f64) -> f64 {
        if !self.problem.is_progress() {
            return -cutoff;
        }
        let rest = self.rest(&self.settings(point), false);
        rest.map_or(f64::NEG_INFINITY, |rest| rest.most_s(cutoff))
    }

    /// Length of a round of the tasks at `places`, cached; `None` if one makes no progress.
    fn length(&self, places: &[usize], settings: Vec<Setting>, settled: bool) -> Option<f64> {
        let key = (settled, settings);
        // Even after a panic in another thread the table is consistent, because rows are inserted in one step.
        let known = || self.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(length) = known().get(&key) {
            return *length;
        }
        let length = match settled {
            true => self.problem.round_of(self.rates, places, &key.1, 0.0),
            false => self.problem.ranked_round_of(self.rates, places, &key.1),
        };
        let mut known = known();
        if known.len() < MOST_LENGTHS {
            known.insert(key, length);
        }
        length
    }

    /// Objective of settings whose shares need not be multiples of the step; `point` gives the batch sizes.
    pub fn value_of(&self, point: &Point, settings: &[Setting], rates: &[f64]) -> f64 {
        if self.is_round() {
            self.settled_value(settings)
        } else {
            self.judge(point, rates).value
        }
    }

    /// Whether the goal is a sum or a minimum over the tasks.
    pub fn folds(&self) -> bool {
        !self.is_round() && !matches!(self.goal, Goal::Least(_))
    }

    /// Whether the objective is the length of a round or a time to target; neither is a sum or minimum over tasks.
    pub fn is_round(&self) -> bool {
        self.goal == Goal::Objective(self.problem.objective) && self.problem.is_timed()
    }

    /// Whether the objective is a time of rounds, and each choice is evaluated in its best order.
    pub fn orders_exactly(&self) -> bool {
        self.is_round() && self.problem.round.as_ref().is_some_and(|r| r.is_exact())
    }

    /// Whether choices are ranked by their best order, and a cheap bound can exclude most of them.
    pub fn bounds_quickly(&self) -> bool {
        let round = self.problem.round.as_ref();
        let quick = round
            .and_then(crate::problem::round::Round::quick_bound)
            .is_some();
        quick && self.orders_exactly()
    }

    /// Whether the objective is a time of rounds, and choices are ranked by heuristic orders.
    pub fn orders_roughly(&self) -> bool {
        self.is_round() && self.problem.round.as_ref().is_some_and(|r| !r.is_exact())
    }

    /// Rates and judgement of one point.
    pub fn look(&self, point: &Point) -> (Vec<f64>, Judged) {
        self.look_above(point, f64::NEG_INFINITY, None)
    }

    /// Whether the objective is a minimum over the tasks.
    pub fn is_least(&self) -> bool {
        self.folds() && self.fold() == Fold::Min
    }

    /// Whether the value of a point seems to be below `cutoff`, given the `rates` of all tasks running together. The
    /// objective must not be a minimum over tasks.
    pub fn seems_below(&self, point: &Point, rates: &[f64], cutoff: f64, guide: &Guide) -> bool {
        if self.folds() {
            let gain = |(i, rate): (usize, &f64)| self.gain(i, usize::from(point.batch[i]), *rate);
            return rates.iter().enumerate().map(gain).sum::<f64>() < cutoff;
        }
        let Some(round) = self
            .problem
            .round
            .as_ref()
            .filter(|_| self.orders_roughly())
        else {
            return false;
        };
        let most_s = self.most_seconds(point, cutoff);
        round.seems_longer(self.rates, &self.settings(point), rates, most_s, guide)
    }

    /// Whether the objective is a minimum over the tasks and a single task is below `cutoff` at a point. Most points
    /// can be rejected this way with predictions for one or two tasks. Tasks are tried in `order`; the one that is
    /// below moves to the front, because it is mostly the same for similar choices.
    pub fn one_falls_short(&self, point: &Point, cutoff: f64, order: &mut [usize]) -> bool {
        if !(self.is_least() && cutoff.is_finite()) {
            return false;
        }
        let mut short = None;
        self.rates
            .means_until(&self.settings(point), order, &mut |i, rate| {
                let gain = self.gain(i, usize::from(point.batch[i]), rate);
                if gain < cutoff {
                    short = Some(i);
                }
                short.is_none()
            });
        if let Some(at) = short.and_then(|i| order.iter().position(|&k| k == i)) {
            order[..=at].rotate_right(1);
        }
        short.is_some()
    }

    /// A point as a choice with its results.
    pub fn solution(&self, point: &Point) -> Solution {
        let (rates, judged) = self.look(point);
        Solution {
            settings: self.settings(point),
            rates,
            objective: judged.value,
            mismatch: judged.mismatch,
            raw: judged.raw,
            fairness: judged.fairness,
            least: judged.least,
        }
    }

    /// Like [`Instance::look`], but a round whose value is below `cutoff` may get the worst judgement.
    pub fn look_above(
        &self,
        point: &Point,
        cutoff: f64,
        guide: Option<&mut Guide>,
    ) -> (Vec<f64>, Judged) {
        let mut active = Vec::with_capacity(self.n);
        self.fill(point, &mut active);
        let mut rates = vec![0.0; self.n];
        self.rates.means(&active, &mut rates);
        let judged = self.judge_above(point, &rates, |_| cutoff, guide);
        (rates, judged)
    }
}

/// Violation of a constraint that is exceeded by `by`, 0 if it holds; never NaN.
fn excess(by: f64) -> f64 {
    if by > 0.0 { by } else { 0.0 }
}

/// Batch sizes that the policy allows each task; empty lists if the policy is `same` and no size is common to all
/// tasks.
pub(crate) fn allowed_batches(problem: &Problem) -> Vec<Vec<Batch>> {
    let tasks = &problem.tasks;
    match problem.limits.policy {
        BatchPolicy::Free => tasks.iter().map(|t| t.batches.clone()).collect(),
        BatchPolicy::Fixed => tasks
            .iter()
            .map(|t| t.batches.iter().copied().max().into_iter().collect())
            .collect(),
        BatchPolicy::Reference => tasks.iter().map(|t| vec![t.reference()]).collect(),
        BatchPolicy::Same => {
            let mut common = tasks[0].batches.clone();
            common.retain(|b| tasks.iter().all(|t| t.batches.contains(b)));
            vec![common; tasks.len()]
        }
    }
}

#[cfg(test)]
mod tests;
