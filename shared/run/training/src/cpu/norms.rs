//! Squared norms of the gradients of a step and of its parts, from which the gradient noise scale is
//! estimated (McCandlish et al. 2018, appendix A.1).

/// Interval, in steps, between measured norms if threads or processes compute parts. A noise scale is a mean over
/// hundreds of steps anyway. In a build with little optimisation a measured step of 4.5 ms took 14 % longer (256
/// neurons wide, batch 64, two threads), so one in eight costs 1.8 %.
pub const MEASURE_EVERY: u64 = 8;
/// The same for a single thread, which must compute two halves: a measured step of 43 ms took 66 % longer (512 neurons
/// wide, batch 128), so one in 32 costs 2.0 %.
pub const HALVE_EVERY: u64 = 32;

/// Squared norms of mean gradients over `small` and over `large` samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norms {
    /// Samples of a part.
    pub small: usize,
    /// Squared norm of a part's mean gradient; mean over the parts of this size.
    pub small_sq: f64,
    /// Samples of the step.
    pub large: usize,
    /// Squared norm of the mean gradient over all samples.
    pub large_sq: f64,
}

impl Norms {
    /// Norms from the summed gradient of each part, given with its number of samples; `None` if there is only one part,
    /// so that there is nothing to compare.
    pub fn of_parts(parts: &[(usize, &[f32])]) -> Option<Self> {
        let [(small, first), rest @ ..] = parts else {
            return None;
        };
        if *small == 0 || rest.is_empty() {
            return None;
        }
        let large = parts.iter().map(|part| part.0).sum();
        let mut total = vec![0.0_f32; first.len()];
        for (_, gradient) in parts {
            for (sum, g) in total.iter_mut().zip(*gradient) {
                *sum += g;
            }
        }
        // Parts may differ by one sample; only parts of the same size are compared.
        let equal: Vec<f64> = parts
            .iter()
            .filter(|part| part.0 == *small)
            .map(|part| mean_square(part.1, part.0))
            .collect();
        Some(Self {
            small: *small,
            small_sq: equal.iter().sum::<f64>() / equal.len() as f64,
            large,
            large_sq: mean_square(&total, large),
        })
    }

    /// The norms as a member of a protocol line, with the comma before it; empty if a norm is not finite, because JSON
    /// cannot represent that.
    pub fn member(norms: Option<Self>) -> String {
        let finite = |n: &Self| n.small_sq.is_finite() && n.large_sq.is_finite();
        norms.filter(finite).map_or(String::new(), |n| {
            format!(
                ",\"norms\":{{\"small\":{},\"small_sq\":{:e},\"large\":{},\"large_sq\":{:e}}}",
                n.small, n.small_sq, n.large, n.large_sq
            )
        })
    }
}

/// Squared norm of the mean gradient, from the sum over `samples`.
pub fn mean_square(sum: &[f32], samples: usize) -> f64 {
    // Uses eight parallel sums in single precision, which the processor adds at once. Each chunk is so short that the
    // rounding error stays at about one in a million.
    let square = |chunk: &[f32]| -> f64 {
        let mut sums = [0.0_f32; 8];
        let eights = chunk.chunks_exact(8);
        let rest: f32 = eights.remainder().iter().map(|g| g * g).sum();
        for eight in eights {
            for (s, g) in sums.iter_mut().zip(eight) {
                *s += g * g;
            }
        }
        f64::from(sums.iter().sum::<f32>() + rest)
    };
    sum.chunks(256).map(square).sum::<f64>() / (samples as f64).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_size_are_compared_with_the_whole() {
        let (a, b, c) = ([2.0, 0.0], [0.0, 4.0], [9.0, 9.0]);
        let norms = Norms::of_parts(&[(2, &a), (2, &b), (3, &c)]).unwrap();
        assert_eq!((norms.small, norms.large), (2, 7));
        assert_eq!(norms.small_sq, (1.0 + 4.0) / 2.0);
        assert!((norms.large_sq - (121.0 + 169.0) / 49.0).abs() < 1e-12);
        assert_eq!(Norms::of_parts(&[(2, &a)]), None);
        assert_eq!(Norms::of_parts(&[]), None);
    }

    #[test]
    fn a_training_that_has_diverged_tells_no_norms() {
        let norms = Norms::of_parts(&[(1, &[f32::NAN]), (1, &[1.0])]);
        assert!(norms.is_some());
        assert_eq!(Norms::member(norms), "");
    }

    #[test]
    fn long_gradients_are_summed_exactly_enough() {
        let long = vec![0.1_f32; 100_003];
        let exact = f64::from(0.1_f32).powi(2) * 100_003.0;
        assert!((mean_square(&long, 1) / exact - 1.0).abs() < 3e-6);
    }
}
