//! Cross-validation by configuration, never by row: a configuration is left out as a whole, with
//! all its repeats, because the rows of one co-run tell of each other.

use std::collections::{BTreeSet, HashMap};

use corun::Setting;
use doc::Method;
use math::stats;
use units::Share;

use crate::base::Base;
use crate::dataset::{Dataset, Sample};
use crate::error::PredictError;
use crate::features::{Layout, Scene};
use crate::gp::Hyper;
use crate::model::{Answer, Parts, condition, fit_poly, fit_trees};
use crate::pool::PoolRows;
use crate::structured::Form;
use crate::training::Rows;

/// Parts that are left out one after another.
const FOLDS: usize = 5;

/// Half the width of an interval that should hold 90 %, in standard deviations.
pub(crate) const HALF_WIDTH: f64 = 1.645;

/// One throughput that the model had not seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    pub sample: usize,
    pub task: usize,
    pub fold: usize,
    pub ln_step: f64,
    pub answer: Answer,
    pub noise: f64,
    /// `ln(step seconds)` by the process of all tasks, where there is one.
    pub pooled: Option<f64>,
    /// Added to the answer of the task's own model: its pull towards the process of all tasks.
    pub shift: f64,
}

impl Left {
    /// `ln(step seconds)` as the finished model predicts it.
    pub fn predicted(&self, method: Method) -> f64 {
        self.answer.of(method) + self.shift
    }

    /// Relative error of the throughput.
    fn error(&self, method: Method) -> f64 {
        ((self.ln_step - self.predicted(method)).exp() - 1.0).abs()
    }
}

/// Weights of the process of all tasks that are tried.
pub(crate) const WEIGHTS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// A weight above 0 must take the error below this part of what the tasks' own models leave: the
/// process costs every prediction, and smaller gains are within the noise of cross-validation.
const POOL_WORTH: f64 = 0.97;

/// How much the process of all tasks should count beside the tasks' own models, by the error of the
/// left-out throughputs, without the twentieth that is farthest off. Where each task ran in a
/// few co-runs only its own model has next to nothing to learn from, and the mean slow-down of all
/// is the better guess, which is what the process falls back to.
pub(crate) fn pool_weight(left: &[Left], method: Method) -> f64 {
    let error = |weight: f64| {
        let moved = left.iter().map(|l| l.moved(weight, method).error(method));
        trimmed(moved.collect()).unwrap_or(f64::INFINITY)
    };
    let (mut best, mut least) = (0.0, POOL_WORTH * error(0.0));
    for weight in WEIGHTS {
        let e = error(weight);
        if e < least {
            (best, least) = (weight, e);
        }
    }
    best
}

impl Left {
    /// With a weight of the process of all tasks.
    pub fn moved(&self, weight: f64, method: Method) -> Left {
        let own = self.answer.of(method);
        let shift = self.pooled.map_or(0.0, |pooled| weight * (pooled - own));
        Left { shift, ..*self }
    }
}

