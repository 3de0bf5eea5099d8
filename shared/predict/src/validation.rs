//! Cross-validation by configuration, never by row: a configuration is left out as a whole, with
//! all its repeats, because the rows of one co-run tell of each other.

mod intervals;
mod weights;

use std::collections::{BTreeSet, HashMap};

use corun::Setting;
use doc::Method;
use math::stats;
use units::Share;

use crate::base::Base;
use crate::dataset::{Dataset, Sample};
use crate::domain::Ranges;
use crate::error::PredictError;
use crate::features::{Layout, Scene};
use crate::gp::Hyper;
use crate::model::{Answer, Parts, condition, fit_poly, fit_trees};
use crate::pool::PoolRows;
use crate::structured::Form;
use crate::training::Rows;

pub(crate) use intervals::{
    Calibration, HALF_WIDTH, calibrate, conformal, scale_of, scale_of_pool,
};
pub(crate) use weights::{VERY_SURE, Weights, pool_weights, sure_gain, sure_weight};

/// Factor on the standard deviation of what lies outside what was measured. Chosen, not fitted: how far a
/// user will go beyond is not known. Errors of left-out throughputs are counted with it, so that it widens the
/// intervals outside against those inside, and not those of all.
pub(crate) const BEYOND: f64 = 2.0;

/// Parts that are left out one after another.
const FOLDS: usize = 5;

/// One throughput that the model had not seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    pub sample: usize,
    pub task: usize,
    /// Position of the task in it.
    pub at: usize,
    pub fold: usize,
    pub ln_step: f64,
    pub answer: Answer,
    pub noise: f64,
    /// By the process of all tasks, where there is one.
    pub pooled: Option<Pooled>,
    /// Whether the model had learnt from these shares and from as many tasks.
    pub has_levels: bool,
    /// Whether it lies outside what the model had learnt from.
    pub outside: bool,
    /// Part of the way that the answer of the task's own model is moved to that of the process.
    pub weight: f64,
}

/// What the process of all tasks says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pooled {
    /// `ln(step seconds)`.
    pub ln_step: f64,
    /// Its variance, noise included.
    pub variance: f64,
}

impl Left {
    /// `ln(step seconds)` as the finished model predicts it.
    pub fn predicted(&self, method: Method) -> f64 {
        let own = self.answer.of(method);
        own + self.pooled.map_or(0.0, |p| self.weight * (p.ln_step - own))
    }

    /// Standard deviation of it where nothing is calibrated; `spread` is that of the task beside
    /// its Gaussian process.
    fn deviation(&self, spread: f64, method: Method) -> f64 {
        let variance = match method {
            Method::Gp | Method::Blend => self.answer.variance,
            Method::Structured | Method::Poly => 0.0,
        };
        let own = spread * spread + variance;
        let gain = self
            .pooled
            .map_or(0.0, |p| self.weight * (p.variance - own));
        let beyond = if self.outside { BEYOND } else { 1.0 };
        beyond * (own + gain).sqrt()
    }

    /// Relative error of the throughput.
    fn error(&self, method: Method) -> f64 {
        ((self.ln_step - self.predicted(method)).exp() - 1.0).abs()
    }

    /// How far the throughput lies from its prediction, as a part of that: intervals are symmetric in it.
    fn gap(&self, method: Method) -> f64 {
        ((self.predicted(method) - self.ln_step).exp() - 1.0).abs()
    }

    /// That over [`Left::deviation`].
    fn score(&self, spread: f64, method: Method) -> f64 {
        self.gap(method) / self.deviation(spread, method)
    }

    /// With weights of the process of all tasks.
    pub fn moved(&self, weights: Weights) -> Left {
        let weight = weights.of(self.has_levels);
        Left { weight, ..*self }
    }
}

/// What is known from the fit to all data, so that folds need not find it again.
#[derive(Clone)]
pub(crate) struct Known<'a> {
    /// Hyper-parameters by task; none where the family needs none.
    pub hyper: Vec<Option<&'a Hyper>>,
    /// Noise factor by task, sample and place in it, where it was found.
    pub wrong: Vec<Option<HashMap<(usize, usize), f64>>>,
    /// Hyper-parameters of the process of all tasks.
    pub pool: Option<&'a Hyper>,
    pub wanted: Wanted,
    /// Form of the laws.
    pub form: Form,
}

