//! The decision: turns comparisons of runs within seconds into a verdict with an error.
//!
//! The spread within one run says nothing about the machine's next minute. So the error comes only from repeated
//! comparisons, each of which compares alone and together at neighbouring times.

/// One comparison of alone and together at neighbouring times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Natural logarithm of the time one after another over the time together.
    pub ln_gain: f64,
    /// Largest fraction of the processors that other programs used in one of the runs.
    pub others: f64,
}

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Together is faster.
    Worth,
    /// Together is not faster.
    NotWorth,
    /// The confidence interval of the difference contains zero.
    WithinNoise,
}

/// Conclusion from the comparisons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Mean of `ln_gain`.
    pub mean: f64,
    /// Half the width of the confidence interval of `mean`.
    pub half: f64,
    /// Largest fraction of the processors that others used, over the comparisons that count.
    pub others: f64,
    /// Number of comparisons that count.
    pub count: usize,
}

/// Fraction of the processors used by others above which a comparison is repeated: this load shifts a rate by as much
/// as the spread on a quiet machine.
pub const LOADED: f64 = 0.05;
/// Prior for the spread of one comparison, and its weight in comparisons: successive runs of one script on a shared
/// machine differ by 2 to 5 %.
const BELIEVED_SPREAD: f64 = 0.07;
const BELIEVED_COUNT: usize = 2;
/// Relative systematic error that repeats do not reveal: a stopped process leaves caches and memory to the others.
const HIDDEN: f64 = 0.01;
/// Minimum number of comparisons for a verdict, if there is time for more.
pub const FEWEST: usize = 2;
/// Maximum number of comparisons; beyond it, the error falls too slowly for a waiting user.
pub const MOST: usize = 12;
/// Numbers of comparisons after which the verdict may be given early. They are even, so that a linear drift cancels.
/// There are few, since each look may err: with a look after every comparison, 6 % of the verdicts were wrong on the
/// noisiest machine of `tests`.
const LOOKS: [usize; 3] = [FEWEST, 4, 8];
/// One-sided 99.5 % quantiles of Student's t for 1, 2, ... degrees of freedom. `tests` shows that with all looks
/// together, less than 5 % of the verdicts are wrong.
const QUANTILES: [f64; 16] = [
    63.7, 9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25, 3.17, 3.11, 3.05, 3.01, 2.98, 2.95, 2.92,
];

impl Judged {
    /// The conclusion from the comparisons that count; `None` if there are none.
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

    /// The verdict. Load of other programs slows down the commands that run together; without it, running together
    /// could be better by this load. So *not worth it* needs a loss that exceeds the load.
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

/// The comparisons without load, if there are enough of them or more than loaded ones; otherwise all, because the
/// machine is always busy.
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

/// Whether to make another comparison; `over`: the time limit has passed.
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
