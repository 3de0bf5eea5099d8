/// Shares of heSRPT (Berg, Vesilo and Harchol-Balter, *heSRPT: Optimal scheduling of parallel jobs
/// with known sizes*, 2020): with `n` jobs of rate `g^p`, by size descending, job `i` gets `theta_i
/// = (W_i/W)^e - (W_(i-1)/W)^e` with `e = 1/(1-p)` and `W_i` the sum of the first `i` weights. It
/// minimises the (weighted) sum of completion times if GPUs can be divided arbitrarily and all jobs
/// have the same `p`. The shares sum to 1; the last, shortest job has the largest.
#[must_use]
pub fn shares(weights: &[f64], p: f64) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let e = 1.0 / (1.0 - p);
    let mut before = 0.0;
    weights
        .iter()
        .scan(0.0, |sum, w| {
            *sum += w;
            Some((*sum / total).powf(e))
        })
        .map(|theta| {
            let share = theta - before;
            before = theta;
            share
        })
        .collect()
}

/// Whole GPUs for `shares` (which sum to at most 1) by largest remainder, each at most `most`. GPUs left over by a
/// cap go where the remainder of the share is largest; GPUs are idle only if all jobs are at their cap.
#[must_use]
pub fn round(shares: &[f64], gpus: u32, most: &[u32]) -> Vec<u32> {
    let ideal: Vec<f64> = shares.iter().map(|s| s * f64::from(gpus)).collect();
    let mut given: Vec<u32> = ideal
        .iter()
        .zip(most)
        // A share of exactly 3 GPUs may be computed as 2.9999999999999996.
        .map(|(x, m)| ((x + 1e-9).floor() as u32).min(*m))
        .collect();
    let mut left = gpus.saturating_sub(given.iter().sum());
    while left > 0 {
        let lack = |i: usize| ideal[i] - f64::from(given[i]);
        let open = (0..given.len()).filter(|&i| given[i] < most[i]);
        // Ties go to the later, shorter job: it frees its GPUs sooner.
        let Some(next) = open.max_by(|&a, &b| lack(a).total_cmp(&lack(b))) else {
            break;
        };
        given[next] += 1;
        left -= 1;
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(p: f64, gpus: u32) -> (u32, u32) {
        let given = round(&shares(&[1.0, 1.0], p), gpus, &[gpus, gpus]);
        (given[1], given[0])
    }

    /// The limits have a closed form: largest remainder gives the longer job `k` of `M` GPUs while `(k - 1/2)/M <
    /// 2^-e < (k + 1/2)/M`.
    fn border(share: f64) -> f64 {
        1.0 - 1.0 / (1.0 / share).log2()
    }

    #[test]
    fn two_tasks_on_four_gpus_are_split_as_in_the_paper() {
        for (p, expected) in [
            (0.28, (2, 2)),
            (0.3, (3, 1)),
            (0.66, (3, 1)),
            (0.67, (4, 0)),
        ] {
            assert_eq!(split(p, 4), expected, "p = {p}");
        }
        assert!((border(1.5 / 4.0) - 0.293).abs() < 5e-4);
        assert!((border(0.5 / 4.0) - 0.667).abs() < 5e-4);
    }

    #[test]
    fn the_splits_of_eight_gpus_change_at_the_derived_borders() {
        let borders = [(0.162, 3.5), (0.404, 2.5), (0.586, 1.5), (0.750, 0.5)];
        for (k, (p, half)) in borders.into_iter().enumerate() {
            let k = k as u32;
            let exact = border(half / 8.0);
            assert!((exact - p).abs() < 6e-4, "{exact}");
            assert_eq!(split(exact - 1e-6, 8), (4 + k, 4 - k));
            assert_eq!(split(exact + 1e-6, 8), (5 + k, 3 - k));
        }
    }

    #[test]
    fn shares_sum_to_one_and_grow() {
        let s = shares(&[1.0; 6], 0.6);
        assert!((s.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(s.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn caps_are_kept_and_what_they_leave_is_given_on() {
        assert_eq!(round(&[0.25, 0.75], 8, &[8, 3]), [5, 3]);
        assert_eq!(round(&[0.5, 0.5], 8, &[2, 3]), [2, 3]);
        assert_eq!(round(&[], 8, &[]), Vec::<u32>::new());
    }
}
