use doc::params::{self as written, KindError, ModelParams, TaskParams};
use doc::{Method, Workload};
use units::corun::{MAX_TASKS, Setting};
use units::{Batch, Share};

use super::process::process;
use super::{bad, length, not_negative, numbers, unseen};
use crate::anchor::Anchor;
use crate::base::Base;
use crate::domain::Domain;
use crate::error::PredictError;
use crate::features::{CorunInputs, Layout, MAX_FEATURES};
use crate::model::Regressors;
use crate::part_share::{self, PartShares};
use crate::predictor::Predictor;
use crate::structured::{Law, Pace};
use crate::trees::{LEAVES, SPLITS, Trees};
use crate::trust::{PartSpread, Trust};

impl Predictor {
    /// The predictor of a model document.
    pub fn from_model(model: &doc::Model) -> Result<Self, PredictError> {
        Self::from_params(&model.predictor, &model.workload)
    }

    /// The predictor of the parameters, after checks that every number is in range and every list has the length
    /// that the tasks and features require.
    pub fn from_params(params: &ModelParams, workload: &Workload) -> Result<Self, PredictError> {
        let n = workload.tasks.len();
        length("$.predictor.tasks", params.tasks.len(), n)?;
        if n > MAX_TASKS {
            return Err(PredictError::TooManyTasks {
                found: n,
                most: MAX_TASKS,
            });
        }
        let kind = kinds(params)?;
        let kinds = kind.iter().max().map_or(0, |k| k + 1);
        let layout = Layout {
            tasks: kinds,
            copies: kinds < n,
        };
        let mut base = Base {
            layout,
            kind,
            anchors: Vec::new(),
            parts: Vec::new(),
            anchored: params.anchored,
            laws: Vec::new(),
            evidence: Vec::new(),
            workload_law: params.workload_law.clone(),
            most_together: params.domain.most_together as usize,
            domain: domain(params)?,
        };
        let mut trust = Vec::new();
        for (i, t) in params.tasks.iter().enumerate() {
            let path = format!("$.predictor.tasks[{i}]");
            if t.id != workload.tasks[i].id.as_str() {
                let found = format!(
                    "{:?} where the workload has {:?}",
                    t.id,
                    workload.tasks[i].id.as_str()
                );
                return Err(bad(format!("{path}.id"), found));
            }
            base.anchors.push(anchor(t, &path)?);
            base.parts.push(part_shares(t, &path)?);
            base.laws.push(law(&t.law, n, &format!("{path}.law"))?);
            base.evidence.push(t.evidence);
            trust.push(read_trust(t, &path)?);
        }
        let points = points(params, n)?;
        let tasks = params
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, t)| t.copy_of.is_none())
            .map(|(i, t)| parts(t, i, params.method, &base, &points))
            .collect::<Result<_, _>>()?;
        let unseen = match &params.unseen {
            Some(u) if matches!(params.method, Method::Gp | Method::Blend) => {
                Some(unseen::read(u, &base, &points)?)
            }
            _ => None,
        };
        Ok(Self {
            method: params.method,
            base,
            parts: tasks,
            trust,
            unseen,
            line_weight: line_weight(params)?,
            errors: errors(params)?,
        })
    }
}

/// Kind of every task.
fn kinds(params: &ModelParams) -> Result<Vec<usize>, PredictError> {
    let mut kind: Vec<usize> = Vec::new();
    for (i, t) in params.tasks.iter().enumerate() {
        let path = format!("$.predictor.tasks[{i}]");
        let Some(first) = t.copy_of else {
            kind.push(kind.iter().max().map_or(0, |last| last + 1));
            continue;
        };
        let at = first as usize;
        if at >= i || params.tasks[at].copy_of.is_some() {
            let problem = format!("task {first} is no earlier task that is no copy itself");
            return Err(bad(format!("{path}.copy_of"), problem));
        }
        kind.push(kind[at]);
    }
    Ok(kind)
}

