mod account;
mod alone;
mod checks;
mod trust;
mod unseen;

use std::collections::HashMap;

use doc::Method;
use math::in_parallel;
use units::corun::Setting;

use crate::base::Base;
use crate::copies::Copies;
use crate::dataset::Dataset;
use crate::error::PredictError;
use crate::features::Layout;
use crate::gp::Hyper;
use crate::model::{GpPart, Regressors, fit_trees, learn_gp};
use crate::pool::PoolRows;
use crate::predictor::Predictor;
use crate::report::{FitReport, TaskReport};
use crate::rows::Rows;
use crate::structured::Form;
use crate::sum::{self, Sums};
use crate::trust::PartSpread;
use crate::unseen::Unseen;
use crate::validation::{self, Calibration, FromFullFit, RegressorsToFit, calibrate};
use account::{task_report, throughputs};
use checks::Checks;
use trust::trust_of_all;

/// Settings of a fit.
#[derive(Debug, Clone)]
pub struct FitOptions {
    /// Maximum number of evaluations of the marginal likelihood of one task.
    pub evaluations: usize,
    /// Whether to cross-validate. Without it the family cannot be chosen by merit and intervals
    /// are not calibrated.
    pub validate: bool,
    /// Whether trees also predict at shares that co-runs did not cover. Only for a sequential design, which corrects
    /// wrong predictions by its next measurement. After two or three co-runs, hardly any share is covered, and the
    /// mean slow-down that trees predict leads the design to the promising region.
    pub trees_everywhere: bool,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            evaluations: 30,
            validate: true,
            trees_everywhere: false,
        }
    }
}

/// A fitted model and its report.
#[derive(Debug, Clone)]
#[must_use]
pub struct Fitted {
    /// The model.
    pub predictor: Predictor,
    /// Errors of the model, and what it learnt about each task.
    pub report: FitReport,
    /// Measured configurations that are points of its Gaussian processes.
    pub(crate) points: Vec<Vec<Setting>>,
    /// Number of configurations learnt from.
    pub(crate) configurations: usize,
}

/// Maximum number of co-runs for validation, since a fold costs as much as a fit. It must not be too small, because
/// the weights that are best for few data are not the best for all: the process for all tasks keeps 256 points, and
/// predicts 400 rates as well as 4,000. When solo runs counted towards the limit, only 112 of 540 co-runs of mixes
/// (MISO) were used to choose the weights, and the error was 18 to 21 % instead of 6 % with all.
const MOST_TO_VALIDATE: usize = 600;

/// Learns the co-run throughput of the tasks from measurements, as a model of one family.
///
/// Throughputs of zero are left out; outliers are detected and get little weight. The same data gives the same
/// model, to the byte.
pub fn fit(data: &Dataset, method: Method, options: &FitOptions) -> Result<Fitted, PredictError> {
    learn(data, &[method], options)
}

/// Like [`fit`], with the family that cross-validation finds best: the blend unless another is clearly better, and
/// the Gaussian process if there is too little data to compare.
pub fn fit_by_merit(data: &Dataset, options: &FitOptions) -> Result<Fitted, PredictError> {
    // In order of preference for nearly equal errors.
    let all = [Method::Blend, Method::Structured, Method::Gp];
    learn(data, &all, options)
}

fn learn(
    data: &Dataset,
    families: &[Method],
    options: &FitOptions,
) -> Result<Fitted, PredictError> {
    data.check()?;
    let copies = Copies::of(data);
    let kinds = copies.merge(data).into_owned().with_plausible_solo_runs();
    learn_kinds(&kinds, data, &copies, families, options).map_err(|e| match e {
        PredictError::UnknownTask { task } => PredictError::UnknownTask {
            task: copies.first[task],
        },
        other => other,
    })
}

