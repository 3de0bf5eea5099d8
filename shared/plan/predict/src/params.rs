//! Reads and writes the predictor in a `mt.model/1` document.

mod process;
mod read;
mod unseen;
mod write;

use crate::error::PredictError;

/// The error for an invalid parameter at `path`.
fn bad(path: impl Into<String>, problem: impl Into<String>) -> PredictError {
    PredictError::BadModel {
        path: path.into(),
        problem: problem.into(),
    }
}

/// Checks that all numbers are finite and, if `positive`, above zero.
fn numbers(path: &str, v: &[f64], positive: bool) -> Result<(), PredictError> {
    for x in v {
        if !x.is_finite() || (positive && *x <= 0.0) {
            let wanted = if positive { "above 0" } else { "finite" };
            return Err(bad(path, format!("{x} is not a number {wanted}")));
        }
    }
    Ok(())
}

/// Checks that all numbers are finite and 0 or more.
fn not_negative(path: &str, v: &[f64]) -> Result<(), PredictError> {
    numbers(path, v, false)?;
    match v.iter().find(|x| **x < 0.0) {
        Some(x) => Err(bad(path, format!("{x} is below 0"))),
        None => Ok(()),
    }
}

fn length(path: &str, found: usize, wanted: usize) -> Result<(), PredictError> {
    if found == wanted {
        Ok(())
    } else {
        Err(bad(path, format!("{found} entries where {wanted} belong")))
    }
}
