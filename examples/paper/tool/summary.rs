//! RESULTS.md and summary.json: ours beside the paper's.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::Outcome;
use crate::figures::Setting;
use crate::reported;
use crate::{cycle, overlaps, panels, search};

/// The figures by which the reproduction is judged.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub command: String,
    /// From the paper's figures and the settings derived from them.
    pub inputs_sha256: String,
    pub ratio_mae: f64,
    pub ratio_mae_3080: f64,
    pub isolated_above_sharing_max: f64,
    pub temporal_error_max_percent: f64,
    pub rv_best_percent: f64,
    pub rv_gain_over_sharing: f64,
    /// The minimum over Tables III to V: for the best measured sample, and for a choice by prediction alone, like the
    /// paper's.
    pub completion_min: f64,
    pub completion_predicted_min: f64,
    pub completion_predicted_mean: f64,
    pub rank_top_percent_max: f64,
    pub rank_predicted_top_percent_max: f64,
    /// For the adopted reading with equal volumes.
    pub table1_error_points_max: f64,
    /// Mean over the rows of Tables IV and V, ours and the paper's.
    pub over_isolated_mean: f64,
    pub over_isolated_mean_paper: f64,
    pub over_sharing_mean: f64,
    pub over_sharing_mean_paper: f64,
    /// Best shares relative to the best equal shares, over the same rows.
    pub over_equal_shares_mean: f64,
    pub over_equal_shares_max: f64,
    /// Over the settings of Fig. 9; isolated counts as a static partition.
    pub over_best_static_min: f64,
    /// Fig. 10, relative to temporal: while all run, and for the whole round.
    pub cycle_throughput_min: f64,
    pub cycle_throughput_max: f64,
    pub cycle_round_min: f64,
    pub cycle_round_max: f64,
    /// Table I: error of the times without and with overlap, and of the compute rate that follows from the adopted
    /// reading.
    pub table1_time_error_percent_max: f64,
    pub table1_rate_error_percent_max: f64,
    pub table1: Vec<Speedups>,
    pub scheduling_overhead_percent_max: f64,
    /// Table II: every point, their time, and the distance of branch and bound from the best of them.
    pub search_points: usize,
    pub search_ms: f64,
    pub search_gap_percent: f64,
    pub device: String,
}

/// Speed-ups of a row of Table I.
#[derive(Debug, Serialize)]
pub struct Speedups {
    pub mix: String,
    pub ours_percent: f64,
    /// By Algorithm 1 as printed.
    pub literal_percent: f64,
    pub paper_percent: f64,
}

/// Program, device and inputs.
pub struct About<'a> {
    pub device: &'a str,
    /// Hash of the inputs.
    pub inputs: &'a str,
}

/// Number of random co-runs for a choice by prediction alone.
pub fn learnt() -> String {
    std::env::var("LEARNT").unwrap_or_else(|_| "30".to_owned())
}

/// The page being written.
pub struct Page<'a> {
    /// The paper's figures.
    pub data: &'a Path,
    /// Our measurements.
    pub out: &'a Path,
    /// `simulated` or `measured`.
    pub label: &'a str,
    pub summary: Summary,
    /// The text.
    pub md: &'a mut dyn Write,
}

/// Writes RESULTS.md to `md` and summary.json into the folder `out`.
pub fn write(data: &Path, out: &Path, about: &About<'_>, md: &mut dyn Write) -> Outcome<()> {
    let device = about.device;
    let simulated = device == "sim";
    let summary = Summary {
        command: "make paper".to_owned(),
        inputs_sha256: about.inputs.to_owned(),
        completion_min: f64::INFINITY,
        completion_predicted_min: f64::INFINITY,
        over_best_static_min: f64::INFINITY,
        device: if simulated { "sim (simulated)" } else { device }.to_owned(),
        ..Summary::default()
    };
    let label = if simulated { "simulated" } else { "measured" };
    writeln!(
        md,
        "# FedMT, ours beside the paper's\n\nWritten by `make paper`. Every figure of ours is {label}; `paper` is what the paper reports on its own machines. Throughputs are images per second of all tasks together. The figures by which the reproduction is judged are in `summary.json` beside this page, with the hash of the inputs.\n"
    )?;
    if !simulated {
        writeln!(
            md,
            "Measured on `{device}` of this machine, whatever GPU a heading names: compare its ratios, not its rates.{}\n",
            match device {
                "cpu" =>
                    " The tasks are fully connected networks with operations in proportion to those of the models, under quotas of processor time.",
                _ => "",
            }
        )?;
    }
    let page = &mut Page {
        data,
        out,
        label,
        summary,
        md,
    };
    throughput_tables(page)?;
    panels::virtual_resource(page)?;
    panels::timelines(page)?;
    panels::scatter(page)?;
    panels::schemes(page)?;
    panels::allocations(page)?;
    cycle::write(page)?;
    overlaps::write(page)?;
    search::write(page)?;
    if simulated {
        writeln!(page.md, "{}", include_str!("../notes.md"))?;
    }
    let text = serde_json::to_string_pretty(&page.summary)?;
    fs::write(out.join("summary.json"), text + "\n")?;
    Ok(())
}

/// Whether a setting is part of this run.
pub fn there(out: &Path, name: &str) -> bool {
    out.join(format!("{name}.workload.json")).exists()
}

