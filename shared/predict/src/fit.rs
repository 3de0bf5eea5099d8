mod account;

use std::collections::HashMap;

use corun::Setting;
use doc::Method;
use units::{Batch, Share};

use crate::base::Base;
use crate::dataset::Dataset;
use crate::error::PredictError;
use crate::features::Layout;
use crate::gp::Hyper;
use crate::model::{GpPart, Parts, fit_poly, fit_trees, learn_gp, overconfidence};
use crate::pool::PoolRows;
use crate::predictor::{Predictor, Trust};
use crate::report::FitReport;
use crate::structured::Form;
use crate::training::Rows;
use crate::unseen::Unseen;
use crate::validation::{
    self, Calibration, Known, Left, Wanted, calibrate, cross_validate, pool_weight,
    total_error_percent,
};
use account::{learning_curve, task_error, task_report, throughputs, worst};

/// Settings of a fit.
#[derive(Debug, Clone)]
pub struct FitOptions {
    /// Most evaluations of the marginal likelihood of one task.
    pub evaluations: usize,
    /// Whether to cross-validate. Without it the family cannot be chosen by merit and intervals
    /// are not calibrated.
    pub validate: bool,
    /// Whether trees answer also at shares that co-runs did not cover. Only for a sequential
    /// design, which measures next what it was wrong about: after two or three co-runs no share is
    /// covered, and the mean slow-down that trees then give leads it to the promising region.
    pub trees_everywhere: bool,
    /// An earlier model of the same tasks, whose hyper-parameters are where the search starts.
    pub start: Option<Predictor>,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            evaluations: 30,
            validate: true,
            trees_everywhere: false,
            start: None,
        }
    }
}

/// A fitted model and what there is to say of it.
#[derive(Debug, Clone)]
#[must_use]
pub struct Fitted {
    /// The model.
    pub predictor: Predictor,
    /// How good it is, and why.
    pub report: FitReport,
    /// Measured configurations that its Gaussian processes rest on.
    pub(crate) points: Vec<Vec<Setting>>,
    /// Configurations learnt from.
    pub(crate) configurations: usize,
}

/// Most samples that are used to validate: a fold costs as much as a fit.
const MOST_TO_VALIDATE: usize = 400;
/// A later family must be better by this factor to be chosen: both errors are of few
/// configurations, and a mean of models has the smaller risk.
const WORTH: f64 = 0.7;
/// Standard deviation of the logarithm where nothing was validated.
const UNVALIDATED: f64 = 0.1;
/// Learns the co-run throughput of the tasks from measurements, as a model of one family.
///
/// Throughputs of zero are left out, wrong ones are found and weighed down. The same data gives
/// the same model, to the byte.
pub fn fit(data: &Dataset, method: Method, options: &FitOptions) -> Result<Fitted, PredictError> {
    learn(data, &[method], options)
}

/// As [`fit`], with the family that cross-validation finds best: the blend unless another is
/// clearly better, and the Gaussian process where there is too little data to tell.
///
/// The polynomial is not among them. Cross-validation leaves out configurations like those that
/// were kept, and there it can win; but nothing holds a second-order polynomial where no
/// configuration is near, and it has predicted three times the solo rate at shares never measured.
pub fn fit_by_merit(data: &Dataset, options: &FitOptions) -> Result<Fitted, PredictError> {
    // In the order in which nearly equal ones are preferred.
    let all = [Method::Blend, Method::Structured, Method::Gp];
    learn(data, &all, options)
}

