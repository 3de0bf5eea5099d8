//! Chooses how often a training writes checkpoints.

use std::time::{Duration, Instant};

/// Assumed time between two kills, in seconds, for choosing the period. Kills are rarer on most machines, but the
/// period grows only with the square root of this time, and the relative cost falls only with it: for a checkpoint of
/// 10 ms the period is 8.5 s and writing takes 0.12 % of the time; for a checkpoint of one second it is 85 s and 1.2 %.
const BETWEEN_KILLS: f64 = 3600.0;
/// Time until the first checkpoint, whose cost is still unknown. A training that is killed earlier loses no more than
/// the time of its start.
const FIRST: Duration = Duration::from_secs(1);

/// When checkpoints are due.
pub enum Period {
    /// After this many steps; 0: never.
    Steps(u64),
    /// At this time.
    At(Instant),
}

impl Period {
    /// A period of this many steps, or one that depends on the cost of a checkpoint.
    pub fn new(steps: Option<u64>) -> Self {
        steps.map_or_else(|| Self::At(Instant::now() + FIRST), Self::Steps)
    }

    /// Whether a checkpoint is due after this step.
    pub fn is_due(&self, step: u64) -> bool {
        match self {
            Self::Steps(every) => *every > 0 && step.is_multiple_of(*every),
            Self::At(at) => Instant::now() >= *at,
        }
    }

    /// Records that a checkpoint was written, or attempted, which took `cost`.
    pub fn wrote(&mut self, cost: Duration) {
        if let Self::At(at) = self {
            *at = Instant::now() + best(cost);
        }
    }
}

/// `sqrt(2 w M)` for a checkpoint of `w` seconds and `M` seconds between kills: the period at which writing and
/// repeated work cost the same (Young, "A first order approximation to the optimum checkpoint interval", CACM 17,
/// 1974).
fn best(cost: Duration) -> Duration {
    Duration::from_secs_f64((2.0 * cost.as_secs_f64() * BETWEEN_KILLS).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_is_that_of_least_loss() {
        for cost in [0.001, 0.01, 1.0, 10.0] {
            let period = best(Duration::from_secs_f64(cost)).as_secs_f64();
            // Fraction of time lost by writing, and by repeating half a period after each kill.
            let loss = |t: f64| cost / t + t / 2.0 / BETWEEN_KILLS;
            assert!(loss(period) <= loss(0.8 * period) && loss(period) <= loss(1.25 * period));
        }
    }

    #[test]
    fn steps_that_are_given_count() {
        let every = Period::new(Some(3));
        assert!(every.is_due(6) && !every.is_due(7));
        assert!(!Period::new(Some(0)).is_due(6));
    }
}