fn anchor(t: &TaskParams, path: &str) -> Result<Anchor, PredictError> {
    let path = format!("{path}.solo");
    if t.solo.is_empty() {
        return Err(bad(path, "no solo step"));
    }
    if t.solo.windows(2).any(|w| w[0].batch >= w[1].batch) || t.solo[0].batch == 0 {
        return Err(bad(path, "batch sizes are not ascending from 1"));
    }
    let points: Vec<(f64, f64)> = t.solo.iter().map(|s| (s.batch as f64, s.step_s)).collect();
    numbers(&path, &points.iter().map(|p| p.1).collect::<Vec<_>>(), true)?;
    not_negative(&path, &[t.solo_slope_s])?;
    Ok(Anchor {
        points,
        slope: t.solo_slope_s,
    })
}

fn part_shares(t: &TaskParams, path: &str) -> Result<PartShares, PredictError> {
    let path = format!("{path}.solo_parts");
    let one = |p: &written::SoloPart| {
        numbers(&path, &[p.share], true)?;
        numbers(&path, &[p.weight], false)?;
        numbers(&path, p.step_s.as_slice(), true)?;
        if p.batch == 0 {
            return Err(bad(&path, "a batch size of 0"));
        }
        Ok(part_share::Point {
            batch: p.batch as f64,
            share: p.share,
            weight: p.weight,
            step: p.step_s,
        })
    };
    let points = t.solo_parts.iter().map(one).collect::<Result<_, _>>()?;
    Ok(PartShares { points })
}

fn law(l: &written::LawParams, tasks: usize, path: &str) -> Result<Law, PredictError> {
    length(&format!("{path}.slowdown"), l.slowdown.len(), tasks)?;
    not_negative(path, &l.slowdown)?;
    not_negative(path, &[l.crowding, l.fixed_s])?;
    numbers(path, &[l.per_sample_s, l.bend, l.sharpness], true)?;
    numbers(path, &[l.overlap, l.interference_exponent], true)?;
    if l.overlap < 1.0 {
        let problem = format!("{} is below 1", l.overlap);
        return Err(bad(format!("{path}.overlap"), problem));
    }
    Ok(Law {
        pace: Pace {
            fixed: l.fixed_s,
            crowding: l.crowding,
            per_sample: l.per_sample_s,
            bend: l.bend,
            sharpness: l.sharpness,
            overlap: l.overlap,
            exponent: l.interference_exponent,
        },
        slowdown: l.slowdown.clone(),
    })
}

fn read_trust(t: &TaskParams, path: &str) -> Result<Trust, PredictError> {
    not_negative(&format!("{path}.spread"), &[t.spread, t.interval_scale])?;
    if let Some(scale) = t.far_interval_scale {
        not_negative(&format!("{path}.far_interval_scale"), &[scale])?;
    }
    for spread in [t.part_spread, t.part_far_spread].into_iter().flatten() {
        not_negative(&format!("{path}.part_spread"), &[spread])?;
    }
    let unit = |e: units::UnitError| bad(path, e.to_string());
    let batches = match t.batch_range {
        Some((a, b)) => Some((Batch::new(a).map_err(unit)?, Batch::new(b).map_err(unit)?)),
        None => None,
    };
    let shares = match t.share_range_percent {
        Some((a, b)) => Some((
            Share::from_percent(a).map_err(unit)?,
            Share::from_percent(b).map_err(unit)?,
        )),
        None => None,
    };
    Ok(Trust {
        spread: t.spread,
        interval_scale: t.interval_scale,
        far_scale: t.far_interval_scale,
        part_spread: PartSpread {
            near: t.part_spread,
            far: t.part_far_spread,
        },
        error_percent: t.error_percent,
        batches,
        shares,
    })
}

fn errors(params: &ModelParams) -> Result<Vec<KindError>, PredictError> {
    let kinds = &params.validation.kinds;
    let errors: Vec<f64> = kinds.iter().map(|k| k.error_percent).collect();
    not_negative("$.predictor.validation.kinds", &errors)?;
    Ok(kinds.clone())
}

fn line_weight(params: &ModelParams) -> Result<f64, PredictError> {
    let weight = params.domain.line_weight;
    if (0.0..=1.0).contains(&weight) {
        return Ok(weight);
    }
    let problem = format!("{weight} is not 0 to 1");
    Err(bad("$.predictor.domain.line_weight", problem))
}

