//! The bound U: a relaxation for unrelated machines, where `Y` tasks of each round run on each
//! class.
//!
//! ```text
//! min sum w C   sum_g Y_(r,g) = D,   c_(r,g) >= Y_(r,g) (a + r l + Tc)     (c: sum of ends of training)
//!               sum Tc c >= ((sum Tc Y)^2 / M_g + sum Tc^2 Y) / 2           for each class and set of rounds
//!               mean start of r+1 >= mean end of r + mean Ts,
//!               C_n >= mean end of r + mean Ts + (R-1-r) l
//! ```
//! The square is replaced by its tangent at the current `P0 = sum Tc Y`, which lies below it
//! everywhere, so every cut is valid; the sets are prefixes by `c/Y - Tc/2`.

use microlp::{ComparisonOp, OptimizationDirection, Problem as Lp, Solution, Variable};

use super::Relaxed;
use crate::Problem;
use crate::problem::total;

/// Passes over the classes; each adds at most one cut per class. Not tuned: fewer give a weaker
/// bound, never a wrong one.
const PASSES: usize = 60;

struct Cell {
    count: Variable,
    ends: Variable,
    train: f64,
}

struct Program {
    /// Cells of each class.
    classes: Vec<Vec<Cell>>,
    /// The mean end of training of each round of each job, as a linear combination of variables.
    means: Vec<Vec<Vec<(Variable, f64)>>>,
    completions: Vec<Variable>,
}

/// The bound U; `None` where the solver fails.
pub fn unrelated(problem: &Problem) -> Option<Relaxed> {
    let mut lp = Lp::new(OptimizationDirection::Minimize);
    let program = build(problem, &mut lp);
    let mut solution = lp.solve().ok()?.into_solution().ok()?;
    for _ in 0..PASSES {
        let mut cuts = Vec::new();
        for (g, cells) in program.classes.iter().enumerate() {
            let machines = problem.classes[g].count as f64;
            cuts.extend(violated(machines, cells, &solution));
        }
        if cuts.is_empty() {
            break;
        }
        for (terms, right) in cuts {
            solution = solution
                .add_constraint(terms, ComparisonOp::Ge, right)
                .ok()?
                .into_solution()
                .ok()?;
        }
    }
    let mean = |terms: &Vec<(Variable, f64)>| -> f64 {
        terms.iter().map(|&(v, f)| f * solution.var_value(v)).sum()
    };
    let mut midpoints = Vec::new();
    for (job, rounds) in problem.jobs.iter().zip(&program.means) {
        let middle = |t| mean(t) - job.fastest() / 2.0;
        midpoints.push(rounds.iter().map(middle).collect());
    }
    let completions = program.completions.iter();
    Some(Relaxed {
        bound: solution.objective(),
        midpoints,
        completions: completions.map(|&c| solution.var_value(c)).collect(),
    })
}

fn build(problem: &Problem, lp: &mut Lp) -> Program {
    let mut classes: Vec<Vec<Cell>> = problem.classes.iter().map(|_| Vec::new()).collect();
    let mut means = Vec::new();
    let mut completions = Vec::new();
    for job in &problem.jobs {
        let completion = lp.add_var(job.weight, (job.earliest_completion(), f64::INFINITY));
        completions.push(completion);
        let tasks = job.tasks as f64;
        let mut rounds: Vec<Vec<(Variable, f64)>> = Vec::new();
        // Mean end of training and mean synchronisation of the round before.
        let mut before: Vec<(Variable, f64)> = Vec::new();
        for r in 0..job.rounds {
            let mut all = Vec::new();
            let mut end = Vec::new();
            let mut synced = Vec::new();
            let mut start = Vec::new();
            for (g, cells) in classes.iter_mut().enumerate() {
                if job.train[g].is_infinite() || problem.classes[g].count == 0 {
                    continue;
                }
                let earliest = job.arrival + r as f64 * job.shortest_round + job.train[g];
                let count = lp.add_var(0.0, (0.0, tasks));
                let ends = lp.add_var(0.0, (0.0, f64::INFINITY));
                lp.add_constraint([(ends, 1.0), (count, -earliest)], ComparisonOp::Ge, 0.0);
                all.push((count, 1.0));
                end.push((ends, 1.0 / tasks));
                synced.extend([(ends, 1.0 / tasks), (count, job.sync[g] / tasks)]);
                start.extend([(ends, 1.0 / tasks), (count, -job.train[g] / tasks)]);
                let train = job.train[g];
                cells.push(Cell { count, ends, train });
            }
            lp.add_constraint(all, ComparisonOp::Eq, tasks);
            if r > 0 {
                let terms = start.into_iter().chain(negative(&before));
                lp.add_constraint(terms.collect::<Vec<_>>(), ComparisonOp::Ge, 0.0);
            }
            let rest = (job.rounds - 1 - r) as f64 * job.shortest_round;
            let terms = std::iter::once((completion, 1.0)).chain(negative(&synced));
            lp.add_constraint(terms.collect::<Vec<_>>(), ComparisonOp::Ge, rest);
            before = synced;
            rounds.push(end);
        }
        means.push(rounds);
    }
    Program {
        classes,
        means,
        completions,
    }
}

fn negative(terms: &[(Variable, f64)]) -> impl Iterator<Item = (Variable, f64)> + '_ {
    terms.iter().map(|&(v, f)| (v, -f))
}

/// The linearised cut of a class for its most violated prefix; `None` if none is violated.
fn violated(
    machines: f64,
    cells: &[Cell],
    solution: &Solution,
) -> Option<(Vec<(Variable, f64)>, f64)> {
    let count = |i: usize| solution.var_value(cells[i].count);
    let mut order: Vec<usize> = (0..cells.len()).filter(|&i| count(i) > 1e-9).collect();
    let middle = |i: usize| solution.var_value(cells[i].ends) / count(i) - cells[i].train / 2.0;
    order.sort_by(|&a, &b| total(middle(a), middle(b)));
    let (mut left, mut volume, mut squares) = (0.0, 0.0, 0.0);
    let mut worst = (1e-6, 0, 0.0);
    for (k, &i) in order.iter().enumerate() {
        let train = cells[i].train;
        left += train * solution.var_value(cells[i].ends);
        volume += train * count(i);
        squares += train * train * count(i);
        let right = (volume * volume / machines + squares) / 2.0;
        let lack = (right - left) / right;
        if lack > worst.0 {
            worst = (lack, k + 1, volume);
        }
    }
    let (_, length, volume) = worst;
    if length == 0 {
        return None;
    }
    // (P^2 / M + sum Tc^2 Y) / 2  >=  P0 P / M - P0^2 / (2 M) + sum Tc^2 Y / 2
    let terms = order[..length].iter().flat_map(|&i| {
        let Cell { count, ends, train } = cells[i];
        let slope = volume * train / machines + train * train / 2.0;
        [(ends, train), (count, -slope)]
    });
    Some((terms.collect(), -volume * volume / (2.0 * machines)))
}
