//! Random rounds for the tests.

use overlap::{FixedRates, Instance, Job, Link, TableRates};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Rates of a processor on which sharing pays: task `i` alone runs at `solo_i`, and together at
/// `solo_i * s_i / max(1, sum_(j in A) s_j)` slowed a little more by each companion, where `s_i`
/// is the part of the processor that it can use.
pub fn co_run_rates(rng: &mut SmallRng, n: usize) -> TableRates {
    let solo: Vec<f64> = (0..n).map(|_| rng.random_range(300.0..2000.0)).collect();
    let part: Vec<f64> = (0..n).map(|_| rng.random_range(0.3..0.9)).collect();
    let hurt: f64 = rng.random_range(0.0..0.08);
    let mut table = TableRates::new();
    for set in 1u32..1 << n {
        let on = |i: usize| set & 1 << i != 0;
        let sum: f64 = (0..n).filter(|&i| on(i)).map(|i| part[i]).sum();
        let others = f64::from(set.count_ones() - 1);
        let row = (0..n)
            .map(|i| solo[i] / sum.max(1.0) / (1.0 + hurt * others))
            .collect();
        table.insert(set, row);
    }
    table
}

/// A round whose transfers and compute are of similar length.
pub fn round(rng: &mut SmallRng, n: usize, link: Link) -> Instance {
    let jobs = (0..n)
        .map(|_| Job {
            download_s: rng.random_range(0.2..4.0),
            work: rng.random_range(200.0..4000.0),
            upload_s: rng.random_range(0.2..4.0),
        })
        .collect();
    Instance::new(jobs, link).unwrap()
}

/// One rate per task whoever else computes.
pub fn fixed_rates(rng: &mut SmallRng, n: usize) -> FixedRates {
    FixedRates((0..n).map(|_| rng.random_range(300.0..2000.0)).collect())
}

/// A generator for test case `case`.
pub fn rng(case: u64) -> SmallRng {
    SmallRng::seed_from_u64(case)
}