/// Which parts of a model are to be fitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub gp: bool,
    pub poly: bool,
    pub trees: bool,
}

/// Fold of every sample; `usize::MAX`: never left out (a run of one task). `None`: too few
/// configurations to leave any out.
fn folds(data: &Dataset, folds: usize) -> Option<Vec<usize>> {
    let mut seen: HashMap<Vec<Setting>, usize> = HashMap::new();
    let fold = data.samples.iter().map(|s| {
        if s.active.len() < 2 {
            return usize::MAX;
        }
        // Copies in another order are the same configuration.
        let mut active = s.active.clone();
        active.sort_unstable();
        let next = seen.len();
        *seen.entry(active).or_insert(next) % folds
    });
    let fold = fold.collect();
    (seen.len() >= 2 * folds).then_some(fold)
}

/// Leaves out each of `parts` parts in turn; nothing where there are too few configurations.
pub(crate) fn leave_out(
    data: &Dataset,
    known: &Known<'_>,
    parts: usize,
) -> Result<Vec<Left>, PredictError> {
    let Some(fold) = folds(data, parts) else {
        return Ok(Vec::new());
    };
    let mut left = Vec::new();
    for f in 0..parts {
        let out: Vec<bool> = fold.iter().map(|k| *k == f).collect();
        left.extend(leave_one_part_out(data, known, &out, f)?);
    }
    Ok(left)
}

/// Learns without the samples that `out` marks, and predicts them.
fn leave_one_part_out(
    data: &Dataset,
    known: &Known<'_>,
    out: &[bool],
    fold: usize,
) -> Result<Vec<Left>, PredictError> {
    let Part {
        data: rest,
        base,
        tasks,
    } = Part::learn(data, out, known)?;
    let pool = known
        .pool
        .and_then(|hyper| PoolRows::of(&rest, &base).condition(hyper));
    let ranges: Vec<Ranges> = (0..rest.tasks.len())
        .map(|i| Ranges::of(&rest, i))
        .collect();
    let mut left = Vec::new();
    let held = data.samples.iter().enumerate().filter(|(k, _)| out[*k]);
    for (sample, s) in held {
        let scene = Scene::new(&base, &s.active);
        let covers = |a: &Setting| ranges[a.task].covers(&base, a, s.active.len());
        let outside = !s.active.iter().all(covers);
        for (at, (a, p)) in s.active.iter().zip(&s.throughput).enumerate() {
            if *p <= 0.0 {
                continue;
            }
            let hyper = known.hyper[a.task];
            left.push(Left {
                sample,
                task: a.task,
                at,
                fold,
                ln_step: (a.batch.as_f64() / p).ln(),
                answer: tasks[a.task].answer(&base, &scene, at, a.task, hyper.is_some()),
                noise: hyper.map_or(0.0, |h| h.noise),
                pooled: pool
                    .as_ref()
                    .filter(|_| base.ran_so_many(s.active.len()))
                    .map(|p| p.answer(&base, &scene, at)),
                has_levels: scene.has_levels(),
                outside,
                weight: 0.0,
            });
        }
    }
    Ok(left)
}

/// Share levels that are left out, at most: each costs as much as a fold.
const MOST_LEVELS: usize = 2;
/// Least co-runs that must be left to learn from when a level or a crowd is left out.
const LEAST_KEPT: usize = 10;

/// Leaves out whole share levels, one after another: all co-runs in which a task has it. Not the
/// smallest and the largest, beyond which a plan is refused anyway.
pub(crate) fn leave_levels_out(
    data: &Dataset,
    known: &Known<'_>,
) -> Result<Vec<Left>, PredictError> {
    let together = data.samples.iter().filter(|s| s.active.len() > 1);
    let shares: BTreeSet<Share> = together.flat_map(|s| &s.active).map(|a| a.share).collect();
    let inner: Vec<Share> = shares.into_iter().collect();
    let inner = inner.get(1..inner.len().saturating_sub(1)).unwrap_or(&[]);
    let m = inner.len().min(MOST_LEVELS);
    let mut left = Vec::new();
    // Evenly over the inner levels, away from their ends.
    for level in (0..m).map(|k| inner[(2 * k + 1) * inner.len() / (2 * m)]) {
        let has = |a: &Setting| a.share == level;
        left.extend(leave_where(data, known, |active| active.iter().any(has))?);
    }
    Ok(left)
}

