use std::collections::BTreeMap;

use doc::{Efficiency, EfficiencyCurve, EfficiencyRow, EfficiencySource};
use units::Batch;

use crate::level::{Level, each, levelled};
use crate::noise::{around, efficiency, student};

/// Samples that one training took to the loss that all reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Batch size.
    pub batch: Batch,
    /// Number of samples until then (or rounds, or epochs, the same unit for all trainings): above 0.
    pub samples: f64,
}

/// The value of a sample at each batch size, learnt from trainings.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    /// By the law, from two batch sizes (or more than a table may have).
    NoiseScale(FittedScale),
    /// From three batch sizes or more: their progress per sample, relative to that of the smallest. Sizes ascend,
    /// progress never rises. If a size was trained at more than once, each has the interval of one more training.
    Table(Vec<EfficiencyRow>),
}

/// A noise scale learnt from trainings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedScale {
    /// `phi` in samples.
    pub samples: f64,
    /// 95 % confidence interval.
    pub interval: [f64; 2],
    /// The best noise scale is beyond what these batch sizes can show, so it is at the limit.
    pub at_limit: bool,
}

/// Prior relative error (standard deviation of the logarithm) of the samples that one training takes to a loss:
/// repeats with other seeds differ by 10 to 30 % on three small data sets.
const USUAL_ERROR: f64 = 0.2;
/// Degrees of freedom of [`USUAL_ERROR`], added to those of the fit: with two trainings the law passes through both
/// points, and their residuals say nothing.
const USUAL_FREEDOM: usize = 4;
/// A noise scale is searched within this factor of the smallest and of the largest batch size. At thirty times the
/// largest size, the efficiencies of all sizes differ by 3 %, which is less than runs can show.
const BEYOND: f64 = 30.0;
/// Points of the search in the logarithm of `phi`: 2 % apart where sizes span a factor of a thousand.
const POINTS: u32 = 700;

/// Learns the value of a sample from the samples that trainings took to the same loss; `None` with fewer than two
/// batch sizes. Errors are relative, so both ways are least squares on logarithms.
///
/// Two sizes determine the two constants of the law, and not more. From three on, a table is more accurate: where
/// large batches leave few steps per round, or learning rates have a maximum, trainings do not follow the law. In 16
/// federations (examples/federation), errors of the rounds of other seeds were 0.15 by tables and 0.30 by the law
/// (root mean square of the logarithm, two trainings at each of six sizes), and tables were closer in each of the 16.
#[must_use]
pub fn fit(trainings: &[Reached]) -> Option<Fit> {
    let mut sizes: BTreeMap<Batch, Vec<f64>> = BTreeMap::new();
    for reached in trainings {
        if reached.samples.is_finite() && reached.samples > 0.0 {
            let logs = sizes.entry(reached.batch).or_default();
            logs.push(reached.samples.ln());
        }
    }
    match sizes.len() {
        0 | 1 => None,
        3..=Efficiency::MOST_ROWS => Some(Fit::Table(table(&sizes))),
        _ => noise_scale(&sizes).map(Fit::NoiseScale),
    }
}

/// Progress per sample is one over samples. A larger batch makes no more, so rises are the luck of trainings.
fn table(sizes: &BTreeMap<Batch, Vec<f64>>) -> Vec<EfficiencyRow> {
    let levels = levelled(sizes.values().map(|l| (-l.iter().sum::<f64>(), l.len())));
    let first = levels.first().map_or(0.0, Level::mean);
    let progress = each(&levels).map(|level| (level - first).exp());
    let row = |((&batch, logs), value): ((&Batch, &Vec<f64>), f64)| EfficiencyRow {
        batch,
        value,
        interval: luck(sizes, logs.len()).map(|half_width| around(value, half_width)),
    };
    sizes.iter().zip(progress).map(row).collect()
}

