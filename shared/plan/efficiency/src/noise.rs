use doc::{Efficiency, EfficiencyCurve, EfficiencySource, GradientNoise, MeasuredNoiseScale};
use units::{Batch, TaskId};

/// Squared norms of the gradient of a batch and of a part of it, at the same parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GradientNorms {
    small: f64,
    small_sq: f64,
    large: f64,
    large_sq: f64,
}

/// Why two norms are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NormsError {
    /// The training has diverged, or the field was not filled in.
    #[error("a squared norm is not finite")]
    NotFinite,
    /// It is not a square.
    #[error("a squared norm is negative")]
    Negative,
    /// Both sizes are the same, so their difference cannot show the noise.
    #[error("the small batch must have at least one sample and fewer than the large one")]
    Sizes,
    /// The report does not have the documented form.
    #[error(
        "not of the form {{\"small\":b,\"small_sq\":x,\"large\":B,\"large_sq\":y}} with whole sizes"
    )]
    Shape,
}

/// Largest squared norm that is accepted: sums over a long training remain finite.
const LARGEST_SQUARE: f64 = 1e24;

impl GradientNorms {
    /// `small_sq`: squared norm of the mean gradient over `small` samples, or the mean of such norms over several
    /// parts of that size. `large_sq`: the same over all `large` samples, which include the small ones.
    ///
    /// # Errors
    /// [`NormsError`] if no gradients can have these norms.
    pub fn new(small: u64, small_sq: f64, large: u64, large_sq: f64) -> Result<Self, NormsError> {
        let squares = [small_sq, large_sq];
        if squares
            .iter()
            .any(|s| !s.is_finite() || *s > LARGEST_SQUARE)
        {
            return Err(NormsError::NotFinite);
        }
        if squares.iter().any(|s| *s < 0.0) {
            return Err(NormsError::Negative);
        }
        if small == 0 || small >= large {
            return Err(NormsError::Sizes);
        }
        Ok(Self {
            small: small as f64,
            small_sq,
            large: large as f64,
            large_sq,
        })
    }

    /// Squared norm of the true gradient, `|G|^2`: an unbiased estimate, which may be negative (McCandlish et al.
    /// 2018, equation A.2).
    fn squared_norm(&self) -> f64 {
        (self.large * self.large_sq - self.small * self.small_sq) / (self.large - self.small)
    }

    /// Trace of the covariance of one sample's gradient, `S`: also an unbiased estimate that may be
    /// negative.
    fn variance(&self) -> f64 {
        (self.small_sq - self.large_sq) / (1.0 / self.small - 1.0 / self.large)
    }
}

/// Sums over training steps of the two quantities of a noise scale. They are summed separately and divided at the
/// end: the mean of ratios of noisy estimates is biased, and its variance is infinite.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    steps: u64,
    squared_norm: f64,
    variance: f64,
}

impl Moments {
    /// Adds the norms of one step. Negative estimates are included: leaving them out would bias the mean upwards.
    pub fn add(&mut self, norms: &GradientNorms) {
        self.merge(&Self {
            steps: 1,
            squared_norm: norms.squared_norm(),
            variance: norms.variance(),
        });
    }

    /// Adds the sums of other steps.
    pub fn merge(&mut self, other: &Self) {
        self.steps = self.steps.saturating_add(other.steps);
        self.squared_norm += other.squared_norm;
        self.variance += other.variance;
    }

    /// Expected squared norm of the gradient of a batch, `|G|^2 + S / B`, as a sum over the steps. A negative
    /// estimate of `|G|^2` counts as zero, so that the sum is positive wherever there is noise.
    fn scale(&self, batch: f64) -> f64 {
        self.squared_norm.max(0.0) + self.variance / batch
    }

    fn times(&self, factor: f64) -> Self {
        Self {
            steps: self.steps,
            squared_norm: self.squared_norm * factor,
            variance: self.variance * factor,
        }
    }

    /// The steps after `earlier`, which were added to these sums first.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            steps: self.steps.saturating_sub(earlier.steps),
            squared_norm: self.squared_norm - earlier.squared_norm,
            variance: self.variance - earlier.variance,
        }
    }

    /// The sums in the form of a document, as means. `None`: no step.
    #[must_use]
    pub fn to_document(&self) -> Option<GradientNoise> {
        let steps = self.steps as f64;
        (self.steps > 0).then(|| GradientNoise {
            steps: self.steps,
            squared_norm: self.squared_norm / steps,
            variance: self.variance / steps,
        })
    }
}

