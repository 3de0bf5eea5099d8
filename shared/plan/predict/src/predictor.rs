use doc::Method;
use doc::params::{Evidence, KindError};
use units::corun::{MAX_TASKS, Setting, look_at};
use units::{Batch, Share};

use crate::base::Base;
use crate::crowd::{Line, Measured};
use crate::features::CorunInputs;
use crate::model::Regressors;
use crate::pool::{Pool, Weights};
use crate::trust::{self, Trust};
use crate::unseen::{PoolCorrection, Unseen};

/// Minimum standard deviations of the logarithm: of a task that never ran with others, when alone and in a co-run, and
/// of a task that never ran at all. In co-runs they are used only if too few tasks ran with others to leave one out
/// ([`crate::unseen::Unseen`]). They were chosen by hand, because there are no data to fit them to, and increase with
/// what is unknown: 95 % intervals extend to factors of 1.2, 1.6 and 2.2.
const ALWAYS_ALONE: f64 = 0.1;
const NEVER_TOGETHER: f64 = 0.25;
const NEVER_RAN: f64 = 0.4;

/// Throughput of one task of a co-run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Samples per second.
    pub samples_per_s: f64,
    /// Standard deviation of a measurement of this throughput, in samples per second.
    pub std_error: f64,
}

/// Supplements to the tasks' own models; at most one applies. The first is for co-runs outside these models, the second
/// is the process of all tasks and its weight for other co-runs.
type Beside<'p> = (
    Option<(&'p Pool, &'p PoolCorrection)>,
    Option<(&'p Pool, f64)>,
);

/// A fitted model of the co-runs of one workload.
#[derive(Debug, Clone)]
pub struct Predictor {
    pub(crate) method: Method,
    pub(crate) base: Base,
    /// Regressions of each kind of task.
    pub(crate) parts: Vec<Regressors>,
    pub(crate) trust: Vec<Trust>,
    pub(crate) unseen: Option<Unseen>,
    /// Weight (on logarithms, 0 to 1) of the extrapolation from smaller co-runs ([`Line`]), for more tasks than were
    /// measured together.
    pub(crate) line_weight: f64,
    /// Error of each kind of co-run, if parts of that kind could be held out.
    pub(crate) errors: Vec<KindError>,
}

