//! Table I: communication overlap off and on.

use std::path::Path;

use doc::Timeline;

use crate::Outcome;
use crate::cycle::Range;
use crate::reported::{self, Overlap};
use crate::settings::{Reading, read, splits};
use crate::summary::{Page, Speedups, there};

/// The reading in the table: a model is moved once per round, half of it each way.
const ADOPTED: Reading = Reading::Half;

/// The split in the table: images in proportion to the planned rates.
const SPLIT: &str = "together";

fn file(row: usize, split: &str, reading: Reading) -> String {
    format!("overlap{row}.{split}.{}.timeline.json", reading.name())
}

fn timeline(out: &Path, row: usize, split: &str, reading: Reading) -> Outcome<Timeline> {
    read(&out.join(file(row, split, reading)))
}

/// Speed-up by overlap in percent.
fn speedup(t: &Timeline) -> f64 {
    100.0 * (t.overlap_off.get() / t.makespan.get() - 1.0)
}

/// Table I, how its readings differ, and what planning a round costs.
pub fn write(page: &mut Page<'_>) -> Outcome<()> {
    let Page {
        data, out, label, ..
    } = *page;
    let rows = reported::overlaps(data)?;
    writeln!(
        page.md,
        "## Table I: overlap of transfers and compute ({label}, RTX 3090, 400 Mbit/s each way)\n\nThe model of a round: one download and one upload at a time, both directions at once; tasks compute at the rates predicted for those that compute at the same time. The volumes are those of the paper: time multiplied by throughput gives {} images per round; its times with and without overlap give the same volumes within 0.1 %. Here they are divided in proportion to the planned rates, so that without overlap all tasks compute equally long. Each model is moved once per round, half of it each way. No volume is chosen to fit a time: both times are predictions. *Literal* is Algorithm 1 as printed: one order for both directions, and each task at its planned rate, whichever other tasks compute.\n\n| mix | off s ours / paper | img/s | on s ours / paper | img/s | speed-up % ours / paper | proven best | points | search ms | literal: speed-up % |\n|---|---|---|---|---|---|---|---|---|---|",
        rows.iter()
            .map(|row| format!("{:.1}k", row.images() / 1e3))
            .collect::<Vec<_>>()
            .join(", ")
    )?;
    for (i, row) in rows.iter().enumerate() {
        if there(out, &format!("overlap{i}")) {
            let t = timeline(out, i, SPLIT, ADOPTED)?;
            let literal = read(&out.join(format!("overlap{i}.literal.timeline.json")))?;
            overlap_row(&t, &literal, row, page)?;
        }
    }
    readings(&rows, page)?;
    overhead(&rows, page)
}

fn overlap_row(
    t: &Timeline,
    literal: &Timeline,
    row: &Overlap,
    page: &mut Page<'_>,
) -> Outcome<()> {
    let (off, on) = (t.overlap_off.get(), t.makespan.get());
    let paper = 100.0 * (row.off_s / row.on_s - 1.0);
    let error = (speedup(t) - paper).abs();
    page.summary.table1_error_points_max = page.summary.table1_error_points_max.max(error);
    let time = [off / row.off_s, on / row.on_s].map(|ratio| 100.0 * (ratio - 1.0).abs());
    page.summary.table1_time_error_percent_max = page
        .summary
        .table1_time_error_percent_max
        .max(time[0])
        .max(time[1]);
    writeln!(
        page.md,
        "| {} | {off:.2} / {:.2} | {:.0} / {:.0} | {on:.2} / {:.2} | {:.0} / {:.0} | {:.1} / {paper:.1} | {} | {} | {:.2} | {:.1} |",
        row.mix,
        row.off_s,
        row.images() / off,
        row.off_images_per_s,
        row.on_s,
        row.images() / on,
        row.on_images_per_s,
        speedup(t),
        if t.proven { "yes" } else { "no" },
        t.search.points,
        1e3 * t.search.seconds.unwrap_or(0.0),
        speedup(literal)
    )?;
    page.summary.table1.push(Speedups {
        mix: row.mix.clone(),
        ours_percent: speedup(t),
        literal_percent: speedup(literal),
        paper_percent: paper,
    });
    Ok(())
}

