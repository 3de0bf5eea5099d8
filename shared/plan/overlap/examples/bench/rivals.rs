//! Rivals of the search, with their own code: all orders, an iterated local search, annealing with waits.

use std::time::{Duration, Instant};

use overlap::{Instance, Rates, RoundTask};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
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

/// Order of downloads and of uploads, and for each task the one whose compute must end before its own begins.
#[derive(Clone)]
struct Plan {
    downloads: Vec<usize>,
    uploads: Vec<usize>,
    waits: Vec<Option<usize>>,
}

/// A transfer under way and its remaining seconds.
type Under = Option<(usize, f64)>;

/// Where a task is in its round.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum At {
    Start,
    Downloaded,
    Computing,
    Computed,
    Uploaded,
}

/// The best round that simulated annealing over orders and waits of compute finds in a given time. Each annealing
/// starts from a random plan and ends after 600 plays without a better one.
pub fn annealing_with_waits(
    instance: &Instance,
    rates: &dyn Rates,
    time: Duration,
) -> Result<f64, BenchError> {
    let (jobs, n) = (instance.jobs(), instance.len());
    let mut table = vec![0.0; n << n];
    for set in 1..1u64 << n {
        let row = set as usize * n;
        rates.rates(set, &[], &mut table[row..row + n])?;
    }
    let mut rng = SmallRng::seed_from_u64(7);
    let end = Instant::now() + time;
    let mut best = f64::INFINITY;
    while Instant::now() < end {
        let mut here = random_plan(n, &mut rng);
        let mut here_s = play(jobs, &table, &here, f64::INFINITY);
        let mut temperature = 0.02 * if here_s.is_finite() { here_s } else { 1.0 };
        let mut stale = 0;
        while stale < 600 {
            let mut trial = here.clone();
            change(&mut trial, &mut rng);
            let trial_s = play(jobs, &table, &trial, here_s + 5.0 * temperature);
            stale += 1;
            if trial_s < here_s
                || trial_s.is_finite()
                    && ((here_s - trial_s) / temperature).exp() > rng.random::<f64>()
            {
                if trial_s < here_s - 1e-9 {
                    stale = 0;
                }
                (here, here_s) = (trial, trial_s);
                best = best.min(here_s);
            }
            temperature *= 0.998;
        }
    }
    Ok(best)
}

fn random_plan(n: usize, rng: &mut SmallRng) -> Plan {
    let mut downloads: Vec<usize> = (0..n).collect();
    downloads.shuffle(rng);
    let mut uploads = downloads.clone();
    if rng.random() {
        uploads.shuffle(rng);
    }
    let mut waits = vec![None; n];
    if rng.random() {
        for (i, wait) in waits.iter_mut().enumerate() {
            let k = rng.random_range(0..n);
            *wait = (k != i && rng.random_range(0..4) == 0).then_some(k);
        }
    }
    Plan {
        downloads,
        uploads,
        waits,
    }
}

fn change(plan: &mut Plan, rng: &mut SmallRng) {
    let n = plan.downloads.len();
    let (i, j) = (rng.random_range(0..n), rng.random_range(0..n));
    let place = |order: &[usize], task: usize| order.iter().position(|&k| k == task);
    match rng.random_range(0..6) {
        0 => plan.downloads.swap(i, j),
        1 => plan.uploads.swap(i, j),
        2 => {
            let (a, b) = (plan.downloads[i], plan.downloads[j]);
            plan.downloads.swap(i, j);
            if let (Some(a), Some(b)) = (place(&plan.uploads, a), place(&plan.uploads, b)) {
                plan.uploads.swap(a, b);
            }
        }
        3 if i != j => plan.waits[i] = Some(j),
        4 => plan.waits[i] = None,
        5 => {
            let task = plan.downloads.remove(i);
            plan.downloads.insert(j, task);
        }
        _ => {}
    }
}

/// The makespan of a plan, or infinity if it is above `limit` or waits for itself.
fn play(jobs: &[RoundTask], table: &[f64], plan: &Plan, limit: f64) -> f64 {
    const SAME: f64 = 1e-9;
    let n = jobs.len();
    let mut at = [At::Start; 16];
    let mut left = [0.0_f64; 16];
    let (mut down, mut up): (Under, Under) = (None, None);
    let (mut downloads, mut uploads, mut done, mut now) = (0, 0, 0, 0.0);
    while done < n {
        if now > limit {
            return f64::INFINITY;
        }
        if down.is_none() && downloads < n {
            let i = plan.downloads[downloads];
            down = Some((i, jobs[i].download_s));
            downloads += 1;
        }
        if up.is_none() && uploads < n && at[plan.uploads[uploads]] == At::Computed {
            let i = plan.uploads[uploads];
            up = Some((i, jobs[i].upload_s));
            uploads += 1;
        }
        let mut active = 0_usize;
        for i in 0..n {
            if at[i] == At::Downloaded && plan.waits[i].is_none_or(|k| at[k] >= At::Computed) {
                at[i] = At::Computing;
                left[i] = jobs[i].work;
            }
            active |= usize::from(at[i] == At::Computing) << i;
        }
        let computing = || (0..n).filter(|i| active & 1 << i != 0);
        let transfers = [down, up].into_iter().flatten().map(|t| t.1);
        let ends = computing().map(|i| left[i] / table[active * n + i]);
        let step = transfers.chain(ends).fold(f64::INFINITY, f64::min);
        if step.is_infinite() {
            return f64::INFINITY;
        }
        now += step;
        for i in computing() {
            left[i] -= table[active * n + i] * step;
            if left[i] <= SAME * jobs[i].work {
                at[i] = At::Computed;
            }
        }
        for (transfer, becomes) in [(&mut down, At::Downloaded), (&mut up, At::Uploaded)] {
            if let Some((i, rest)) = transfer {
                *rest -= step;
                if *rest <= SAME {
                    at[*i] = becomes;
                    done += usize::from(becomes == At::Uploaded);
                    *transfer = None;
                }
            }
        }
    }
    now
}
