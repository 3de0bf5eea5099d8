use units::Batch;
use units::search::Certificate;

use crate::round::{Holds, Order};
use crate::schedule::Schedule;

/// Schedules that a certificate is about, from few to all. Each class holds the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Schedules {
    /// Nothing waits: a transfer starts as soon as its turn has come and the link is free,
    /// compute as soon as its download ends.
    NeverWaiting,
    /// In addition, the compute of a task may be held until the compute of a task that was
    /// downloaded earlier ends.
    Waiting,
    /// In addition, on a full-duplex link, all transfers may go one at a time: each waits for the
    /// one before it, in either direction. These are the rounds of a half-duplex link.
    Alternating,
    /// Any schedule, with any idling of links and processor.
    Any,
}

/// The best round found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Batch size of each task; empty where not known.
    pub batches: Vec<Batch>,
    /// Order of the transfers.
    pub order: Order,
    /// The holds; empty if there are none.
    pub holds: Holds,
    /// How the round plays out.
    pub schedule: Schedule,
    /// No schedule ends sooner at any batch sizes of the choice, whatever idles, in seconds; the
    /// makespan itself where that is proven for [`Schedules::Any`].
    pub lower_bound_s: f64,
    /// Makespan of these batch sizes without overlap, in seconds.
    pub overlap_off_s: f64,
    /// Why the search stopped, and which schedules that is about; its bound is the makespan
    /// where that is proven to be the least of the class, else `lower_bound_s`.
    /// [`units::search::Stop::Heuristic`]: all orders were tried or excluded, but under the assumption that
    /// co-runners never speed a task up, which was not verified as there are too many sets.
    pub certificate: Certificate<Schedules>,
    /// Nodes and plays looked at.
    pub points: u64,
}

impl Outcome {
    /// `makespan / lower bound - 1`; 0 for a round that takes no time.
    #[must_use]
    pub fn gap(&self) -> f64 {
        if self.lower_bound_s > 0.0 {
            (self.schedule.makespan_s / self.lower_bound_s - 1.0).max(0.0)
        } else {
            0.0
        }
    }

    /// Whether no schedule of the class of its certificate ends sooner at any batch sizes of the
    /// choice.
    #[must_use]
    pub fn proven(&self) -> bool {
        self.certificate.is_proof()
    }
}
