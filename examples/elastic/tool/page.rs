//! The page of results.

use std::fmt::Write;

use crate::clock::PAUSE_S;
use crate::results::{Change, PARTS, PER_PROCESS, PER_TASK, Results, TASKS, median};

/// What the paper reports in Table II, in percent: batch, total, older, younger.
const REPORTED: [(&str, [f64; 3]); 2] = [
    (PER_PROCESS, [-2.72, -23.01, -4.03]),
    (PER_TASK, [-4.70, -12.76, -7.26]),
];

/// All results for people.
pub fn page(results: &Results) -> String {
    let mut page = String::from(
        "# Elastic trainings: results\n\n\
         Written by `make elastic`. *Simulated*: the machine of the paper's figures, with constants \
         chosen so that its table comes out in direction. *Virtual clock*: losses of recorded \
         trainings, speed of that machine. *Live*: processes of mt-worker on this machine's \
         processors. Below 0 is shorter.\n",
    );
    if results.quick {
        page.push_str("\nThe reduced form (QUICK=1): fewer cases, pairs and repetitions.\n");
    }
    // Writing to a string does not fail.
    table(results, &mut page).ok();
    optimum(results, &mut page).ok();
    forecasts(results, &mut page).ok();
    virtual_clock(results, &mut page).ok();
    live(results, &mut page).ok();
    page
}

fn table(results: &Results, page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Older and younger on 4 GPUs (simulated)\n\n\
         Changes against 2-2 in percent; the paper's for 3-1 in brackets.\n\n\
         | batch | older-younger | total s | total | older | younger |\n|---|---|---|---|---|---|"
    )?;
    for (batch, older, younger, times, change) in &results.table {
        let reported = REPORTED.iter().find(|r| r.0 == *batch && *older == 3);
        let cell = |at: usize| match reported {
            Some((_, percent)) => format!("{:+.1} ({:+.1})", change[at], percent[at]),
            None => format!("{:+.1}", change[at]),
        };
        writeln!(
            page,
            "| {batch} | {older}-{younger} | {:.1} | {} | {} | {} |",
            times.total,
            cell(0),
            cell(1),
            cell(2)
        )?;
    }
    writeln!(
        page,
        "\nThe paper's total at 2-2 with 512 per task is 567.5 s."
    )
}

fn optimum(results: &Results, page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Against the optimum (simulated)\n\n\
         Sum of completion times over that of the optimal allocation of every phase: random cases \
         of 2 to 4 tasks on 4 to 8 GPUs. Then the mean over ours, for more tasks on 8 GPUs, which \
         the paper leaves open.\n\n\
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
        "Forecasts within a factor of two, in percent of the AlgoPerf trainings; how often a fit \
         said never in brackets; then how often the 90 % interval held the truth. Nothing is declared \
         but the target loss. An answer of as many steps as are made would be right at half of the \
         way and nowhere else.\n\n\
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
        "Two recorded trainings on 4 GPUs, 512 samples a step, the second 200 s after the first; a \
         reconfiguration pauses {PAUSE_S} s. Medians of the changes against equal shares, in \
         percent.\n"
    )?;
    changes(&results.virtual_clock, "pairs", page)
}

fn live(results: &Results, page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## Live, on this machine's processors\n")?;
    if results.live_times.is_empty() {
        return writeln!(page, "Skipped.");
    }
    writeln!(
        page,
        "mt-worker as two trainings on 4 parts of the processors, moved by mt-launch as mt-elastic \
         decides. Medians of the repetitions.\n\n\
         | policy | total s | older s | younger s |\n|---|---|---|---|"
    )?;
    for (name, [total, older, younger]) in &results.live_times {
        writeln!(page, "| {name} | {total:.2} | {older:.2} | {younger:.2} |")?;
    }
    writeln!(page, "\nChanges against equal shares, in percent.\n")?;
    changes(&results.live, "runs", page)?;
    if let Some(pause) = median(results.pauses.clone()) {
        let most = results.pauses.iter().copied().fold(0.0, f64::max);
        writeln!(
            page,
            "\nA reconfiguration paused a training for {pause:.2} s (median of {}, at most \
             {most:.2} s); {} steps were repeated.",
            results.pauses.len(),
            results.broken_steps
        )?;
    }
    Ok(())
}

fn changes(changes: &[Change], what: &str, page: &mut String) -> std::fmt::Result {
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