/// Sums over the rows of Tables IV and V.
#[derive(Default)]
struct Rows {
    errors: Vec<f64>,
    unfitted: Vec<f64>,
    /// Relative to isolated and to sharing, ours and the paper's.
    gains: [Vec<f64>; 4],
    uniform: Vec<f64>,
    /// Completion of choices by prediction alone.
    predicted: Vec<f64>,
}

fn throughput_tables(page: &mut Page<'_>) -> Outcome<()> {
    let Page {
        data, out, label, ..
    } = *page;
    writeln!(
        page.md,
        "## Tables IV and V: total throughput\n\nIsolated, sharing and ours are throughputs relative to temporal sharing; each cell is ours ({label}) / paper. Ours is the best of the adaptive samples; `completion` is its throughput relative to the best of an exhaustive search; `samples` includes solo runs. The paper chooses by prediction: `predicted` is the completion of a choice made only by the model of {} random co-runs alone. The last two columns show what different shares are worth: the best equal share for everyone, and the best shares relative to it.\n\n| GPU | mix | temporal img/s | isolated | sharing | ours | over isolated | over sharing | shares % | samples | completion | predicted | equal % | best over equal |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        learnt()
    )?;
    let mut rows = Rows::default();
    for (i, row) in reported::throughputs(data)?.iter().enumerate() {
        let name = format!("row{i}");
        if there(out, &name) {
            let ours = Setting::read(out, &name)?;
            throughput_row(row, &ours, &mut rows, page)?;
        }
    }
    page.summary.ratio_mae = mean(&rows.errors);
    page.summary.ratio_mae_3080 = mean(&rows.unfitted);
    let [isolated, isolated_paper, sharing, sharing_paper] = rows.gains.each_ref().map(|v| mean(v));
    page.summary.over_isolated_mean = isolated;
    page.summary.over_isolated_mean_paper = isolated_paper;
    page.summary.over_sharing_mean = sharing;
    page.summary.over_sharing_mean_paper = sharing_paper;
    page.summary.completion_predicted_mean = mean(&rows.predicted);
    page.summary.over_equal_shares_mean = mean(&rows.uniform);
    page.summary.over_equal_shares_max = rows.uniform.iter().copied().fold(0.0, f64::max);
    writeln!(
        page.md,
        "\nMean absolute error of the ratios: {:.3}; on the RTX 3080 rows, which no constant was fitted to: {:.3}. Mean gain over isolated {isolated:.2} / {isolated_paper:.2}, over full sharing {sharing:.2} / {sharing_paper:.2}. Best shares relative to the best equal ones: mean {:.3}, at most {:.3}. Choices by prediction alone reach {:.3} of the best on average, and {:.3} at worst.\n",
        page.summary.ratio_mae,
        page.summary.ratio_mae_3080,
        page.summary.over_equal_shares_mean,
        page.summary.over_equal_shares_max,
        page.summary.completion_predicted_mean,
        rows.predicted.iter().copied().fold(1.0, f64::min)
    )?;
    Ok(())
}

fn throughput_row(
    row: &reported::Throughputs,
    ours: &Setting,
    rows: &mut Rows,
    page: &mut Page<'_>,
) -> Outcome<()> {
    let ratios = ours.ratios();
    let paper = row.schemes.map(|s| s / row.temporal);
    for (a, b) in ratios.iter().zip(&paper) {
        rows.errors.push((a - b).abs());
        if row.gpu == "rtx-3080" {
            rows.unfitted.push((a - b).abs());
        }
    }
    if row.schemes[1] >= 0.95 * row.schemes[0] {
        let above = ratios[0] - ratios[1];
        page.summary.isolated_above_sharing_max =
            page.summary.isolated_above_sharing_max.max(above);
    }
    if row.gpu != "rtx-3080" {
        let off = 100.0 * (ours.temporal / row.temporal - 1.0).abs();
        page.summary.temporal_error_max_percent = page.summary.temporal_error_max_percent.max(off);
    }
    let completion = ours.completion(&ours.ours);
    page.summary.completion_min = page.summary.completion_min.min(completion);
    let predicted = ours.completion(&ours.predicted);
    page.summary.completion_predicted_min = page.summary.completion_predicted_min.min(predicted);
    rows.predicted.push(predicted);
    let [isolated, sharing] = ours.gains();
    let theirs = [0, 1].map(|k| row.schemes[2] / row.schemes[k]);
    for (all, gain) in rows
        .gains
        .iter_mut()
        .zip([isolated, theirs[0], sharing, theirs[1]])
    {
        all.push(gain);
    }
    rows.uniform.push(ours.over_uniform());
    let cell = |k: usize| format!("{:.2} / {:.2}", ratios[k], paper[k]);
    writeln!(
        page.md,
        "| {} | {} | {:.0} / {:.0} | {} | {} | {} | {isolated:.2} / {:.2} | {sharing:.2} / {:.2} | {} | {} | {completion:.3} | {predicted:.3} | {} | {:.3} |",
        row.gpu,
        row.mix,
        ours.temporal,
        row.temporal,
        cell(0),
        cell(1),
        cell(2),
        theirs[0],
        theirs[1],
        ours.shares(&ours.ours),
        ours.samples,
        ours.uniform.0[0].share,
        ours.over_uniform()
    )?;
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
