//! The work of a task in a round, for the checks of plans and timelines.

use doc::{Link, UpdateBytes};
use units::Samples;

/// One task of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTask {
    /// Seconds of its download if it has the link to itself.
    pub download: f64,
    /// Number of samples to compute.
    pub work: f64,
    /// Seconds of its upload if it has the link to itself.
    pub upload: f64,
}

impl RoundTask {
    /// Makes a task with these transfers; without a link they take no time.
    pub fn new(link: Option<Link>, bytes: Option<UpdateBytes>, samples: Samples) -> Self {
        let bytes = bytes.unwrap_or_default();
        Self {
            download: link.map_or(0.0, |l| bytes.down.transfer_seconds(l.down)),
            work: samples.as_f64(),
            upload: link.map_or(0.0, |l| bytes.up.transfer_seconds(l.up)),
        }
    }
}
