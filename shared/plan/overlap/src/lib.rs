//! Order of downloads, compute and uploads in a round of several tasks on one device.
//!
//! Task `i` downloads for `d_i` seconds, computes `W_i` samples and uploads for `u_i` seconds.
//! Compute starts when the download ends and is shared: while the set `A` computes, task `i`
//! advances at `r_i(A)` samples per second ([`Rates`]). A link carries one transfer at a time per
//! direction, or one in total, or is shared by all transfers ([`Link`]). The aim is the order of
//! the transfers, and optionally the batch sizes, that end the round soonest.
//!
//! * [`simulate()`] simulates a round in a given order.
//! * [`solve()`] searches: exactly for few tasks, by descent from heuristic orders for many. It
//!   always reports the distance from a lower bound and why the search stopped.
//! * [`lower_bounds`] holds for every order and any idling.
//!
//! # Invariants
//! * In a given order, a transfer starts when it is its turn, the link is free and, for an upload,
//!   compute has ended; compute starts when the download ends. A held phase ([`Holds`]) starts no
//!   earlier than the end of a given phase of another task.
//! * A proof names the class of [`Schedules`] that it covers; lower bounds hold for any schedule,
//!   with any idling.
//! * The same input gives the same answer, unless a time limit ends the search.

mod bounds;
mod error;
mod federation;
mod instance;
mod plan;
mod play;
mod rates;
mod solve;

pub use bounds::quick::QuickBound;
pub use bounds::{LowerBounds, lower_bounds};
pub use error::{OverlapError, PlanError};
pub use federation::{Device, Federation, Replanned, Shortened, shorten};
pub use instance::batches::vary;
pub use instance::set::{MAX_TASKS, Set};
pub use instance::{Instance, Link, RoundTask};
pub use plan::variation::BATCH_PERCENT;
pub use plan::{PlanRequest, order_plan, plan_instance, workload_instance};
pub use play::round::{Holds, Order, Transfer, overlap_off, simulate, simulate_held};
pub use play::schedule::{Phase, Schedule};
pub use rates::shares::divided;
pub use rates::{AllActive, FixedRates, ModelRates, Rates, TableRates};
pub use solve::serial::one_after_another;
pub use solve::{
    Estimate, OrderOptions, Schedules, SolvedRound, estimate, estimate_along, may_end_before, solve,
};
pub use units::search::Stop;
