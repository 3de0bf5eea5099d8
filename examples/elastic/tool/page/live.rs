//! Measurements on this machine.

use std::fmt::{Result, Write};

use super::changes;
use crate::live::Runs;
use crate::measured::Policies;
use crate::results::{Pair, Results, median};
use crate::steps::{AT, Steps, Training, WINDOW};

/// The sections on measurements.
pub fn all(results: &Results, page: &mut String) -> Result {
    two(results, page)?;
    models(results, page)?;
    many(&results.measured.many, page)?;
    moves(&results.measured.moves, page)?;
    match &results.measured.steps {
        Some(steps) => by_processes(steps, page),
        None => writeln!(page, "\n## What a step is worth, measured\n\nSkipped."),
    }
}

fn two(results: &Results, page: &mut String) -> Result {
    writeln!(page, "\n## Live, on this machine's processors\n")?;
    if results.live.times.is_empty() {
        return writeln!(page, "Skipped.");
    }
    writeln!(
        page,
        "Two trainings of mt-worker on 4 parts of the processors; mt-elastic decides, and mt-launch \
        moves them. Medians of the repetitions (least to most)."
    )?;
    pair(&results.live, page)?;
    if let Some(pause) = median(results.pauses.clone()) {
        writeln!(
            page,
            "\nA reconfiguration paused a training for {pause:.2} s (median of {}, at \
             most {:.2} s). In all live runs of this page {} steps were repeated.",
            results.pauses.len(),
            largest(&results.pauses),
            results.broken_steps
        )?;
    }
    Ok(())
}

fn models(results: &Results, page: &mut String) -> Result {
    writeln!(page, "\n## Live, two models with PyTorch\n")?;
    if results.models.times.is_empty() {
        return writeln!(page, "Skipped: no PyTorch.");
    }
    writeln!(
        page,
        "train.py with gloo on 4 parts of the processors: the older training is a network like ResNet, \
        the younger one like VGG. A difference below the range of the repetitions is not known."
    )?;
    pair(&results.models, page)
}

fn pair(pair: &Pair, page: &mut String) -> Result {
    writeln!(
        page,
        "\n| policy | total s | older s | younger s |\n|---|---|---|---|"
    )?;
    for (name, times) in &pair.times {
        let [total, older, younger] = times.each_ref().map(|all| ranged(all));
        writeln!(page, "| {name} | {total} | {older} | {younger} |")?;
    }
    writeln!(page, "\nChanges against equal shares, in percent.\n")?;
    changes(&pair.changes, "runs", page)
}

/// The median of repetitions, and the least and the most of them.
fn ranged(values: &[f64]) -> String {
    let middle = median(values.to_vec()).unwrap_or(f64::NAN);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{middle:.2} ({least:.2} to {:.2})", largest(values))
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn many(many: &[(usize, Policies)], page: &mut String) -> Result {
    writeln!(page, "\n## Live, 3 to 6 trainings on 8 parts\n")?;
    if many.is_empty() {
        return writeln!(page, "Skipped.");
    }
    writeln!(
        page,
        "Trainings of mt-worker with different lengths that arrive one after another. *mean s*: mean \
        time from arrival to completion; *all s*: time until all are done; both are medians (least to most). Then their \
        changes against equal shares in percent.\n\n\
         | trainings | policy | mean s | all s | mean | all | runs |\n|---|---|---|---|---|---|---|"
    )?;
    for (tasks, policies) in many {
        let of = |runs: &Runs| {
            let mean = median(runs.means()).unwrap_or(f64::NAN);
            (mean, median(runs.totals.clone()).unwrap_or(f64::NAN))
        };
        let equal = policies.get("equal").map(of);
        for (name, runs) in policies {
            let (mean, total) = of(runs);
            let change = |value: f64, base: Option<f64>| match base {
                Some(base) if name != "equal" => format!("{:+.1}", 100.0 * (value / base - 1.0)),
                _ => String::new(),
            };
            writeln!(
                page,
                "| {tasks} | {name} | {} | {} | {} | {} | {} |",
                ranged(&runs.means()),
                ranged(&runs.totals),
                change(mean, equal.map(|e| e.0)),
                change(total, equal.map(|e| e.1)),
                runs.totals.len()
            )?;
        }
    }
    Ok(())
}

fn moves(moves: &[(&'static str, Policies)], page: &mut String) -> Result {
    writeln!(page, "\n## Pauses\n")?;
    if moves.is_empty() {
        return writeln!(page, "Skipped.");
    }
    writeln!(
        page,
        "One training moves to 1, 2, 3 and 1 processes: seconds from its last step until the new \
        processes are ready. *cold*: the new processes start when the old ones have stopped. *standby*: \
        they load while the old ones still train.\n\n\
         | program | start | median s | most s | moves | steps repeated |\n|---|---|---|---|---|---|"
    )?;
    for (program, policies) in moves {
        for (how, runs) in policies {
            writeln!(
                page,
                "| {program} | {how} | {:.2} | {:.2} | {} | {} |",
                median(runs.pauses.clone()).unwrap_or(f64::NAN),
                largest(&runs.pauses),
                runs.pauses.len(),
                runs.broken_steps
            )?;
        }
    }
    Ok(())
}

fn by_processes(steps: &Steps, page: &mut String) -> Result {
    writeln!(
        page,
        "\n## What a step is worth, measured\n\n\
         mt-worker on 1 to 4 processes: loss (accuracy in percent) after this many steps, means of ten \
         runs. With 128 samples per process, a step of more processes has more samples. With 512 per \
         task, it has the same number on any number of processes, and the losses are equal up to \
         rounding.\n\n\
         | batch | processes | {} |\n|---|---|{}",
        AT.map(|at| format!("step {at}")).join(" | "),
        "---|".repeat(AT.len())
    )?;
    for Training {
        batch,
        processes,
        means,
    } in &steps.by_processes
    {
        let cells = means
            .iter()
            .map(|(loss, accuracy)| format!("{loss:.3} ({:.0})", 100.0 * accuracy));
        let cells: Vec<String> = cells.collect();
        writeln!(page, "| {batch} | {processes} | {} |", cells.join(" | "))?;
    }
    writeln!(
        page,
        "\nLoss deltas with 512 samples per step on one process. The delta of one step is mostly noise, \
        so its sign says little. Over a window of {WINDOW} steps (mean of the first quarter minus mean \
        of the last) it falls with age; the paper ranks by it.\n\n\
         | steps | delta of the window | mean size of the delta of a step | steps with a rising loss, percent |\n\
         |---|---|---|---|"
    )?;
    for delta in &steps.deltas {
        writeln!(
            page,
            "| {}-{} | {:.4} | {:.4} | {:.0} |",
            delta.step - WINDOW + 1,
            delta.step,
            delta.window,
            delta.single,
            100.0 * delta.rising
        )?;
    }
    Ok(())
}