impl Predictor {
    /// Tasks of the workload.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.base.anchors.len()
    }

    /// Family of the model.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Samples per second of a task alone on the whole device.
    #[must_use]
    pub fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.base.anchors[task].rate(batch)
    }

    /// Predicted samples per second of every active task, in the order of `active`; `out` is at least as long. A task
    /// is active at most once.
    ///
    /// The rate of a single task comes from the solo runs, without a model. No rate exceeds the solo rate on the whole
    /// device.
    pub fn means(&self, active: &[Setting], out: &mut [f64]) {
        // A task alone was measured, so no model is needed. On part of the device the solo runs are used if laws are
        // scaled to them; models of older versions use their law.
        if let [a] = active
            && (self.base.anchored || a.share == Share::FULL)
        {
            out[0] = self.alone(a);
            return;
        }
        self.by_models(active, out);
        for (a, out) in active.iter().zip(&mut *out) {
            *out = self.at_most_solo(a, *out);
        }
        let Some(line) = self.line(active.len()) else {
            return;
        };
        let by_line = self.by_line(line, active);
        for ((a, by_line), out) in active.iter().zip(by_line).zip(out) {
            let moved = *out * (by_line / *out).powf(self.line_weight);
            *out = self.at_most_solo(a, moved);
        }
    }

    /// [`Predictor::means`] for the tasks at the given positions only, one after another until `look` returns `false`;
    /// bit-identical.
    pub fn means_until(
        &self,
        active: &[Setting],
        places: &[usize],
        look: &mut dyn FnMut(usize, f64) -> bool,
    ) {
        let beside = self.beside(active);
        let sums = self.unseen.as_ref().is_some_and(|u| u.sums.is_some());
        let joined = sums && (beside.0.is_some() || beside.1.is_some());
        if active.len() == 1 || joined || self.line(active.len()).is_some() {
            let mut all = [0.0; MAX_TASKS];
            self.means(active, &mut all);
            return look_at(&all, places, look);
        }
        let family = self.family(active);
        let inputs = self.base.inputs(active);
        let pool = match beside {
            (Some((pool, _)), _) => Some(pool),
            (None, pooled) => pooled.map(|(pool, _)| pool),
        };
        for &at in places {
            let a = &active[at];
            let by_all = pool.map_or(0.0, |pool| pool.ln_step(&self.base, &inputs, at));
            let ln_step = self.ln_step(a, family, &inputs, at, beside, by_all);
            let rate = a.batch.as_f64() * math::exp(-ln_step);
            if !look(at, self.at_most_solo(a, rate)) {
                return;
            }
        }
    }

    /// Rates of all tasks, extrapolated from smaller co-runs.
    fn by_line(&self, line: Line, active: &[Setting]) -> [f64; MAX_TASKS] {
        let measured = Measured {
            alone: &|a| {
                let mut alone = [0.0];
                self.means(&[*a], &mut alone);
                alone[0]
            },
            together: &|few, out| self.by_models(few, out),
            // A model of a part of the data, for validation, has no spread yet: it then counts as uncertain.
            spread: &|a| self.trust.get(a.task).map_or(1.0, |t| t.spread),
        };
        let mut widest = [active[0]; MAX_TASKS];
        for (wide, a) in widest.iter_mut().zip(active) {
            let range = self.base.domain.as_ref().and_then(|d| d.range(a.task));
            let share = range.map_or(a.share, |(_, largest)| largest.max(a.share));
            *wide = Setting { share, ..*a };
        }
        line.rates(active, &widest[..active.len()], &measured)
    }

    /// Whether each task of a co-run is predicted by its own model alone.
    pub(crate) fn task_by_task(&self, active: &[Setting]) -> bool {
        self.unseen(active).is_none()
            && self.pooled(active).is_none()
            && self.line(active.len()).is_none()
            && self.family(active) == self.method
    }

    /// The extrapolation from measured co-runs to this many tasks; `None` if it is not used.
    pub(crate) fn line(&self, running: usize) -> Option<Line> {
        let domain = self
            .base
            .domain
            .as_ref()
            .filter(|_| self.line_weight > 0.0)?;
        Line::to(running, &domain.crowds)
    }

    /// [`Predictor::means`] without extrapolation in the number of tasks and without the limit to solo rates: by the
    /// tasks' models, the process of all tasks and the process of sums.
    fn by_models(&self, active: &[Setting], out: &mut [f64]) {
        let inputs = self.base.inputs(active);
        let (unseen, pooled) = self.beside(active);
        let family = self.family(active);
        let mut by_all = [0.0; MAX_TASKS];
        if let Some((pool, _)) = pooled {
            pool.ln_steps(&self.base, &inputs, &mut by_all);
        } else if let Some((pool, _)) = unseen {
            pool.ln_steps(&self.base, &inputs, &mut by_all);
        }
        let mut ln_steps = [0.0; MAX_TASKS];
        for (at, a) in active.iter().enumerate() {
            ln_steps[at] = self.ln_step(a, family, &inputs, at, (unseen, pooled), by_all[at]);
        }
        let sums = self.unseen.as_ref().and_then(|u| u.sums.as_ref());
        let shift = sums
            .filter(|_| pooled.is_some() || unseen.is_some())
            .map_or(0.0, |sums| {
                let each = ln_steps[..active.len()].iter().enumerate();
                let sum = each
                    .map(|(at, ln)| math::exp(inputs.ln_alone[at] - ln))
                    .sum();
                sums.shift(&inputs, sum)
            });
        for ((a, ln), out) in active.iter().zip(ln_steps).zip(out) {
            *out = a.batch.as_f64() * math::exp(-ln - shift);
        }
    }

    /// The family that predicts a co-run: the law alone if a task has a share outside those that it had with others.
    /// The residuals that a regression learnt say nothing there. After adaptive designs, which measure a small region,
    /// two thirds of random co-runs lie outside. On six fresh simulated mixes their error was 22.6 % with the
    /// blend and is 14.3 % with the law; of those inside it is 6.7 % with the blend and 9.1 % with the law. Held-out
    /// co-runs cannot tell: within every adaptive design, the regressions are better.
    fn family(&self, active: &[Setting]) -> Method {
        if active.len() > 1 && self.lacks_share_of(active) && self.unseen(active).is_none() {
            Method::Structured
        } else {
            self.method
        }
    }

    /// Whether a task of a co-run has a share outside those that it had with others; false if the model does not say.
    fn lacks_share_of(&self, active: &[Setting]) -> bool {
        let domain = self.base.domain.as_ref();
        domain.is_some_and(|d| d.lacks_share_of(active))
    }

    /// The supplements to the tasks' own models in a co-run.
    fn beside(&self, active: &[Setting]) -> Beside<'_> {
        let unseen = self.unseen(active);
        (unseen, self.pooled(active).filter(|_| unseen.is_none()))
    }

    /// `ln(step seconds)` of one task of a co-run by its model and by the process of all tasks, whose prediction is
    /// `by_all`.
    fn ln_step(
        &self,
        a: &Setting,
        family: Method,
        inputs: &CorunInputs,
        at: usize,
        (unseen, pooled): Beside<'_>,
        by_all: f64,
    ) -> f64 {
        let parts = self.parts_of(a.task);
        let own = parts
            .answer(&self.base, inputs, at, a.task, false)
            .of(family);
        match (unseen, pooled) {
            (Some((_, learnt)), _) => learnt.ln_step(own, by_all, inputs.ln_step[at]),
            (None, Some((_, weight))) => own + weight * (by_all - own),
            (None, None) => own,
        }
    }

    /// The regressions of a task.
    fn parts_of(&self, task: usize) -> &Regressors {
        &self.parts[self.base.kind[task]]
    }

    /// Samples per second of a task alone at its share.
    fn alone(&self, a: &Setting) -> f64 {
        if a.share == Share::FULL {
            return self.solo(a.task, a.batch);
        }
        let batch = a.batch.as_f64();
        let (_, ln_alone, _) = self.base.solo_steps(a.task, batch, a.share.fraction());
        self.at_most_solo(a, batch * math::exp(-ln_alone))
    }

    /// A rate, or the solo rate if that is less: neither co-runners nor a smaller share ever make a task faster. Far
    /// from its points, a regression may predict a higher rate, and a plan based on it would be invalid.
    pub(crate) fn at_most_solo(&self, a: &Setting, rate: f64) -> f64 {
        rate.min(self.solo(a.task, a.batch))
    }

    /// The process of all tasks with its correction, for a co-run outside the models of its tasks; otherwise `None`.
    pub(crate) fn unseen(&self, active: &[Setting]) -> Option<(&Pool, &PoolCorrection)> {
        let unseen = self.unseen.as_ref()?;
        let known = active.iter().all(|a| self.base.ran_together(a.task));
        if known && self.lacks_share_of(active) {
            return None;
        }
        let learnt = unseen.of(active)?;
        // The process is not trusted for an unseen task in a co-run of an unmeasured number of tasks, because nothing
        // could be held out to test that.
        let guessed = learnt.error.is_none() && !self.base.ran_so_many(active.len());
        (!guessed).then_some((&unseen.pool, learnt))
    }

    /// The process of all tasks and its weight in a co-run within the models of its tasks; `None` if it is not used.
    pub(crate) fn pooled(&self, active: &[Setting]) -> Option<(&Pool, f64)> {
        let unseen = self.unseen.as_ref()?;
        let domain = self.base.domain.as_ref()?;
        if unseen.weights == Weights::default()
            || !domain.crowds.contains(&active.len())
            || self.lacks_share_of(active)
        {
            return None;
        }
        let weight = unseen.weights.of(domain.has_levels_of(active));
        (weight > 0.0).then_some((&unseen.pool, weight))
    }

    /// Predictions with their uncertainty, in the order of `active`.
    #[must_use]
    pub fn predict(&self, active: &[Setting]) -> Vec<Prediction> {
        self.estimate(active, true)
    }

    /// Like [`Predictor::predict`], with or without the scatter of a measurement.
    pub(crate) fn estimate(&self, active: &[Setting], scatter: bool) -> Vec<Prediction> {
        let mut mean = vec![0.0; active.len()];
        self.means(active, &mut mean);
        let mut deviations = self.deviations(active, scatter);
        if let Some(line) = self.line(active.len()) {
            let together = |few: &[Setting]| {
                let all = self.estimate(few, scatter).into_iter();
                all.map(|p| (p.samples_per_s, p.std_error / p.samples_per_s))
                    .collect()
            };
            deviations = line.uncertainty(active, &mean, &deviations, together);
        }
        mean.iter()
            .zip(deviations)
            .map(|(&samples_per_s, deviation)| Prediction {
                samples_per_s,
                std_error: samples_per_s * deviation,
            })
            .collect()
    }

    /// Standard deviations of the logarithm of each rate by the tasks' models and the process of all tasks.
    fn deviations(&self, active: &[Setting], scatter: bool) -> Vec<f64> {
        let inputs = self.base.inputs(active);
        // For a single task, the spread at unmeasured shares was learnt from held-out shares, including the smallest
        // and the largest, so it needs no further factor.
        let learnt = active.len() == 1 && self.part_spread(&active[0]).is_some();
        let most = self.base.most_together.max(1);
        let covers = |a: &Setting| self.covers_setting(a, active.len().min(most));
        let outside = !learnt && !active.iter().all(covers);
        // If smaller co-runs are extrapolated, that has an uncertainty of its own.
        let extrapolated = self.line(active.len()).is_some();
        let running = if extrapolated { most } else { active.len() };
        let beyond = trust::beyond(outside, running, most);
        let unseen = self.unseen(active);
        active
            .iter()
            .enumerate()
            .map(|(at, a)| {
                let trust = &self.trust[a.task];
                let spread = self.spread(a.task, active.len() > 1);
                let (variance, own, scale) = match (self.method, unseen) {
                    _ if active.len() == 1 && self.base.anchored => {
                        (0.0, self.alone_spread(a).powi(2), 1.0)
                    }
                    (_, Some((pool, learnt))) => {
                        let (variance, noise) = pool.variance(&self.base, &inputs, at);
                        // If no task could be held out to test the process, its uncertainty for a task that never ran
                        // with others is at least the chosen one.
                        let least = match learnt.error {
                            None => spread * spread,
                            Some(_) => 0.0,
                        };
                        (variance, noise.max(least), learnt.interval_scale)
                    }
                    (Method::Structured, _) => (0.0, spread * spread, trust.interval_scale),
                    (Method::Gp | Method::Blend, _) => {
                        let parts = self.parts_of(a.task);
                        let answer = parts.answer(&self.base, &inputs, at, a.task, true);
                        let mut variance = answer.variance;
                        let mut own = spread * spread;
                        if let Some((pool, weight)) = self.pooled(active) {
                            let (pooled, noise) = pool.variance(&self.base, &inputs, at);
                            variance += weight * (pooled - variance);
                            own += weight * (noise - own);
                        }
                        (variance, own, trust.interval_scale)
                    }
                };
                let far = trust.far_scale.filter(|_| !inputs.has_levels);
                let scale = far.map_or(scale, |far| far.max(scale));
                // The uncertainty of the mean and the scatter of a measurement are independent, so their variances add.
                let own = if scatter { own } else { 0.0 };
                beyond * scale * (own + variance).sqrt()
            })
            .collect()
    }

    /// Standard deviation of the logarithm of a solo rate: that of a measurement on the whole device, and larger on a
    /// part of it.
    fn alone_spread(&self, a: &Setting) -> f64 {
        let spread = self.spread(a.task, false);
        if a.share == Share::FULL {
            spread
        } else {
            self.part_spread(a).unwrap_or(spread.max(ALWAYS_ALONE))
        }
    }

    /// The learnt standard deviation of a solo rate at a partial share; `None` on the whole device, or if it was not
    /// learnt.
    fn part_spread(&self, a: &Setting) -> Option<f64> {
        if a.share == Share::FULL {
            return None;
        }
        let learnt = &self.trust[a.task].part_spread;
        if self.base.parts[a.task].has_share(a.share.fraction()) {
            learnt.near
        } else {
            learnt.far
        }
    }

    /// Standard deviation of the logarithm, in addition to the variance of the Gaussian process.
    fn spread(&self, task: usize, with_others: bool) -> f64 {
        let least = match self.base.evidence[task] {
            Evidence::Together => 0.0,
            Evidence::Alone if with_others => NEVER_TOGETHER,
            Evidence::Alone => ALWAYS_ALONE,
            Evidence::Nothing => NEVER_RAN,
        };
        self.trust[task].spread.max(least)
    }
}
