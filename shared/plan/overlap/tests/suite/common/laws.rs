//! Random rounds for the tests.

use overlap::{FixedRates, Instance, Link, OverlapError, Rates, RoundTask, Set};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use units::Batch;

/// Rates of a processor on which sharing pays: task `i` runs at `solo_i` alone, and together at `solo_i / max(1,
/// sum_(j in A) part_j) / (1 + hurt (1 - 1/|A|))`, where `part_j` is the fraction of the processor that a task can
/// use.
#[derive(Debug, Clone)]
pub struct FormulaRates {
    solo: Vec<f64>,
    part: Vec<f64>,
    hurt: f64,
}

impl Rates for FormulaRates {
    fn rates(&self, active: Set, _: &[Batch], out: &mut [f64]) -> Result<(), OverlapError> {
        // Bit by bit: there may be a million sets.
        let all = || {
            let mut rest = active;
            std::iter::from_fn(move || {
                let i = rest.trailing_zeros() as usize;
                rest &= rest.wrapping_sub(1);
                (i < 64).then_some(i)
            })
        };
        let sum: f64 = all().map(|i| self.part[i]).sum();
        let corunners = 1.0 - 1.0 / f64::from(active.count_ones());
        let speed = 1.0 / (sum.max(1.0) * (1.0 + self.hurt * corunners));
        for i in all() {
            out[i] = self.solo[i] * speed;
        }
        Ok(())
    }

    fn falls_with_corunners(&self) -> bool {
        true
    }

    fn all_sets_of(&self) -> usize {
        20
    }
}

/// Random [`FormulaRates`].
pub fn formula_rates(rng: &mut SmallRng, n: usize) -> FormulaRates {
    FormulaRates {
        solo: (0..n).map(|_| rng.random_range(300.0..2000.0)).collect(),
        part: (0..n).map(|_| rng.random_range(0.3..0.9)).collect(),
        hurt: rng.random_range(0.0..0.4),
    }
}

/// A round whose transfers and compute are of similar length.
pub fn round(rng: &mut SmallRng, n: usize, link: Link) -> Instance {
    let jobs = (0..n)
        .map(|_| RoundTask {
            download_s: rng.random_range(0.2..4.0),
            work: rng.random_range(200.0..4000.0),
            upload_s: rng.random_range(0.2..4.0),
        })
        .collect();
    Instance::new(jobs, link).expect("a valid round")
}

/// One rate per task, whatever else computes.
pub fn fixed_rates(rng: &mut SmallRng, n: usize) -> FixedRates {
    FixedRates((0..n).map(|_| rng.random_range(300.0..2000.0)).collect())
}

/// A generator for test case `case`.
pub fn rng(case: u64) -> SmallRng {
    SmallRng::seed_from_u64(case)
}