impl From<&GradientNoise> for Moments {
    fn from(means: &GradientNoise) -> Self {
        let steps = means.steps as f64;
        Self {
            steps: means.steps,
            squared_norm: means.squared_norm * steps,
            variance: means.variance * steps,
        }
    }
}

/// A gradient noise scale with its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseScale {
    /// `phi = S / |G|^2`, in samples: above 0.
    pub samples: f64,
    /// Its standard error.
    pub stderr: f64,
    /// 95 % confidence interval.
    pub interval: [f64; 2],
    /// Number of steps whose norms were used.
    pub steps: u64,
}

/// Why there is no noise scale.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Unknown {
    /// No norms were reported.
    #[error("the training reports no norms of gradients")]
    NoNorms,
    /// Too few blocks to estimate the error.
    #[error("norms in {0} windows; {MIN_BLOCKS} are needed to estimate the error")]
    FewBlocks(usize),
    /// The denominator is not significantly different from zero.
    #[error(
        "the gradient is lost in its noise: it is {percent:.2} % of the squared norm of a batch of {batch}, \
         with standard error {stderr:.2} %; more steps or larger batches are needed"
    )]
    LostInNoise {
        /// Mean of `|G|^2` over the expected squared norm of the gradient of a batch, percent.
        percent: f64,
        /// Its standard error.
        stderr: f64,
        /// Size of the batch.
        batch: Batch,
    },
    /// The numerator is not positive.
    #[error("the gradients of a batch and of its parts do not differ: no noise is seen")]
    NoNoise,
    /// Every batch size is small compared with it.
    #[error(
        "the gradients of a batch are all noise: a noise scale of {0:.1e} samples is beyond {most:.0e}",
        most = Efficiency::LARGEST_NOISE_SCALE
    )]
    Beyond(f64),
}

/// Minimum number of blocks of steps for an estimate of the error. With four degrees of freedom Student's t is still
/// 1.4 times the normal quantile; with one it is six times.
const MIN_BLOCKS: usize = 5;
/// 97.5 % quantile of the normal distribution.
const Z: f64 = 1.96;

/// 97.5 % quantile of Student's t by the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5, two terms): 2.73
/// at 4 degrees of freedom, where 2.78 is exact.
pub(crate) fn student(freedom: usize) -> f64 {
    let f = freedom.max(1) as f64;
    let z3 = Z.powi(3);
    Z + (z3 + Z) / (4.0 * f) + (5.0 * Z.powi(5) + 16.0 * z3 + 3.0 * Z) / (96.0 * f * f)
}

impl NoiseScale {
    /// From blocks of steps in chronological order: the windows of a profile, or the progress events of a run.
    /// `reference` is the reference batch size.
    ///
    /// A ratio estimator over blocks, `phi = sum S / sum |G|^2`, with the linearised variance of a cluster sample
    /// (Cochran, *Sampling Techniques*, 1977, equation 6.13), so that correlation between the steps of one block
    /// (parameters move slowly) is part of the error. Each block is first divided by the size of its gradients
    /// (`levelled`).
    ///
    /// There is no estimate unless the mean of `|G|^2` is above zero by more than its error: the confidence set of a
    /// ratio whose denominator may be zero is unbounded (Fieller 1954).
    ///
    /// # Errors
    /// [`Unknown`] if the blocks do not suffice.
    pub fn of(blocks: &[Moments], reference: Batch) -> Result<Self, Unknown> {
        let blocks: Vec<Moments> = blocks.iter().filter(|b| b.steps > 0).copied().collect();
        match blocks.len() {
            0 => return Err(Unknown::NoNorms),
            few if few < MIN_BLOCKS => return Err(Unknown::FewBlocks(few)),
            _ => {}
        }
        let blocks = levelled(&blocks, reference.as_f64()).ok_or(Unknown::NoNoise)?;
        let mut all = Moments::default();
        for block in &blocks {
            all.merge(block);
        }
        let count = blocks.len() as f64;
        let quantile = student(blocks.len() - 1);
        // Standard error of a sum over blocks whose residuals have mean zero.
        let stderr_of = |residual: &dyn Fn(&Moments) -> f64| {
            let squares: f64 = blocks.iter().map(|b| residual(b).powi(2)).sum();
            (squares * count / (count - 1.0)).sqrt()
        };
        let steps = all.steps as f64;
        let mean = all.squared_norm / steps;
        let error = stderr_of(&|b| b.squared_norm - mean * b.steps as f64) / steps;
        if mean.is_nan() || mean <= quantile * error {
            return Err(Unknown::LostInNoise {
                percent: 100.0 * mean,
                stderr: 100.0 * error,
                batch: reference,
            });
        }
        let phi = all.variance / all.squared_norm;
        let stderr = stderr_of(&|b| b.variance - phi * b.squared_norm) / all.squared_norm;
        if phi.is_nan() || phi <= 0.0 || !stderr.is_finite() {
            return Err(Unknown::NoNoise);
        }
        if phi > Efficiency::LARGEST_NOISE_SCALE {
            return Err(Unknown::Beyond(phi));
        }
        Ok(Self {
            samples: phi,
            stderr,
            interval: around(phi, quantile * stderr / phi),
            steps: all.steps,
        })
    }

