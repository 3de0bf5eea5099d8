//! Learns the shares of the next round from the rounds so far.
//!
//! Every round is real work and a measurement. A [`Learner`] keeps a `Belief` about how long each task trains under any
//! shares. For each candidate for the next round, it weighs the possible cost of one round against the possible savings
//! in all remaining rounds. It starts no process and reads no clock, so it can be evaluated in virtual time
//! (examples/rounds).

mod belief;
mod course;
mod lessons;

use units::Share;

pub use belief::Observed;
use belief::{Belief, Beside, Standing};
pub use course::Course;
pub use lessons::Lessons;

/// Smallest share in a round: below it, tasks of the simulator slow down by more than the others gain.
const LEAST: u32 = 1_000;
/// Step between candidate shares: finer steps change a round by less than its noise.
const STEP: u32 = 1_000;
/// Equal share of three tasks and more. On 105 trial mixes of the simulator with 2 to 8 tasks, 70 % each took 2.8 to
/// 10.7 % less time than 100 % each (means over the mixes with the same number of tasks), at most 1.02 times as long, and
/// at most 1.05 times as long as the best equal shares (100 % each: 1.25). `200/n` is behind by 20 to 45 %.
const CROWD: Share = Share::from_hundredths(7_000);
/// Equal share of two tasks: 0.7 % less time than 100 % each on average, at most 1.009 times as long, and at most 1.05
/// times as long as the best equal shares (100 % each: 1.08; 70 % each: 1.13).
const PAIR: Share = Share::from_hundredths(9_000);
/// Maximum total cost of trials, as a fraction of the time of all rounds under the prior. The promise is 3 %; the
/// difference is for trials that cost more than their 95 % bound.
const AT_RISK: f64 = 0.02;
/// Fraction of the savings so far that trials may cost in addition.
const REINVESTED: f64 = 0.5;
/// Minimum gain of a change, in units of a round: smaller gains are within the rounding error of the belief.
const LEAST_GAIN: f64 = 2e-3;
/// Minimum gain of a trial as a fraction of the remaining time. The expected gain of the best of a thousand candidates
/// is too optimistic (a selection bias): without this threshold, half of a hundred rounds were trials on the trial
/// mixes.
const LEAST_PART: f64 = 1e-3;
/// Weight of the immediate cost of a trial. With 4 instead of 2, twenty rounds of seven trial mixes took 0.4 % less time
/// on average, and a hundred took as long: the gain is less certain than the cost.
const COST_WEIGHT: f64 = 4.0;
/// A trial must be affordable even at this many standard errors above its expected time, which 19 of 20 trials do not
/// exceed.
const BOUND: f64 = 1.645;
/// Equal shares that are candidates in every round.
const EQUAL: [u32; 4] = [10_000, 8_500, 7_000, 5_500];
/// Sweeps over all tasks in which a candidate is improved.
const SWEEPS: usize = 3;

/// Standard normal quantiles at the midpoints of 16 intervals of equal probability, for the expectation of a maximum
/// over tasks.
const DRAWS: [f64; 16] = [
    -1.862_7, -1.318_0, -1.009_99, -0.776_42, -0.579_13, -0.402_25, -0.237_20, -0.078_41, 0.078_41,
    0.237_20, 0.402_25, 0.579_13, 0.776_42, 1.009_99, 1.318_0, 1.862_7,
];

/// The reason for the shares of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing is known yet.
    Prior,
    /// The best shares so far.
    Best,
    /// Other shares whose trial is expected to pay off: new ones, or ones that may have been unlucky.
    Trial,
}

/// Shares of one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// One share for each task.
    pub shares: Vec<Share>,
    /// Their reason.
    pub why: Why,
    /// Expected seconds of the round; absent before the first.
    pub expected_s: Option<f64>,
    /// Expected seconds of the best shares so far; absent before the first round.
    pub best_s: Option<f64>,
    /// Seconds that the choice is expected to save in all remaining rounds.
    pub saves_s: f64,
}

/// Chooses the shares of one round after another.
#[derive(Debug, Clone)]
pub struct Learner {
    prior: Vec<Share>,
    rounds: u32,
    done: u32,
    belief: Belief,
    /// Seconds saved so far relative to the prior; the time of each round under the prior is estimated right after the
    /// round.
    saved_s: f64,
}

/// Safe initial shares: the whole device for one task, 90 % for each of two, 70 % for each of more.
#[must_use]
pub fn prior(tasks: usize) -> Vec<Share> {
    let each = match tasks {
        0 | 1 => Share::FULL,
        2 => PAIR,
        _ => CROWD,
    };
    vec![each; tasks]
}

impl Learner {
    /// A learner for this many rounds; the first one gets the shares of the prior.
    #[must_use]
    pub fn new(prior: Vec<Share>, rounds: u32) -> Self {
        Self {
            belief: Belief::new(prior.len()),
            prior,
            rounds,
            done: 0,
            saved_s: 0.0,
        }
    }

    /// Learns from a round of an earlier run.
    pub fn remember(&mut self, observed: Observed) {
        self.belief.learn(observed);
    }

    /// Learns from the round that has just ended; returns its estimated duration under the prior, in seconds.
    pub fn observe(&mut self, observed: Observed) -> Option<f64> {
        let took = observed.round_s();
        self.belief.learn(observed);
        self.done += 1;
        let prior_s = self.belief.round_of_last(&self.prior);
        self.saved_s += prior_s.map_or(0.0, |prior| prior - took);
        prior_s
    }

    /// Current estimates of the standard deviations of noise and drift.
    #[must_use]
    pub fn noise_and_drift(&self) -> (f64, f64) {
        self.belief.noise_and_drift()
    }