/// Leaves out the co-runs of as many tasks as ran together at most, where fewer did too.
pub(crate) fn leave_crowd_out(
    data: &Dataset,
    known: &Known<'_>,
) -> Result<Vec<Left>, PredictError> {
    let crowds = data.samples.iter().map(|s| s.active.len());
    let most = crowds.max().unwrap_or(0);
    if most < 3 {
        return Ok(Vec::new());
    }
    leave_where(data, known, |active| active.len() == most)
}

/// Leaves out the co-runs that `out` picks, unless too few would be left.
fn leave_where(
    data: &Dataset,
    known: &Known<'_>,
    out: impl Fn(&[Setting]) -> bool,
) -> Result<Vec<Left>, PredictError> {
    let several = |active: &[Setting]| active.len() > 1;
    let marked = data.samples.iter();
    let marked: Vec<bool> = marked
        .map(|s| several(&s.active) && out(&s.active))
        .collect();
    let kept = data.samples.iter().zip(&marked);
    let kept = kept.filter(|(s, out)| several(&s.active) && !**out).count();
    if kept < LEAST_KEPT || !marked.contains(&true) {
        return Ok(Vec::new());
    }
    leave_one_part_out(data, known, &marked, usize::MAX)
}

/// Mean absolute error of left-out throughputs in percent, bad measurements included: what a user
/// will see.
pub(crate) fn throughput_error_percent(left: &[Left], method: Method) -> Option<f64> {
    let error = |l: &Left| 100.0 * l.error(method);
    stats::mean(&left.iter().map(error).collect::<Vec<_>>())
}

/// A model of a part of the data.
pub(crate) struct Part {
    pub data: Dataset,
    pub base: Base,
    pub tasks: Vec<Parts>,
}

impl Part {
    /// Learns from all samples but those that are `out`; trees only if they answer any of these.
    pub fn learn(data: &Dataset, out: &[bool], known: &Known<'_>) -> Result<Self, PredictError> {
        let kept: Vec<usize> = (0..out.len()).filter(|k| !out[*k]).collect();
        let rest = Dataset {
            tasks: data.tasks.clone(),
            samples: kept.iter().map(|k| data.samples[*k].clone()).collect(),
        };
        let base = Base::learn(&rest, known.form)?;
        let answered = |s: &Sample| base.has_levels_of(&s.active);
        let left = data.samples.iter().zip(out).filter(|(_, out)| **out);
        let wanted = Wanted {
            trees: known.wanted.trees && left.map(|(s, _)| s).any(answered),
            ..known.wanted
        };
        let rows = Rows::of_all(&rest, &base);
        let tasks = rows.iter().enumerate();
        let tasks = tasks.map(|(i, r)| part_of(r, base.layout, i, known, wanted, &kept));
        Ok(Self {
            tasks: tasks.collect(),
            data: rest,
            base,
        })
    }
}

fn part_of(
    rows: &Rows,
    layout: Layout,
    task: usize,
    known: &Known<'_>,
    wanted: Wanted,
    kept: &[usize],
) -> Parts {
    let wrong: Option<Vec<f64>> = known.wrong[task].as_ref().map(|w| {
        let of = |(s, at): (&usize, &usize)| w.get(&(kept[*s], *at)).copied().unwrap_or(1.0);
        rows.sample.iter().zip(&rows.place).map(of).collect()
    });
    let wrong = wrong.as_deref();
    let trees = if wanted.trees {
        fit_trees(rows, layout, wrong)
    } else {
        None
    };
    let (trees, solo_trees) = trees.unzip();
    Parts {
        trees,
        solo_trees,
        gp: known.hyper[task].and_then(|h| condition(rows, h.clone(), wrong)),
        poly: if wanted.poly { fit_poly(rows) } else { None },
    }
}