    /// Converts the noise scale to the form of a profile.
    #[must_use]
    pub fn to_document(&self, id: TaskId) -> MeasuredNoiseScale {
        MeasuredNoiseScale {
            id,
            samples: self.samples,
            stderr: self.stderr,
            steps: self.steps,
        }
    }

    /// Converts the noise scale to the form of a workload; `None` if it is out of the range of a
    /// document.
    #[must_use]
    pub fn to_efficiency(&self) -> Option<Efficiency> {
        efficiency(self.samples, self.interval, EfficiencySource::Measured)
    }
}

/// No block counts for more than this many times its steps. This is for gradients that jump, for example at a
/// restart, or that fall faster at first than afterwards. Noise alone reaches the bound only if it is half of a
/// block's size. Any such bound biases the mean in that case, and a lower one more.
const MOST_WEIGHT: f64 = 1.5;

/// The blocks, each divided by the mean squared norm of a batch's gradient, `|G|^2 + S / B0`, as expected from the
/// neighbouring blocks. `None` if blocks show no noise at all.
///
/// Gradients shrink as training continues, often by orders of magnitude. In a plain sum the first blocks would
/// outweigh all others, and a trend would look like noise: for a training whose noise scale was 48 to 140 in each
/// window, the sum said that the gradient was lost in noise. After this division all steps count equally, and the
/// ratio of the sums is the one noise scale with the same total number of samples: a stretch with `phi_k` needs
/// `(phi_k + B) / (phi_k + B0)` times as many samples at `B` as at `B0`, so `phi + B0` is the harmonic mean of `phi_k
/// + B0`.
///
/// A block is not divided by its own size, because the block's noise is both in the size and in `|G|^2`, so their
/// ratio is biased. Instead the size is interpolated from the two nearest other blocks, linearly in logarithms over
/// the number of the block, which follows a steady decay.
fn levelled(blocks: &[Moments], reference: f64) -> Option<Vec<Moments>> {
    let size = |near: &[Moments]| {
        let mut all = Moments::default();
        for block in near {
            all.merge(block);
        }
        Some(all.scale(reference) / all.steps as f64).filter(|size| *size > 0.0)
    };
    let last = blocks.len().checked_sub(1)?;
    // A block of few steps may show no noise by chance; together with its neighbours it does.
    let sizes: Option<Vec<f64>> = (0..=last)
        .map(|k| {
            let near = || size(&blocks[k.saturating_sub(1)..=last.min(k + 1)]);
            size(&blocks[k..=k]).or_else(near)
        })
        .collect();
    let sizes = sizes?;
    let level = |k: usize| {
        let expected = match (k.checked_sub(1), sizes.get(k + 1)) {
            (Some(before), Some(after)) => (sizes[before] * after).sqrt(),
            (None, _) => sizes.get(1)?.powi(2) / sizes.get(2)?,
            (Some(before), None) => sizes[before].powi(2) / sizes.get(before.checked_sub(1)?)?,
        };
        let unit = expected.max(sizes[k] / MOST_WEIGHT);
        Some(blocks[k].times(unit.recip()))
    };
    (0..=last).map(level).collect()
}