/// Half width of the 95 % interval of the logarithm of what one more training takes at a size with `count` trainings;
/// `None` if no size has two. Two trainings say little about their spread, so it is pooled over the sizes.
fn luck(sizes: &BTreeMap<Batch, Vec<f64>>, count: usize) -> Option<f64> {
    let squares = |logs: &Vec<f64>| -> f64 {
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        logs.iter().map(|log| (log - mean).powi(2)).sum()
    };
    let freedom = sizes.values().map(|logs| logs.len() - 1).sum();
    let rest = sizes.values().map(squares).sum();
    // Both the mean of `count` trainings and the next training have their luck.
    let both = 1.0 + 1.0 / count as f64;
    (freedom > 0)
        .then(|| student(freedom + USUAL_FREEDOM) * (variance(rest, freedom) * both).sqrt())
}

/// Variance of the logarithm of what one training takes, from the sum of squared residuals.
fn variance(rest: f64, freedom: usize) -> f64 {
    (rest + USUAL_FREEDOM as f64 * USUAL_ERROR.powi(2)) / (freedom + USUAL_FREEDOM) as f64
}

/// By the law a training needs `n = c (phi + B)` samples; `c` is the mean for every `phi`. The interval is that of the
/// likelihood ratio.
fn noise_scale(sizes: &BTreeMap<Batch, Vec<f64>>) -> Option<FittedScale> {
    let rows: Vec<(f64, f64)> = sizes
        .iter()
        .flat_map(|(batch, logs)| logs.iter().map(|log| (batch.as_f64(), *log)))
        .collect();
    let (least, most) = (rows.first()?.0, rows.last()?.0);
    let squares = |phi: f64| -> f64 {
        let residual = |row: &(f64, f64)| row.1 - (phi + row.0).ln();
        let mean = rows.iter().map(residual).sum::<f64>() / rows.len() as f64;
        rows.iter().map(|r| (residual(r) - mean).powi(2)).sum()
    };
    let low = (least / BEYOND).ln();
    let high = (most * BEYOND).ln();
    let at = |k: u32| (low + (high - low) * f64::from(k) / f64::from(POINTS)).exp();
    let curve: Vec<(f64, f64)> = (0..=POINTS).map(|k| (at(k), squares(at(k)))).collect();
    let best = curve
        .iter()
        .enumerate()
        .min_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let (index, &(phi, rest)) = best?;
    let freedom = rows.len() - 2;
    let bound = rest + student(freedom + USUAL_FREEDOM).powi(2) * variance(rest, freedom);
    let inside = || {
        curve
            .iter()
            .filter(|(_, s)| *s <= bound)
            .map(|(phi, _)| *phi)
    };
    let ends = [inside().next()?, inside().next_back()?];
    // At an end of the searched range, the interval is unbounded on that side.
    let [widest_low, widest_high] = around(phi, f64::INFINITY);
    let interval = [
        if ends[0] <= at(0) {
            widest_low.min(ends[0])
        } else {
            ends[0]
        },
        if ends[1] >= at(POINTS) {
            widest_high.max(ends[1])
        } else {
            ends[1]
        },
    ];
    Some(FittedScale {
        samples: phi,
        interval,
        at_limit: index == 0 || index == POINTS as usize,
    })
}

fn lowest(row: &EfficiencyRow) -> f64 {
    row.interval.map_or(row.value, |[low, _]| low)
}

