//! The measured rounds, from light to heavy compute.

use std::time::Instant;

use overlap::{
    FixedRates, Instance, Link, OrderOptions, Rates, RoundTask, TableRates, lower_bounds, solve,
};
use rand::Rng;
use rand::rngs::SmallRng;

use crate::common::{FormulaRates, fixed_rates, formula_rates, rng, round};
use crate::rows::BenchError;

/// Compute relative to transfers: a third, about the same, three times.
const BALANCES: [f64; 3] = [0.3, 1.0, 3.0];

/// A round and its rates.
pub struct Round<R> {
    pub name: String,
    pub instance: Instance,
    pub rates: R,
}

/// Rounds of `n` tasks with one rate per task, `count` of each balance.
pub fn fixed(n: usize, count: u64) -> Result<Vec<Round<FixedRates>>, BenchError> {
    // Without interference the processor could run all n tasks at once; this makes it as busy as the links.
    let work = n as f64 / 2.0;
    cases("fixed", n, count, work, fixed_rates)
}

/// Rounds of `n` tasks that slow each other down, `count` of each balance.
pub fn co_run(n: usize, count: u64) -> Result<Vec<Round<FormulaRates>>, BenchError> {
    cases("co-run", n, count, 1.0, formula_rates)
}

fn cases<R>(
    kind: &str,
    n: usize,
    count: u64,
    work: f64,
    rates: impl Fn(&mut rand::rngs::SmallRng, usize) -> R,
) -> Result<Vec<Round<R>>, BenchError> {
    let mut all = Vec::new();
    for balance in BALANCES {
        for case in 0..count {
            let mut rng = rng(77 + case);
            let plain = round(&mut rng, n, Link::Full);
            let jobs = plain.jobs().iter().map(|&j| RoundTask {
                work: j.work * balance * work,
                ..j
            });
            all.push(Round {
                name: format!("{kind} n={n} balance={balance} case={case}"),
                instance: Instance::new(jobs.collect(), Link::Full)?,
                rates: rates(&mut rng, n),
            });
        }
    }
    Ok(all)
}

/// `count` rounds of 6 to 8 tasks that slow each other down so much that waiting may pay. In turn, contention adds up
/// over pairs of tasks, tasks share a processor, or every further task costs as much as the first; each rate of each
/// set of tasks then varies by up to 15 %.
pub fn contended(first_seed: u64, count: u64) -> Result<Vec<Round<TableRates>>, BenchError> {
    let seeds = first_seed..first_seed + count;
    seeds
        .map(|seed| {
            let rng = &mut rng(seed);
            let n = 6 + (seed % 3) as usize;
            let balance = [0.5, 1.0, 2.0][rng.random_range(0..3)];
            let solo: Vec<f64> = (0..n).map(|_| rng.random_range(800.0..4000.0)).collect();
            let transfer = |rng: &mut SmallRng| {
                rng.random_range(0.2..3.8) * [0.3, 1.0][rng.random_range(0..2)]
            };
            let jobs = solo.iter().map(|rate| RoundTask {
                download_s: transfer(rng),
                work: rate * balance * (0.8 - 6.0 * rng.random_range(f64::EPSILON..1.0).ln()),
                upload_s: transfer(rng),
            });
            Ok(Round {
                name: format!("contended n={n} seed={seed}"),
                instance: Instance::new(jobs.collect(), Link::Full)?,
                rates: slowed(rng, &solo, seed / 3 % 3),
            })
        })
        .collect()
}

fn slowed(rng: &mut SmallRng, solo: &[f64], kind: u64) -> TableRates {
    let n = solo.len();
    let scale = rng.random_range(0.1..1.1);
    let pairs: Vec<f64> = (0..n * n)
        .map(|_| scale * rng.random_range(0.5..1.5))
        .collect();
    let parts: Vec<f64> = (0..n).map(|_| rng.random_range(0.3..0.95)).collect();
    let each = rng.random_range(1.2..3.0);
    let mut table = TableRates::new();
    for set in 1u64..1 << n {
        let all = || (0..n).filter(|i| set & 1 << i != 0);
        let others = f64::from(set.count_ones() - 1);
        let mut row = vec![0.0; n];
        for i in all() {
            let slow = match kind {
                _ if others == 0.0 => 1.0,
                0 => {
                    1.0 + all()
                        .filter(|&j| j != i)
                        .map(|j| pairs[i * n + j])
                        .sum::<f64>()
                }
                1 => {
                    let load: f64 = all().map(|j| parts[j]).sum();
                    load.max(1.0) * (1.0 + 0.3 * scale * others / (others + 1.0))
                }
                _ => each * (1.0 + (others - 1.0) * scale),
            };
            let noise = if others == 0.0 {
                1.0
            } else {
                rng.random_range(0.85..1.15)
            };
            row[i] = solo[i] / (slow * noise).max(0.9);
        }
        table.insert(set, row);
    }
    table
}

/// The rounds with fixed rates as JSON, with our result and its milliseconds.
pub fn export() -> Result<String, BenchError> {
    let mut lines = Vec::new();
    for n in [8, 12, 20] {
        for round in fixed(n, 4)? {
            let Round {
                name,
                instance,
                rates,
            } = &round;
            let start = Instant::now();
            let found = solve(instance, rates as &dyn Rates, &OrderOptions::default())?;
            let ms = start.elapsed().as_secs_f64() * 1e3;
            let bound = lower_bounds(instance, rates, &[])?.best();
            let list = |f: &dyn Fn(usize) -> f64| {
                let values: Vec<String> = (0..n).map(|i| f(i).to_string()).collect();
                values.join(",")
            };
            let jobs = instance.jobs();
            lines.push(format!(
                "{{\"name\":\"{name}\",\"tasks\":{n},\"download_s\":[{}],\"compute_s\":[{}],\
                 \"upload_s\":[{}],\"makespan_s\":{},\"proven\":{},\"bound_s\":{bound},\
                 \"ms\":{ms}}}",
                list(&|i| jobs[i].download_s),
                list(&|i| jobs[i].work / rates.0[i]),
                list(&|i| jobs[i].upload_s),
                found.schedule.makespan_s,
                found.proven(),
            ));
        }
    }
    Ok(format!("[{}]", lines.join(",\n")))
}
