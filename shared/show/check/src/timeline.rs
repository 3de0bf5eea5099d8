//! Checks a timeline: its phases must be possible under the link and the compute rates, its makespan must
//! match them, and its bounds must hold.

mod bounds;
pub mod compute;
mod lane;
pub mod link;
mod orders;
mod starts;

use std::collections::BTreeMap;

use doc::{PhaseKind, RatesKind, ScheduleClass, Timeline};

use crate::judge::Judge;
use crate::plan;
use crate::rates::Rates;

pub use lane::{Lane, jobs, lanes};

/// Judges a timeline by the plan that it carries.
pub fn judge(timeline: &Timeline, j: &mut Judge) {
    j.field("plan", |j| plan::judge(&timeline.plan, j));
    j.same_option("id", timeline.id.as_ref(), timeline.plan.id.as_ref());
    kind_of_rates(timeline, j);
    figures(timeline, j);
    let Some(lanes) = lanes(timeline, j) else {
        return;
    };
    order_of_phases(timeline, &lanes, j);
    let jobs = match jobs(timeline) {
        Ok(jobs) => jobs,
        Err(why) => return j.unjudged("phases", why),
    };
    link::judge(timeline, &jobs, &lanes, j);
    starts::judge(timeline, &lanes, j);
    match Rates::of_timeline(timeline) {
        Err(why) => j.unjudged("phases", format!("compute cannot be recomputed: {why}")),
        Ok(mut rates) => {
            compute::judge(timeline, &jobs, &lanes, &mut rates, j);
            bounds::judge(timeline, &jobs, &mut rates, j);
            orders::judge(timeline, &jobs, &mut rates, j);
        }
    }
    batch_sizes(timeline, j);
    search(timeline, j);
}

fn search(timeline: &Timeline, j: &mut Judge) {
    let search = &timeline.search;
    j.field("search", |j| {
        if let Some(bound) = search.bound {
            j.number("bound", bound, timeline.lower_bound.get());
        }
        let proven = search.proof.is_proven();
        if proven != timeline.proven {
            j.contradiction(
                "proof",
                format!("{:?}", search.proof),
                format!("proven: {}", timeline.proven),
            );
        }
        let only_plain = timeline.proven_among == Some(ScheduleClass::NeverWaiting);
        if timeline.proven && only_plain && !timeline.holds.is_empty() {
            let truth =
                "not proven: the plan waits, and was compared with schedules that never wait";
            j.contradiction("proof", format!("{:?}", search.proof), truth);
        }
        if search.seconds.is_some() {
            j.unjudged("seconds", "how long a search took cannot be repeated");
        }
        j.unjudged("points", "counts the steps of a search");
    });
}

/// Batch sizes must lie between the smallest and the largest of the workload, or be the plan's, and fit into
/// memory.
fn batch_sizes(timeline: &Timeline, j: &mut Judge) {
    let plan = &timeline.plan;
    let Some(workload) = plan.workload() else {
        // Without a workload only the plan's batch sizes are known.
        for (i, ordered) in timeline.batches.iter().enumerate() {
            if let (Some(ordered), Some(planned)) = (ordered, plan.given(i).batch) {
                j.field("batches", |j| {
                    j.index(i, |j| j.same("batch", *ordered, planned))
                });
            }
        }
        return;
    };
    let asked = plan.feasible().and_then(|found| found.constraints.memory);
    let memory = asked.or(workload.device.memory).map(units::Bytes::get);
    let mut need: BTreeMap<u32, f64> = BTreeMap::new();
    for (i, task) in plan.tasks.iter().enumerate() {
        let known = workload.task_index(&task.id).map(|t| &workload.tasks[t]);
        let planned = plan.given(i).batch;
        let (Some(known), Some(batch)) = (known, timeline.batches[i].or(planned)) else {
            continue;
        };
        // A hand-written timeline may omit batch sizes; a timeline of a searched plan has them.
        if timeline.batches[i].is_none() && plan.feasible().is_some() {
            j.contradiction("batches", format!("nothing of {}", task.id), batch);
        }
        let least = known.batch_sizes.first();
        let most = known.batch_sizes.last();
        let within = least.is_some_and(|b| batch >= *b) && most.is_some_and(|b| batch <= *b);
        if !within && Some(batch) != planned {
            j.field("batches", |j| {
                j.index(i, |j| {
                    j.contradiction(
                        "batch",
                        batch,
                        "between the workload's smallest and largest",
                    )
                });
            });
        }
        *need.entry(task.gpu.unwrap_or(0)).or_default() +=
            known.memory.map_or(0.0, |m| m.at(batch));
    }
    for need in need.into_values() {
        if let Some(most) = memory.filter(|most| need > *most as f64) {
            j.contradiction(
                "batches",
                format!("{need} bytes of memory"),
                format!("at most {most}"),
            );
        }
    }
}

