//! What has been learnt about a command template.

use serde::{Deserialize, Serialize};

/// What is known of a template on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learnt {
    /// So many copies fill the device.
    pub level: usize,
    /// The next step up; 0: more gained nothing.
    pub step: usize,
    /// A step has gained nothing, so that each further one is half as long.
    pub halving: bool,
    /// Throughput of the whole level relative to one job alone, if measured.
    pub speedup: f64,
    /// Processors that one job keeps busy, where it runs on such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wants: Option<f64>,
}

impl Default for Learnt {
    /// One job, and one more to be tried.
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
