//! The solver for a fitted model. The generic solver would be compiled again in each calling crate, at that
//! crate's optimisation level; this instance is compiled here, once and for speed.

use doc::{Plan, Workload};
use predict::Predictor;
use units::corun::Setting;

use crate::error::AllocError;
use crate::judge::measured::{MeasuredConfig, Standing};
use crate::plan::pipeline::plan_workload;
use crate::plan::planner::tell_error;
use crate::plan::request::Request;
use crate::problem::Problem;
use crate::search::answer::{SearchOptions, SearchOutcome};
use crate::search::partition::{Partition, solve_partition};
use crate::search::solve::solve;

/// Like [`solve()`].
///
/// # Errors
/// Like [`solve()`].
pub fn solve_by_model(
    model: &Predictor,
    problem: &Problem,
    options: &SearchOptions,
) -> Result<SearchOutcome, AllocError> {
    solve(model, problem, options)
}

/// Like [`solve_partition`].
///
/// # Errors
/// Like [`solve_partition`].
pub fn partition_by_model(
    model: &Predictor,
    problem: &Problem,
    gpus: usize,
    options: &SearchOptions,
) -> Result<Partition, AllocError> {
    solve_partition(model, problem, gpus, options)
}

/// Like [`Problem::standings`].
#[must_use]
pub fn standings_by_model(
    model: &Predictor,
    problem: &Problem,
    known: &[MeasuredConfig],
    others: &[Vec<Setting>],
) -> Vec<Standing> {
    problem.standings(model, known, others)
}

/// Like [`plan_workload`], without measured co-runs and without a previous plan. The plan states the model's error for
/// this kind of plan.
///
/// # Errors
/// Like [`plan_workload`].
pub fn plan_by_model(
    model: &Predictor,
    workload: &Workload,
    request: &Request,
) -> Result<Plan, AllocError> {
    let mut plan = plan_workload(model, workload, request, &[], None)?;
    tell_error(&mut plan, model, |task| task);
    Ok(plan)
}