/// What is known from the fit to all data, so that folds need not find it again.
#[derive(Clone)]
pub(crate) struct Known<'a> {
    /// Hyper-parameters by task; none where the family needs none.
    pub hyper: Vec<Option<&'a Hyper>>,
    /// Noise factor by task and sample, where it was found.
    pub wrong: Vec<Option<HashMap<usize, f64>>>,
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
    let mut seen: HashMap<&[Setting], usize> = HashMap::new();
    let fold = data.samples.iter().map(|s| {
        if s.active.len() < 2 {
            return usize::MAX;
        }
        let next = seen.len();
        *seen.entry(&s.active).or_insert(next) % folds
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
    let kept: Vec<usize> = (0..out.len()).filter(|k| !out[*k]).collect();
    let Part {
        data: rest,
        base,
        tasks,
    } = Part::learn(data, &kept, known)?;
    let pool = known
        .pool
        .and_then(|hyper| PoolRows::of(&rest, &base).condition(hyper));
    let mut left = Vec::new();
    let held = data.samples.iter().enumerate().filter(|(k, _)| out[*k]);
    for (sample, s) in held {
        let scene = Scene::new(&base, &s.active);
        for (at, (a, p)) in s.active.iter().zip(&s.throughput).enumerate() {
            if *p <= 0.0 {
                continue;
            }
            let hyper = known.hyper[a.task];
            left.push(Left {
                sample,
                task: a.task,
                fold,
                ln_step: (a.batch.as_f64() / p).ln(),
                answer: tasks[a.task].answer(&base, &scene, at, a.task, hyper.is_some()),
                noise: hyper.map_or(0.0, |h| h.noise),
                pooled: pool
                    .as_ref()
                    .filter(|_| base.ran_so_many(s.active.len()))
                    .map(|p| p.ln_step(&base, &scene, at)),
                shift: 0.0,
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

/// Factor on the standard deviations of the tasks that makes intervals of `left` hold 90 %;
/// `spreads` are those of the tasks beside the Gaussian process.
pub(crate) fn scale_of(left: &[Left], spreads: &[f64], method: Method) -> Option<f64> {
    let z = |l: &Left| {
        let sd = (spreads[l.task].powi(2) + l.answer.variance).sqrt();
        (l.predicted(method) - l.ln_step).abs() / sd
    };
    let z: Vec<f64> = left.iter().map(z).collect();
    Some((stats::quantile(&z, 0.9)? / HALF_WIDTH).clamp(0.5, 20.0))
}

/// A model of a part of the data.
pub(crate) struct Part {
    pub data: Dataset,
    pub base: Base,
    pub tasks: Vec<Parts>,
}

impl Part {
    /// Learns from the samples `kept`.
    pub fn learn(data: &Dataset, kept: &[usize], known: &Known<'_>) -> Result<Self, PredictError> {
        let data = Dataset {
            tasks: data.tasks.clone(),
            samples: kept.iter().map(|k| data.samples[*k].clone()).collect(),
        };
        let base = Base::learn(&data, known.form)?;
        let rows = Rows::of_all(&data, &base);
        let tasks = rows.iter().enumerate();
        let tasks = tasks.map(|(i, r)| part_of(r, base.layout, i, known, kept));
        Ok(Self {
            tasks: tasks.collect(),
            data,
            base,
        })
    }
}

fn part_of(rows: &Rows, layout: Layout, task: usize, known: &Known<'_>, kept: &[usize]) -> Parts {
    let wrong: Option<Vec<f64>> = known.wrong[task].as_ref().map(|w| {
        let of = |s: &usize| w.get(&kept[*s]).copied().unwrap_or(1.0);
        rows.sample.iter().map(of).collect()
    });
    let wrong = wrong.as_deref();
    let wanted = known.wanted;
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
        let Some(batch) = s.active.iter().find(|a| a.task == l.task) else {
            continue;
        };
        let b = batch.batch.as_f64();
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

/// What makes the intervals of one task hold 90 %, and how well that works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calibration {
    pub spread: f64,
    pub scale: f64,
    /// Throughputs inside, and all: with the scale of the other folds.
    pub inside: (usize, usize),
}

/// Calibrates one task; `None` without left-out throughputs.
pub(crate) fn calibrate(left: &[Left], task: usize, method: Method) -> Option<Calibration> {
    let own: Vec<&Left> = left.iter().filter(|l| l.task == task).collect();
    let error = |l: &Left| (l.predicted(method) - l.ln_step).abs();
    let spread = match method {
        Method::Gp | Method::Blend => {
            stats::median(&own.iter().map(|l| l.noise.sqrt()).collect::<Vec<_>>())?
        }
        Method::Structured | Method::Poly => {
            stats::quantile(&own.iter().map(|l| error(l)).collect::<Vec<_>>(), 0.9)? / HALF_WIDTH
        }
    }
    .max(1e-3);
    let z = |l: &Left| error(l) / (spread * spread + l.answer.variance).sqrt();
    let scale_of = |keep: &dyn Fn(&Left) -> bool| {
        let v: Vec<f64> = own.iter().filter(|l| keep(l)).map(|l| z(l)).collect();
        Some((stats::quantile(&v, 0.9)? / HALF_WIDTH).clamp(0.5, 10.0))
    };
    let mut inside = (0, 0);
    for f in 0..FOLDS {
        let Some(scale) = scale_of(&|l: &Left| l.fold != f) else {
            continue;
        };
        for l in own.iter().filter(|l| l.fold == f) {
            inside.0 += usize::from(z(l) <= HALF_WIDTH * scale);
            inside.1 += 1;
        }
    }
    Some(Calibration {
        spread,
        scale: scale_of(&|_| true)?,
        inside,
    })
}
