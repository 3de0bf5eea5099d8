use doc::Workload;
use doc::params::{self as written, Kind, ModelParams, TaskParams};
use units::corun::Setting;

use super::process::{tasks_of, write_process};
use super::unseen;
use crate::fit::Fitted;
use crate::model::{GpPart, Regressors};
use crate::part_share;
use crate::trees::Trees;

impl Fitted {
    /// The parameters for a model document.
    #[must_use]
    pub fn params(&self, workload: &Workload) -> ModelParams {
        let p = &self.predictor;
        let tasks = workload.tasks.iter().enumerate();
        let domain = p.base.domain.clone().unwrap_or_default();
        let error_of = |kind| {
            p.errors
                .iter()
                .find(|e| e.kind == kind)
                .map(|e| e.error_percent)
        };
        ModelParams {
            method: p.method,
            tasks: tasks.map(|(i, t)| self.task(i, t.id.as_str())).collect(),
            anchored: p.base.anchored,
            workload_law: p.base.workload_law.clone(),
            points: self
                .points
                .iter()
                .map(|v| v.iter().map(point).collect())
                .collect(),
            unseen: p.unseen.as_ref().map(|u| unseen::write(u, &self.points)),
            domain: written::Domain {
                configurations: self.configurations as u64,
                most_together: p.base.most_together as u32,
                crowds: domain.crowds.iter().map(|n| *n as u32).collect(),
                line_weight: p.line_weight,
            },
            validation: written::Validation {
                folds: self.report.folds as u32,
                total_error_percent: self
                    .report
                    .families
                    .iter()
                    .find(|(m, _)| *m == p.method)
                    .map(|(_, e)| *e),
                throughput_error_percent: error_of(Kind::Within),
                level_error_percent: error_of(Kind::Share),
                crowd_error_percent: error_of(Kind::Crowd),
                kinds: p.errors.clone(),
                coverage_90: self.report.coverage_90,
                families: self
                    .report
                    .families
                    .iter()
                    .map(|&(method, total_error_percent)| written::FamilyError {
                        method,
                        total_error_percent,
                    })
                    .collect(),
            },
        }
    }

    fn task(&self, i: usize, id: &str) -> TaskParams {
        let p = &self.predictor;
        let (base, trust) = (&p.base, &p.trust[i]);
        let first = base.kind.iter().position(|k| *k == base.kind[i]);
        let copy_of = first.filter(|first| *first < i);
        let none = Regressors::default();
        let parts = match copy_of {
            Some(_) => &none,
            None => &p.parts[base.kind[i]],
        };
        let gp = |g: &GpPart| written::GpParams {
            tasks: match base.kind.iter().filter(|k| **k == base.kind[i]).count() {
                1 => Vec::new(),
                _ => tasks_of(g, &self.points),
            },
            ..write_process(g)
        };
        let (anchor, law) = (&base.anchors[i], &base.laws[i]);
        TaskParams {
            id: id.to_owned(),
            copy_of: copy_of.map(|k| k as u32),
            evidence: base.evidence[i],
            solo: anchor
                .points
                .iter()
                .map(|&(b, step_s)| written::SoloStep {
                    batch: b as u64,
                    step_s,
                })
                .collect(),
            solo_slope_s: anchor.slope,
            solo_parts: base.parts[i].points.iter().map(write_part).collect(),
            law: written::LawParams {
                fixed_s: law.pace.fixed,
                crowding: law.pace.crowding,
                per_sample_s: law.pace.per_sample,
                bend: law.pace.bend,
                sharpness: law.pace.sharpness,
                overlap: law.pace.overlap,
                interference_exponent: law.pace.exponent,
                slowdown: law.slowdown.clone(),
            },
            gp: parts.gp.as_ref().map(gp),
            trees: parts.trees.as_ref().map(write_trees),
            solo_trees: parts.solo_trees.as_ref().map(write_trees),
            spread: trust.spread,
            interval_scale: trust.interval_scale,
            far_interval_scale: trust.far_scale,
            part_spread: trust.part_spread.near,
            part_far_spread: trust.part_spread.far,
            error_percent: trust.error_percent,
            batch_range: trust
                .batches
                .map(|(a, b)| (u64::from(a.get()), u64::from(b.get()))),
            share_range_percent: trust.shares.map(|(a, b)| (a.percent(), b.percent())),
            together_shares_percent: base
                .domain
                .iter()
                .flat_map(|d| &d.shares[i])
                .map(|s| s.percent())
                .collect(),
        }
    }
}

fn write_part(p: &part_share::Point) -> written::SoloPart {
    written::SoloPart {
        batch: p.batch as u64,
        share: p.share,
        weight: p.weight,
        step_s: p.step,
    }
}

fn write_trees(t: &Trees) -> written::TreesParams {
    written::TreesParams {
        feature: t.feature.clone(),
        threshold: t.threshold.clone(),
        value: t.value.clone(),
    }
}

fn point(a: &Setting) -> written::Point {
    written::Point {
        task: a.task as u32,
        batch: u64::from(a.batch.get()),
        share_percent: a.share.percent(),
    }
}
