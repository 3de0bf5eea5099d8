//! The tables of a page.

use super::summary::{Cell, Quantiles, Summary};

pub(crate) fn print(summary: &Summary) {
    println!(
        "| objective | samples | noise | plan: median (p90, worst) | by the model alone | best equal \
         shares | full sharing | one after another |\n|---|---|---|---|---|---|---|---|"
    );
    for cell in summary.cells.iter().chain(&summary.totals) {
        let columns = [
            &cell.plan,
            &cell.by_model,
            &cell.best_equal_shares,
            &cell.full_sharing,
            &cell.one_after_another,
        ];
        let columns = columns.map(quantiles).join(" | ");
        println!("{} | {columns} |", head(cell));
    }
    println!(
        "\n| objective | samples | noise | worse than the best equal shares by 0.5 % | by 2 % | measured | \
         intervals hold | verdict promises too much | its error |\n|---|---|---|---|---|---|---|---|---|"
    );
    for cell in summary.cells.iter().chain(&summary.totals) {
        println!(
            "{} | {} of {} | {} | {} | {:.0} % | {:+.2} | {:.2} |",
            head(cell),
            cell.worse,
            cell.chains,
            cell.much_worse,
            cell.measured,
            cell.coverage_percent,
            cell.verdict_bias,
            cell.verdict_error,
        );
    }
    rivals(summary);
    for twins in &summary.twins {
        println!(
            "\nTwo resnet34: plan {:.2}, best equal shares {:.2}",
            twins.plan, twins.best_equal_shares
        );
    }
}

fn rivals(summary: &Summary) {
    if summary.cells.iter().any(|cell| !cell.rivals.is_empty()) {
        println!(
            "\n| objective | samples | noise | rival | its regret: median (p90, worst) | plans worse by 0.5 % | \
             better |\n|---|---|---|---|---|---|---|"
        );
    }
    for cell in summary.cells.iter().chain(&summary.totals) {
        for rival in &cell.rivals {
            println!(
                "{} | {} | {} | {} | {} |",
                head(cell),
                rival.sampler,
                quantiles(&rival.regret),
                rival.worse,
                rival.better
            );
        }
    }
}

fn head(cell: &Cell) -> String {
    format!(
        "| {} | {} | {} %",
        cell.objective, cell.samples, cell.noise_percent
    )
}

fn quantiles(of: &Quantiles) -> String {
    format!("{:.2} ({:.2}, {:.2})", of.median, of.p90, of.worst)
}
