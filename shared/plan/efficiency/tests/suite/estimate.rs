//! Synthetic gradients with mean G and known covariance of one sample's gradient, so that the noise scale is known.

use efficiency::{GradientNorms, Law, Moments, NoiseScale, Unknown};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use units::Batch;

/// Parameters of the synthetic training.
const DIMENSIONS: usize = 8;

fn batch(size: u64) -> Batch {
    Batch::new(size).unwrap()
}

/// A standard normal number (Box-Muller).
fn normal(rng: &mut StdRng) -> f64 {
    let (u, v): (f64, f64) = (rng.random(), rng.random());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Mean gradients of `parts` parts of `size` samples; `S / |G|^2 = phi`, `|G|^2 = 1`.
fn gradients(rng: &mut StdRng, phi: f64, parts: usize, size: u64) -> Vec<Vec<f64>> {
    let sigma = (phi / DIMENSIONS as f64 / size as f64).sqrt();
    let mut part = || -> Vec<f64> {
        let direction = |k| if k == 0 { 1.0 } else { 0.0 };
        (0..DIMENSIONS)
            .map(|k| direction(k) + sigma * normal(rng))
            .collect()
    };
    (0..parts).map(|_| part()).collect()
}

fn square(gradient: &[f64]) -> f64 {
    gradient.iter().map(|g| g * g).sum()
}

/// Norms of one step: the first part alone, or the mean over the parts' norms.
fn norms(rng: &mut StdRng, phi: f64, parts: usize, size: u64, first: bool) -> GradientNorms {
    let gradients = gradients(rng, phi, parts, size);
    let mean: Vec<f64> = (0..DIMENSIONS)
        .map(|k| gradients.iter().map(|g| g[k]).sum::<f64>() / parts as f64)
        .collect();
    let small = if first {
        square(&gradients[0])
    } else {
        gradients.iter().map(|g| square(g)).sum::<f64>() / parts as f64
    };
    GradientNorms::new(size, small, size * parts as u64, square(&mean)).unwrap()
}

fn estimate(
    rng: &mut StdRng,
    phi: f64,
    blocks: usize,
    steps: usize,
) -> Result<NoiseScale, Unknown> {
    let block = |rng: &mut StdRng| {
        let mut moments = Moments::default();
        for _ in 0..steps {
            moments.add(&norms(rng, phi, 4, 8, false));
        }
        moments
    };
    let blocks: Vec<Moments> = (0..blocks).map(|_| block(rng)).collect();
    NoiseScale::of(&blocks, batch(32))
}

#[test]
fn the_noise_scale_is_found_within_its_error() {
    let mut rng = StdRng::seed_from_u64(5);
    // The larger the noise compared with a batch of 32, the more steps are needed to see the gradient in it.
    for (phi, steps) in [(4.0, 30), (40.0, 30), (400.0, 240)] {
        let (mut inside, mut ratios) = (0, 0.0);
        let trials = 50;
        for _ in 0..trials {
            let found = estimate(&mut rng, phi, 12, steps).unwrap();
            let [low, high] = found.interval;
            inside += i32::from(low <= phi && phi <= high);
            ratios += found.samples / phi;
        }
        // 50 trials at 95 %: 47.5 on average, and three standard deviations are 4.6.
        assert!(
            inside >= 42,
            "phi {phi}: the interval holds {inside} of {trials} times"
        );
        let bias = ratios / f64::from(trials) - 1.0;
        assert!(bias.abs() < 0.05, "phi {phi}: {bias:+.3}");
    }
}

#[test]
fn a_ratio_of_means_has_less_bias_than_a_mean_of_ratios() {
    let mut rng = StdRng::seed_from_u64(6);
    let phi = 100.0;
    let (mut blocks, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        let mut block = Moments::default();
        for _ in 0..100 {
            let mut one = Moments::default();
            one.add(&norms(&mut rng, phi, 4, 8, false));
            let means = one.to_document().unwrap();
            ratios.push(means.variance / means.squared_norm);
            block.merge(&one);
        }
        blocks.push(block);
    }
    let of_means = NoiseScale::of(&blocks, batch(32)).unwrap();
    let of_ratios = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let error = (of_means.samples - phi).abs();
    assert!(
        error < 3.0 * of_means.stderr && of_means.stderr < 0.1 * phi,
        "{of_means:?}"
    );
    assert!((of_ratios / phi - 1.0).abs() > 0.2, "{of_ratios}");
}

#[test]
fn the_first_part_alone_says_the_same_with_more_noise() {
    let mut rng = StdRng::seed_from_u64(7);
    let mut errors = Vec::new();
    for first in [false, true] {
        let blocks: Vec<Moments> = (0..40)
            .map(|_| {
                let mut moments = Moments::default();
                for _ in 0..50 {
                    moments.add(&norms(&mut rng, 40.0, 4, 8, first));
                }
                moments
            })
            .collect();
        let found = NoiseScale::of(&blocks, batch(32)).unwrap();
        assert!(
            (found.samples - 40.0).abs() < 4.0 * found.stderr,
            "{found:?}"
        );
        errors.push(found.stderr);
    }
    assert!(errors[0] < errors[1], "{errors:?}");
}

#[test]
fn a_gradient_that_is_lost_in_noise_gives_no_figure() {
    let mut rng = StdRng::seed_from_u64(8);
    // A batch of 32 at a noise scale of 10^5: five steps cannot show |G|^2.
    let found = estimate(&mut rng, 1e5, 5, 1);
    assert!(
        matches!(found, Err(Unknown::LostInNoise { .. })),
        "{found:?}"
    );
}

#[test]
fn blocks_of_drifting_steps_have_a_larger_error() {
    // The noise scale doubles while it is measured: its average is known less well than from the same number of steps
    // with a constant noise scale.
    let mut rng = StdRng::seed_from_u64(9);
    let mut run = |drift: f64| {
        let blocks: Vec<Moments> = (0..20)
            .map(|k| {
                let phi = 40.0 * (1.0 + drift * f64::from(k) / 20.0);
                let mut moments = Moments::default();
                for _ in 0..100 {
                    moments.add(&norms(&mut rng, phi, 4, 8, false));
                }
                moments
            })
            .collect();
        NoiseScale::of(&blocks, batch(32)).unwrap()
    };
    let (still, moving) = (run(0.0), run(1.0));
    assert!(moving.stderr / moving.samples > 1.5 * still.stderr / still.samples);
    assert!(
        (moving.samples - 60.0).abs() < 4.0 * moving.stderr,
        "{moving:?}"
    );
}

/// Blocks of a training whose gradient shrinks from block to block, by its noise scales.
fn shrinking(rng: &mut StdRng, scales: &[f64], by: f64) -> Vec<Moments> {
    let mut factor = 1.0;
    let block = |phi: &f64| {
        let mut moments = Moments::default();
        for _ in 0..60 {
            let parts = gradients(rng, *phi, 4, 8);
            let mean: Vec<f64> = (0..DIMENSIONS)
                .map(|k| parts.iter().map(|g| g[k]).sum::<f64>() / 4.0)
                .collect();
            let each = parts.iter().map(|g| square(g)).sum::<f64>() / 4.0;
            let (small, large) = (factor * each, factor * square(&mean));
            moments.add(&GradientNorms::new(8, small, 32, large).unwrap());
        }
        factor *= by;
        moments
    };
    scales.iter().map(block).collect()
}

#[test]
fn a_gradient_that_shrinks_by_orders_of_magnitude_hides_no_noise_scale() {
    let mut rng = StdRng::seed_from_u64(10);
    let (mut inside, mut ratios) = (0, 0.0);
    for _ in 0..50 {
        // A thousandth after eleven blocks, which a single sum would hardly notice beside the first.
        let blocks = shrinking(&mut rng, &[40.0; 11], 0.5);
        let found = NoiseScale::of(&blocks, batch(32)).unwrap();
        let [low, high] = found.interval;
        inside += i32::from(low <= 40.0 && 40.0 <= high);
        ratios += found.samples / 40.0 / 50.0;
    }
    assert!(inside >= 42, "the interval holds {inside} of 50 times");
    assert!((ratios - 1.0).abs() < 0.05, "{ratios}");
}

/// A training at another batch size, stretch by stretch: the slow way to compute the samples that it needs.
#[test]
fn of_a_noise_scale_that_grows_it_is_the_one_that_tells_how_many_samples_are_needed() {
    let mut rng = StdRng::seed_from_u64(11);
    let scales: Vec<f64> = (0..12).map(|k| 10.0 * 1.4_f64.powi(k)).collect();
    let reference = batch(32);
    let found = NoiseScale::of(&shrinking(&mut rng, &scales, 0.6), reference).unwrap();
    for size in [8, 128, 512] {
        let needed = scales
            .iter()
            .map(|phi| 1.0 / Law::of_noise_scale(*phi, reference).at(batch(size)));
        let slow = needed.sum::<f64>() / scales.len() as f64;
        let law = Law::of_noise_scale(found.samples, reference);
        let told = 1.0 / law.at(batch(size));
        assert!(
            (told / slow - 1.0).abs() < 0.15,
            "{size}: {told} for {slow}"
        );
    }
}

#[test]
fn a_restart_in_the_middle_does_not_outweigh_the_rest() {
    let mut rng = StdRng::seed_from_u64(12);
    let mut blocks = shrinking(&mut rng, &[80.0; 8], 0.4);
    blocks.extend(shrinking(&mut rng, &[80.0; 8], 0.4));
    let found = NoiseScale::of(&blocks, batch(32)).unwrap();
    assert!((found.samples / 80.0).ln().abs() < 0.3, "{found:?}");
}
