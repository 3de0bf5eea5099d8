//! The decision: comparisons that were made seconds apart become an answer with its error.
//!
//! The spread within one run says nothing about the machine's next minute, so the error comes only from comparisons
//! that were repeated: each is of neighbours in time, alone and together.

/// One comparison of neighbours in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Natural logarithm of the time one after another over the time together.
    pub ln_gain: f64,
    /// Largest fraction of the processors that other programs used in one of its runs.
    pub others: f64,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Together is faster.
    Worth,
    /// Together is not faster.
    NotWorth,
    /// The interval of the difference contains zero.
    WithinNoise,
}

/// What the comparisons say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Mean of `ln_gain`.
    pub mean: f64,
    /// Half the width of its interval.
    pub half: f64,
    /// Largest fraction of the processors that others used in a comparison that counts.
    pub others: f64,
    /// Comparisons that count.
    pub count: usize,
}

/// Fraction of the processors used by others from which a comparison is repeated: it shifts a rate by as much as the
/// spread of a quiet machine.
pub const LOADED: f64 = 0.05;
/// Spread of one comparison before any was repeated, and how many comparisons this belief weighs: two single runs of
/// one script on a shared machine each differ by 2 to 5 % from the next.
const BELIEVED_SPREAD: f64 = 0.07;
const BELIEVED_COUNT: usize = 2;
/// Error that repeats do not show, relative: a held process leaves caches and memory to the other.
const HIDDEN: f64 = 0.01;
/// Fewest comparisons for an answer, if there is time for more.
pub const FEWEST: usize = 2;
/// Most comparisons. The error then falls too slowly for somebody who waits.
pub const MOST: usize = 12;
/// Numbers of comparisons after which an answer may be given early. They are even, so that a steady drift cancels, and
/// few, since each look may err: with a look after every comparison, 6 % erred on the noisiest machine of `tests`.
const LOOKS: [usize; 3] = [FEWEST, 4, 8];
/// One-sided 99.5 % quantiles of Student's t for 1, 2, ... degrees of freedom. `tests` shows that all
/// looks together err in less than 5 %.
const QUANTILES: [f64; 16] = [
    63.7, 9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25, 3.17, 3.11, 3.05, 3.01, 2.98, 2.95, 2.92,
];

impl Judged {
    /// From the comparisons that count; `None` if there are none.
    #[must_use]
    pub fn of(samples: &[Sample]) -> Option<Self> {
        let samples = counting(samples);
        let count = samples.len();
        if count == 0 {
            return None;
        }
        let n = count as f64;
        let mean = samples.iter().map(|s| s.ln_gain).sum::<f64>() / n;
        let squares: f64 = samples.iter().map(|s| (s.ln_gain - mean).powi(2)).sum();
        let freedom = BELIEVED_COUNT + count - 1;
        let believed = BELIEVED_COUNT as f64 * BELIEVED_SPREAD * BELIEVED_SPREAD;
        let variance = (believed + squares) / freedom as f64;
        let quantile = QUANTILES[freedom.min(QUANTILES.len()) - 1];
        Some(Self {
            mean,
            half: (quantile * (variance / n).sqrt()).hypot(2.0 * HIDDEN),
            others: samples.iter().map(|s| s.others).fold(0.0, f64::max),
            count,
        })
    }

    /// The answer. What others use, they take from those who run together: without them together could be that much
    /// better, so that a loaded machine does not show that sharing is not worth it.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let taken = match self.others > LOADED {
            true => -(1.0 - self.others.min(0.9)).ln(),
            false => 0.0,
        };
        if self.mean - self.half > 0.0 {
            Verdict::Worth
        } else if self.mean + self.half + taken < 0.0 {
            Verdict::NotWorth
        } else {
            Verdict::WithinNoise
        }
    }
}

/// The quiet comparisons if there are enough of them, or more than loaded ones; else all: the machine is always busy.
fn counting(samples: &[Sample]) -> Vec<Sample> {
    let quiet: Vec<Sample> = samples
        .iter()
        .copied()
        .filter(|s| s.others <= LOADED)
        .collect();
    match quiet.len() >= FEWEST || 2 * quiet.len() > samples.len() {
        true => quiet,
        false => samples.to_vec(),
    }
}

/// Whether another comparison is made; `over`: the time allowed has passed.
#[must_use]
pub fn more(samples: &[Sample], over: bool) -> bool {
    if samples.len() < FEWEST {
        return true;
    }
    if samples.len() >= MOST || over {
        return false;
    }
    if !LOOKS.contains(&samples.len()) {
        return true;
    }
    Judged::of(samples).is_none_or(|judged| {
        // A loaded comparison is repeated while there is time.
        judged.verdict() == Verdict::WithinNoise || judged.others > LOADED
    })
}

#[cfg(test)]
mod tests;
