//! Figs. 6, 7, 9, 11, 12 and 13 and Table III.

use std::fs;

use crate::Outcome;
use crate::figures::{Setting, occupancy};
use crate::reported;
use crate::settings::{FIG6, FIG12};
use crate::summary::{Page, there};
use crate::table::CoRun;

/// Fig. 6: throughput over the total virtual resource.
pub fn virtual_resource(page: &mut Page<'_>) -> Outcome<()> {
    let Page { out, label, .. } = *page;
    let s = Setting::read(out, "fig6")?;
    writeln!(
        page.md,
        "## Fig. 6: total virtual resource R_v, {FIG6} on Titan V ({label})\n\nThe best shares at each total, among all combinations of the grid. The paper finds the best at about 200 %.\n\n| R_v % | img/s | over sharing | fairness sum P/S | shares % |\n|---|---|---|---|---|"
    )?;
    let sharing = s.schemes[1];
    let mut best = (0.0, 0.0);
    for total in (100..=300).step_by(10) {
        let at = s
            .grid
            .full(3)
            .filter(|c| (c.rv() - f64::from(total)).abs() < 0.5);
        let Some(run) = at.max_by(|a, b| a.total().total_cmp(&b.total())) else {
            continue;
        };
        if run.total() > best.0 {
            best = (run.total(), f64::from(total));
        }
        writeln!(
            page.md,
            "| {total} | {:.0} | {:.2} | {:.2} | {} |",
            run.total(),
            run.total() / sharing,
            s.fairness(run),
            s.shares(run)
        )?;
    }
    page.summary.rv_best_percent = best.1;
    page.summary.rv_gain_over_sharing = s.optimum.total() / sharing;
    let parts: Vec<String> = s
        .checked
        .full(3)
        .filter(|c| c.rv() > 299.0)
        .take(1)
        .flat_map(|full| &full.0)
        .filter_map(|c| {
            Some(format!(
                "{} {:.2}",
                c.task,
                c.rate / s.checked.solo(&c.task)?
            ))
        })
        .collect();
    writeln!(
        page.md,
        "\nBest at {:.0} %, {:.2} times full sharing. Under full sharing the tasks run at these fractions of their solo speed: {}.\n",
        best.1,
        page.summary.rv_gain_over_sharing,
        parts.join(", ")
    )?;
    Ok(())
}

/// Figs. 11 and 12: SMs held and at work.
pub fn timelines(page: &mut Page<'_>) -> Outcome<()> {
    let Page { out, .. } = *page;
    if !out.join("fig6.temporal.trace.csv").exists() {
        return Ok(());
    }
    writeln!(
        page.md,
        "## Figs. 11 and 12: kernels and SM occupancy over time (simulated)\n\nOn a Titan V of 80 SMs. `out/fig6.*.trace.json` and `out/fig12.*.trace.json` open in Perfetto; the `.trace.csv` beside them have the occupancy over time. *Temporal* is the first of the three tasks, alone.\n\n| mix | scheme | SMs held, mean | SMs at work, mean |\n|---|---|---|---|"
    )?;
    for (name, mix) in [("fig6", FIG6), ("fig12", FIG12)] {
        if !there(out, name) {
            continue;
        }
        for scheme in ["temporal", "isolated", "sharing", "ours"] {
            let (held, active) = occupancy(&out.join(format!("{name}.{scheme}.trace.csv")))?;
            writeln!(page.md, "| {mix} | {scheme} | {held:.1} | {active:.1} |")?;
        }
    }
    writeln!(page.md)?;
    Ok(())
}

/// The settings of Figs. 7 and 9.
const RANKED: [&str; 8] = [
    "setting1", "setting2", "setting3", "setting4", "fig6", "mix0", "mix1", "mix2",
];

fn title(s: &Setting) -> String {
    let names: Vec<&str> = s.tasks.iter().map(|(t, _)| t.as_str()).collect();
    names.join("+")
}

/// Fig. 7: our choice among schedules drawn at random.
pub fn scatter(page: &mut Page<'_>) -> Outcome<()> {
    let Page {
        data, out, label, ..
    } = *page;
    let (low, high) = reported::claim(data, "rank of the model's choice")?;
    writeln!(
        page.md,
        "## Fig. 7: our choice among random schedules ({label})\n\nThe paper's choice, a prediction, is in the top {low:.0} to {high:.0} % of 125. *Predicted*, the choice by the model of {} random co-runs, compares with it; *measured* is the best measured of the adaptive samples, which knows more. The last five columns are the schedules' throughputs relative to *measured*. `out/*.random.svg` shows them over R_v, and `out/*.scatter.csv` has R_v, throughput and fairness of each.\n\n| setting | schedules | predicted: top % | measured: top % | least | 25 % | median | 75 % | largest |\n|---|---|---|---|---|---|---|---|---|",
        crate::summary::learnt()
    )?;
    for name in RANKED.into_iter().filter(|n| there(out, n)) {
        let s = Setting::read(out, name)?;
        let [top, predicted] = [&s.ours, &s.predicted].map(|choice| s.rank(choice));
        let top = top.ok_or("no random schedules")?;
        let predicted = predicted.ok_or("no random schedules")?;
        page.summary.rank_top_percent_max = page.summary.rank_top_percent_max.max(top);
        page.summary.rank_predicted_top_percent_max =
            page.summary.rank_predicted_top_percent_max.max(predicted);
        let random = s.random.as_ref().ok_or("no random schedules")?;
        let runs: Vec<&CoRun> = random.full(s.tasks.len()).collect();
        let mut rows = "what,rv_percent,samples_per_s,fairness\n".to_owned();
        for (what, run) in [("ours", &s.ours)]
            .into_iter()
            .chain(runs.iter().map(|r| ("random", *r)))
        {
            rows += &format!("{what},{},{},{}\n", run.rv(), run.total(), s.fairness(run));
        }
        fs::write(out.join(format!("{name}.scatter.csv")), rows)?;
        let mut totals: Vec<f64> = runs.iter().map(|r| r.total() / s.ours.total()).collect();
        totals.sort_by(f64::total_cmp);
        let at = |part: f64| totals[(part * (totals.len() - 1) as f64).round() as usize];
        writeln!(
            page.md,
            "| {} | {} | {predicted:.1} | {top:.1} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
            title(&s),
            totals.len(),
            at(0.0),
            at(0.25),
            at(0.5),
            at(0.75),
            at(1.0)
        )?;
    }
    writeln!(page.md)?;
    Ok(())
}

