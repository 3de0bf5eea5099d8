use units::Batch;

use crate::cache::RateCache;
use crate::round::{Order, PhaseKind, Transfer, play};
use crate::{Instance, Link, OverlapError, Rates};

/// The least makespan of all orders, in seconds, by trying them all: both permutations on a
/// full-duplex link, every sequence of transfers on a half-duplex one. With
/// `single` the uploads keep the order of the downloads. Tries `n!^2` orders and is for tests.
pub fn brute_force(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    single: bool,
) -> Result<f64, OverlapError> {
    let mut cache = RateCache::at(rates, instance.len(), batches);
    let n = instance.len();
    let mut best = f64::INFINITY;
    match instance.link() {
        Link::Shared => best = play(instance, &mut cache, &Order::Together, &[]).makespan_s,
        Link::Full => {
            let all = permutations(n);
            for downloads in &all {
                let ready = compute_ends(instance, &mut cache, downloads);
                for uploads in &all {
                    if single && uploads != downloads {
                        continue;
                    }
                    let end = uploads.iter().fold(0.0, |free: f64, &i| {
                        free.max(ready[i]) + instance.jobs()[i].upload_s
                    });
                    best = best.min(end);
                }
            }
        }
        Link::Half => extend(instance, &mut cache, single, &mut Vec::new(), &mut best),
    }
    cache.failure()?;
    Ok(best)
}

/// The least makespan of all schedules of [`crate::Schedules::Waiting`] on a full-duplex link, by
/// trying every order of downloads with every way to hold compute back, each played by a plain
/// simulation of its own. Tries `n!^2` rounds and is for tests.
pub fn brute_force_waiting(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
) -> Result<f64, OverlapError> {
    let n = instance.len();
    let mut best = f64::INFINITY;
    for downloads in permutations(n) {
        // Digit `k` of the code says until whose end the k-th download is held; `k`: nobody's.
        let codes: usize = (1..=n).product();
        for mut code in 0..codes {
            let mut holds = vec![None; n];
            for k in 0..n {
                holds[downloads[k]] = (code % (k + 1) < k).then(|| downloads[code % (k + 1)]);
                code /= k + 1;
            }
            let none = vec![0.0; n];
            let end = plain_makespan(instance, rates, batches, &downloads, &holds, &none)?;
            best = best.min(end);
        }
    }
    Ok(best)
}

/// Makespan of a full-duplex round with the given order of downloads, in which compute starts
/// when its download has ended, the task of its hold has ended, and `earliest[i]` seconds have
/// passed; uploads go first come first served. From event to event, without tables. For tests.
pub fn plain_makespan(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    downloads: &[usize],
    holds: &[Option<usize>],
    earliest: &[f64],
) -> Result<f64, OverlapError> {
    let (jobs, n) = (instance.jobs(), instance.len());
    let mut ready = earliest.to_vec();
    let mut clock = 0.0;
    for &i in downloads {
        clock += jobs[i].download_s;
        ready[i] = ready[i].max(clock);
    }
    let mut left: Vec<f64> = jobs.iter().map(|j| j.work).collect();
    let mut end = vec![f64::INFINITY; n];
    let mut now = 0.0_f64;
    while end.iter().any(|e| e.is_infinite()) {
        let free = |i: usize| holds[i].is_none_or(|j| end[j] <= now);
        let open = |i: usize| end[i].is_infinite() && free(i);
        let active: Vec<usize> = (0..n).filter(|&i| open(i) && ready[i] <= now).collect();
        let arrival = (0..n)
            .filter(|&i| open(i) && ready[i] > now)
            .map(|i| ready[i])
            .fold(f64::INFINITY, f64::min);
        let mut row = vec![0.0; n];
        if !active.is_empty() {
            let set = active.iter().fold(0u32, |set, &i| set | 1 << i);
            rates.rates(set, batches, &mut row)?;
        }
        let first = active
            .iter()
            .map(|&i| now + left[i] / row[i])
            .fold(f64::INFINITY, f64::min);
        let next = first.min(arrival);
        for &i in &active {
            let done = now + left[i] / row[i] <= next * (1.0 + 1e-13);
            left[i] -= row[i] * (next - now);
            if done {
                end[i] = next;
            }
        }
        now = next;
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| end[a].total_cmp(&end[b]));
    Ok(order
        .iter()
        .fold(0.0, |free: f64, &i| free.max(end[i]) + jobs[i].upload_s))
}

/// When each task has computed; that does not depend on the order of uploads.
fn compute_ends(instance: &Instance, cache: &mut RateCache<'_>, downloads: &[usize]) -> Vec<f64> {
    let order = Order::PerDirection {
        downloads: downloads.to_vec(),
        uploads: downloads.to_vec(),
    };
    let mut ends = vec![0.0; instance.len()];
    for phase in play(instance, cache, &order, &[]).phases {
        if phase.kind == PhaseKind::Compute {
            ends[phase.task] = phase.end_s;
        }
    }
    ends
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    fn grow(n: usize, prefix: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
        if prefix.len() == n {
            out.push(prefix.clone());
        }
        for i in 0..n {
            if !prefix.contains(&i) {
                prefix.push(i);
                grow(n, prefix, out);
                prefix.pop();
            }
        }
    }
    let mut out = Vec::new();
    grow(n, &mut Vec::new(), &mut out);
    out
}

/// Tries every transfer that may follow `made`.
fn extend(
    instance: &Instance,
    cache: &mut RateCache<'_>,
    single: bool,
    made: &mut Vec<Transfer>,
    best: &mut f64,
) {
    let n = instance.len();
    if made.len() == 2 * n {
        let order = Order::OneByOne(made.clone());
        *best = best.min(play(instance, cache, &order, &[]).makespan_s);
        return;
    }
    let downloaded = |i: usize| made.contains(&Transfer::Download(i));
    let uploaded = |i: usize| made.contains(&Transfer::Upload(i));
    let left: Vec<usize> = (0..n).filter(|&i| !downloaded(i)).collect();
    let turn = made.iter().find_map(|t| match *t {
        Transfer::Download(i) if !uploaded(i) => Some(i),
        _ => None,
    });
    let uploads: Vec<usize> = (0..n)
        .filter(|&i| downloaded(i) && !uploaded(i))
        .filter(|&i| !single || turn == Some(i))
        .collect();
    let next = left
        .into_iter()
        .map(Transfer::Download)
        .chain(uploads.into_iter().map(Transfer::Upload));
    for t in next.collect::<Vec<_>>() {
        made.push(t);
        extend(instance, cache, single, made, best);
        made.pop();
    }
}
