use doc::{PhaseKind, RatesKind, ScheduleClass, Timeline};

use super::words::{listed, phase_name};
use super::{pictures, plan, verdict, workload};
use crate::number::{change, plain};
use crate::page::{Cell, Report, Table};

/// Width of a drawn bar in characters.
const BAR: f64 = 40.0;

/// Reports a timeline: makespan, bound and gap, with overlap and without, and the phases. Its plan follows,
/// unless it has just been shown.
pub fn report(timeline: &Timeline, plan_shown: bool) -> Report {
    let simulated = plan::simulated(&timeline.plan);
    let mut report = Report::new("Timeline", timeline.id.as_deref(), simulated);
    report.headline = verdict::headline(&timeline.plan);
    let seconds = |s: f64| format!("{} s", plain(s));
    let makespan = timeline.makespan.get();
    report.fact("makespan", seconds(makespan));
    let bound = seconds(timeline.lower_bound.get());
    let gap = 100.0 * timeline.gap;
    report.fact(
        "lower bound",
        match timeline.proven_among.filter(|_| timeline.proven) {
            Some(ScheduleClass::Any) => format!("{bound}, proven"),
            _ => format!("{bound}, whatever waits; gap {gap:.2} %"),
        },
    );
    if timeline.proven {
        let any = timeline.proven_among == Some(ScheduleClass::Any);
        let among = if timeline.single_order && !any {
            "; uploads keep the order of the downloads"
        } else {
            ""
        };
        report.fact("proof", format!("{}{among}", proof(timeline.proven_among)));
    }
    let off = timeline.overlap_off.get();
    if makespan > 0.0 {
        let gain = change(off / makespan);
        report.fact(
            "without overlap",
            format!("{}, so overlap gains {gain}", seconds(off)),
        );
    }
    let rates = match timeline.rates {
        RatesKind::Model => "predicted for every set of tasks that compute together",
        RatesKind::Table => "from the plan's table",
        RatesKind::Fixed => "always those of all tasks together",
    };
    report.fact("compute rates", rates);
    if let Some(link) = timeline.plan.known_link() {
        report.fact("link", workload::link(link));
    }
    let name = |&i: &usize| timeline.plan.tasks[i].id.clone();
    report.fact(
        "downloads",
        listed(timeline.download_order.iter().map(name)),
    );
    report.fact("uploads", listed(timeline.upload_order.iter().map(name)));
    let held = timeline.holds.iter().map(|h| {
        let (task, until) = (name(&h.task), name(&h.until));
        match (h.phase, h.end_of) {
            (PhaseKind::Compute, PhaseKind::Compute) => format!("{task} until {until} ends"),
            (phase, end_of) => {
                let phase = phase_name(phase);
                let end_of = phase_name(end_of);
                format!("{phase} of {task} until the {end_of} of {until} ends")
            }
        }
    });
    let held: Vec<String> = held.collect();
    if !held.is_empty() {
        let transfers = timeline.holds.iter().any(|h| h.phase != PhaseKind::Compute);
        report.fact(
            if transfers { "held" } else { "compute held" },
            listed(held),
        );
    }
    let changed = timeline
        .plan
        .tasks
        .iter()
        .zip(&timeline.batches)
        .filter_map(|(task, batch)| {
            let known = timeline.plan.given_of(&task.id).batch;
            let (planned, batch) = known.zip(*batch).filter(|(p, b)| p != b)?;
            Some(format!("{} {batch} in place of {planned}", task.id))
        });
    let changed: Vec<String> = changed.collect();
    if !changed.is_empty() {
        report.fact("batch sizes", listed(changed));
    }
    report.table(phases(timeline));
    pictures::round::of_timeline(&mut report, timeline);
    if !plan_shown {
        plan::add(&mut report, &timeline.plan);
        pictures::of_plan(&mut report, &timeline.plan);
    }
    report
}

/// Draws a period of time as a bar on a line of `BAR` characters, which represents `whole` seconds.
pub fn bar(start: f64, end: f64, whole: f64) -> String {
    if whole <= 0.0 {
        return String::new();
    }
    // A document may claim a total that is shorter than its parts.
    let place = |t: f64| (t / whole * BAR).round().min(BAR) as usize;
    let from = place(start).min(BAR as usize - 1);
    let length = place(end).saturating_sub(from).max(1);
    format!("{}{}", " ".repeat(from), "█".repeat(length))
}

/// What a proof excludes: no schedule of this class ends sooner.
fn proof(class: Option<ScheduleClass>) -> &'static str {
    match class {
        Some(ScheduleClass::Any) => "no schedule ends sooner, whatever waits",
        Some(ScheduleClass::Waiting) => {
            "no schedule ends sooner in which compute may wait for the end of another's, and transfers do not wait"
        }
        Some(ScheduleClass::Alternating) => {
            "no schedule ends sooner in which compute may wait for the end of another's, and transfers do not wait or go one at a time"
        }
        Some(ScheduleClass::NeverWaiting) => "no schedule without waits ends sooner",
        None => "no other order ends sooner",
    }
}

fn phases(timeline: &Timeline) -> Table {
    let whole = timeline.makespan.get();
    let mut table = Table::new("phases", "Phases of the round")
        .column("task", "task", "")
        .column("phase", "phase", "")
        .measured("start_s", "start", "s")
        .measured("end_s", "end", "s")
        .measured("duration_s", "takes", "s")
        .drawing("from start to end");
    for p in &timeline.phases {
        let (start, end) = (p.start.get(), p.end.get());
        table.rows.push(vec![
            timeline.plan.tasks[p.task].id.as_str().into(),
            phase_name(p.kind).into(),
            Cell::Number(start),
            Cell::Number(end),
            Cell::Number(end - start),
            bar(start, end, whole).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_no_longer_than_its_line() {
        for (start, end, whole) in [(0.0, 1.0, 1e-300), (1e300, 1e301, 1.0), (0.9, 1.0, 1.0)] {
            let drawn = bar(start, end, whole).chars().count();
            assert!(
                drawn > 0 && drawn <= BAR as usize,
                "{start} {end} {whole}: {drawn}"
            );
        }
    }
}
