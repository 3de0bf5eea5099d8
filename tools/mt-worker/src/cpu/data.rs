use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Synthetic data that can be told apart: each class is a cloud around a centre of its own.
pub struct Clusters {
    features: usize,
    classes: usize,
    centres: Vec<f32>,
    random: SmallRng,
    samples: Vec<f32>,
    labels: Vec<usize>,
}

/// Half the side of the cube that a sample lies in around its centre.
const SPREAD: f32 = 1.0;

impl Clusters {
    /// `seed` decides the centres, `stream` which samples come.
    pub fn new(features: usize, classes: usize, seed: u64, stream: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let centres = (0..features * classes)
            .map(|_| random.random_range(-1.0..1.0))
            .collect();
        Self {
            features,
            classes,
            centres,
            random: SmallRng::seed_from_u64(seed.rotate_left(32) ^ stream),
            samples: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Draws the next `rows` samples.
    pub fn draw(&mut self, rows: usize) {
        self.samples.clear();
        self.labels.clear();
        for _ in 0..rows {
            let label = self.random.random_range(0..self.classes);
            self.labels.push(label);
            let centre = &self.centres[label * self.features..][..self.features];
            self.samples.extend(
                centre
                    .iter()
                    .map(|c| c + self.random.random_range(-SPREAD..SPREAD)),
            );
        }
    }

    /// The samples drawn last: one row each.
    pub fn samples(&self) -> &[f32] {
        &self.samples
    }

    /// Their classes.
    pub fn labels(&self) -> &[usize] {
        &self.labels
    }
}
