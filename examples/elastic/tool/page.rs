//! The page of results.

mod live;

use std::fmt::Write;

use crate::clock::PAUSE_S;
use crate::results::{Change, PARTS, Results, TASKS};

/// The figures that the paper reports; see the folder.
const REPORTED: &str = include_str!("../data/reported.csv");

/// A figure of the paper.
fn reported(experiment: &str, quantity: &str) -> Option<f64> {
    let cells = REPORTED.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let mut rows = cells.filter(|c| c[..2] == [experiment, quantity]);
    rows.next()?[2].parse().ok()
}

/// The page with all results.
pub fn page(results: &Results) -> String {
    let mut page = String::from(
        "# Elastic trainings: results\n\n\
         Written by `make elastic`. *Simulated*: the paper's machine, with constants that reproduce the \
         signs of its table. *Virtual clock*: losses of recorded trainings at the speed of that machine. \
         *Live*: real trainings on this machine's processors. A negative change is a shorter time.\n",
    );
    if results.quick {
        page.push_str("\nThe reduced form (QUICK=1): fewer cases, pairs and repetitions.\n");
    }
    // Writing to a string does not fail.
    table(results, &mut page).ok();
    optimum(results, &mut page).ok();
    forecasts(results, &mut page).ok();
    virtual_clock(results, &mut page).ok();
    live::all(results, &mut page).ok();
    page
}

fn table(results: &Results, page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Older and younger on 4 GPUs (simulated)\n\n\
         Changes against 2-2 in percent; the paper's figures in brackets.\n\n\
         | experiment | older-younger | total s | total | older | younger |\n|---|---|---|---|---|---|"
    )?;
    for row in &results.table {
        let split = format!("{}-{}", row.older, row.younger);
        let cell = |at: usize| {
            let quantity = ["total", "older", "younger"][at];
            match reported(row.experiment, quantity).filter(|_| row.older == 3) {
                Some(percent) => format!("{:+.1} ({percent:+.1})", row.change[at]),
                None => format!("{:+.1}", row.change[at]),
            }
        };
        let total = match reported(row.experiment, &format!("total at {split}")) {
            Some(seconds) => format!("{:.1} ({seconds:.1})", row.times.total),
            None => format!("{:.1}", row.times.total),
        };
        let experiment = row.experiment;
        let (all, older, younger) = (cell(0), cell(1), cell(2));
        writeln!(
            page,
            "| {experiment} | {split} | {total} | {all} | {older} | {younger} |"
        )?;
    }
    writeln!(
        page,
        "\nTime per sample and size of the gradient have the same ratio between the two models as in the \
        simulator's catalogue; ResNet50 has the fixed cost of a step of VGG16."
    )
}

fn optimum(results: &Results, page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Against the optimum (simulated)\n\n\
         Sum of completion times relative to the optimal allocation in every phase, for random cases of \
         2 to 4 tasks on 4 to 8 GPUs. The last four columns are the mean relative to ours on 8 GPUs, for \
         numbers of tasks that the paper leaves open.\n\n\
         | policy | mean | p95 | worst | 3 tasks | 4 | 5 | 6 |\n|---|---|---|---|---|---|---|---|"
    )?;
    for ((policy, spread), (_, many)) in results.optimum.iter().zip(&results.many) {
        write!(
            page,
            "| {} | {:.4} | {:.4} | {:.4} |",
            policy.name(),
            spread.mean,
            spread.p95,
            spread.max
        )?;
        for ratio in many.iter().take(TASKS.len()) {
            write!(page, " {ratio:.3} |")?;
        }
        writeln!(page)?;
    }
    Ok(())
}

fn forecasts(results: &Results, page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## Remaining steps of recorded trainings\n")?;
    if results.forecasts.is_empty() {
        return writeln!(page, "Skipped: no recorded trainings beside the project.");
    }
    let shown = PARTS.map(|p| format!("at {:.0} %", 100.0 * p));
    writeln!(
        page,
        "Each cell: how many forecasts are within a factor of two, in percent of the AlgoPerf trainings; \
        in brackets, how many fits predict that the target is never reached; then how many 90 % \
        intervals contain the true value. Only the target loss is declared. The trivial forecast, as \
        many steps again as were made, is right halfway and nowhere else.\n\n\
         | fit | {} |\n|---|---|---|---|",
        shown.join(" | ")
    )?;
    for (name, scores) in &results.forecasts {
        write!(page, "| {name} |")?;
        for score in scores {
            let never = 100.0 * score.never as f64 / score.all.max(1) as f64;
            write!(page, " {:.0} ({never:.0})", 100.0 * score.part())?;
            if let Some(held) = score.held {
                write!(
                    page,
                    ", {:.0}",
                    100.0 * held as f64 / score.all.max(1) as f64
                )?;
            }
            write!(page, " |")?;
        }
        writeln!(page)?;
    }
    let all: Vec<String> = results.forecasts[0]
        .1
        .iter()
        .map(|s| s.all.to_string())
        .collect();
    writeln!(page, "\nTrainings: {}.", all.join(", "))
}

fn virtual_clock(results: &Results, page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## Real losses on a virtual clock\n")?;
    if results.virtual_clock.is_empty() {
        return writeln!(page, "Skipped: no recorded trainings beside the project.");
    }
    writeln!(
        page,
        "Two recorded trainings on 4 GPUs, with 512 samples per step; the second starts 200 s after the \
        first, and a reconfiguration takes {PAUSE_S} s. Medians of the changes against equal shares, in \
         percent.\n"
    )?;
    changes(&results.virtual_clock, "pairs", page)
}

pub(super) fn changes(changes: &[Change], what: &str, page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "| policy | total | older | younger | {what} |\n|---|---|---|---|---|"
    )?;
    for change in changes {
        let [total, older, younger] = change.percent;
        writeln!(
            page,
            "| {} | {total:+.1} | {older:+.1} | {younger:+.1} | {} |",
            change.name, change.count
        )?;
    }
    Ok(())
}
