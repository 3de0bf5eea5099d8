use doc::{Any, Model};

use crate::judge::Judge;
use crate::model::Refit;
use crate::verdict::Verdict;
use crate::{allocations, model, plan, profile, run_log, schedule, status, timeline, workload};

/// Judges the documents of a stream in order.
///
/// Profiles are remembered: a model can be fitted again if its profile precedes it.
#[derive(Default)]
pub struct Inspector {
    refits: Vec<Refit>,
}

impl Inspector {
    /// Judges the next document of the stream.
    pub fn judge(&mut self, document: Any) -> Verdict {
        let verdict = judge(&document, &self.refits);
        match document {
            Any::Profile(last) => self.refits.push(Refit::new(last)),
            // The next model may have been fitted to this run together with its profile.
            Any::Run(events) => {
                let joined = self.refits.last().and_then(|r| r.joined(&events));
                self.refits.extend(joined);
            }
            _ => {}
        }
        verdict
    }
}

/// Judges one document; `refits` are the preceding profiles.
fn judge(document: &Any, refits: &[Refit]) -> Verdict {
    let mut judge = Judge::new();
    let j = &mut judge;
    let (kind, id) = match document {
        Any::Workload(w) => {
            workload::judge(w, j);
            ("workload", w.id.clone())
        }
        Any::Profile(p) => {
            profile::judge(p, j);
            ("profile", p.header.workload.id.clone())
        }
        Any::Model(m) => {
            model::judge(m, j);
            fitted_again(m, refits, j);
            ("model", m.workload.id.clone())
        }
        Any::Plan(p) => {
            plan::judge(p, j);
            ("plan", p.id.clone())
        }
        Any::Timeline(t) => {
            timeline::judge(t, j);
            ("timeline", t.id.clone())
        }
        Any::Allocations(decisions) => {
            allocations::judge(decisions, j);
            ("allocations", None)
        }
        Any::Cluster(cluster) => {
            schedule::judge_cluster(cluster, j);
            ("cluster", cluster.id.clone())
        }
        Any::Schedule(s) => {
            schedule::judge(s, j);
            ("schedule", s.id.clone())
        }
        Any::Status(s) => {
            status::judge(s, j);
            ("status", None)
        }
        Any::Run(events) => {
            let id = run_log::judge(events, j);
            ("run", id)
        }
    };
    Verdict::new(kind, id, judge)
}

/// Fits a model's profile again, if it precedes the model, and compares.
fn fitted_again(model: &Model, refits: &[Refit], j: &mut Judge) {
    let mut known = refits.iter().rev().filter(|r| r.concerns(model));
    match (known.next(), refits) {
        (Some(refit), _) => {
            let mut own = Judge::new();
            refit.judge(model, &mut own);
            // The model may have been fitted to the profile without the runs.
            let without = !own.lies.is_empty() && known.any(|r| r.is_source_of(model));
            if !without {
                j.lies.extend(own.lies);
                j.unjudged.extend(own.unjudged);
            }
        }
        (None, [only]) if only.resembles(model) => {
            j.contradiction(
                "workload",
                "this workload and device",
                "those of the profile before it",
            );
        }
        _ => j.unjudged("predictor", "give its profile before it to fit it again"),
    }
}
