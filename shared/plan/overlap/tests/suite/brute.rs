//! The slow twins of the search: every order, played one by one.

use doc::{Hold, PhaseKind};
use overlap::{Instance, Link, Order, OverlapError, Rates, Set, Transfer, simulate};
use units::Batch;

/// The minimum makespan of all orders, in seconds, by trying them all: both permutations on a full-duplex link, every
/// sequence of transfers on a half-duplex one. With `single` the uploads keep the order of the downloads. Tries
/// `n!^2` orders.
pub fn brute_force(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    single: bool,
) -> Result<f64, OverlapError> {
    let n = instance.len();
    let mut best = f64::INFINITY;
    match instance.link() {
        Link::Shared => best = simulate(instance, rates, batches, &Order::Together)?.makespan_s,
        Link::Full => {
            let all = permutations(n);
            for downloads in &all {
                let ready = compute_ends(instance, rates, batches, downloads)?;
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
        Link::Half => {
            let mut play = |made: &[Transfer]| {
                let order = Order::OneByOne(made.to_vec());
                best = best.min(simulate(instance, rates, batches, &order)?.makespan_s);
                Ok(())
            };
            extend(n, single, &mut Vec::new(), &mut play)?;
        }
    }
    Ok(best)
}

/// The minimum makespan of all schedules of [`overlap::Schedules::Alternating`] on a full-duplex link: tries every
/// order of downloads, and every sequence of transfers one at a time, with every hold of compute, each played by its
/// own plain simulation. Tries `n!^2 (1 + (2n)! / 2^n / n!)` rounds.
pub fn brute_force_waiting(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
) -> Result<f64, OverlapError> {
    let n = instance.len();
    let none = vec![0.0; n];
    let mut best = f64::INFINITY;
    let mut sequences = Vec::new();
    one_at_a_time(n, &mut Vec::new(), &mut sequences);
    let apart = sequences.iter().map(|transfers| {
        let of = |kind: PhaseKind| -> Vec<usize> {
            let those = transfers.iter().filter(|t| t.0 == kind);
            those.map(|t| t.1).collect()
        };
        let (downloads, uploads) = (of(PhaseKind::Download), of(PhaseKind::Upload));
        let waits = transfers
            .windows(2)
            .filter(|w| w[0].0 != w[1].0 && w[0].1 != w[1].1);
        let holds = waits.map(|w| Hold {
            task: w[1].1,
            phase: w[1].0,
            until: w[0].1,
            end_of: w[0].0,
        });
        (downloads, Some(uploads), holds.collect::<Vec<Hold>>())
    });
    let together = permutations(n)
        .into_iter()
        .map(|downloads| (downloads, None, Vec::new()));
    for (downloads, uploads, transfers) in together.chain(apart) {
        // Digit `k` of the code gives the task until whose end the k-th download is held; `k` itself means no hold.
        let codes: usize = (1..=n).product();
        for mut code in 0..codes {
            let mut holds = transfers.clone();
            for k in 0..n {
                if code % (k + 1) < k {
                    holds.push(Hold {
                        task: downloads[k],
                        phase: PhaseKind::Compute,
                        until: downloads[code % (k + 1)],
                        end_of: PhaseKind::Compute,
                    });
                }
                code /= k + 1;
            }
            let orders = (&downloads[..], uploads.as_deref());
            let end = plain_makespan(instance, rates, batches, orders, &holds, &none)?;
            best = best.min(end);
        }
    }
    Ok(best)
}

/// Every sequence of the transfers of `n` tasks in which each downloads before it uploads.
fn one_at_a_time(
    n: usize,
    made: &mut Vec<(PhaseKind, usize)>,
    out: &mut Vec<Vec<(PhaseKind, usize)>>,
) {
    if made.len() == 2 * n {
        out.push(made.clone());
    }
    for i in 0..n {
        let downloaded = made.contains(&(PhaseKind::Download, i));
        let kind = if downloaded {
            PhaseKind::Upload
        } else {
            PhaseKind::Download
        };
        if !made.contains(&(kind, i)) {
            made.push((kind, i));
            one_at_a_time(n, made, out);
            made.pop();
        }
    }
}

/// Makespan of a full-duplex round with the given orders of downloads and uploads (absent: first come first served).
/// A phase starts when it is next in the order, the phase until whose end it is held has ended, and, for compute,
/// `earliest[i]` seconds have passed. Computed phase by phase, without tables.
pub fn plain_makespan(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    (downloads, uploads): (&[usize], Option<&[usize]>),
    holds: &[Hold],
    earliest: &[f64],
) -> Result<f64, OverlapError> {
    let (jobs, n) = (instance.jobs(), instance.len());
    // Remaining seconds of transfers and samples of compute; whether each has begun; its end.
    let mut left: Vec<[f64; 3]> = (jobs.iter())
        .map(|j| [j.download_s, j.work, j.upload_s])
        .collect();
    let mut begun = vec![[false; 3]; n];
    let mut end = vec![[f64::INFINITY; 3]; n];
    let mut now = 0.0_f64;
    while end.iter().any(|e| e[2].is_infinite()) {
        // A phase that takes no time may allow another to begin at once.
        while begin(
            &mut begun,
            &mut end,
            &left,
            (downloads, uploads),
            (holds, earliest),
            now,
        ) {}
        let runs = |i: usize, k: usize| begun[i][k] && end[i][k].is_infinite();
        let set = (0..n)
            .filter(|&i| runs(i, 1))
            .fold(0, |set: Set, i| set | 1 << i);
        let mut row = vec![0.0; n];
        if set != 0 {
            rates.rates(set, batches, &mut row)?;
        }
        let speed = |i: usize, k: usize| if k == 1 { row[i] } else { 1.0 };
        let running: Vec<(usize, usize)> = (0..n)
            .flat_map(|i| (0..3).map(move |k| (i, k)))
            .filter(|&(i, k)| runs(i, k))
            .collect();
        let ends = running.iter().map(|&(i, k)| now + left[i][k] / speed(i, k));
        let waits = earliest.iter().copied().filter(|&at| at > now);
        let next = ends.chain(waits).fold(f64::INFINITY, f64::min);
        for &(i, k) in &running {
            let done = now + left[i][k] / speed(i, k) <= next * (1.0 + 1e-13);
            left[i][k] -= speed(i, k) * (next - now);
            if done {
                end[i][k] = next;
            }
        }
        now = next;
    }
    Ok(end.iter().fold(0.0, |m: f64, e| m.max(e[2])))
}

/// Begins what may begin now, for [`plain_makespan`]; returns whether there was anything.
fn begin(
    begun: &mut [[bool; 3]],
    end: &mut [[f64; 3]],
    left: &[[f64; 3]],
    (downloads, uploads): (&[usize], Option<&[usize]>),
    (holds, earliest): (&[Hold], &[f64]),
    now: f64,
) -> bool {
    const KINDS: [PhaseKind; 3] = [PhaseKind::Download, PhaseKind::Compute, PhaseKind::Upload];
    let n = begun.len();
    let mut first_come: Vec<usize> = (0..n).collect();
    first_come.sort_by(|&a, &b| end[a][1].total_cmp(&end[b][1]));
    let turns = [downloads, &[], uploads.unwrap_or(&first_come)];
    let mut any = false;
    for (k, kind) in KINDS.into_iter().enumerate() {
        for i in 0..n {
            let over = |i: usize, k: usize| end[i][k] <= now;
            let busy = k != 1 && (0..n).any(|j| begun[j][k] && !over(j, k));
            let turn = k == 1 || turns[k].iter().find(|&&j| !begun[j][k]) == Some(&i);
            let ready = k == 0 || over(i, k - 1);
            let late = k == 1 && earliest[i] > now;
            let held =
                |h: &Hold| (h.task, h.phase) == (i, kind) && !over(h.until, h.end_of as usize);
            if !begun[i][k] && ready && turn && !busy && !late && !holds.iter().any(held) {
                begun[i][k] = true;
                any = true;
                if left[i][k] <= 0.0 {
                    end[i][k] = now;
                }
            }
        }
    }
    any
}

/// When the compute of each task ends, which does not depend on the order of uploads.
fn compute_ends(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    downloads: &[usize],
) -> Result<Vec<f64>, OverlapError> {
    let order = Order::PerDirection {
        downloads: downloads.to_vec(),
        uploads: downloads.to_vec(),
    };
    let mut ends = vec![0.0; instance.len()];
    for phase in simulate(instance, rates, batches, &order)?.phases {
        if phase.kind == PhaseKind::Compute {
            ends[phase.task] = phase.end_s;
        }
    }
    Ok(ends)
}

/// Every order of `0..n`.
pub fn permutations(n: usize) -> Vec<Vec<usize>> {
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

/// Tries every transfer that may follow `made`; calls `play` with all complete sequences.
fn extend(
    n: usize,
    single: bool,
    made: &mut Vec<Transfer>,
    play: &mut impl FnMut(&[Transfer]) -> Result<(), OverlapError>,
) -> Result<(), OverlapError> {
    if made.len() == 2 * n {
        return play(made);
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
        extend(n, single, made, play)?;
        made.pop();
    }
    Ok(())
}
