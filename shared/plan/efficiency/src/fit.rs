use doc::{Efficiency, EfficiencySource};
use units::Batch;

use crate::noise::{around, efficiency, student};

/// Samples that one training took to the loss that all reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Batch size.
    pub batch: Batch,
    /// Number of samples until then (or rounds, or epochs, the same unit for all trainings): above 0.
    pub samples: f64,
}

/// A noise scale learnt from trainings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// `phi` in samples.
    pub samples: f64,
    /// 95 % confidence interval.
    pub interval: [f64; 2],
    /// The best noise scale is beyond what these batch sizes can show, so it is at the limit.
    pub at_limit: bool,
    /// Number of trainings that it is based on.
    pub trainings: usize,
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

/// Fits the noise scale to the samples of trainings at two or more batch sizes to the same loss. By the law a
/// training needs `n = c (phi + B)` samples. Errors are relative, so this is least squares on logarithms, with `c`
/// the mean for every `phi`. The interval is that of the likelihood ratio.
///
/// `None` with fewer than two batch sizes.
#[must_use]
pub fn fit(trainings: &[Reached]) -> Option<Fit> {
    let usable = |r: &&Reached| r.samples.is_finite() && r.samples > 0.0;
    let rows: Vec<(f64, f64)> = trainings
        .iter()
        .filter(usable)
        .map(|r| (r.batch.as_f64(), r.samples.ln()))
        .collect();
    let least = rows.iter().map(|r| r.0).fold(f64::INFINITY, f64::min);
    let most = rows.iter().map(|r| r.0).fold(0.0, f64::max);
    if least >= most {
        return None;
    }
    let squares = |phi: f64| -> f64 {
        let residual = |row: &(f64, f64)| row.1 - (phi + row.0).ln();
        let mean = rows.iter().map(residual).sum::<f64>() / rows.len() as f64;
        rows.iter().map(|r| (residual(r) - mean).powi(2)).sum()
    };
    let (low, high) = ((least / BEYOND).ln(), (most * BEYOND).ln());
    let at = |k: u32| (low + (high - low) * f64::from(k) / f64::from(POINTS)).exp();
    let curve: Vec<(f64, f64)> = (0..=POINTS).map(|k| (at(k), squares(at(k)))).collect();
    let best = curve
        .iter()
        .enumerate()
        .min_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let (index, &(phi, rest)) = best?;
    let freedom = rows.len() - 2;
    let all = freedom + USUAL_FREEDOM;
    let variance = (rest + USUAL_FREEDOM as f64 * USUAL_ERROR.powi(2)) / all as f64;
    let bound = rest + student(all).powi(2) * variance;
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
    Some(Fit {
        samples: phi,
        interval,
        at_limit: index == 0 || index == POINTS as usize,
        trainings: rows.len(),
    })
}

impl Fit {
    /// In the form of a workload.
    #[must_use]
    pub fn to_efficiency(&self) -> Option<Efficiency> {
        efficiency(self.samples, self.interval, EfficiencySource::Learnt)
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

    #[test]
    fn trainings_that_follow_the_law_give_its_noise_scale() {
        let exact: Vec<(u64, f64)> = [8, 32, 128, 512]
            .map(|b| (b, 70.0 * (60.0 + b as f64)))
            .to_vec();
        let fit = fit(&reached(&exact)).unwrap();
        assert!((fit.samples / 60.0 - 1.0).abs() < 0.02, "{fit:?}");
        assert!(fit.interval[0] < 60.0 && 60.0 < fit.interval[1] && !fit.at_limit);
    }

    #[test]
    fn the_rounds_of_three_data_sets() {
        // Rounds to a target accuracy at batch sizes 8 to 256, and what the law should give for them.
        let sizes = [8, 16, 32, 64, 128, 256];
        for (rounds, low, high) in [
            ([4.0, 5.0, 5.0, 10.0, 20.0, 46.0], 10.0, 40.0),
            ([7.5, 8.5, 8.0, 8.5, 12.0, 27.0], 60.0, 190.0),
            ([4.0, 3.0, 3.0, 4.5, 10.0, 12.5], 30.0, 80.0),
        ] {
            let rows: Vec<(u64, f64)> = sizes.into_iter().zip(rounds).collect();
            let fit = fit(&reached(&rows)).unwrap();
            assert!((low..high).contains(&fit.samples), "{fit:?}");
        }
    }

    #[test]
    fn what_two_sizes_cannot_show_stands_at_the_limit() {
        // The same number of samples at both sizes: both batch sizes are far below the noise scale.
        let level = fit(&reached(&[(32, 1000.0), (64, 1000.0)])).unwrap();
        assert!(level.at_limit && level.samples > 1900.0, "{level:?}");
        assert!(
            level.interval[0] < 200.0,
            "two trainings say little: {level:?}"
        );
        // The same number of steps at both sizes: the larger batch gained nothing.
        let steep = fit(&reached(&[(32, 1000.0), (64, 2000.0)])).unwrap();
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
