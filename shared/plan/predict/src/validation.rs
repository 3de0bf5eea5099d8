//! Cross-validation by configuration, never by row: a configuration is held out with all its
//! repeats, because the rows of one co-run are correlated.

mod form;
mod intervals;
mod left;
mod weights;

use std::collections::{BTreeSet, HashMap};

use doc::Method;
use math::in_parallel;
use units::Share;
use units::corun::{MAX_TASKS, Setting};

use crate::base::Base;
use crate::dataset::{Dataset, Sample};
use crate::domain::Ranges;
use crate::error::PredictError;
use crate::features::Layout;
use crate::gp::{Hyper, SetHyper};
use crate::model::{Regressors, condition, fit_trees};
use crate::pool::{Pool, PoolRows, Weights};
use crate::predictor::Predictor;
use crate::rows::Rows;
use crate::structured::Form;
use crate::sum::Sums;
use crate::trust;
use crate::unseen::Unseen;
use left::FOLDS;

pub(crate) use form::choose_form;
pub(crate) use intervals::{
    Calibration, calibrate, conformal, few, scale_of, scale_of_parts, scale_of_pool,
};
pub(crate) use left::{
    HeldOut, kind_error, moved_to_sums, total_error_percent, total_errors, trimmed,
};
pub(crate) use weights::{
    VERY_SURE, line_weight, pool_weights, sum_weight, sure_gain, sure_weight,
};

/// Results of the fit to all data, so that folds need not repeat it.
#[derive(Clone)]
pub(crate) struct FromFullFit<'a> {
    /// Hyper-parameters by task; empty if the family needs none.
    pub hyper: Vec<Option<&'a Hyper>>,
    /// Noise factors of each task, by sample and position in it, if known.
    pub wrong: Vec<Option<HashMap<(usize, usize), f64>>>,
    /// Hyper-parameters of the process of all tasks.
    pub pool: Option<&'a Hyper>,
    /// Hyper-parameters of the process of sums.
    pub sums: Option<SetHyper>,
    pub wanted: RegressorsToFit,
    /// Form of the laws.
    pub form: Form,
}

/// Which parts of a model to fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegressorsToFit {
    pub gp: bool,
    pub trees: bool,
}

/// Fold of every sample; `usize::MAX` for solo runs, which are never left out. `None` if there are too few
/// configurations to leave any out.
fn folds(data: &Dataset, folds: usize) -> Option<Vec<usize>> {
    let mut seen: HashMap<Vec<Setting>, usize> = HashMap::new();
    let fold = data.samples.iter().map(|s| {
        if s.active.len() < 2 {
            return usize::MAX;
        }
        // The order of copies does not matter for a configuration.
        let mut active = s.active.clone();
        active.sort_unstable();
        let next = seen.len();
        *seen.entry(active).or_insert(next) % folds
    });
    let fold = fold.collect();
    (seen.len() >= 2 * folds).then_some(fold)
}

/// Predictions of held-out throughputs: leaves out each of `parts` parts in turn. Empty if there are too few
/// configurations.
pub(crate) fn leave_out(
    data: &Dataset,
    known: &FromFullFit<'_>,
    parts: usize,
) -> Result<Vec<HeldOut>, PredictError> {
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
    known: &FromFullFit<'_>,
    out: &[bool],
    fold: usize,
) -> Result<Vec<HeldOut>, PredictError> {
    Ok(Fold::learn(data, known, out)?.left(data, known, out, fold))
}

/// Results of learning without a part of the data.
struct Fold {
    part: Part,
    pool: Option<Pool>,
    sums: Option<Sums>,
}

impl Fold {
    fn learn(data: &Dataset, known: &FromFullFit<'_>, out: &[bool]) -> Result<Self, PredictError> {
        let part = Part::learn(data, out, known)?;
        let (rest, base) = (&part.data, &part.base);
        let pool = known
            .pool
            .and_then(|hyper| PoolRows::of(rest, base).condition(hyper));
        let sums = known
            .sums
            .and_then(|hyper| Sums::condition(rest, base, &hyper));
        Ok(Self { part, pool, sums })
    }

