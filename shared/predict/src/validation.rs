//! Cross-validation by configuration, never by row: a configuration is left out as a whole, with
//! all its repeats, because the rows of one co-run tell of each other.

use std::collections::HashMap;

use doc::Method;
use math::stats;

use crate::base::Base;
use crate::dataset::{Active, Dataset};
use crate::error::PredictError;
use crate::features::{Layout, Scene};
use crate::gp::Hyper;
use crate::model::{Answer, Parts, condition, fit_poly, fit_trees};
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
}

/// What is known from the fit to all data, so that folds need not find it again.
#[derive(Clone)]
pub(crate) struct Known<'a> {
    /// Hyper-parameters by task; none where the family needs none.
    pub hyper: Vec<Option<&'a Hyper>>,
    /// Noise factor by task and sample, where it was found.
    pub wrong: Vec<Option<HashMap<usize, f64>>>,
    pub wanted: Wanted,
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
    let mut seen: HashMap<&[Active], usize> = HashMap::new();
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
        let kept: Vec<usize> = (0..fold.len()).filter(|k| fold[*k] != f).collect();
        let Part { base, tasks, .. } = Part::learn(data, &kept, known)?;
        for (k, s) in data
            .samples
            .iter()
            .enumerate()
            .filter(|(k, _)| fold[*k] == f)
        {
            let scene = Scene::new(&base, &s.active);
            for (at, (a, p)) in s.active.iter().zip(&s.throughput).enumerate() {
                if *p <= 0.0 {
                    continue;
                }
                let hyper = known.hyper[a.task];
                left.push(Left {
                    sample: k,
                    task: a.task,
                    fold: f,
                    ln_step: (a.batch.as_f64() / p).ln(),
                    answer: tasks[a.task].answer(&base, &scene, at, a.task, hyper.is_some()),
                    noise: hyper.map_or(0.0, |h| h.noise),
                });
            }
        }
    }
    Ok(left)
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
        let base = Base::learn(&data)?;
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
        let (p, m) = (b * (-l.answer.of(method)).exp(), b * (-l.ln_step).exp());
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
    let error = |l: &Left| (l.answer.of(method) - l.ln_step).abs();
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
