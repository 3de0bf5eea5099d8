//! Hyper-parameters of a process and their priors.

use doc::params::Matern;

/// Hyper-parameters: all positive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hyper {
    /// One over the length of each feature, in the feature's own unit.
    pub inverse_length: Vec<f64>,
    /// Prior variance of the function.
    pub signal: f64,
    /// Variance of the noise of one observation.
    pub noise: f64,
    /// The kernel of two groups of features ([`super::effects`]); `None` for one Matern 5/2 kernel of
    /// all features.
    pub groups: Option<TwoGroups>,
}

/// The kernel of two groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TwoGroups {
    /// Features of the task itself, which come first.
    pub own: usize,
    pub matern: Matern,
}

/// Prior on the logarithm of a hyper-parameter: normal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prior {
    pub mean: f64,
    pub sd: f64,
}

/// Priors of the hyper-parameters; they prevent absurd optima with small data sets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Priors {
    /// Prior of `ln(inverse_length * spread of the feature)`.
    pub inverse_length: Prior,
    /// Prior of `ln signal`.
    pub signal: Prior,
    /// Prior of `ln noise`.
    pub noise: Prior,
}

/// Added to the noise so that the covariance stays positive definite with repeated configurations.
pub(super) const LEAST_NOISE: f64 = 1e-9;
