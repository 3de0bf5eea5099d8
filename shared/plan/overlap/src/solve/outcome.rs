use units::Batch;
use units::search::Certificate;

use crate::play::round::{Holds, Order};
use crate::play::schedule::Schedule;

/// Schedules covered by a certificate, from few to all. Each class includes the previous one. The
/// best round found may wait in further ways, for a task that is downloaded later or for a
/// transfer: it then ends before all schedules of the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Schedules {
    /// Nothing waits: a transfer starts as soon as it is next in the order and the link is free, and compute as soon
    /// as its download ends.
    NeverWaiting,
    /// In addition, the compute of a task may be held until the compute of a task that was downloaded earlier ends.
    Waiting,
    /// In addition, on a full-duplex link, all transfers may go one at a time: each waits for the previous one, in
    /// either direction. These are the rounds of a half-duplex link.
    Alternating,
    /// Any schedule, with any idling of links and processor.
    Any,
}

/// The best round found.
#[derive(Debug, Clone, PartialEq)]
pub struct SolvedRound {
    /// Batch size of each task; empty if not known.
    pub batches: Vec<Batch>,
    /// Order of the transfers.
    pub order: Order,
    /// The holds; empty if there are none.
    pub holds: Holds,
    /// The phases of the round with their times.
    pub schedule: Schedule,
    /// Lower bound in seconds on any schedule at any batch sizes of the choice, with any idling; the makespan itself
    /// if that is proven for [`Schedules::Any`].
    pub lower_bound_s: f64,
    /// Makespan of these batch sizes without overlap, in seconds.
    pub overlap_off_s: f64,
    /// Why the search stopped, and which schedules its proof covers. Its bound is the makespan if that is proven to
    /// be the minimum of the class, otherwise `lower_bound_s`. [`units::search::Stop::Heuristic`]: all orders were
    /// tried or excluded, but under the assumption that co-runners never speed a task up, which was not verified
    /// because there are too many sets. A round that waits is not proven among [`Schedules::NeverWaiting`].
    pub certificate: Certificate<Schedules>,
    /// Nodes and plays evaluated.
    pub points: u64,
}

impl SolvedRound {
    /// `makespan / lower bound - 1`; 0 for a round that takes no time.
    #[must_use]
    pub fn gap(&self) -> f64 {
        if self.lower_bound_s > 0.0 {
            (self.schedule.makespan_s / self.lower_bound_s - 1.0).max(0.0)
        } else {
            0.0
        }
    }

    /// Whether no schedule of the class of its certificate ends sooner, at any batch sizes of the choice.
    #[must_use]
    pub fn proven(&self) -> bool {
        self.certificate.is_proof()
    }
}
