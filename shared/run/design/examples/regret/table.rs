//! Quantiles of the regrets.

use super::Study;
use super::chain::Row;

/// The plan is worse than the best scheme where it lies further below than this, percent.
const WORSE: f64 = 0.5;

pub(crate) fn print(rows: &[Row], study: &Study) {
    println!(
        "| objective | samples | plan: median (p90, worst) | by the model alone | best static | \
         plan worse than static by more than {WORSE} % | measured |\n|---|---|---|---|---|---|---|"
    );
    for &objective in &study.objectives {
        for &budget in &study.budgets {
            let here = || {
                rows.iter()
                    .filter(move |r| r.objective == objective && r.budget == budget)
            };
            let of = |f: &dyn Fn(&Row) -> f64| quantiles(here().map(f).collect());
            let worse = here().filter(|r| r.plan > r.scheme + WORSE).count();
            println!(
                "| {} | {budget} | {} | {} | {} | {worse} of {} | {} |",
                doc::name_of(&objective),
                of(&|r| r.plan),
                of(&|r| r.by_model),
                of(&|r| r.scheme),
                here().count(),
                here().filter(|r| r.measured).count(),
            );
        }
    }
}

/// Median, ninth decile (nearest rank) and largest.
fn quantiles(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let rank = |part: f64| values[((part * values.len() as f64).ceil() as usize).max(1) - 1];
    if values.is_empty() {
        return "none".to_owned();
    }
    format!("{:.2} ({:.2}, {:.2})", rank(0.5), rank(0.9), rank(1.0))
}