/// The assumptions behind the speed-up that the paper does not state: how often a model is moved, and how the images
/// are divided.
fn readings(rows: &[Overlap], page: &mut Page<'_>) -> Outcome<()> {
    let Page { out, .. } = *page;
    writeln!(
        page.md,
        "\nThe same under other readings of the paper. *Rate* is the compute rate (images per second) that remains if the transfers are subtracted from the time without overlap, the paper's relative to ours, with volumes in proportion to rates; it is 1 if the reading explains the row. The speed-ups are in percent: for volumes in proportion to rates, for equal volumes, and the range over all orders of 1:2:3.\n\n| mix | reading | transfers s | rate | in proportion | equal | 1:2:3 | paper |\n|---|---|---|---|---|---|---|---|"
    )?;
    for (i, row) in rows.iter().enumerate() {
        if !there(out, &format!("overlap{i}")) {
            continue;
        }
        for reading in Reading::ALL {
            let equal = timeline(out, i, "equal", reading)?;
            let together = timeline(out, i, SPLIT, reading)?;
            let transfers: f64 = together
                .phases
                .iter()
                .filter(|p| p.kind != doc::PhaseKind::Compute)
                .map(|p| p.end.get() - p.start.get())
                .sum();
            let ours = together.overlap_off.get() - transfers;
            let rate = ours / (row.off_s - transfers);
            let mut range = Range::default();
            for (split, _) in splits().into_iter().skip(1) {
                // A reduced run has fewer orders.
                if out.join(file(i, &split, reading)).exists() {
                    range.add(speedup(&timeline(out, i, &split, reading)?));
                }
            }
            let what = match reading {
                Reading::Up => "once, up",
                Reading::Down => "once, down",
                Reading::Half => "once, half each way",
                Reading::Twice => "both ways",
            };
            if reading == ADOPTED {
                let off = 100.0 * (rate - 1.0).abs();
                page.summary.table1_rate_error_percent_max =
                    page.summary.table1_rate_error_percent_max.max(off);
            }
            writeln!(
                page.md,
                "| {} | {what} | {transfers:.2} | {rate:.2} | {:.1} | {:.1} | {} | {:.1} |",
                row.mix,
                speedup(&together),
                speedup(&equal),
                range.text(),
                100.0 * (row.off_s / row.on_s - 1.0)
            )?;
        }
    }
    writeln!(page.md)?;
    Ok(())
}

/// Time of planning relative to the time of the planned round.
fn overhead(rows: &[Overlap], page: &mut Page<'_>) -> Outcome<()> {
    let Page { data, out, .. } = *page;
    let (low, high) = reported::claim(data, "scheduling overhead")?;
    writeln!(
        page.md,
        "## Scheduling overhead per round\n\nTime of the two searches on this machine (allocation with a fitted model, then order) relative to the time of the round that they plan. The rounds are those of Table I. The paper reports {low:.0} to {high:.0} % of training time.\n\n| mix | allocation ms | order ms | round s | overhead % |\n|---|---|---|---|---|"
    )?;
    for (i, row) in rows.iter().enumerate() {
        if !there(out, &format!("overlap{i}")) {
            continue;
        }
        let t = timeline(out, i, SPLIT, ADOPTED)?;
        let allocation = t
            .plan
            .feasible()
            .and_then(|found| found.search.seconds)
            .ok_or("a plan without the time of its search")?;
        let order = t
            .search
            .seconds
            .ok_or("a timeline without the time of its search")?;
        let percent = 100.0 * (allocation + order) / t.makespan.get();
        page.summary.scheduling_overhead_percent_max =
            page.summary.scheduling_overhead_percent_max.max(percent);
        writeln!(
            page.md,
            "| {} | {:.1} | {:.2} | {:.2} | {percent:.2} |",
            row.mix,
            1e3 * allocation,
            1e3 * order,
            t.makespan.get()
        )?;
    }
    writeln!(page.md)?;
    Ok(())
}
