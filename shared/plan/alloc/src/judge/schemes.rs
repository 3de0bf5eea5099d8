use std::collections::HashMap;

use doc::BatchPolicy;
use units::{Batch, Share};

use units::corun::{Setting, Throughput};

use crate::error::AllocError;
use crate::problem::Problem;
use crate::problem::compute::{finish, together};
use crate::tolerance::TOLERANCE;

/// A simpler scheme that a plan is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// One task at a time on the whole GPU; every task does the same amount of work.
    Temporal,
    /// Parts of equal size, `100/n` % each.
    Isolated,
    /// Every task may use the whole device: 100 % each.
    Sharing,
    /// NVIDIA's static advice: `100/(0.5 n)` %, at most 100.
    Nvidia,
    /// 60 % each (FedMT section VI-B).
    Moderate,
    /// 80 % each (FedMT section VI-B).
    Aggressive,
}

/// Results of a scheme at given batch sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemeResult {
    /// The scheme.
    pub scheme: Scheme,
    /// Batch size and share of each task.
    pub settings: Vec<Setting>,
    /// `P_i`; for [`Scheme::Temporal`] the rate over the whole time.
    pub rates: Vec<f64>,
    /// Value of the objective.
    pub objective: f64,
    /// `sum P_i`.
    pub raw: f64,
    /// `sum P_i / S_i`.
    pub fairness: f64,
    /// Whether the floor, memory and mismatch constraints hold. The share step and `R_v` do not apply to a scheme.
    pub feasible: bool,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 6] = [
        Scheme::Temporal,
        Scheme::Isolated,
        Scheme::Sharing,
        Scheme::Nvidia,
        Scheme::Moderate,
        Scheme::Aggressive,
    ];

    /// The schemes with equal shares, which need no profile; the largest shares come first.
    pub const EQUAL: [Scheme; 5] = [
        Scheme::Sharing,
        Scheme::Aggressive,
        Scheme::Moderate,
        Scheme::Nvidia,
        Scheme::Isolated,
    ];

    /// The scheme's name in documents.
    #[must_use]
    pub const fn in_document(self) -> doc::Scheme {
        match self {
            Scheme::Temporal => doc::Scheme::Temporal,
            Scheme::Isolated => doc::Scheme::Isolated,
            Scheme::Sharing => doc::Scheme::Sharing,
            Scheme::Nvidia => doc::Scheme::Nvidia,
            Scheme::Moderate => doc::Scheme::Moderate,
            Scheme::Aggressive => doc::Scheme::Aggressive,
        }
    }

    /// Share of each of `n` tasks, rounded down to 0.01 %.
    #[must_use]
    pub fn share(self, n: usize) -> Share {
        let n = n.max(1) as u32;
        let full = Share::FULL.hundredths();
        let hundredths = match self {
            Scheme::Temporal | Scheme::Sharing => full,
            Scheme::Isolated => full / n,
            Scheme::Nvidia => (2 * full / n).min(full),
            Scheme::Moderate => 6_000,
            Scheme::Aggressive => 8_000,
        };
        Share::from_hundredths(hundredths)
    }

    /// Predicts the scheme at the given batch sizes with the plan's predictor, and evaluates it with the plan's
    /// objective and constraints.
    pub fn predict<C: Throughput + ?Sized>(
        self,
        rates: &C,
        problem: &Problem,
        batches: &[Batch],
    ) -> Result<SchemeResult, AllocError> {
        let n = problem.tasks.len();
        if rates.task_count() != n || batches.len() != n {
            return Err(AllocError::OtherTasks {
                predictor: rates.task_count(),
                problem: n,
            });
        }
        let settings = self.settings(batches);
        let solo: Vec<f64> = batches
            .iter()
            .enumerate()
            .map(|(i, &b)| rates.solo(i, b))
            .collect();
        let reference: Vec<f64> = batches
            .iter()
            .enumerate()
            .map(|(i, &b)| problem.solo(rates, i, b))
            .collect();
        let p = match self {
            // Equal work one after another: every task makes one step of progress per sum of the solo times.
            Scheme::Temporal => vec![1.0 / solo.iter().map(|s| 1.0 / s).sum::<f64>(); n],
            _ => together(rates, &settings),
        };
        let to_target = |places: &[usize], s: &[Setting]| match self {
            Scheme::Temporal => problem.serial_round_of(rates, places, s),
            _ => problem.round_of(rates, places, s, 0.0),
        };
        let finish = match (self, &problem.round) {
            _ if !problem.is_timed() => 0.0,
            _ if problem.is_progress() => problem
                .seconds_to_target(&settings, to_target)
                .unwrap_or(f64::INFINITY),
            (Scheme::Temporal, Some(round)) => round.one_after_another(&solo),
            (_, Some(round)) => round.seconds(rates, &settings),
            (Scheme::Temporal, None) => (0..n).map(|i| samples(problem, i) / solo[i]).sum(),
            _ => {
                let work: Vec<f64> = (0..n).map(|i| samples(problem, i)).collect();
                finish(rates, &settings, &work, 0.0).unwrap_or(f64::INFINITY)
            }
        };
        let raw = p.iter().sum();
        let relative = || p.iter().zip(&reference).map(|(p, s)| p / s);
        let fairness = relative().sum();
        let least = relative().fold(f64::INFINITY, f64::min);
        let objective = if problem.is_timed() {
            -finish
        } else {
            problem.value(rates, &settings, &p, &reference)
        };
        let fed = least >= problem.limits.floor * (1.0 - TOLERANCE);
        let balanced = problem
            .limits
            .mismatch
            .is_none_or(|most| problem.mismatch(&settings, &p) <= most + TOLERANCE);
        Ok(SchemeResult {
            feasible: fed && balanced && self.fits(problem, batches),
            scheme: self,
            settings,
            rates: p,
            objective,
            raw,
            fairness,
        })
    }

    /// If the plan optimises progress and chooses batch sizes, the scheme chooses its own: starting from the plan's
    /// sizes, it changes the size of one task at a time as long as the objective improves. Otherwise it uses the
    /// plan's sizes.
    pub(crate) fn at_its_best<C: Throughput + ?Sized>(
        self,
        rates: &C,
        problem: &Problem,
        batches: &[Batch],
    ) -> Result<SchemeResult, AllocError> {
        if !problem.is_progress() || problem.limits.policy != BatchPolicy::Free {
            return self.predict(rates, problem, batches);
        }
        let mut lengths = HashMap::new();
        let mut worth = |sizes: &[Batch]| self.rank(rates, problem, sizes, &mut lengths);
        let mut sizes = batches.to_vec();
        let mut best = worth(&sizes)?;
        loop {
            let before = best;
            for i in 0..sizes.len() {
                for &batch in &problem.tasks[i].batches {
                    let now = std::mem::replace(&mut sizes[i], batch);
                    let other = worth(&sizes)?;
                    if other > best {
                        best = other;
                    } else {
                        sizes[i] = now;
                    }
                }
            }
            // A gain within rounding error does not count; if a task makes no progress, both values are minus
            // infinity.
            if best <= before || best - before <= TOLERANCE * best.abs() {
                return self.predict(rates, problem, &sizes);
            }
        }
    }

    /// The objective of the scheme. If it is a time, rounds use the orders by which choices are ranked. `lengths`
    /// caches the lengths of rounds of subsets of the tasks, which recur with many sizes of the other tasks.
    fn rank<C: Throughput + ?Sized>(
        self,
        rates: &C,
        problem: &Problem,
        batches: &[Batch],
        lengths: &mut HashMap<Vec<Setting>, Option<f64>>,
    ) -> Result<f64, AllocError> {
        if !problem.is_timed() {
            return Ok(self.predict(rates, problem, batches)?.objective);
        }
        let settings = self.settings(batches);
        let length = |places: &[usize], s: &[Setting]| {
            let work = || match self {
                Scheme::Temporal => problem.serial_round_of(rates, places, s),
                _ => problem.ranked_round_of(rates, places, s),
            };
            *lengths.entry(s.to_vec()).or_insert_with(work)
        };
        let seconds = problem.seconds_to_target(&settings, length);
        Ok(seconds.map_or(f64::NEG_INFINITY, |s| -s))
    }

    fn settings(self, batches: &[Batch]) -> Vec<Setting> {
        let share = self.share(batches.len());
        let each = batches.iter().enumerate();
        each.map(|(task, &batch)| Setting { task, batch, share })
            .collect()
    }

    fn fits(self, problem: &Problem, batches: &[Batch]) -> bool {
        let Some(most) = problem.limits.memory else {
            return true;
        };
        let needs = problem
            .tasks
            .iter()
            .zip(batches)
            .map(|(t, &b)| t.memory.map_or(0.0, |m| m.at(b)));
        let need = if self == Scheme::Temporal {
            needs.fold(0.0, f64::max)
        } else {
            needs.sum()
        };
        need <= most.get() as f64
    }
}

fn samples(problem: &Problem, i: usize) -> f64 {
    problem.tasks[i].samples.map_or(1.0, units::Samples::as_f64)
}
