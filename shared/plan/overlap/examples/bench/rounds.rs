//! The measured rounds, from light to heavy compute.

use std::time::Instant;

use overlap::{FixedRates, Instance, Link, OrderOptions, Rates, RoundTask, lower_bounds, solve};

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
