//! What of a document is worth showing.

mod compare;
mod model;
mod pictures;
mod plan;
mod profile;
mod run_log;
mod timeline;
mod workload;

use doc::{Any, Plan};

use crate::report::Report;

/// Makes reports of documents in order, and remembers the last plan to compare with.
#[derive(Debug, Default)]
pub struct Reporter {
    plan: Option<Plan>,
}

impl Reporter {
    /// The report of one document.
    pub fn report(&mut self, document: &Any) -> Report {
        match document {
            Any::Workload(workload) => workload::report(workload),
            Any::Profile(profile) => profile::report(profile, self.plan.as_ref()),
            Any::Model(model) => model::report(model),
            Any::Plan(plan) => {
                self.plan = Some((**plan).clone());
                plan::report(plan)
            }
            Any::Timeline(timeline) => {
                self.plan = Some(timeline.plan.clone());
                timeline::report(timeline)
            }
            Any::Run(events) => run_log::report(events),
        }
    }
}

/// A list of names in a sentence.
fn listed<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    names.join(", ")
}

/// The name of a document's schema enum as it stands in the document.
fn word(kind: impl std::fmt::Debug) -> String {
    let mut out = String::new();
    for (i, c) in format!("{kind:?}").chars().enumerate() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
