//! Table II: the paper's search over every order and batch size, beside ours.

use std::time::Instant;

use doc::Plan;
use overlap::{Instance, ModelRates, Order, OrderOptions, Rates, plan_instance, simulate, solve};
use predict::Predictor;
use units::{Batch, Share};

use crate::Outcome;
use crate::reported;
use crate::settings::{SEARCH_BATCHES, TABLE2, VOLUMES, read};
use crate::summary::{Page, there};

/// The best of all points.
struct Best {
    makespan_s: f64,
    points: usize,
    order: [usize; 3],
    batches: Vec<Batch>,
}

/// Every order of three tasks, with one order for both directions (Algorithm 1 of the paper), with every combination
/// of batch sizes.
fn every_point(instance: &Instance, rates: &dyn Rates, sizes: &[Batch]) -> Outcome<Best> {
    let mut best = Best {
        makespan_s: f64::INFINITY,
        points: 0,
        order: [0; 3],
        batches: Vec::new(),
    };
    let k = sizes.len();
    for permutation in VOLUMES {
        let order = permutation.map(|place| place as usize - 1);
        for code in 0..k.pow(3) {
            let batches = vec![sizes[code % k], sizes[code / k % k], sizes[code / k / k]];
            let way = Order::PerDirection {
                downloads: order.to_vec(),
                uploads: order.to_vec(),
            };
            let end = simulate(instance, rates, &batches, &way)?.makespan_s;
            best.points += 1;
            if end < best.makespan_s {
                best = Best {
                    makespan_s: end,
                    order,
                    batches,
                    ..best
                };
            }
        }
    }
    Ok(best)
}

/// Table II.
pub fn write(page: &mut Page<'_>) -> Outcome<()> {
    let Page {
        data, out, label, ..
    } = *page;
    if !there(out, "search") {
        return Ok(());
    }
    let plan: Plan = read(&out.join("search.plan.json"))?;
    let model = plan.model.as_ref().ok_or("a plan without its model")?;
    let predictor = Predictor::from_model(model)?;
    let mut shares: Vec<Share> = Vec::new();
    let mut tasks = Vec::new();
    for (i, task) in plan.tasks.iter().enumerate() {
        shares.push(plan.given(i).share.ok_or("a task without a share")?);
        let place = model.workload.task_index(&task.id);
        tasks.push(place.ok_or("a task that the model does not know")?);
    }
    let rates = ModelRates::new(&predictor, tasks, shares, &[0; 3]);
    let instance = plan_instance(&plan, None)?;
    let sizes = SEARCH_BATCHES
        .map(Batch::new)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;

    let started = Instant::now();
    let all = every_point(&instance, &rates, &sizes)?;
    let all_ms = 1e3 * started.elapsed().as_secs_f64();
    // With the planned size first, in the order of mt-overlap.
    let choices = vec![vec![sizes[1], sizes[0], sizes[2]]; 3];
    let search = |single_order| -> Outcome<(overlap::SolvedRound, f64)> {
        let options = OrderOptions {
            single_order,
            waits: false,
            batches: choices.clone(),
            ..OrderOptions::default()
        };
        let started = Instant::now();
        let found = solve(&instance, &rates, &options)?;
        Ok((found, 1e3 * started.elapsed().as_secs_f64()))
    };
    let (same, same_ms) = search(true)?;
    let (free, free_ms) = search(false)?;
    page.summary.search_points = all.points;
    page.summary.search_ms = all_ms;
    page.summary.search_gap_percent = 100.0 * (same.schedule.makespan_s / all.makespan_s - 1.0);

    let paper = reported::search(data)?;
    let names: Vec<&str> = all
        .order
        .iter()
        .map(|&i| plan.tasks[i].id.as_str())
        .collect();
    let batches: Vec<String> = all.batches.iter().map(Batch::to_string).collect();
    let proven = |o: &overlap::SolvedRound| {
        if o.certificate.is_proof() {
            "yes"
        } else {
            "no"
        }
    };
    writeln!(
        page.md,
        "## Table II: cost of the search, {TABLE2} ({label} RTX 3090, transfers both ways)\n\nEvery order with every combination of batch sizes 20 % below, at and above 128. The best order is {}, at batch sizes {}.\n\n| search | points | ms | per point ms | round s | proven |\n|---|---|---|---|---|---|\n| paper | {:.0} | {:.0} | {:.1} | | no |\n| every point, ours | {} | {all_ms:.1} | {:.3} | {:.3} | yes |\n| branch and bound, same order up | {} | {same_ms:.1} | | {:.3} | {} |\n| branch and bound, orders apart | {} | {free_ms:.1} | | {:.3} | {} |\n",
        names.join(", "),
        batches.join(", "),
        paper.points,
        1e3 * paper.seconds,
        paper.ms_per_point,
        all.points,
        all_ms / all.points as f64,
        all.makespan_s,
        same.points,
        same.schedule.makespan_s,
        proven(&same),
        free.points,
        free.schedule.makespan_s,
        proven(&free),
    )?;
    Ok(())
}
