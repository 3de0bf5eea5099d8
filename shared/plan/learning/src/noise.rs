use std::collections::VecDeque;

use doc::GradientNoise;
use efficiency::{Law, Moments, NoiseScale};
use units::Batch;

/// Number of reports that count: the noise scale grows during training (with the learning phase), so old reports are
/// forgotten.
const REPORTS: usize = 32;

/// Statistics of a training's last reports about its gradient noise scale.
#[derive(Debug, Clone, Default)]
pub(crate) struct Noise(VecDeque<Moments>);

impl Noise {
    /// Adds a report.
    pub(crate) fn extend(&mut self, gradient: Option<&GradientNoise>) {
        self.0.extend(gradient.map(Moments::from));
        if self.0.len() > REPORTS {
            self.0.pop_front();
        }
    }

    /// Progress of a step on `gpus` GPUs relative to one on `now`, with `batch` samples on each GPU: the ratio of
    /// samples per step, multiplied by the relative value of a sample. 1 if the noise scale is unknown.
    pub(crate) fn worth(&self, batch: Batch, gpus: u32, now: u32) -> f64 {
        let blocks: Vec<Moments> = self.0.iter().copied().collect();
        let size = |gpus: u32| Batch::new(u64::from(batch.get()) * u64::from(gpus)).ok();
        let (Some(then), Some(now)) = (size(gpus), size(now)) else {
            return 1.0;
        };
        let Ok(noise) = NoiseScale::of(&blocks, now) else {
            return 1.0;
        };
        let law = Law::of_noise_scale(noise.samples, now);
        law.at(then) * then.as_f64() / now.as_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(phi: f64, reports: usize) -> Noise {
        let mut noise = Noise::default();
        for _ in 0..reports {
            noise.extend(Some(&GradientNoise {
                steps: 3,
                squared_norm: 1.0,
                variance: phi,
            }));
        }
        noise
    }

    #[test]
    fn far_below_the_noise_scale_a_step_is_worth_its_samples_and_far_above_a_step() {
        let batch = Batch::new(128).unwrap();
        let worth = |phi: f64| noise(phi, 8).worth(batch, 4, 1);
        assert!((worth(1e7) - 4.0).abs() < 0.01, "{}", worth(1e7));
        assert!((worth(1e-3) - 1.0).abs() < 0.01, "{}", worth(1e-3));
        // 512 (628 + 128) / (628 + 512) / 128.
        assert!((worth(628.0) - 2.6526).abs() < 1e-3, "{}", worth(628.0));
        assert!((noise(628.0, 8).worth(batch, 1, 4) * worth(628.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn without_a_noise_scale_a_step_is_a_step() {
        let batch = Batch::new(128).unwrap();
        assert_eq!(noise(628.0, 3).worth(batch, 4, 1), 1.0);
        assert_eq!(noise(628.0, 9).worth(batch, 0, 1), 1.0);
        assert_eq!(noise(-1.0, 9).worth(batch, 4, 1), 1.0);
    }

    #[test]
    fn old_reports_are_forgotten() {
        let batch = Batch::new(128).unwrap();
        let mut all = noise(10.0, 40);
        for report in noise(1000.0, 40).0 {
            all.extend(report.to_document().as_ref());
        }
        assert_eq!(all.worth(batch, 4, 1), noise(1000.0, 9).worth(batch, 4, 1));
    }
}