fn learn(
    data: &Dataset,
    families: &[Method],
    options: &FitOptions,
) -> Result<Fitted, PredictError> {
    data.check()?;
    let thin = data.thinned(MOST_TO_VALIDATE);
    let form = if options.validate {
        validation::choose_form(&thin)?
    } else {
        Form::Added
    };
    let mut base = Base::learn(data, form)?;
    if options.trees_everywhere {
        base.domain = None;
    }
    let rows = Rows::of_all(data, &base);
    let wants = |list: &[Method]| families.iter().any(|f| list.contains(f));
    let wanted = Wanted {
        gp: wants(&[Method::Gp, Method::Blend]),
        poly: wants(&[Method::Poly]),
        trees: wants(&[Method::Blend]),
    };
    let mut tasks: Vec<Parts> = rows
        .iter()
        .enumerate()
        .map(|(i, r)| parts_of(r, base.layout, i, wanted, options))
        .collect();
    let whole = thin.samples.len() == data.samples.len();
    let checked = if whole { data } else { &thin };
    let pool = (options.validate && wanted.gp)
        .then(|| PoolRows::of(data, &base).learn(options.evaluations))
        .flatten();
    let known = Known {
        pool: pool.as_ref().map(|p| &p.part.gp.hyper),
        ..known(&tasks, &rows, wanted, whole, form)
    };
    let (folds, mut left) = if options.validate {
        cross_validate(checked, &known)?
    } else {
        (0, Vec::new())
    };
    let merits: Vec<(Method, f64)> = families
        .iter()
        .filter_map(|m| Some((*m, total_error_percent(checked, &left, *m)?)))
        .collect();
    let method = choose(families, &merits);
    let pooling = matches!(method, Method::Gp | Method::Blend);
    let weight = if pooling {
        pool_weight(&left, method)
    } else {
        0.0
    };
    let move_all = |left: &mut Vec<Left>| {
        for l in left {
            *l = l.moved(weight, method);
        }
    };
    move_all(&mut left);
    let mut report = FitReport {
        folds,
        families: merits,
        zeros: data
            .samples
            .iter()
            .flat_map(|s| &s.throughput)
            .filter(|p| **p <= 0.0)
            .count(),
        ..FitReport::default()
    };
    if options.validate {
        report.learning = learning_curve(checked, &known, folds, &left, method)?;
    }
    let (mut levels, mut crowd) = (Vec::new(), Vec::new());
    if options.validate {
        levels = validation::leave_levels_out(checked, &known)?;
        crowd = validation::leave_crowd_out(checked, &known)?;
        move_all(&mut levels);
        move_all(&mut crowd);
    }
    let error = |left: &[Left]| validation::throughput_error_percent(left, method);
    report.throughput_error_percent = error(&left);
    report.level_error_percent = error(&levels);
    report.crowd_error_percent = error(&crowd);
    report.worst = worst(checked, data, &left, method);
    let calibrations: Vec<_> = (0..tasks.len())
        .map(|i| calibrate(&left, i, method))
        .collect();
    let (inside, all) = calibrations
        .iter()
        .flatten()
        .fold((0, 0), |(a, b), c| (a + c.inside.0, b + c.inside.1));
    report.coverage_90 = (all > 0).then(|| inside as f64 / all as f64);
    let used = throughputs(data);
    let mut trust = Vec::new();
    for i in 0..tasks.len() {
        let error_percent = task_error(&left, i, method);
        report.tasks.push(task_report(
            &base,
            &rows[i],
            &tasks[i],
            (i, used[i]),
            error_percent,
        ));
        trust.push(Trust {
            error_percent,
            ..trust_of(data, i, &tasks[i], calibrations[i])
        });
    }
    let spreads: Vec<f64> = trust.iter().map(|t| t.spread).collect();
    let scale = |left: &[Left]| validation::scale_of(left, &spreads, method);
    let far = [scale(&levels), scale(&crowd)];
    let far = far.into_iter().flatten().reduce(f64::max);
    for t in &mut trust {
        t.far_scale = far;
    }
    let mut unseen = None;
    if let Some(pool) = pool.clone().filter(|_| pooling) {
        unseen = Some(Unseen::learn(data, checked, pool, &known, method, weight));
    }
    let learnt = unseen.as_ref();
    report.unseen_batch = learnt.and_then(|u| u.batch?.error);
    report.unseen_task = learnt.and_then(|u| u.task?.error);
    let points = collect_points(data, &rows, &mut tasks, unseen.as_mut(), method);
    Ok(Fitted {
        predictor: Predictor {
            method,
            base,
            tasks,
            trust,
            unseen,
        },
        report,
        points,
        configurations: data.samples.len(),
    })
}

/// How sure the predictions of task `i` are; all but its cross-validated error.
fn trust_of(data: &Dataset, i: usize, parts: &Parts, calibration: Option<Calibration>) -> Trust {
    let gp = parts.gp.as_ref();
    let noise = gp.map_or(UNVALIDATED, |g| g.gp.hyper.noise.sqrt());
    let (batches, shares) = ranges(data, i);
    Trust {
        spread: calibration.map_or(noise, |c| c.spread),
        interval_scale: calibration.map_or_else(|| gp.map_or(1.0, overconfidence), |c| c.scale),
        far_scale: None,
        error_percent: None,
        batches,
        shares,
    }
}

