use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Synthetic, separable data: each class is a cloud around its own centre.
pub struct Clusters {
    features: usize,
    classes: usize,
    centres: Vec<f32>,
    stream: u64,
    samples: Vec<f32>,
    labels: Vec<usize>,
}

/// Half the side of the cube around a centre that contains the samples of its class.
const SPREAD: f32 = 1.0;

impl Clusters {
    /// `seed` determines the centres, `seed` and `round` the samples.
    pub fn new(features: usize, classes: usize, seed: u64, round: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let centres = (0..features * classes)
            .map(|_| random.random_range(-1.0..1.0))
            .collect();
        Self {
            features,
            classes,
            centres,
            stream: mixed(seed.rotate_left(32) ^ round),
            samples: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// Draws the samples `first` to `first + rows` of the stream. A sample depends only on its index. So a batch does
    /// not depend on its split over threads and processes, and a training that continues from a checkpoint gets the
    /// next samples.
    pub fn draw(&mut self, first: u64, rows: usize) {
        self.samples.clear();
        self.labels.clear();
        for row in 0..rows as u64 {
            let number = first.wrapping_add(row);
            let mut random = SmallRng::seed_from_u64(self.stream ^ mixed(number));
            let label = random.random_range(0..self.classes);
            self.labels.push(label);
            let centre = &self.centres[label * self.features..][..self.features];
            let drawn = centre
                .iter()
                .map(|c| c + random.random_range(-SPREAD..SPREAD));
            self.samples.extend(drawn);
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

/// The finaliser of SplitMix64 (Steele et al. 2014): neighbouring numbers give unrelated seeds.
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
