//! Q: every subset's volume on identical machines, each as fast as the fastest is for the job.
//!
//! ```text
//! min sum w C   C_(n,r) >= a + r l + p,   C_(n,r+1) >= C_(n,r) + s + p,
//!               C_n >= C_(n,r) + s + (R-1-r) l,
//!               sum_(g in S) D p C_g >= (sum_S D p)^2 / (2 M) + sum_S D p^2 / 2   for every set S of rounds
//! ```
//! with `p = min Tc`, `s = min Ts` and `C_(n,r)` the mean end of training in the round. A violated
//! set is a prefix by `C - p/2` (Queyranne 1993); violated ones are added until none is left.

use microlp::{ComparisonOp, OptimizationDirection, Problem as Lp, Variable};

use super::Relaxed;
use crate::Problem;
use crate::problem::total;

/// Most sets added; each solves the program again. Not tuned: fewer give a weaker bound, never a wrong one.
const SETS: usize = 200;

pub(super) struct RoundVariables {
    pub job: usize,
    pub train: f64,
    pub tasks: f64,
    pub end: Variable,
}

/// The bound Q; `None` where the solver fails.
pub fn queyranne(problem: &Problem) -> Option<Relaxed> {
    let mut lp = Lp::new(OptimizationDirection::Minimize);
    let mut rounds: Vec<RoundVariables> = Vec::new();
    let mut completions = Vec::new();
    for (n, job) in problem.jobs.iter().enumerate() {
        let p = job.fastest();
        let s = job.sync.iter().copied().fold(f64::INFINITY, f64::min);
        let completion = lp.add_var(job.weight, (job.earliest_completion(), f64::INFINITY));
        for r in 0..job.rounds {
            let earliest = job.arrival + r as f64 * job.shortest_round + p;
            let end = lp.add_var(0.0, (earliest, f64::INFINITY));
            if r > 0
                && let Some(before) = rounds.last()
            {
                lp.add_constraint([(end, 1.0), (before.end, -1.0)], ComparisonOp::Ge, s + p);
            }
            let rest = (job.rounds - 1 - r) as f64 * job.shortest_round;
            lp.add_constraint([(completion, 1.0), (end, -1.0)], ComparisonOp::Ge, s + rest);
            rounds.push(RoundVariables {
                job: n,
                train: p,
                tasks: job.tasks as f64,
                end,
            });
        }
        completions.push(completion);
    }
    let mut solution = lp.solve().ok()?.into_solution().ok()?;
    for _ in 0..SETS {
        let Some((terms, volume)) = violated(problem, &rounds, |v| solution.var_value(v)) else {
            break;
        };
        solution = solution
            .add_constraint(terms, ComparisonOp::Ge, volume)
            .ok()?
            .into_solution()
            .ok()?;
    }
    let mut midpoints: Vec<Vec<f64>> = vec![Vec::new(); problem.jobs.len()];
    for round in &rounds {
        midpoints[round.job].push(solution.var_value(round.end) - round.train / 2.0);
    }
    Some(Relaxed {
        bound: solution.objective(),
        midpoints,
        completions: completions.iter().map(|&c| solution.var_value(c)).collect(),
    })
}

/// The most violated set of rounds, as the left side and the right side of its inequality.
fn violated(
    problem: &Problem,
    rounds: &[RoundVariables],
    value: impl Fn(Variable) -> f64,
) -> Option<(Vec<(Variable, f64)>, f64)> {
    let gpus = problem.gpus.len() as f64;
    let mut order: Vec<usize> = (0..rounds.len()).collect();
    let middle = |i: usize| value(rounds[i].end) - rounds[i].train / 2.0;
    order.sort_by(|&a, &b| total(middle(a), middle(b)));
    let (mut left, mut volume, mut squares) = (0.0, 0.0, 0.0);
    let mut worst = (1e-7, 0, 0.0);
    for (count, &i) in order.iter().enumerate() {
        let round = &rounds[i];
        let work = round.tasks * round.train;
        left += work * value(round.end);
        volume += work;
        squares += work * round.train;
        let right = volume * volume / (2.0 * gpus) + squares / 2.0;
        let lack = (right - left) / right;
        if lack > worst.0 {
            worst = (lack, count + 1, right);
        }
    }
    let (_, count, right) = worst;
    let term = |&i: &usize| (rounds[i].end, rounds[i].tasks * rounds[i].train);
    (count > 0).then(|| (order[..count].iter().map(term).collect(), right))
}