fn parts_of(
    rows: &Rows,
    layout: Layout,
    task: usize,
    wanted: Wanted,
    options: &FitOptions,
) -> Parts {
    let start = options.start.as_ref().and_then(|p| {
        let h = &p.tasks.get(task)?.gp.as_ref()?.gp.hyper;
        let d = rows.features.first()?.len();
        (h.inverse_length.len() == d).then(|| h.clone())
    });
    let gp = || learn_gp(rows, options.evaluations, start.as_ref());
    let gp = if wanted.gp && rows.len() > 0 {
        gp()
    } else {
        None
    };
    let wrong = gp.as_ref().map(|g| g.noise_factor.as_slice());
    let trees = if wanted.trees {
        fit_trees(rows, layout, wrong)
    } else {
        None
    };
    let (trees, solo_trees) = trees.unzip();
    Parts {
        trees,
        solo_trees,
        gp,
        poly: if wanted.poly { fit_poly(rows) } else { None },
    }
}

fn known<'a>(
    tasks: &'a [Parts],
    rows: &[Rows],
    wanted: Wanted,
    whole: bool,
    form: Form,
) -> Known<'a> {
    let hyper = |p: &'a Parts| p.gp.as_ref().map(|g: &GpPart| &g.gp.hyper);
    let hyper: Vec<Option<&Hyper>> = tasks.iter().map(hyper).collect();
    let wrong = tasks.iter().zip(rows).map(|(p, r)| {
        let g =
            p.gp.as_ref()
                .filter(|g| whole && g.points.len() == r.len())?;
        Some(
            r.sample
                .iter()
                .copied()
                .zip(g.noise_factor.iter().copied())
                .collect::<HashMap<_, _>>(),
        )
    });
    Known {
        hyper,
        wrong: wrong.collect(),
        pool: None,
        form,
        wanted,
    }
}

/// The best family; a later one only if it is clearly better.
fn choose(families: &[Method], merits: &[(Method, f64)]) -> Method {
    let fallback = if families.contains(&Method::Gp) {
        Method::Gp
    } else {
        families[0]
    };
    let mut best: Option<(Method, f64)> = None;
    for &(m, e) in merits {
        if best.is_none_or(|(_, b)| e < WORTH * b) {
            best = Some((m, e));
        }
    }
    best.map_or(fallback, |(m, _)| m)
}

type Ranges = (Option<(Batch, Batch)>, Option<(Share, Share)>);

fn ranges(data: &Dataset, task: usize) -> Ranges {
    let rows = || {
        let all = data
            .samples
            .iter()
            .flat_map(|s| s.active.iter().zip(&s.throughput));
        all.filter(|(a, p)| a.task == task && **p > 0.0)
            .map(|(a, _)| a)
    };
    let batches = rows()
        .map(|a| a.batch)
        .min()
        .zip(rows().map(|a| a.batch).max());
    (
        batches,
        rows()
            .map(|a| a.share)
            .min()
            .zip(rows().map(|a| a.share).max()),
    )
}

/// Drops the parts that the family does not use, and numbers the configurations that the rest
/// stands on.
fn collect_points(
    data: &Dataset,
    rows: &[Rows],
    tasks: &mut [Parts],
    unseen: Option<&mut Unseen>,
    method: Method,
) -> Vec<Vec<Setting>> {
    let mut number: Vec<Option<usize>> = vec![None; data.samples.len()];
    let mut points = Vec::new();
    let mut numbered = |sample: usize| {
        *number[sample].get_or_insert_with(|| {
            points.push(data.samples[sample].active.clone());
            points.len() - 1
        })
    };
    for (parts, rows) in tasks.iter_mut().zip(rows) {
        if !matches!(method, Method::Gp | Method::Blend) {
            parts.gp = None;
        }
        if method != Method::Poly {
            parts.poly = None;
        }
        if method != Method::Blend {
            (parts.trees, parts.solo_trees) = (None, None);
        }
        let Some(g) = &mut parts.gp else { continue };
        for p in &mut g.points {
            *p = numbered(rows.sample[*p]);
        }
    }
    for p in unseen.into_iter().flat_map(|u| &mut u.pool.part.points) {
        *p = numbered(*p);
    }
    points
}

#[cfg(test)]
mod tests;