impl Fit {
    /// Converts the fit to the form of a workload; `None` if it is out of the range of a document.
    #[must_use]
    pub fn to_efficiency(&self) -> Option<Efficiency> {
        match self {
            Self::NoiseScale(scale) => {
                efficiency(scale.samples, scale.interval, EfficiencySource::Learnt)
            }
            // A workload has no smaller progress than this.
            Self::Table(rows) => rows
                .iter()
                .all(|row| lowest(row) > 1e-9)
                .then(|| Efficiency {
                    curve: EfficiencyCurve::Progress(rows.clone()),
                    source: EfficiencySource::Learnt,
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(rows: &[(u64, f64)]) -> Vec<Reached> {
        let row = |&(batch, samples): &(u64, f64)| Reached {
            batch: Batch::new(batch).unwrap(),
            samples,
        };
        rows.iter().map(row).collect()
    }

    fn scale(rows: &[(u64, f64)]) -> FittedScale {
        match fit(&reached(rows)) {
            Some(Fit::NoiseScale(scale)) => scale,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn two_sizes_that_follow_the_law_give_its_noise_scale() {
        let at = |b: u64| (b, 70.0 * (60.0 + b as f64));
        let fit = scale(&[at(8), at(128), at(8)]);
        assert!((fit.samples / 60.0 - 1.0).abs() < 0.02, "{fit:?}");
        assert!(fit.interval[0] < 60.0 && 60.0 < fit.interval[1] && !fit.at_limit);
    }

    #[test]
    fn three_sizes_give_a_table_in_which_luck_is_levelled() {
        // 4 and 9 average to 6 in logarithms, which is level with 6; 3 then joins all of them.
        let rows = [(8, 6.0), (16, 4.0), (16, 9.0), (32, 3.0), (64, 12.0)];
        let Some(Fit::Table(table)) = fit(&reached(&rows)) else {
            panic!("no table");
        };
        let level = (6.0_f64 * 4.0 * 9.0 * 3.0).powf(0.25);
        for (row, (batch, progress)) in
            table
                .iter()
                .zip([(8, 1.0), (16, 1.0), (32, 1.0), (64, level / 12.0)])
        {
            assert_eq!(row.batch.as_f64() as u64, batch);
            assert!((row.value - progress).abs() < 1e-12, "{table:?}");
        }
    }

    #[test]
    fn sizes_that_were_trained_at_twice_give_the_interval_of_the_next_training() {
        let Some(Fit::Table(once)) = fit(&reached(&[(8, 1.0), (16, 2.0), (32, 4.0)])) else {
            panic!("no table");
        };
        assert!(once.iter().all(|row| row.interval.is_none()), "{once:?}");
        let e = std::f64::consts::E;
        let Some(Fit::Table(twice)) =
            fit(&reached(&[(8, 1.0), (16, 2.0), (16, 2.0 * e), (32, 90.0)]))
        else {
            panic!("no table");
        };
        // One degree of freedom with a square of 1/2 beside the prior's four; Student's t for 5 is 2.57.
        let spread = ((0.5 + 4.0 * 0.04) / 5.0_f64).sqrt();
        for (row, count) in twice.iter().zip([1.0, 2.0, 1.0]) {
            let [low, high] = row.interval.unwrap();
            let wanted = 2.57 * spread * f64::sqrt(1.0 + 1.0 / count);
            for found in [high / row.value, row.value / low] {
                assert!((found.ln() / wanted - 1.0).abs() < 0.01, "{row:?}");
            }
        }
    }

    #[test]
    fn more_sizes_than_a_table_has_rows_are_fitted_by_the_law() {
        let many: Vec<(u64, f64)> = (1..=65).map(|b| (b, 60.0 + b as f64)).collect();
        assert!((scale(&many).samples / 60.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn what_two_sizes_cannot_show_stands_at_the_limit() {
        // The same number of samples at both sizes: both batch sizes are far below the noise scale.
        let level = scale(&[(32, 1000.0), (64, 1000.0)]);
        assert!(level.at_limit && level.samples > 1900.0, "{level:?}");
        assert!(
            level.interval[0] < 200.0,
            "two trainings say little: {level:?}"
        );
        // The same number of steps at both sizes: the larger batch gained nothing.
        let steep = scale(&[(32, 1000.0), (64, 2000.0)]);
        assert!(steep.at_limit && steep.samples < 1.1, "{steep:?}");
        for none in [
            &[(32, 1.0), (32, 2.0)][..],
            &[],
            &[(32, 1.0), (64, f64::NAN)],
        ] {
            assert_eq!(fit(&reached(none)), None);
        }
    }
}
