//! Why jobs wait, and what was tried with their templates.

use std::collections::{BTreeMap, BTreeSet};

use units::Bytes;

use crate::book::{Entry, Id};
use crate::learnt::Learnt;
use crate::server::Keeper;

/// Maximum number of reasons that are listed: nobody reads more.
const MOST: usize = 50;

impl Keeper {
    /// Lines for users: why these jobs wait, and what was learnt about their templates. Without `ids`: all jobs that
    /// have not ended.
    pub(crate) fn why(&self, ids: &[Id]) -> Vec<String> {
        let ids: BTreeSet<Id> = ids.iter().copied().collect();
        let entries: Vec<&Entry> = match ids.is_empty() {
            true => self.book.running().chain(self.book.waiting()).collect(),
            false => ids
                .iter()
                .filter_map(|id| self.book.entries.get(id))
                .collect(),
        };
        let mut lines = match ids.is_empty() {
            true => self.common_reasons(&entries),
            false => entries.iter().map(|entry| self.reason(entry)).collect(),
        };
        let templates: BTreeSet<&str> = entries.iter().map(|e| &*e.job.template).collect();
        for (kind, learnt) in self.policy.learnt() {
            let known = learnt
                .iter()
                .filter(|(template, _)| templates.contains(template.as_str()));
            for (template, learnt) in known {
                lines.push(format!("{} on {kind}:", cli::one_line(template)));
                lines.extend(tried(learnt).into_iter().map(|line| format!("  {line}")));
            }
        }
        if lines.is_empty() {
            lines.push("no job waits".to_owned());
        }
        lines
    }

    /// Why one job waits, or its state.
    fn reason(&self, entry: &Entry) -> String {
        let id = entry.job.id;
        match (entry.is_running(), entry.is_ended()) {
            (true, _) => {
                let placed = entry
                    .placed
                    .as_ref()
                    .map(|placed| placed.devices.join(", "));
                let on = placed.map(|on| format!(" on {on}")).unwrap_or_default();
                format!("{id} runs{on}")
            }
            (_, true) => format!("{id} has ended"),
            _ => format!("{id} waits: {}", self.policy.why(&self.book, id)),
        }
    }

    /// One line for all jobs of a template that wait for the same reason.
    fn common_reasons(&self, entries: &[&Entry]) -> Vec<String> {
        let mut all: BTreeMap<(String, &str), (Id, usize)> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| !entry.is_running()) {
            let why = self.policy.why(&self.book, entry.job.id);
            let (_, count) = all
                .entry((why, &entry.job.template))
                .or_insert((entry.job.id, 0));
            *count += 1;
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(_, (first, _))| *first);
        let told = all.into_iter().take(MOST);
        told.map(|((why, template), (first, count))| {
            let template = cli::one_line(template);
            match count {
                1 => format!("{first} waits: {why}: {template}"),
                _ => format!("{count} jobs from {first} on wait: {why}: {template}"),
            }
        })
        .collect()
    }
}

/// The trials of a template and their results.
fn tried(learnt: &Learnt) -> Vec<String> {
    let level = match learnt.wants {
        Some(wants) => format!(
            "up to {} at once, since one keeps {wants:.2} processors busy",
            learnt.level
        ),
        None => {
            let over = learnt
                .over_alone()
                .map(|over| format!(": {over:.2} times the throughput of one"));
            let more = if learnt.step == 0 {
                "; more gained nothing"
            } else {
                ""
            };
            format!("{} at once{}{more}", learnt.level, over.unwrap_or_default())
        }
    };
    let mut lines = vec![level];
    lines.extend(learnt.tried());
    lines.extend(
        learnt
            .peak
            .and_then(|bytes| Bytes::new(bytes).ok())
            .map(|bytes| format!("one used at most {bytes} of memory")),
    );
    lines
}