fn kind_of_rates(timeline: &Timeline, j: &mut Judge) {
    let has = |what: bool| if what { "has one" } else { "has none" };
    let (model, table) = (
        timeline.plan.model.is_some(),
        !timeline.plan.rates.is_empty(),
    );
    match timeline.rates {
        RatesKind::Model if !model => j.contradiction("rates", "of a model", has(model)),
        RatesKind::Table if !table => j.contradiction("rates", "of a table", has(table)),
        _ => {}
    }
}

/// Judges figures that follow from other figures of the timeline.
fn figures(timeline: &Timeline, j: &mut Judge) {
    let last = timeline.phases.iter().map(|p| p.end.get());
    let makespan = timeline.makespan.get();
    j.number("makespan_s", makespan, last.fold(0.0, f64::max));
    let bound = timeline.lower_bound.get();
    let gap = if bound > 0.0 {
        (makespan / bound - 1.0).max(0.0)
    } else {
        0.0
    };
    j.number_of("gap", timeline.gap, gap, 1.0);
    if bound > makespan * (1.0 + 1e-9) {
        j.contradiction(
            "lower_bound_s",
            bound,
            format!("at most {makespan}, the makespan"),
        );
    }
    let starts = timeline.phases.windows(2);
    if let Some(at) = starts.clone().position(|w| w[1].start < w[0].start) {
        let start = timeline.phases[at + 1].start.get();
        let before = timeline.phases[at].start.get();
        j.field("phases", |j| {
            j.index(at + 1, |j| {
                j.contradiction(
                    "start_s",
                    start,
                    format!("at least {before}: phases stand by start"),
                );
            });
        });
    }
}

/// Compute must follow the download, and the upload must follow compute, in the claimed orders.
pub fn order_of_phases(timeline: &Timeline, lanes: &[Lane], j: &mut Judge) {
    let room = 1e-9 * timeline.makespan.get();
    for (at, phase) in timeline.phases.iter().enumerate() {
        let lane = lanes[phase.task];
        let (earliest, what) = match phase.kind {
            PhaseKind::Download => continue,
            PhaseKind::Compute => (lane.download.end, "the end of its download"),
            PhaseKind::Upload => (lane.compute.end, "the end of its compute"),
        };
        if phase.start.get() < earliest - room {
            let truth = format!("at least {earliest}, {what}");
            let start = phase.start.get();
            j.field("phases", |j| {
                j.index(at, |j| j.contradiction("start_s", start, truth));
            });
        }
    }
    let downloads = timeline
        .download_order
        .iter()
        .map(|&i| lanes[i].download.start);
    let uploads = timeline.upload_order.iter().map(|&i| lanes[i].upload.start);
    let rises = |mut starts: Vec<f64>| {
        let claimed = starts.clone();
        starts.sort_by(f64::total_cmp);
        claimed == starts
    };
    for (name, starts) in [
        ("download_order", downloads.collect::<Vec<f64>>()),
        ("upload_order", uploads.collect()),
    ] {
        if !rises(starts) {
            j.contradiction(name, "this order", "another by the start of the phases");
        }
    }
}