/// `None` if the model does not say which numbers of tasks ran together: it is from an older version, or nothing ran
/// together.
fn domain(params: &ModelParams) -> Result<Option<Domain>, PredictError> {
    if params.domain.crowds.is_empty() {
        return Ok(None);
    }
    let crowds = &params.domain.crowds;
    if crowds[0] < 2 || crowds.windows(2).any(|w| w[0] >= w[1]) {
        return Err(bad("$.predictor.domain.crowds", "not ascending from 2"));
    }
    let levels = |(i, t): (usize, &TaskParams)| {
        let path = format!("$.predictor.tasks[{i}].together_shares_percent");
        let share = |p: &f64| Share::from_percent(*p).map_err(|e| bad(&path, e.to_string()));
        let v: Vec<Share> = t
            .together_shares_percent
            .iter()
            .map(share)
            .collect::<Result<_, _>>()?;
        if v.windows(2).any(|w| w[0] >= w[1]) {
            return Err(bad(path, "not ascending"));
        }
        Ok(v)
    };
    let shares = params.tasks.iter().enumerate().map(levels);
    Ok(Some(Domain {
        shares: shares.collect::<Result<_, _>>()?,
        crowds: params.domain.crowds.iter().map(|n| *n as usize).collect(),
    }))
}

fn points(params: &ModelParams, tasks: usize) -> Result<Vec<Vec<Setting>>, PredictError> {
    let one = |p: &written::Point, path: &str| {
        let unit = |e: units::UnitError| bad(path, e.to_string());
        if p.task as usize >= tasks {
            return Err(bad(path, format!("task {} of {tasks}", p.task)));
        }
        Ok(Setting {
            task: p.task as usize,
            batch: Batch::new(p.batch).map_err(unit)?,
            share: Share::from_percent(p.share_percent).map_err(unit)?,
        })
    };
    let all = params.points.iter().enumerate().map(|(k, v)| {
        let path = format!("$.predictor.points[{k}]");
        if v.len() > tasks {
            return Err(bad(path, "more tasks than the workload has"));
        }
        v.iter()
            .map(|p| one(p, &path))
            .collect::<Result<Vec<_>, _>>()
    });
    all.collect()
}

fn parts(
    t: &TaskParams,
    task: usize,
    method: Method,
    base: &Base,
    points: &[Vec<Setting>],
) -> Result<Regressors, PredictError> {
    let path = format!("$.predictor.tasks[{task}]");
    let gp = match &t.gp {
        Some(g) if matches!(method, Method::Gp | Method::Blend) => {
            let path = format!("{path}.gp");
            let row = |inputs: &CorunInputs, at: usize| {
                let mut x = [0.0; MAX_FEATURES];
                base.layout.fill(inputs, at, &mut x);
                x[..base.layout.len()].to_vec()
            };
            let tasks = match g.tasks.is_empty() {
                true => vec![task; g.points.len()],
                false => g.tasks.iter().map(|t| *t as usize).collect(),
            };
            Some(process(g, &tasks, base, points, &path, row)?)
        }
        _ => None,
    };
    let read = |t: &Option<written::TreesParams>, name: &str| match t {
        Some(t) if method == Method::Blend => Ok(Some(trees(t, base, &format!("{path}.{name}"))?)),
        _ => Ok(None),
    };
    Ok(Regressors {
        trees: read(&t.trees, "trees")?,
        solo_trees: read(&t.solo_trees, "solo_trees")?,
        gp,
    })
}

fn trees(t: &written::TreesParams, base: &Base, path: &str) -> Result<Trees, PredictError> {
    let n = t.value.len() / LEAVES;
    length(path, t.value.len(), n * LEAVES)?;
    length(path, t.feature.len(), n * SPLITS)?;
    length(path, t.threshold.len(), n * SPLITS)?;
    numbers(path, &t.threshold, false)?;
    numbers(path, &t.value, false)?;
    if let Some(f) = t.feature.iter().find(|f| **f as usize >= base.layout.len()) {
        return Err(bad(path, format!("feature {f} of {}", base.layout.len())));
    }
    Ok(Trees {
        feature: t.feature.clone(),
        threshold: t.threshold.clone(),
        value: t.value.clone(),
    })
}