/// An interval of a positive quantity with a relative half width: symmetric in the logarithm, so that its lower end
/// is positive, too. A hundredth and a hundred times mean that nothing is known.
pub(crate) fn around(value: f64, half_width: f64) -> [f64; 2] {
    let factor = half_width.exp().min(100.0);
    [value / factor, value * factor]
}

pub(crate) fn efficiency(
    samples: f64,
    interval: [f64; 2],
    source: EfficiencySource,
) -> Option<Efficiency> {
    (samples > 0.0 && samples <= Efficiency::LARGEST_NOISE_SCALE).then_some(Efficiency {
        curve: EfficiencyCurve::NoiseScale {
            samples,
            interval: Some(interval),
        },
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        Batch::new(32).unwrap()
    }

    fn norms(small_sq: f64, large_sq: f64) -> GradientNorms {
        GradientNorms::new(8, small_sq, 32, large_sq).unwrap()
    }

    #[test]
    fn norms_that_can_be_none_are_refused() {
        use NormsError::*;
        for (small, small_sq, large, large_sq, wanted) in [
            (8, f64::NAN, 32, 1.0, NotFinite),
            (8, 1.0, 32, f64::INFINITY, NotFinite),
            (8, 1e300, 32, 1.0, NotFinite),
            (8, -1.0, 32, 1.0, Negative),
            (0, 1.0, 32, 1.0, Sizes),
            (32, 1.0, 32, 1.0, Sizes),
            (64, 1.0, 32, 1.0, Sizes),
        ] {
            let found = GradientNorms::new(small, small_sq, large, large_sq);
            assert_eq!(found.unwrap_err(), wanted);
        }
    }

    #[test]
    fn norms_without_error_give_the_noise_scale_itself() {
        // |G|^2 = 2, S = 80: |g_b|^2 = 2 + 80 / b.
        let mut moments = Moments::default();
        moments.add(&norms(12.0, 4.5));
        let noise = NoiseScale::of(&[moments; 5], batch()).unwrap();
        assert!((noise.samples - 40.0).abs() < 1e-12 && noise.stderr < 1e-12);
        let noise = moments.to_document().unwrap();
        assert_eq!(
            (noise.steps, noise.squared_norm, noise.variance),
            (1, 2.0, 80.0)
        );
        assert_eq!(Moments::from(&noise), moments);
    }

    #[test]
    fn negative_estimates_stay_in_the_mean_and_a_mean_lost_in_noise_is_no_scale() {
        let block = |squared_norm: f64| Moments {
            steps: 1,
            squared_norm,
            variance: 80.0,
        };
        let good = [1.0, -1.0, 3.0, 5.0, -0.5, 4.5, 2.5, 1.5].map(block);
        // It would be 16 if negative values were left out.
        let found = NoiseScale::of(&good, batch()).unwrap().samples;
        assert!((found / 40.0 - 1.0).abs() < 0.2, "{found}");
        let lost = [9.0, -8.0, 7.0, -9.0, 2.0].map(block);
        assert!(matches!(
            NoiseScale::of(&lost, batch()),
            Err(Unknown::LostInNoise { .. })
        ));
        assert_eq!(
            NoiseScale::of(&good[..4], batch()),
            Err(Unknown::FewBlocks(4))
        );
        assert_eq!(
            NoiseScale::of(&[Moments::default()], batch()),
            Err(Unknown::NoNorms)
        );
        let quiet = [1.0; 6].map(|_| Moments {
            variance: -1.0,
            ..block(2.0)
        });
        assert_eq!(NoiseScale::of(&quiet, batch()), Err(Unknown::NoNoise));
        let all_noise = [1.0; 6].map(|_| Moments {
            variance: 1e13,
            ..block(2.0)
        });
        let beyond = NoiseScale::of(&all_noise, batch());
        assert!(matches!(beyond, Err(Unknown::Beyond(_))), "{beyond:?}");
    }

    #[test]
    fn the_quantile_is_students() {
        for (freedom, exact) in [(4, 2.776), (8, 2.306), (30, 2.042)] {
            assert!((student(freedom) - exact).abs() < 0.05, "{freedom}");
        }
    }
}