/// Like [`learn`], for measurements of kinds (`data`) instead of tasks (`original`). The resulting model is for the
/// tasks, but has one regression per kind.
fn learn_kinds(
    data: &Dataset,
    original: &Dataset,
    copies: &Copies,
    families: &[Method],
    options: &FitOptions,
) -> Result<Fitted, PredictError> {
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
    let wanted = RegressorsToFit {
        gp: wants(&[Method::Gp, Method::Blend]),
        trees: wants(&[Method::Blend]),
    };
    let each: Vec<&Rows> = rows.iter().collect();
    let mut tasks = in_parallel(&each, |r| parts_of(r, base.layout, wanted, options));
    let whole = thin.samples.len() == data.samples.len();
    let checked = if whole { data } else { &thin };
    let pool = (options.validate && wanted.gp)
        .then(|| PoolRows::of(data, &base).learn(&base))
        .flatten();
    let known = FromFullFit {
        pool: pool.as_ref().map(|p| &p.part.gp.hyper),
        sums: pool.as_ref().and_then(|_| sum::hyper(data, &base)),
        ..known(&tasks, &rows, wanted, whole, form)
    };
    let checks = match options.validate {
        true => Checks::of(checked, &known, families)?,
        false => Checks::none(families),
    };
    let method = checks.method;
    let calibrations: Vec<Option<Calibration>> = (0..tasks.len())
        .map(|i| calibrate(&checks.left, i, method))
        .collect();
    let mut trust = trust_of_all(data, &tasks, &checks, &calibrations);
    if options.validate && form == Form::Overlapping {
        let part_spread = PartSpread::of(checked, form)?;
        for t in &mut trust {
            t.part_spread = part_spread;
        }
    }
    let mut report = checks.report(data, checked, &calibrations);
    let used = throughputs(data);
    let each = tasks.iter().zip(&trust).enumerate();
    let reports = each.map(|(i, (parts, trust))| {
        task_report(&base, &rows[i], parts, i, used[i], trust.error_percent)
    });
    report.tasks = TaskReport::of_tasks(&reports.collect::<Vec<_>>(), copies);
    let pool = pool.clone().filter(|_| validation::beside_law(method));
    let learn = || Sums::condition(data, &base, &known.sums?);
    let sums = (checks.sum_weight > 0.0).then(learn).flatten();
    let unseen = pool.map(|pool| {
        let (learnt, errors) = Unseen::learn(data, checked, pool, &known, &checks);
        let sums = sums.map(|sums| sums.counting(checks.sum_weight));
        (Unseen { sums, ..learnt }, errors)
    });
    if let Some((_, errors)) = &unseen {
        report.kinds.extend(errors);
        report.kinds.sort_by_key(|e| e.kind);
    }
    let mut unseen = unseen.map(|(unseen, _)| unseen);
    let points = collect_points(original, &rows, &mut tasks, unseen.as_mut(), method);
    Ok(Fitted {
        predictor: Predictor {
            method,
            base: base.of_tasks(copies),
            parts: tasks,
            trust: copies.spread(&trust),
            unseen: unseen.map(|u| u.of_tasks(copies)),
            line_weight: checks.line_weight,
            errors: report.kinds.clone(),
        },
        report,
        points,
        configurations: data.samples.len(),
    })
}

fn parts_of(
    rows: &Rows,
    layout: Layout,
    wanted: RegressorsToFit,
    options: &FitOptions,
) -> Regressors {
    let gp = if wanted.gp && rows.len() > 0 {
        learn_gp(rows, options.evaluations)
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
    Regressors {
        trees,
        solo_trees,
        gp,
    }
}

fn known<'a>(
    tasks: &'a [Regressors],
    rows: &[Rows],
    wanted: RegressorsToFit,
    whole: bool,
    form: Form,
) -> FromFullFit<'a> {
    let hyper_of = |p: &'a Regressors| p.gp.as_ref().map(|g: &GpPart| &g.gp.hyper);
    let hyper: Vec<Option<&Hyper>> = tasks.iter().map(hyper_of).collect();
    let wrong = tasks.iter().zip(rows).map(|(p, r)| {
        let g =
            p.gp.as_ref()
                .filter(|g| whole && g.points.len() == r.len())?;
        Some(
            r.sample
                .iter()
                .copied()
                .zip(r.place.iter().copied())
                .zip(g.noise_factor.iter().copied())
                .collect::<HashMap<_, _>>(),
        )
    });
    FromFullFit {
        hyper,
        wrong: wrong.collect(),
        pool: None,
        sums: None,
        form,
        wanted,
    }
}

/// Drops the parts that the family does not use, and renumbers the remaining configurations.
fn collect_points(
    data: &Dataset,
    rows: &[Rows],
    tasks: &mut [Regressors],
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
        if method != Method::Blend {
            (parts.trees, parts.solo_trees) = (None, None);
        }
        let Some(g) = &mut parts.gp else { continue };
        g.places = g.points.iter().map(|p| rows.place[*p]).collect();
        for p in &mut g.points {
            *p = numbered(rows.sample[*p]);
        }
    }
    if let Some(unseen) = unseen {
        let sums = unseen.sums.iter_mut().flat_map(|s| &mut s.points);
        for p in unseen.pool.part.points.iter_mut().chain(sums) {
            *p = numbered(*p);
        }
    }
    points
}

#[cfg(test)]
mod tests;
