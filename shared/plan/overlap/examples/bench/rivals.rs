//! Rivals of the search: all orders, and an iterated local search with its own code.

use std::time::{Duration, Instant};

use overlap::{Instance, Rates, RoundTask};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::rows::BenchError;

/// Plays orders of downloads on a full-duplex link, with uploads first come first served.
pub struct Simulator<'a> {
    jobs: &'a [RoundTask],
    /// Rates of every set of tasks met so far.
    table: Vec<Option<Box<[f64]>>>,
    rates: &'a dyn Rates,
}

impl<'a> Simulator<'a> {
    pub fn new(instance: &'a Instance, rates: &'a dyn Rates) -> Self {
        Self {
            jobs: instance.jobs(),
            table: vec![None; 1 << instance.len()],
            rates,
        }
    }

    pub fn makespan(&mut self, order: &[usize]) -> Result<f64, BenchError> {
        let n = order.len();
        let mut left = [0.0_f64; 32];
        let (mut active, mut now, mut uplink, mut arrived) = (0_u64, 0.0_f64, 0.0_f64, 0);
        let mut arrival = self.jobs[order[0]].download_s;
        while active != 0 || arrived < n {
            let row = match &mut self.table[active as usize] {
                Some(row) => row,
                unknown => {
                    let mut row = vec![0.0; n];
                    if active != 0 {
                        self.rates.rates(active, &[], &mut row)?;
                    }
                    unknown.insert(row.into_boxed_slice())
                }
            };
            let mut step = f64::INFINITY;
            let mut first = None;
            for i in (0..n).filter(|i| active & 1 << i != 0) {
                if left[i] / row[i] < step {
                    step = left[i] / row[i];
                    first = Some(i);
                }
            }
            let joins = arrived < n && arrival <= now + step;
            if joins {
                step = arrival - now;
            }
            for i in (0..n).filter(|i| active & 1 << i != 0) {
                left[i] -= row[i] * step;
            }
            now += step;
            if joins {
                let i = order[arrived];
                left[i] = self.jobs[i].work;
                active |= 1 << i;
                arrived += 1;
                if arrived < n {
                    arrival = now + self.jobs[order[arrived]].download_s;
                }
            } else if let Some(i) = first {
                active &= !(1 << i);
                uplink = uplink.max(now) + self.jobs[i].upload_s;
            }
        }
        Ok(uplink)
    }
}

/// The best of all orders of downloads.
pub fn all_orders(instance: &Instance, rates: &dyn Rates) -> Result<f64, BenchError> {
    let mut simulator = Simulator::new(instance, rates);
    let n = instance.len();
    let mut order: Vec<usize> = (0..n).collect();
    let mut best = simulator.makespan(&order)?;
    // Heap's algorithm.
    let mut counters = vec![0; n];
    let mut i = 0;
    while i < n {
        if counters[i] < i {
            order.swap(if i % 2 == 0 { 0 } else { counters[i] }, i);
            best = best.min(simulator.makespan(&order)?);
            counters[i] += 1;
            i = 0;
        } else {
            counters[i] = 0;
            i += 1;
        }
    }
    Ok(best)
}

/// The best round that an iterated local search finds in a given time, or until it reaches `enough`: swaps and
/// insertions, first improvement, perturbation by three random swaps, from a random order.
pub fn iterated_local_search(
    instance: &Instance,
    rates: &dyn Rates,
    time: Duration,
    enough: f64,
    seed: u64,
) -> Result<f64, BenchError> {
    let mut simulator = Simulator::new(instance, rates);
    let mut rng = SmallRng::seed_from_u64(seed);
    let n = instance.len();
    let end = Instant::now() + time;
    let mut here: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        here.swap(i, rng.random_range(0..=i));
    }
    let mut here_s = simulator.makespan(&here)?;
    let mut best = here_s;
    let mut order = here.clone();
    let mut order_s = here_s;
    while best > enough && Instant::now() < end {
        let mut improved = true;
        while improved && Instant::now() < end {
            improved = false;
            for a in 0..n {
                for b in 0..n {
                    for swap in [false, true] {
                        let mut trial = order.clone();
                        if swap {
                            trial.swap(a, b);
                        } else {
                            let i = trial.remove(a);
                            trial.insert(b, i);
                        }
                        let value = simulator.makespan(&trial)?;
                        if value < order_s * (1.0 - 1e-12) {
                            (order, order_s) = (trial, value);
                            improved = true;
                        }
                    }
                }
            }
        }
        if order_s <= here_s {
            (here, here_s) = (order.clone(), order_s);
            best = best.min(order_s);
        }
        order.clone_from(&here);
        for _ in 0..3 {
            order.swap(rng.random_range(0..n), rng.random_range(0..n));
        }
        order_s = simulator.makespan(&order)?;
    }
    Ok(best)
}
