//! F: a fluid relaxation over intervals of time, whose size does not depend on rounds.
//!
//! ```text
//! min sum w C    f_(n,g,k): fraction of job n's V = R D tasks on class g in interval k
//!   C_n >= sum max(t_k, a) f + (R-1)/2 l + min_g (Tc/2 + Ts),   C_n >= a + R l,
//!   C_n >= a + R sum_g f_g (Tc + Ts),                     (a round lasts as long as the mean task)
//!   sum_n V Tc f <= M_g (t_(k+1) - t_k),   sum f = 1,
//!   fraction up to t_(k+1) <= min(1, ceil((t_(k+1) - a) / l) / R)
//! ```

use microlp::{ComparisonOp, OptimizationDirection, Problem as Lp, Variable};

use super::Relaxed;
use crate::{Problem, TrainingJob};

/// The bound F on `intervals` intervals up to `horizon`, and one without end behind it; `None`
/// where the solver fails.
///
/// Intervals grow by a constant factor, since a short job needs fine ones early only.
pub fn fluid(problem: &Problem, horizon: f64, intervals: usize) -> Option<Relaxed> {
    let edges = edges(horizon, intervals);
    let mut lp = Lp::new(OptimizationDirection::Minimize);
    // Class time used in each interval.
    let mut used: Vec<Vec<Vec<(Variable, f64)>>> =
        vec![vec![Vec::new(); intervals]; problem.classes.len()];
    let mut completions = Vec::new();
    for job in &problem.jobs {
        completions.push(add_job(problem, job, &edges, &mut used, &mut lp));
    }
    for (g, rows) in used.into_iter().enumerate() {
        for (k, terms) in rows.into_iter().enumerate() {
            let capacity = problem.classes[g].count as f64 * (edges[k + 1] - edges[k]);
            if !terms.is_empty() {
                lp.add_constraint(terms, ComparisonOp::Le, capacity);
            }
        }
    }
    let solution = lp.solve().ok()?.into_solution().ok()?;
    Some(Relaxed {
        bound: solution.objective(),
        midpoints: Vec::new(),
        completions: completions.iter().map(|&c| solution.var_value(c)).collect(),
    })
}

fn edges(horizon: f64, intervals: usize) -> Vec<f64> {
    // The last of 24 intervals is nine times as long as the first. Chosen by hand: any edges give a valid bound.
    const GROWTH: f64 = 1.1;
    let whole = GROWTH.powi(intervals as i32) - 1.0;
    (0..=intervals)
        .map(|k| horizon * (GROWTH.powi(k as i32) - 1.0) / whole)
        .collect()
}

fn add_job(
    problem: &Problem,
    job: &TrainingJob,
    edges: &[f64],
    used: &mut [Vec<Vec<(Variable, f64)>>],
    lp: &mut Lp,
) -> Variable {
    let intervals = edges.len() - 1;
    let volume = job.volume() as f64;
    let rounds = job.rounds as f64;
    let completion = lp.add_var(job.weight, (job.earliest_completion(), f64::INFINITY));
    let mut mean = vec![(completion, 1.0)];
    let mut slow = vec![(completion, 1.0)];
    let mut whole = Vec::new();
    for k in 0..=intervals {
        // The last interval has no end and no capacity.
        let end = edges.get(k + 1).copied().unwrap_or(f64::INFINITY);
        if end <= job.arrival {
            continue;
        }
        for (g, row) in used.iter_mut().enumerate() {
            if job.train[g].is_infinite() || problem.classes[g].count == 0 {
                continue;
            }
            let fraction = lp.add_var(0.0, (0.0, 1.0));
            mean.push((fraction, -edges[k].max(job.arrival)));
            slow.push((fraction, -rounds * (job.train[g] + job.sync[g])));
            whole.push((fraction, 1.0));
            if k < intervals {
                row[k].push((fraction, volume * job.train[g]));
            }
        }
        let most = (((end - job.arrival) / job.shortest_round).ceil() / rounds).min(1.0);
        if most < 1.0 {
            lp.add_constraint(whole.clone(), ComparisonOp::Le, most);
        }
    }
    lp.add_constraint(whole, ComparisonOp::Eq, 1.0);
    let last = job.train.iter().zip(&job.sync).map(|(t, s)| t / 2.0 + s);
    let last = last.fold(f64::INFINITY, f64::min);
    let chain = (rounds - 1.0) / 2.0 * job.shortest_round + last;
    lp.add_constraint(mean, ComparisonOp::Ge, chain);
    lp.add_constraint(slow, ComparisonOp::Ge, job.arrival);
    completion
}
