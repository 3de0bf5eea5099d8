use std::time::Instant;

use crate::search::Stop;

/// The clock is read once per this many units: reading it takes about as long as the cheapest unit
/// of work (25 ns), and 64 units of the most expensive one (a simulated round, 10 us) are still
/// below 1 ms.
const CLOCK_EVERY: u64 = 64;

/// Budget of a search: units of work (points, nodes, plays) and, if requested, time.
///
/// Once it is used up, it stays used up, so that all nested loops end.
#[derive(Debug, Clone)]
pub struct Budget {
    spent: u64,
    limit: u64,
    deadline: Option<Instant>,
    stopped: Option<Stop>,
}

impl Budget {
    /// At most `limit` units of work, until `deadline` if there is one.
    #[must_use]
    pub fn new(limit: u64, deadline: Option<Instant>) -> Self {
        Self {
            spent: 0,
            limit,
            deadline,
            stopped: None,
        }
    }

    /// Takes one unit; `false` once there is none left.
    #[inline]
    pub fn spend(&mut self) -> bool {
        if self.stopped.is_some() {
            return false;
        }
        if self.spent >= self.limit {
            self.stopped = Some(Stop::Budget);
            return false;
        }
        if self.spent.is_multiple_of(CLOCK_EVERY)
            && self.deadline.is_some_and(|d| Instant::now() >= d)
        {
            self.stopped = Some(Stop::TimeLimit);
            return false;
        }
        self.spent += 1;
        true
    }

    /// Counts work that was already done.
    pub fn add(&mut self, units: u64) {
        self.spent = self.spent.saturating_add(units);
    }

    /// Marks the budget as used up because of something other than its units.
    pub fn stop(&mut self) {
        self.stopped.get_or_insert(Stop::Budget);
    }

    /// Units taken so far.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Initial number of units.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Units left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.spent)
    }

    /// Whether a unit was refused.
    #[must_use]
    pub fn exhausted(&self) -> bool {
        self.stopped.is_some()
    }

    /// Why a unit was refused, if one was.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_exhausted() {
        let mut budget = Budget::new(2, None);
        assert!(budget.spend() && budget.spend());
        assert!(!budget.exhausted());
        assert!(!budget.spend() && !budget.spend());
        assert_eq!((budget.spent(), budget.left()), (2, 0));
        assert_eq!(budget.stopped(), Some(Stop::Budget));
    }

    #[test]
    fn a_deadline_that_has_passed_ends_it_at_once() {
        let mut budget = Budget::new(100, Some(Instant::now()));
        assert!(!budget.spend());
        assert_eq!(budget.stopped(), Some(Stop::TimeLimit));
    }
}
