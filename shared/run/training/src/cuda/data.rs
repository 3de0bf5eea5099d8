//! Initial weights and synthetic images, generated once on the host.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::plan::Start;

/// Number of classes of the images; a classifier with more outputs learns to ignore the rest.
const CLASSES: u32 = 10;

/// Initial parameters in their order in the buffer.
pub(super) fn weights(starts: &[(u32, Start)], seed: u64) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut all = Vec::new();
    for &(count, start) in starts {
        match start {
            Start::Constant(value) => all.extend((0..count).map(|_| value)),
            Start::Normal(deviation) => {
                all.extend((0..count).map(|_| deviation * normal(&mut rng)));
            }
        }
    }
    all
}

/// Images as noise around a pattern of their class, and the classes as the bits of integers. `seed` determines the
/// patterns, `seed` and `round` the noise.
pub(super) fn images(
    batch: u32,
    image: u32,
    classes: u32,
    seed: u64,
    round: u64,
) -> (Vec<f32>, Vec<f32>) {
    let mut rng = StdRng::seed_from_u64(seed ^ 0x6461_7461);
    let used = classes.clamp(1, CLASSES);
    let patterns: Vec<f32> = (0..used * image).map(|_| normal(&mut rng)).collect();
    let mut rng = StdRng::seed_from_u64(seed.rotate_left(32) ^ round);
    let mut pixels = Vec::with_capacity(batch as usize * image as usize);
    let mut labels = Vec::with_capacity(batch as usize);
    for i in 0..batch {
        let class = i % used;
        labels.push(f32::from_bits(class));
        let pattern = &patterns[(class * image) as usize..][..image as usize];
        pixels.extend(pattern.iter().map(|p| 0.7 * p + 0.7 * normal(&mut rng)));
    }
    (pixels, labels)
}

/// A standard normal number (Box and Muller 1958).
fn normal(rng: &mut StdRng) -> f32 {
    let radius = (-2.0 * (1.0 - rng.random::<f32>()).ln()).sqrt();
    radius * (std::f32::consts::TAU * rng.random::<f32>()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_the_deviation_asked_for() {
        let all = weights(
            &[(20_000, Start::Normal(0.5)), (2, Start::Constant(1.0))],
            1,
        );
        let (noise, ones) = all.split_at(20_000);
        let variance = noise.iter().map(|w| w * w).sum::<f32>() / 20_000.0;
        assert!((variance.sqrt() - 0.5).abs() < 0.02, "{variance}");
        assert_eq!(ones, [1.0, 1.0]);
    }

    #[test]
    fn images_of_a_class_resemble_each_other() {
        let (pixels, labels) = images(20, 300, 1000, 7, 0);
        assert_eq!(labels[3].to_bits(), 3);
        assert_eq!(labels[13].to_bits(), 3);
        let dot = |a: usize, b: usize| -> f32 {
            (0..300)
                .map(|i| pixels[a * 300 + i] * pixels[b * 300 + i])
                .sum()
        };
        assert!(dot(3, 13) > 60.0 && dot(3, 14).abs() < 60.0);
        let (next, _) = images(20, 300, 1000, 7, 1);
        let across: f32 = (0..300).map(|i| pixels[900 + i] * next[900 + i]).sum();
        assert!(
            next != pixels && across > 60.0,
            "other data of the same classes"
        );
    }
}
