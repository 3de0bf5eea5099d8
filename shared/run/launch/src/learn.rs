//! Which shares the next round gets, learnt from the rounds so far.
//!
//! Every round is real work and a measurement. A [`Learner`] keeps a `Belief` of how long each task trains under any
//! shares, and weighs each candidate for the next round: what it may cost once against what it may save in all the
//! rounds that remain. It starts no process and reads no clock, so it is judged on virtual time (examples/rounds).

mod belief;
mod course;
mod lessons;

use units::Share;

pub use belief::Observed;
use belief::{Belief, Standing};
pub use course::Course;
pub use lessons::Lessons;

/// Smallest share that a round gives: below it tasks of the simulator slow down by more than the others gain.
const LEAST: u32 = 1_000;
/// Candidates differ by this much: finer steps change a round by less than its noise.
const STEP: u32 = 1_000;
/// Equal share of more than three tasks, in percent of the device. On 14 trial mixes of the simulator 70 % each was
/// never behind 100 % each, and ahead by up to 12 %; `200/n` was behind by 20 to 45 %.
const CROWD: u32 = 7_000;
/// What trials may cost altogether, as a part of all rounds under the prior: the promise is 3 %, and a trial may cost
/// more than its 95 % bound.
const AT_RISK: f64 = 0.02;
/// Part of what has been saved so far that trials may cost in addition.
const REINVESTED: f64 = 0.5;
/// Least gain of a change, in rounds: less is within the rounding of the belief.
const LEAST_GAIN: f64 = 2e-3;
/// Least gain of a trial as a part of the remaining time. The best of a thousand candidates is promised more than it
/// holds: without this, half of a hundred rounds were trials on the trial mixes.
const LEAST_PART: f64 = 1e-3;
/// Weight of what a trial costs at once. With 2 instead of 1, a hundred rounds of the trial mixes took 0.3 % less.
const COST_WEIGHT: f64 = 2.0;
/// Standard errors above the expectation at which a trial must still be affordable: 19 of 20.
const BOUND: f64 = 1.645;
/// Equal shares that are candidates in every round.
const EQUAL: [u32; 4] = [10_000, 8_500, 7_000, 5_500];
/// Sweeps over all tasks by which a candidate is improved.
const SWEEPS: usize = 3;

/// Standard normal quantiles at the middles of 16 equal parts, for expectations of a maximum over tasks.
const DRAWS: [f64; 16] = [
    -1.862_7, -1.318_0, -1.009_99, -0.776_42, -0.579_13, -0.402_25, -0.237_20, -0.078_41, 0.078_41,
    0.237_20, 0.402_25, 0.579_13, 0.776_42, 1.009_99, 1.318_0, 1.862_7,
];

/// Why a round gets its shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing is known yet.
    Prior,
    /// The best so far.
    Best,
    /// Not tried yet; expected to be worth it.
    Trial,
}

/// Shares of one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// One for each task.
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
    /// Seconds saved so far against the prior, by the belief of the time.
    saved_s: f64,
}

/// Shares that are never bad: all of the device for each of up to three tasks, 70 % for each of more.
#[must_use]
pub fn prior(tasks: usize) -> Vec<Share> {
    let each = if tasks <= 3 { 10_000 } else { CROWD };
    vec![Share::from_hundredths(each); tasks]
}

impl Learner {
    /// For this many rounds; the first one has the prior's shares.
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

    /// Learns from the round that has just been done; returns how long it would have taken under the prior.
    pub fn observe(&mut self, observed: Observed) -> Option<f64> {
        let took = observed.round_s();
        self.belief.learn(observed);
        self.done += 1;
        let prior_s = self.belief.round_of_last(&self.prior);
        self.saved_s += prior_s.map_or(0.0, |prior| prior - took);
        prior_s
    }

    /// Standard deviations of noise and drift that are assumed now.
    #[must_use]
    pub fn noise_and_drift(&self) -> (f64, f64) {
        self.belief.noise_and_drift()
    }

    /// Seconds saved so far against the prior, as far as known.
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
        let tried =
            self.belief.has(&chosen.0) || chosen.1 < (LEAST_GAIN + LEAST_PART * left) * best_s;
        if tried {
            chosen = (best.clone(), 0.0);
        }
        let expected_s = self.belief.round(&chosen.0);
        Choice {
            why: if tried { Why::Best } else { Why::Trial },
            shares: chosen.0,
            expected_s: Some(expected_s),
            best_s: Some(best_s),
            saves_s: chosen.1,
        }
    }

    /// The shares that were tried and are expected to be fastest now, and their seconds.
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

    /// Seconds by which a round may be longer than the best.
    fn allowance_s(&self, best_s: f64) -> f64 {
        let prior_s = self.belief.round(&self.prior);
        let all = f64::from(self.rounds) * prior_s * AT_RISK;
        let saved = self.saved_s;
        let saved = if saved > 0.0 {
            REINVESTED * saved
        } else {
            saved
        };
        all + saved + (prior_s - best_s)
    }
}

/// What candidates are weighed by.
struct Weighing<'a> {
    belief: &'a Belief,
    /// Each task under the best shares.
    at_best: Vec<Standing>,
    best_s: f64,
    /// Rounds that remain.
    left: f64,
    /// Seconds by which a round may be longer than the best.
    allowance_s: f64,
}

impl Weighing<'_> {
    /// Expected seconds of a round, seconds that it exceeds once in twenty, and expected seconds of a later round if
    /// it is kept only where it has turned out better.
    fn seconds(&self, shares: &[Share]) -> (f64, f64, f64) {
        let n = shares.len();
        let each: Vec<_> = (0..n)
            .map(|i| self.belief.beside(i, shares, &self.at_best[i]))
            .collect();
        let more = self.belief.transfers(shares);
        let (mut mean, mut later, mut square) = (0.0, 0.0, 0.0);
        let draws = DRAWS.len();
        for k in 0..draws {
            let (mut now, mut learnt) = (0.0f64, 0.0f64);
            for (i, e) in each.iter().enumerate() {
                // Each task goes through the draws in an order of its own (a Latin hypercube).
                let z = DRAWS[(k * STRIDES[i % STRIDES.len()] + 5 * i) % draws];
                now = now.max(math::exp(e.at_best + e.ratio + e.sd * z) + more[i]);
                learnt = learnt.max(math::exp(e.at_best + e.ratio + e.learnable * z) + more[i]);
            }
            mean += now / draws as f64;
            square += now * now / draws as f64;
            later += learnt.min(self.best_s) / draws as f64;
        }
        let sd = (square - mean * mean).max(0.0).sqrt();
        (mean, mean + BOUND * sd, later)
    }

    /// Seconds saved in all remaining rounds; none if it may cost too much.
    fn gain(&self, shares: &[Share]) -> f64 {
        let (now, bound, later) = self.seconds(shares);
        if bound - self.best_s > self.allowance_s {
            return f64::NEG_INFINITY;
        }
        COST_WEIGHT * (self.best_s - now) + (self.left - 1.0) * (self.best_s - later)
    }

    /// A candidate improved by moves of single tasks.
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

/// Odd numbers: each permutes the sixteen draws.
const STRIDES: [usize; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

#[cfg(test)]
mod tests;
