//! Length of a round in the same order if every rate is off by some standard errors: the ends of its interval.

use doc::Duplex;

use super::{Ask, Choices, EVERY_ORDER, Range, RatesBySet, Round, SLACK, permutations};
use crate::judge::Judge;

/// Possible values of one end of an interval.
pub struct End {
    /// Length at the other rates for each order that the claimed round may have; empty if other lengths are possible
    /// too.
    exact: Vec<f64>,
    /// Bounds that hold for any order.
    range: Range,
    /// Whether a task may make no progress at such rates, so that the interval has no end.
    none: bool,
}

impl End {
    /// Bounds of the end, and whether it may be absent.
    pub fn bounds(&self) -> (Range, bool) {
        let exact = self.exact.iter().copied();
        let range = match (exact.clone().reduce(f64::min), exact.reduce(f64::max)) {
            (Some(low), Some(high)) => Range { low, high },
            _ => self.range,
        };
        (range, self.none)
    }

    /// Judges a claim in seconds.
    pub fn judge(&self, name: &str, claimed: Option<f64>, j: &mut Judge) {
        let Some(claimed) = claimed else {
            if !self.none {
                j.contradiction(name, "nothing", "an end: every task advances at such rates");
            }
            return;
        };
        let near = |exact: &f64| (claimed - exact).abs() <= SLACK * exact.abs();
        if self.exact.is_empty() || self.exact.iter().any(near) {
            return self.range.judge(name, claimed, j);
        }
        let each: Vec<String> = self.exact.iter().map(f64::to_string).collect();
        j.contradiction(
            name,
            claimed,
            format!("{}, by the order of the round", each.join(" or ")),
        );
    }
}

impl Round {
    /// One end of the interval of a round of `mean` seconds, where rates are off by this many standard errors. The
    /// order of the round is not recorded. On a full-duplex link with few orders it must be one of the orders without
    /// waiting that take `mean` seconds: a search chooses a round with waiting only if that is shorter.
    pub fn end(&self, ask: Ask<'_>, choices: &Choices, mean: f64, errors: f64) -> End {
        let mut known = RatesBySet::new();
        let (slowest, fastest) = self.extremes(ask, choices, errors, &mut known);
        let all: f64 = self.sums().0 + self.sums().1 + slowest.iter().sum::<f64>();
        let each = self.jobs.iter().zip(&fastest);
        let longest = each.map(|(job, c)| job.download + c + job.upload);
        let least = longest.fold(0.0, f64::max);
        // An interval contains its mean, which bounds one side.
        let range = match errors < 0.0 {
            true => Range {
                low: mean,
                high: all.max(mean),
            },
            false => Range {
                low: least.min(mean),
                high: mean,
            },
        };
        let none = slowest.iter().any(|s| !s.is_finite());
        let mut end = End {
            exact: Vec::new(),
            range,
            none,
        };
        let few = self.jobs.len() <= EVERY_ORDER && self.duplex == Duplex::Full;
        if few {
            self.alike(ask, choices, mean, errors, &mut known, &mut end);
        }
        end
    }

    /// Finds the orders that take `mean` seconds, and their lengths at the other rates.
    fn alike(
        &self,
        ask: Ask<'_>,
        choices: &Choices,
        mean: f64,
        errors: f64,
        known: &mut RatesBySet,
        end: &mut End,
    ) {
        let orders = permutations(self.jobs.len());
        for downloads in &orders {
            let Some(ends) = self.computed(ask, choices, downloads, 0.0, known) else {
                continue;
            };
            let shifted = self.computed(ask, choices, downloads, errors, known);
            for uploads in &orders {
                let turns = |ends: &[(f64, usize)]| -> f64 {
                    let mut by_turn = ends.to_vec();
                    by_turn.sort_by_key(|(_, i)| uploads.iter().position(|u| u == i));
                    self.uploaded(&by_turn)
                };
                if (turns(&ends) - mean).abs() > SLACK * mean {
                    continue;
                }
                match &shifted {
                    None => end.none = true,
                    Some(shifted) => {
                        let seconds = turns(shifted);
                        end.exact.push(match errors < 0.0 {
                            true => seconds.max(mean),
                            false => seconds.min(mean),
                        });
                    }
                }
            }
        }
        end.exact.sort_by(f64::total_cmp);
        end.exact
            .dedup_by(|a, b| (*a - *b).abs() <= SLACK * b.abs());
    }

    /// Compute time of each task in seconds, at its lowest and at its highest rate over all sets of tasks. With many
    /// tasks no set is evaluated, and the bounds are infinity and zero.
    fn extremes(
        &self,
        ask: Ask<'_>,
        choices: &Choices,
        errors: f64,
        known: &mut RatesBySet,
    ) -> (Vec<f64>, Vec<f64>) {
        let n = self.jobs.len();
        let mut slowest = vec![0.0_f64; n];
        let mut fastest = vec![f64::INFINITY; n];
        if n > EVERY_ORDER {
            return (vec![f64::INFINITY; n], vec![0.0; n]);
        }
        for set in 1..1_u64 << n {
            let tasks: Vec<usize> = (0..n).filter(|i| set >> i & 1 == 1).collect();
            let rates = known
                .entry(set)
                .or_insert_with(|| self.rates(ask, choices, &tasks));
            for (&i, (mean, error)) in tasks.iter().zip(rates.iter()) {
                let rate = mean + errors * error;
                let seconds = if rate > 0.0 {
                    self.jobs[i].work / rate
                } else {
                    f64::INFINITY
                };
                slowest[i] = slowest[i].max(seconds);
                fastest[i] = fastest[i].min(seconds);
            }
        }
        (slowest, fastest)
    }
}