    /// Predictions of the fold for the samples marked in `out`.
    fn left(
        &self,
        data: &Dataset,
        known: &FromFullFit<'_>,
        out: &[bool],
        fold: usize,
    ) -> Vec<HeldOut> {
        let Part {
            data: rest,
            base,
            tasks,
        } = &self.part;
        let ranges: Vec<Ranges> = (0..rest.tasks.len()).map(|i| Ranges::of(rest, i)).collect();
        let mut left = Vec::new();
        let held = data.samples.iter().enumerate().filter(|(k, _)| out[*k]);
        for (sample, s) in held {
            let inputs = base.inputs(&s.active);
            let few = s.active.len().min(base.most_together);
            let covers = |a: &Setting| base.covers(&ranges[a.task], a, few);
            let outside = !s.active.iter().all(covers);
            let beyond = trust::beyond(outside, s.active.len(), base.most_together);
            let whole = s.throughput.iter().all(|p| *p > 0.0);
            let sums = self.sums.as_ref().filter(|_| whole);
            let ln_sum = sums.map(|m| m.ln_sum(&inputs));
            for (at, (a, p)) in s.active.iter().zip(&s.throughput).enumerate() {
                if *p <= 0.0 {
                    continue;
                }
                let hyper = known.hyper[a.task];
                left.push(HeldOut {
                    sample,
                    task: a.task,
                    at,
                    fold,
                    ln_step: (a.batch.as_f64() / p).ln(),
                    answer: tasks[a.task].answer(base, &inputs, at, a.task, hyper.is_some()),
                    noise: hyper.map_or(0.0, |h| h.noise),
                    pooled: self
                        .pool
                        .as_ref()
                        .filter(|_| base.ran_so_many(s.active.len()))
                        .map(|p| p.answer(base, &inputs, at)),
                    has_levels: inputs.has_levels,
                    beyond,
                    weight: 0.0,
                    ln_alone: inputs.ln_alone[at],
                    ln_sum,
                    shift: 0.0,
                });
            }
        }
        left
    }

    /// The predictor of this fold, with these weights of the process of all tasks and of the process of sums.
    fn predictor(self, method: Method, weights: Weights, sum_weight: f64) -> Predictor {
        let tasks = self.part.data.tasks.len();
        let sums = self.sums.filter(|_| sum_weight > 0.0);
        let unseen = self.pool.map(|pool| Unseen {
            seen: vec![Vec::new(); tasks],
            pool,
            sums: sums.map(|s| s.counting(sum_weight)),
            weights,
            batch: None,
            task: None,
        });
        Predictor {
            method,
            base: self.part.base,
            parts: self.part.tasks,
            trust: Vec::new(),
            unseen,
            line_weight: 1.0,
            errors: Vec::new(),
        }
    }
}

/// Maximum number of held-out share levels, each of which costs as much as a fold.
const MOST_LEVELS: usize = 2;
/// Minimum number of co-runs that must remain to learn from when a level or a number of tasks is left out.
const LEAST_KEPT: usize = 10;

/// Leaves out whole share levels, one after another: all co-runs in which a task has this share. The smallest and the
/// largest level are not left out, because plans beyond them are refused anyway.
pub(crate) fn leave_levels_out(
    data: &Dataset,
    known: &FromFullFit<'_>,
) -> Result<Vec<HeldOut>, PredictError> {
    let together = data.samples.iter().filter(|s| s.active.len() > 1);
    let shares: BTreeSet<Share> = together.flat_map(|s| &s.active).map(|a| a.share).collect();
    let levels: Vec<Share> = shares.into_iter().collect();
    let inner = levels.get(1..levels.len().saturating_sub(1)).unwrap_or(&[]);
    let m = inner.len().min(MOST_LEVELS);
    let mut left = Vec::new();
    // Spread evenly over the inner levels.
    for k in 0..m {
        let level = inner[(2 * k + 1) * inner.len() / (2 * m)];
        let has = |a: &Setting| a.share == level;
        if let Some(out) = marked(data, |active| active.iter().any(has)) {
            left.extend(leave_one_part_out(data, known, &out, k)?);
        }
    }
    Ok(left)
}

