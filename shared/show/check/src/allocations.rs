//! Checks allocations of GPUs: each must be consistent in itself, and with the previous one.

use doc::{Allocation, Allotment};

use crate::judge::Judge;

/// Judges consecutive decisions. A JSON path names the decision: `$.decisions[3]`.
///
/// Gains and expected ends are not checked: they depend on losses and speeds that are not in the document.
pub fn judge(decisions: &[Allocation], j: &mut Judge) {
    for (at, decision) in decisions.iter().enumerate() {
        let before = at.checked_sub(1).map(|b| &decisions[b]);
        j.field("decisions", |j| {
            j.index(at, |j| {
                order(decision, before, j);
                grants(decision, j);
            });
        });
    }
    j.unjudged(
        "gain_s",
        "the losses and speeds behind it are not in the document",
    );
}

/// Decisions are numbered without gaps, their times never decrease, and each decision changes something.
fn order(decision: &Allocation, before: Option<&Allocation>, j: &mut Judge) {
    let Some(before) = before else {
        return;
    };
    j.same("seq", decision.seq, before.seq + 1);
    if decision.time < before.time {
        j.contradiction("time_s", decision.time, format!("{} or later", before.time));
    }
    let gpus = |a: &Allocation| -> Vec<(String, u32)> {
        let each = a.trainings.iter();
        each.map(|(id, a)| (id.to_string(), a.gpus)).collect()
    };
    if gpus(decision) == gpus(before) {
        j.contradiction("gpus", "a decision", "the same as before, so none");
    }
}

fn grants(decision: &Allocation, j: &mut Judge) {
    let given: u64 = decision.trainings.values().map(|a| u64::from(a.gpus)).sum();
    if given > u64::from(decision.total_gpus) {
        j.contradiction("gpus", given, format!("at most {}", decision.total_gpus));
    }
    for (id, allotment) in &decision.trainings {
        j.field("batches", |j| {
            j.field(id.as_str(), |j| batches(allotment, j))
        });
        if let Some(expected) = allotment.expected
            && expected.low < decision.time
        {
            let name = format!("expected.{id}.low_s");
            j.contradiction(&name, expected.low, format!("{} or later", decision.time));
        }
    }
}

/// Batch sizes are an equal split; its remainder goes to the first processes, one sample each.
fn batches(allotment: &Allotment, j: &mut Judge) {
    let sizes: Vec<u64> = allotment
        .batches
        .iter()
        .map(|b| u64::from(b.get()))
        .collect();
    let Some(count) = u64::try_from(sizes.len()).ok().filter(|n| *n > 0) else {
        return;
    };
    let total: u64 = sizes.iter().sum();
    for (rank, size) in (0..).zip(&sizes) {
        let fair = total / count + u64::from(rank < total % count);
        j.index(rank as usize, |j| j.same("", *size, fair));
    }
}
