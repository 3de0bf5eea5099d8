//! What a search has proven about its best round.

use units::search::{Certificate, SAME, Stop};

use super::outcome::{Schedules, SolvedRound};
use super::{Search, meets};
use crate::bounds::Floor;
use crate::play::round::{Holds, Order, overlap_off_cached, play};

impl SolvedRound {
    /// This outcome, or the round of `other` if that is shorter. `other` searched some of the same batch sizes, so
    /// the bound and the proof are still those of this outcome.
    pub(super) fn or_shorter(self, other: Self) -> Self {
        let points = self.points + other.points;
        if other.schedule.makespan_s >= self.schedule.makespan_s * (1.0 - SAME) {
            return Self { points, ..self };
        }
        let lower_bound_s = self.lower_bound_s.min(other.schedule.makespan_s);
        let Certificate { stop, class, .. } = self.certificate;
        let stop = compared(stop, class, &other.holds);
        let bound = if stop.is_proof() {
            other.schedule.makespan_s
        } else {
            lower_bound_s
        };
        Self {
            lower_bound_s,
            certificate: Certificate {
                stop,
                bound: Some(bound),
                class,
            },
            points,
            ..other
        }
    }
}

/// The reason why the search stopped, without a proof that does not cover the round: a proof among
/// rounds that never wait says nothing about a round with `holds`. This happens if the search over
/// holds ran out of nodes, or was not tried.
fn compared(stop: Stop, class: Schedules, holds: &Holds) -> Stop {
    if stop.is_proof() && class == Schedules::NeverWaiting && !holds.is_empty() {
        Stop::Budget
    } else {
        stop
    }
}

impl Search<'_, '_> {
    /// The best round found and its certificate.
    pub(super) fn outcome(self) -> SolvedRound {
        let (levels, order) = self.best.unwrap_or((Vec::new(), Order::Together));
        self.rates.set_levels(&levels);
        let schedule = play(self.instance, self.rates, &order, &self.holds);
        let met = self.best_s <= self.floor_s * (1.0 + SAME) && self.floor_s.is_finite();
        let stop = if meets(self.best_s, &Floor::of_link(self.instance), self.instance) {
            Stop::BoundMet
        } else if self.timed_out {
            Stop::TimeLimit
        } else if !(self.complete || self.bound_met || met) {
            Stop::Budget
        } else if self.assumed {
            Stop::Heuristic
        } else if self.bound_met || met {
            Stop::BoundMet
        } else {
            Stop::Bounded
        };
        let class = match stop {
            Stop::BoundMet => Schedules::Any,
            _ => self.class,
        };
        let stop = compared(stop, class, &self.holds);
        let lower_bound_s = if stop.is_proof() && class == Schedules::Any {
            schedule.makespan_s
        } else {
            self.floor_s.min(schedule.makespan_s)
        };
        let bound = if stop.is_proof() {
            schedule.makespan_s
        } else {
            lower_bound_s
        };
        SolvedRound {
            batches: self.rates.batches().to_vec(),
            overlap_off_s: overlap_off_cached(self.instance, self.rates),
            order,
            holds: self.holds,
            schedule,
            lower_bound_s,
            certificate: Certificate {
                stop,
                bound: Some(bound),
                class,
            },
            points: self.nodes.spent() + self.plays,
        }
    }
}