/// Leaves out the co-runs with the largest number of tasks (at least 3), if enough others remain. The `shift` of a
/// result is the change by the extrapolation from smaller co-runs, if the family uses it.
pub(crate) fn leave_crowd_out(
    data: &Dataset,
    known: &FromFullFit<'_>,
    method: Method,
    weights: Weights,
    sum_weight: f64,
) -> Result<Vec<HeldOut>, PredictError> {
    let crowds = data.samples.iter().map(|s| s.active.len());
    let most = crowds.max().unwrap_or(0);
    let marked = (most >= 3).then(|| marked(data, |active| active.len() == most));
    let Some(out) = marked.flatten() else {
        return Ok(Vec::new());
    };
    let fold = Fold::learn(data, known, &out)?;
    let mut left = fold.left(data, known, &out, 0);
    if beside_law(method) {
        let predictor = fold.predictor(method, weights, sum_weight);
        let mut rates = [0.0; MAX_TASKS];
        for co_run in left.chunk_by_mut(|a, b| a.sample == b.sample && a.at < b.at) {
            let active = &data.samples[co_run[0].sample].active;
            predictor.means(active, &mut rates);
            for l in co_run {
                let by_line = active[l.at].batch.as_f64() / rates[l.at];
                l.shift = by_line.ln() - l.predicted(method);
            }
        }
    }
    Ok(left)
}

/// Whether a family uses the process of all tasks and the extrapolation in the number of tasks. Predictions by the
/// law alone do not, because searches rely on its form.
pub(crate) fn beside_law(method: Method) -> bool {
    matches!(method, Method::Gp | Method::Blend)
}

/// Marks the co-runs that `out` selects; `None` if there is none, or if too few others would remain.
fn marked(data: &Dataset, out: impl Fn(&[Setting]) -> bool) -> Option<Vec<bool>> {
    let several = |active: &[Setting]| active.len() > 1;
    let marked: Vec<bool> = data
        .samples
        .iter()
        .map(|s| several(&s.active) && out(&s.active))
        .collect();
    let kept = data
        .samples
        .iter()
        .zip(&marked)
        .filter(|(s, out)| several(&s.active) && !**out)
        .count();
    (kept >= LEAST_KEPT && marked.contains(&true)).then_some(marked)
}

/// A model of a part of the data.
pub(crate) struct Part {
    pub data: Dataset,
    pub base: Base,
    pub tasks: Vec<Regressors>,
}

impl Part {
    /// Learns from all samples except those marked in `out`. Trees are grown only if they predict any of the marked
    /// samples.
    pub fn learn(
        data: &Dataset,
        out: &[bool],
        known: &FromFullFit<'_>,
    ) -> Result<Self, PredictError> {
        let kept: Vec<usize> = (0..out.len()).filter(|k| !out[*k]).collect();
        let rest = Dataset {
            tasks: data.tasks.clone(),
            samples: kept.iter().map(|k| data.samples[*k].clone()).collect(),
        };
        let base = Base::learn(&rest, known.form)?;
        let answered = |s: &Sample| base.has_levels_of(&s.active);
        let left = data.samples.iter().zip(out).filter(|(_, out)| **out);
        let wanted = RegressorsToFit {
            trees: known.wanted.trees && left.map(|(s, _)| s).any(answered),
            ..known.wanted
        };
        let rows = Rows::of_all(&rest, &base);
        let each: Vec<(usize, &Rows)> = rows.iter().enumerate().collect();
        let tasks = in_parallel(&each, |&(i, r)| {
            part_of(r, base.layout, i, known, wanted, &kept)
        });
        Ok(Self {
            tasks,
            data: rest,
            base,
        })
    }
}

fn part_of(
    rows: &Rows,
    layout: Layout,
    task: usize,
    known: &FromFullFit<'_>,
    wanted: RegressorsToFit,
    kept: &[usize],
) -> Regressors {
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
    Regressors {
        trees,
        solo_trees,
        gp: known.hyper[task].and_then(|h| condition(rows, h.clone(), wrong)),
    }
}

/// Like [`leave_out`] with the usual number of parts.
pub(crate) fn cross_validate(
    data: &Dataset,
    known: &FromFullFit<'_>,
) -> Result<(usize, Vec<HeldOut>), PredictError> {
    for parts in [FOLDS, 3] {
        let left = leave_out(data, known, parts)?;
        if !left.is_empty() {
            return Ok((parts, left));
        }
    }
    Ok((0, Vec::new()))
}