    /// Seconds saved so far relative to the prior, as far as known.
    #[must_use]
    pub fn saved_s(&self) -> f64 {
        self.saved_s
    }

    /// Shares of the next round.
    #[must_use]
    pub fn choose(&mut self) -> Choice {
        if self.belief.is_empty() {
            return Choice {
                shares: self.prior.clone(),
                why: Why::Prior,
                expected_s: None,
                best_s: None,
                saves_s: 0.0,
            };
        }
        self.belief.prepare();
        let (best, best_s) = self.best();
        let left = f64::from(self.rounds.saturating_sub(self.done).max(1));
        let weigh = Weighing {
            belief: &self.belief,
            at_best: (0..best.len())
                .map(|i| self.belief.standing(i, &best))
                .collect(),
            best_s,
            left,
            allowance_s: self.allowance_s(best_s),
        };
        let mut chosen = weigh.improve(best.clone());
        for start in EQUAL {
            let start = vec![Share::from_hundredths(start); best.len()];
            let gain = weigh.gain(&start);
            if gain > chosen.1 {
                chosen = weigh.improve(start);
            }
        }
        // One round with 10 % of noise says little: what came out badly may be tried again.
        for again in self.belief.tried() {
            let gain = weigh.gain(again);
            if gain > chosen.1 {
                chosen = (again.clone(), gain);
            }
        }
        let keep = chosen.0 == best || chosen.1 < (LEAST_GAIN + LEAST_PART * left) * best_s;
        if keep {
            chosen = (best.clone(), 0.0);
        }
        let expected_s = self.belief.round(&chosen.0);
        Choice {
            why: if keep { Why::Best } else { Why::Trial },
            shares: chosen.0,
            expected_s: Some(expected_s),
            best_s: Some(best_s),
            saves_s: chosen.1,
        }
    }

    /// The tried shares that are expected to be fastest now, and their expected seconds.
    fn best(&self) -> (Vec<Share>, f64) {
        let mut best = (self.prior.clone(), f64::INFINITY);
        for shares in self.belief.tried() {
            let seconds = self.belief.round(shares);
            if seconds < best.1 {
                best = (shares.clone(), seconds);
            }
        }
        best
    }

    /// Seconds by which a round may exceed the expected time of the best shares.
    fn allowance_s(&self, best_s: f64) -> f64 {
        let prior_s = self.belief.round(&self.prior);
        let all = f64::from(self.rounds) * prior_s * AT_RISK;
        let saved = if self.saved_s > 0.0 {
            REINVESTED * self.saved_s
        } else {
            self.saved_s
        };
        all + saved + (prior_s - best_s)
    }
}

/// Data for weighing candidates.
struct Weighing<'a> {
    belief: &'a Belief,
    /// The state of each task under the best shares.
    at_best: Vec<Standing>,
    best_s: f64,
    /// Number of remaining rounds.
    left: f64,
    /// Seconds by which a round may exceed the expected time of the best shares.
    allowance_s: f64,
}

impl Weighing<'_> {
    /// Three durations in seconds: the expectation of a round, the bound that it exceeds once in twenty rounds, and the
    /// expectation of a later round if these shares are kept only in case they turn out better than the best.
    fn seconds(&self, shares: &[Share]) -> (f64, f64, f64) {
        let n = shares.len();
        let each: Vec<_> = (0..n)
            .map(|i| self.belief.beside(i, shares, &self.at_best[i]))
            .collect();
        let more = self.belief.transfers(shares);
        let (mut mean, mut later, mut square) = (0.0, 0.0, 0.0);
        let draws = DRAWS.len();
        for k in 0..draws {
            let drawn = |sd: fn(&Beside) -> f64| {
                let each = each.iter().enumerate().map(|(i, e)| {
                    // Each task uses the draws in a different order (a Latin hypercube).
                    let z = DRAWS[(k * STRIDES[i % STRIDES.len()] + 5 * i) % draws];
                    (math::exp(e.at_best + e.ratio + sd(e) * z), more[i])
                });
                self.belief.longest(each)
            };
            let now = drawn(|e| e.sd);
            let learnt = drawn(|e| e.learnable);
            mean += now / draws as f64;
            square += now * now / draws as f64;
            later += learnt.min(self.best_s) / draws as f64;
        }
        let sd = (square - mean * mean).max(0.0).sqrt();
        (mean, mean + BOUND * sd, later)
    }

    /// Weighted seconds saved in all remaining rounds; negative infinity if the trial could cost too much.
    fn gain(&self, shares: &[Share]) -> f64 {
        let (now, bound, later) = self.seconds(shares);
        if bound - self.best_s > self.allowance_s {
            return f64::NEG_INFINITY;
        }
        COST_WEIGHT * (self.best_s - now) + (self.left - 1.0) * (self.best_s - later)
    }

    /// Improves a candidate by changing the share of one task at a time.
    fn improve(&self, mut shares: Vec<Share>) -> (Vec<Share>, f64) {
        let mut gain = self.gain(&shares);
        for _ in 0..SWEEPS {
            let before = gain;
            for i in 0..shares.len() {
                let own = shares[i];
                let mut best = own;
                for hundredths in (LEAST..=10_000).step_by(STEP as usize) {
                    shares[i] = Share::from_hundredths(hundredths);
                    let found = self.gain(&shares);
                    if found > gain {
                        (gain, best) = (found, shares[i]);
                    }
                }
                shares[i] = best;
            }
            if gain <= before {
                break;
            }
        }
        (shares, gain)
    }
}

/// Odd strides, since each of them permutes the sixteen draws.
const STRIDES: [usize; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

#[cfg(test)]
mod tests;