/// Fig. 9: throughput and fairness of every scheme.
pub fn schemes(page: &mut Page<'_>) -> Outcome<()> {
    let Page {
        data, out, label, ..
    } = *page;
    let (low, high) = reported::claim(data, "intra-device speed-up")?;
    let (least, most) = reported::claim(data, "gain over the best static")?;
    writeln!(
        page.md,
        "## Fig. 9: throughput and fairness of every scheme ({label})\n\nThroughput relative to temporal sharing, and fairness `sum P/S`, which is 1 for temporal sharing. The paper reports {low} to {high} over temporal for the last three, and \"{least:.0} to {most:.0} % above the best static partition\", which by its Tables IV and V is the gain over isolated. It gives no numbers for its bars of 60 and 80 % each. *Static* is the best of isolated, 60, 80 and 200/n each. The paper's choice is a prediction, like *predicted* here; *ours* is the best measured of the adaptive samples, and the last columns show its gains.\n\n| setting | isolated | sharing | 60 each | 80 each | 200/n each | predicted | ours | over isolated | over static | over the best equal shares |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )?;
    let mut fairness = String::new();
    for name in RANKED.into_iter().filter(|n| there(out, n)) {
        let s = Setting::read(out, name)?;
        let [isolated, sharing, nvidia, moderate, aggressive] = s.schemes.map(|x| x / s.temporal);
        let [over_isolated, _] = s.gains();
        let fixed = s.over_best_static();
        page.summary.over_best_static_min = page.summary.over_best_static_min.min(fixed);
        writeln!(
            page.md,
            "| {} | {isolated:.2} | {sharing:.2} | {moderate:.2} | {aggressive:.2} | {nvidia:.2} | {:.2} | {:.2} | {:+.0} % | {:+.1} % | {:+.1} % |",
            title(&s),
            s.predicted.total() / s.temporal,
            s.ours.total() / s.temporal,
            100.0 * (over_isolated - 1.0),
            100.0 * (fixed - 1.0),
            100.0 * (s.over_uniform() - 1.0)
        )?;
        let runs = crate::measure::schemes(&s.tasks);
        let mut of = Vec::new();
        for run in &runs {
            of.push(s.fairness(s.checked.at(run).ok_or("a scheme was not measured")?));
        }
        fairness += &format!(
            "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |\n",
            title(&s),
            of[0],
            of[1],
            of[3],
            of[4],
            of[2],
            s.fairness(&s.ours)
        );
    }
    writeln!(
        page.md,
        "\nFairness:\n\n| setting | isolated | sharing | 60 each | 80 each | 200/n each | ours |\n|---|---|---|---|---|---|---|\n{fairness}"
    )?;
    Ok(())
}

/// Table III and Fig. 13: allocations and completion degree.
pub fn allocations(page: &mut Page<'_>) -> Outcome<()> {
    let Page {
        data, out, label, ..
    } = *page;
    writeln!(
        page.md,
        "## Table III and Fig. 13: allocations and completion degree ({label}, on a Titan V)\n\nCompletion is throughput relative to the best of an exhaustive search; the paper reports 0.90 to 1.00 for its predictions. Compare it with *predicted*; *ours* is the best measured of the adaptive samples.\n\n| setting | paper best % | FedMT % | predicted % | ours % | best found % | completion: predicted | ours |\n|---|---|---|---|---|---|---|---|"
    )?;
    let reported = reported::allocations(data)?;
    for setting in ["1", "2", "3", "4"] {
        let name = format!("setting{setting}");
        if !there(out, &name) {
            continue;
        }
        let s = Setting::read(out, &name)?;
        page.summary.completion_min = page.summary.completion_min.min(s.completion(&s.ours));
        let predicted = s.completion(&s.predicted);
        let least = &mut page.summary.completion_predicted_min;
        *least = least.min(predicted);
        let rows: Vec<_> = reported.iter().filter(|a| a.setting == setting).collect();
        let list = |of: fn(&reported::Allocation) -> String| {
            rows.iter().map(|a| of(a)).collect::<Vec<_>>().join(", ")
        };
        writeln!(
            page.md,
            "| {} | {} | {} | {} | {} | {} | {predicted:.3} | {:.3} |",
            list(|a| format!("{} B{}", a.model, a.batch)),
            list(|a| format!("{}", a.best)),
            list(|a| format!("{}", a.fedmt)),
            s.shares(&s.predicted),
            s.shares(&s.ours),
            s.shares(&s.optimum),
            s.completion(&s.ours)
        )?;
    }
    writeln!(page.md)?;
    Ok(())
}
