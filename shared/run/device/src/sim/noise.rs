//! Noise on simulated measurements; a deterministic function of seed and configuration.

use host::scatter;
use units::corun::Setting;

/// Factor on the throughput of the task at `position` of a configuration: log-normal with mean 1 and relative
/// standard deviation `sigma`, a function of its arguments alone.
pub(super) fn factor(seed: u64, configuration: &[Setting], position: usize, sigma: f64) -> f64 {
    if sigma == 0.0 {
        return 1.0;
    }
    let mut state = scatter(seed);
    for run in configuration {
        for part in [
            run.task as u64,
            u64::from(run.batch.get()),
            u64::from(run.share.hundredths()),
        ] {
            state = scatter(state ^ part);
        }
    }
    state = scatter(state ^ position as u64);
    let z = normal(scatter(state), scatter(state ^ 1));
    (sigma * z - 0.5 * sigma * sigma).exp()
}

/// A standard normal number from two hashes, by Box-Muller.
fn normal(a: u64, b: u64) -> f64 {
    const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
    let u = ((a >> 11) as f64 + 1.0) * UNIT;
    let v = (b >> 11) as f64 * UNIT;
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::of_repeat;
    use units::{Batch, Share};

    #[test]
    fn has_the_mean_and_spread_that_were_asked_for() {
        let sigma = 0.05;
        let all: Vec<f64> = (1..=10_000)
            .map(|hundredths| {
                let run = Setting {
                    task: 0,
                    batch: Batch::new(32).unwrap(),
                    share: Share::from_hundredths(hundredths),
                };
                factor(7, &[run], 0, sigma)
            })
            .collect();
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        let variance = all.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // Both within five standard errors.
        assert!((mean - 1.0).abs() < 5.0 * sigma / n.sqrt(), "{mean}");
        assert!((variance.sqrt() / sigma - 1.0).abs() < 5.0 / (2.0 * n).sqrt());
    }

    #[test]
    fn differs_by_seed_and_repeat_and_position() {
        let run = |task| Setting {
            task,
            batch: Batch::new(32).unwrap(),
            share: Share::FULL,
        };
        let runs = [run(0), run(1)];
        let base = factor(1, &runs, 0, 0.1);
        assert_eq!(base.to_bits(), factor(1, &runs, 0, 0.1).to_bits());
        assert_ne!(base, factor(2, &runs, 0, 0.1));
        assert_ne!(base, factor(1, &runs, 1, 0.1));
        assert_ne!(base, factor(of_repeat(1, 1), &runs, 0, 0.1));
    }
}