/// Least solo runs at part shares that say anything of how a task scales by itself.
const LEAST_PARTS: usize = 2;
/// The form with more constants must take the error of left-out co-runs below this part of what
/// the other leaves. On simulated GPUs, whose host and device times add up, it took the error of
/// the law alone with 125 samples from 2.2 to 5.5 %, so that this value hardly matters there; co-runs
/// of a real GPU with solo runs at part shares were not at hand to set it by.
const FORM_WORTH: f64 = 0.97;

/// Form of the laws, by what the laws alone leave of left-out co-runs; the simple one where no solo
/// run at a part share was measured, the other where nothing but solo runs was.
pub(crate) fn choose_form(data: &Dataset) -> Result<Form, PredictError> {
    let part = |s: &&Sample| s.active.len() == 1 && s.active[0].share < Share::FULL;
    if data.samples.iter().filter(part).count() < LEAST_PARTS {
        return Ok(Form::Added);
    }
    if data.samples.iter().all(|s| s.active.len() == 1) {
        return Ok(Form::Overlapping);
    }
    let Some(fold) = folds(data, 3) else {
        return Ok(Form::Added);
    };
    let error = |form: Form| -> Result<f64, PredictError> {
        let mut errors = Vec::new();
        for f in 0..3 {
            let in_fold = |out: bool| {
                let numbered = data.samples.iter().zip(&fold);
                numbered.filter(move |(_, k)| (**k == f) == out)
            };
            let kept = Dataset {
                tasks: data.tasks.clone(),
                samples: in_fold(false).map(|(s, _)| s.clone()).collect(),
            };
            let base = Base::learn(&kept, form)?;
            for (s, _) in in_fold(true) {
                let scene = Scene::new(&base, &s.active);
                for (at, (a, p)) in s.active.iter().zip(&s.throughput).enumerate() {
                    let step = scene.by_law(at, &base.laws[a.task]);
                    if *p > 0.0 {
                        errors.push((a.batch.as_f64() / p / step).ln().abs());
                    }
                }
            }
        }
        Ok(trimmed(errors).unwrap_or(f64::INFINITY))
    };
    if error(Form::Overlapping)? < FORM_WORTH * error(Form::Added)? {
        Ok(Form::Overlapping)
    } else {
        Ok(Form::Added)
    }
}

/// As [`leave_out`] with the usual number of parts.
pub(crate) fn cross_validate(
    data: &Dataset,
    known: &Known<'_>,
) -> Result<(usize, Vec<Left>), PredictError> {
    for parts in [FOLDS, 3] {
        let left = leave_out(data, known, parts)?;
        if !left.is_empty() {
            return Ok((parts, left));
        }
    }
    Ok((0, Vec::new()))
}

/// Predicted over measured total throughput, minus 1, of every left-out sample, by sample.
pub(crate) fn total_errors(data: &Dataset, left: &[Left], method: Method) -> Vec<(usize, f64)> {
    let mut sums: Vec<(usize, f64, f64)> = Vec::new();
    for l in left {
        let s = &data.samples[l.sample];
        let b = s.active[l.at].batch.as_f64();
        let (p, m) = (b * (-l.predicted(method)).exp(), b * (-l.ln_step).exp());
        match sums.last_mut() {
            Some(last) if last.0 == l.sample => {
                last.1 += p;
                last.2 += m;
            }
            _ => sums.push((l.sample, p, m)),
        }
    }
    sums.iter().map(|(k, p, m)| (*k, p / m - 1.0)).collect()
}

/// Mean absolute error of the total in percent, without the worst twentieth: those are the bad
/// measurements, which no model should follow.
pub(crate) fn total_error_percent(data: &Dataset, left: &[Left], method: Method) -> Option<f64> {
    let errors = total_errors(data, left, method);
    trimmed(errors.iter().map(|(_, e)| e.abs()).collect())
}

/// Mean of all but the largest twentieth, times 100.
pub(crate) fn trimmed(mut v: Vec<f64>) -> Option<f64> {
    v.sort_by(f64::total_cmp);
    v.truncate(v.len() - v.len() / 20);
    stats::mean(&v).map(|m| 100.0 * m)
}
