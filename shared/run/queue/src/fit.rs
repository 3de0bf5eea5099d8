//! Compares situations (mix, number, cap) by the rates of jobs that differ in size.
//!
//! Job `j` of template `t` has in situation `s` the rate
//!
//! ```text
//! ln rate = m_t + a_j + b_s + noise
//! ```
//!
//! where `m_t` is the mean of the template, `a_j` the effect of the job (a smaller model is faster), and `b_s` the
//! effect of the situation on all jobs in it. The fit minimises the sum of squared residuals, weighted by seconds, plus
//! `a_j^2 / (spread^2)`. A job that ran in two situations compares them directly; jobs that ran in one situation each
//! compare them as far as copies are alike. `spread` is estimated from the data.

use std::collections::BTreeMap;

use crate::meter::At;

/// Standard deviation of the logarithm of a rate measured for [`FULL`] seconds. Rates of one job on a virtual machine
/// vary by some percent from window to window; longer windows do not reduce this, because rates drift.
const NOISE: f64 = 0.04;
/// Maximum weight of a measurement, in seconds; longer ones count the same.
const FULL: f64 = 20.0;
/// Bounds of the standard deviation of `a_j`: the lower one for seeds of one model, the upper one for models of quite
/// different widths.
const SPREAD: (f64, f64) = (0.02, 0.5);
/// Rounds of alternating least squares; the values change by less than a thousandth after some ten.
const ROUNDS: usize = 12;

/// A measured rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) template: usize,
    pub(crate) job: usize,
    pub(crate) at: At,
    /// Logarithm of the rate.
    pub(crate) log: f64,
    pub(crate) seconds: f64,
}

/// Estimate for a situation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Worth {
    /// `b_s`: logarithm of a job's rate, relative to other situations of the same mix.
    pub(crate) log: f64,
    /// Number of jobs measured in it, and their total seconds.
    pub(crate) jobs: usize,
    pub(crate) seconds: f64,
    /// Standard error of `log` for a comparison with situations of other jobs: `spread / sqrt(jobs)`.
    pub(crate) doubt: f64,
}

/// The estimate for each situation, and the mean logarithm of the rate of each template.
pub(crate) fn fit(seen: &[Seen]) -> (BTreeMap<At, Worth>, Vec<f64>) {
    let templates = seen.iter().map(|s| s.template + 1).max().unwrap_or(0);
    let jobs = seen.iter().map(|s| s.job + 1).max().unwrap_or(0);
    let mut means = vec![0.0; templates];
    let mut own = vec![0.0; jobs];
    let mut all: BTreeMap<At, Worth> = BTreeMap::new();
    for s in seen {
        let worth = all.entry(s.at).or_default();
        worth.jobs += 1;
        worth.seconds += s.seconds;
    }
    // The position of the situation and the weight of each: the rounds need both many times.
    let places: BTreeMap<At, usize> = all.keys().copied().zip(0..).collect();
    let weight = |s: &Seen| s.seconds.min(FULL) / FULL / (NOISE * NOISE);
    let places: Vec<(usize, f64)> = seen.iter().map(|s| (places[&s.at], weight(s))).collect();
    let mut worths = vec![0.0; all.len()];
    let mut spread: f64 = 0.1;
    for _ in 0..ROUNDS {
        let mut sums = vec![(0.0, 0.0); templates];
        for (s, (place, weight)) in seen.iter().zip(&places) {
            sums[s.template].0 += weight * (s.log - own[s.job] - worths[*place]);
            sums[s.template].1 += weight;
        }
        for (mean, (sum, weights)) in means.iter_mut().zip(sums) {
            *mean = if weights > 0.0 { sum / weights } else { 0.0 };
        }
        let mut sums = vec![(0.0, 0.0); worths.len()];
        for (s, (place, weight)) in seen.iter().zip(&places) {
            sums[*place].0 += weight * (s.log - means[s.template] - own[s.job]);
            sums[*place].1 += weight;
        }
        for (worth, (sum, weights)) in worths.iter_mut().zip(sums) {
            *worth = sum / weights;
        }
        let mut sums = vec![(0.0, 0.0); jobs];
        for (s, (place, weight)) in seen.iter().zip(&places) {
            sums[s.job].0 += weight * (s.log - means[s.template] - worths[*place]);
            sums[s.job].1 += weight;
        }
        let prior = 1.0 / (spread * spread);
        let mut squares = 0.0;
        for (value, (sum, weights)) in own.iter_mut().zip(&sums) {
            *value = sum / (weights + prior);
            squares += *value * *value + 1.0 / (weights + prior);
        }
        spread = (squares / jobs.max(1) as f64)
            .sqrt()
            .clamp(SPREAD.0, SPREAD.1);
    }
    for (worth, log) in all.values_mut().zip(worths) {
        worth.log = log;
        worth.doubt = spread / (worth.jobs.max(1) as f64).sqrt();
    }
    (all, means)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of different sizes; only one of them ran in both situations.
    #[test]
    fn a_job_in_two_situations_compares_them_whatever_others_are() {
        let at = |number| At {
            mix: 0,
            number,
            cap: 100,
            crowd: 0,
        };
        let seen = |job, number, rate: f64| Seen {
            template: 0,
            job,
            at: at(number),
            log: rate.ln(),
            seconds: 30.0,
        };
        let all = [
            seen(0, 1, 10.0),
            seen(0, 2, 8.0),
            seen(1, 2, 30.0),
            seen(2, 2, 2.0),
            seen(3, 1, 15.0),
        ];
        let (worths, _) = fit(&all);
        let ratio = (worths[&at(2)].log - worths[&at(1)].log).exp();
        assert!((ratio - 0.8).abs() < 0.06, "{ratio}");
    }
}
