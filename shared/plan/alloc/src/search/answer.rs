//! Options and results of a search.

use doc::{Infeasibility, Proof};
use units::corun::Setting;

use crate::problem::Problem;

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// Exactly if `max_points` allows it, otherwise by local search.
    #[default]
    Auto,
    /// Exactly, however long it takes.
    Exact,
    /// By local search only.
    Local,
}

/// Settings of a search. The same options give the same result, to the byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchOptions {
    /// How to search.
    pub effort: Effort,
    /// Points (or nodes of the branch and bound) that `Auto` spends on a proof, and maximum number of points of the
    /// local search.
    pub max_points: u64,
    /// Starts of the local search: a quarter are random, the others perturb the best point so far.
    pub starts: u32,
    /// How many of the best solutions to return, at least 1.
    pub top: usize,
    /// Seed of the random starts.
    pub seed: u64,
    /// Whether to explain an infeasible problem, which takes several more searches.
    pub reasons: bool,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            effort: Effort::Auto,
            max_points: 1_000_000,
            starts: 16,
            top: 1,
            seed: 0,
            reasons: true,
        }
    }
}

/// A choice for every task and its predicted results.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Batch size and share of each task.
    pub settings: Vec<Setting>,
    /// `P_i`, samples per second.
    pub rates: Vec<f64>,
    /// Value of the objective; larger is better.
    pub objective: f64,
    /// Mismatch in the sense of the problem's balance (FedMT eq. 6).
    pub mismatch: f64,
    /// `sum P_i`.
    pub raw: f64,
    /// `sum P_i / S_i`.
    pub fairness: f64,
    /// `min P_i / S_i`.
    pub least: f64,
}

/// One GPU of a plan: its tasks, their problem and its solution.
pub(crate) struct Part {
    pub(crate) members: Vec<usize>,
    pub(crate) problem: Problem,
    pub(crate) solution: Solution,
}

impl Part {
    /// The part of the tasks `members`; `None` if no choice was found.
    pub(crate) fn of(
        problem: &Problem,
        members: Vec<usize>,
        solution: Option<Solution>,
    ) -> Option<Self> {
        solution.map(|solution| Part {
            problem: problem.restricted(&members),
            members,
            solution,
        })
    }
}

/// How a result was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Number of points, or nodes of the branch and bound, evaluated.
    pub points: u64,
    /// Whether the result is proven to be the best under the predictor.
    pub proof: Proof,
    /// Upper bound on the value of every choice, if known.
    pub bound: Option<f64>,
}

/// The answer to a problem.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct SearchOutcome {
    /// The best choices, best first; empty if none is feasible.
    pub solutions: Vec<Solution>,
    /// How they were found.
    pub report: Report,
    /// Why none is feasible, if requested.
    pub infeasible: Vec<Infeasibility>,
}
