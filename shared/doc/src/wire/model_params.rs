use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Family of a predictor.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A law with a few constants of meaning.
    Structured,
    /// Polynomial ridge regression.
    Poly,
    /// Gaussian process.
    Gp,
    /// Mean of the Gaussian process and another family.
    Blend,
}

/// Parameters of a fitted predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelParams {
    /// Family.
    pub method: Method,
}
