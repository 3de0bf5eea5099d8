//! Results of a predictor, as quantities of a document.

use doc::Estimate;
use units::{SamplesPerSec, Seconds};

use crate::error::AllocError;
use crate::tolerance::INTERVAL;

pub(crate) fn seconds(value: f64) -> Result<Seconds, AllocError> {
    Seconds::new(value).map_err(|error| AllocError::Prediction {
        what: error.to_string(),
    })
}

pub(crate) fn rate(value: f64) -> Result<SamplesPerSec, AllocError> {
    SamplesPerSec::new(value).map_err(|error| AllocError::Prediction {
        what: error.to_string(),
    })
}

/// A mean with its 95 % interval.
pub(crate) fn estimate(mean: f64, std_error: f64) -> Result<Estimate, AllocError> {
    Ok(Estimate {
        mean: rate(mean)?,
        low: rate((mean - INTERVAL * std_error).max(0.0))?,
        high: rate(mean + INTERVAL * std_error)?,
    })
}
