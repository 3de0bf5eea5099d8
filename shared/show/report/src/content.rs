//! Selects what to show of a document.

mod allocations;
mod compare;
mod learning;
mod model;
mod moves;
mod pictures;
mod plan;
mod profile;
mod run_log;
mod schedule;
mod seen;
mod status;
mod sweep;
mod timeline;
mod verdict;
mod words;
mod workload;

use doc::{Any, Plan};

use crate::page::Report;
use sweep::Sweep;

pub use verdict::verdict_note;

/// Makes reports of documents in order. To compare later profiles with plans, it remembers the last plan and
/// the predictions of every plan.
#[derive(Debug, Default)]
pub struct Reporter {
    plan: Option<Plan>,
    sweep: Sweep,
}

impl Reporter {
    /// The report of one document.
    pub fn report(&mut self, document: &Any) -> Report {
        match document {
            Any::Workload(workload) => workload::report(workload),
            Any::Profile(profile) => {
                self.sweep.measured(profile);
                profile::report(profile, self.plan.as_ref())
            }
            Any::Model(model) => model::report(model),
            Any::Plan(plan) => {
                self.remember(plan);
                plan::report(plan)
            }
            Any::Timeline(timeline) => {
                let shown = self.plan.as_ref() == Some(&timeline.plan);
                self.remember(&timeline.plan);
                timeline::report(timeline, shown)
            }
            Any::Run(events) => run_log::report(events),
            Any::Allocations(decisions) => allocations::report(decisions),
            Any::Cluster(cluster) => schedule::of_cluster(cluster),
            Any::Schedule(schedule) => schedule::report(schedule),
            Any::Status(status) => status::report(status),
        }
    }
}

impl Reporter {
    fn remember(&mut self, plan: &Plan) {
        self.sweep.planned(plan);
        self.plan = Some(plan.clone());
    }

    /// Report on all documents together, if there is any: measured plans with several total shares.
    pub fn finish(&mut self) -> Option<Report> {
        std::mem::take(&mut self.sweep).report()
    }
}
