//! Rivals that need no simulator, and the scores of all.

use std::collections::BTreeMap;

use crate::{Job, Seen};

/// For each job the median of the co-runs other than its own.
pub fn constant(seen: &[Seen]) -> Vec<f64> {
    let of = |one: &Seen| {
        let mut others: Vec<f64> = seen
            .iter()
            .filter(|s| s.corun != one.corun)
            .map(|s| s.real)
            .collect();
        others.sort_by(f64::total_cmp);
        others.get(others.len() / 2).copied().unwrap_or(1.0)
    };
    seen.iter().map(of).collect()
}

/// Rounds of fitting one factor after the other; after ten, no displayed digit changes any more.
const ROUNDS: usize = 20;

/// The product law `r = a(job) b(other)`, learnt for each pair from all the others by least squares of logarithms;
/// `None` if the co-runs are not pairs.
pub fn product(seen: &[Seen]) -> Option<Vec<f64>> {
    let pairs: Option<Vec<(&Seen, &Job)>> =
        seen.iter().map(|s| Some((s, s.other.as_ref()?))).collect();
    let pairs = pairs?;
    let of = |(one, other): &(&Seen, &Job)| {
        let (mut own, mut beside) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..ROUNDS {
            for is_own in [true, false] {
                let mut sums: BTreeMap<&Job, (f64, f64)> = BTreeMap::new();
                for (s, by) in pairs.iter().filter(|(s, _)| s.corun != one.corun) {
                    let (key, rest) = match is_own {
                        true => (&s.job, beside.get(*by)),
                        false => (*by, own.get(&s.job)),
                    };
                    let sum = sums.entry(key).or_default();
                    sum.0 += s.real.ln() - rest.copied().unwrap_or(0.0);
                    sum.1 += 1.0;
                }
                let means = sums.into_iter().map(|(job, (sum, n))| (job, sum / n));
                *if is_own { &mut own } else { &mut beside } = means.collect();
            }
        }
        let factor = |of: &BTreeMap<&Job, f64>, job: &Job| of.get(job).copied().unwrap_or(0.0);
        (factor(&own, &one.job) + factor(&beside, other)).exp()
    };
    Some(pairs.iter().map(of).collect())
}

/// Mean absolute difference.
pub fn error(real: &[f64], told: &[f64]) -> f64 {
    let sum: f64 = real.iter().zip(told).map(|(r, t)| (r - t).abs()).sum();
    sum / real.len() as f64
}

/// Spearman's: the correlation of the ranks; equal values get the mean of their ranks.
pub fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let sum = |x: &[f64], y: &[f64]| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum()
    };
    sum(&a, &b) / (sum(&a, &a) * sum(&b, &b)).sqrt()
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |v: &f64| {
        let below = values.iter().filter(|w| *w < v).count() as f64;
        let equal = values.iter().filter(|w| *w == v).count() as f64;
        below + (equal - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}
