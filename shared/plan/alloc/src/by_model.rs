//! The solver by a fitted model. What it is elsewhere is generic over who predicts, and would be compiled again in
//! each crate that calls it, at that crate's level; this is compiled here, once and for speed.

use doc::{Plan, Workload};
use predict::Predictor;
use units::corun::Setting;

use crate::answer::{Outcome, SearchOptions};
use crate::error::AllocError;
use crate::measured::{MeasuredConfig, Standing};
use crate::partition::{Partition, solve_partition};
use crate::pipeline::plan_workload;
use crate::problem::Problem;
use crate::request::Request;
use crate::solve::solve;

/// As [`solve()`].
///
/// # Errors
/// As [`solve()`].
pub fn solve_by_model(
    model: &Predictor,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<Outcome, AllocError> {
    solve(model, problem, options)
}

/// As [`solve_partition`].
///
/// # Errors
/// As [`solve_partition`].
pub fn partition_by_model(
    model: &Predictor,
    problem: &Problem,
    gpus: usize,
    options: &SearchOptions,
) -> Result<Partition, AllocError> {
    solve_partition(model, problem, gpus, options)
}

/// As [`Problem::standings`].
#[must_use]
pub fn standings_by_model(
    model: &Predictor,
    problem: &Problem,
    known: &[MeasuredConfig],
    others: &[Vec<Setting>],
) -> Vec<Standing> {
    problem.standings(model, known, others)
}

/// As [`plan_workload`], of a model that nothing was measured beside, without a plan before it.
///
/// # Errors
/// As [`plan_workload`].
pub fn plan_by_model(
    model: &Predictor,
    workload: &Workload,
    request: &Request,
) -> Result<Plan, AllocError> {
    plan_workload(model, workload, request, &[], None)
}
