//! What has been learnt about a command template.

use serde::{Deserialize, Serialize};

/// Knowledge about a template on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learnt {
    /// Number of copies that fill the device.
    pub level: usize,
    /// The next step up; 0: more gained nothing.
    pub step: usize,
    /// A step has gained nothing, so each further one is half as long.
    pub halving: bool,
    /// Throughput at this level relative to one job alone, if measured.
    pub speedup: f64,
    /// Number of processors that one job keeps busy, if it runs on processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wants: Option<f64>,
}

impl Default for Learnt {
    /// One job, with a step up of one.
    fn default() -> Self {
        Self {
            level: 1,
            step: 1,
            halving: false,
            speedup: 1.0,
            wants: None,
        }
    }
}
