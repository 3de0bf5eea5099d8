use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use units::search::Budget;

use crate::play::sequence::Player;
use crate::{Instance, Link};

/// Starting sequences, with compute times `c`: Mitten's order (Johnson's rule on `d + c`, `c + u`), most compute
/// first, shortest download first, longest tail first. On a half-duplex link each of them comes with uploads as soon
/// as ready, and as late as possible.
pub(crate) fn seeds(player: &mut Player<'_, '_>, c: &[f64]) -> Vec<Vec<usize>> {
    let jobs = player.instance().jobs();
    let n = jobs.len();
    let sorted = |key: &dyn Fn(usize) -> f64| {
        let mut s: Vec<usize> = (0..n).collect();
        s.sort_by(|&a, &b| key(a).total_cmp(&key(b)).then(a.cmp(&b)));
        s
    };
    let mut orders = vec![mitten(player.instance(), c)];
    orders.push(sorted(&|i| -c[i]));
    orders.push(sorted(&|i| jobs[i].download_s));
    orders.push(sorted(&|i| -(c[i] + jobs[i].upload_s)));
    orders.push(sorted(&|i| jobs[i].download_s - c[i]));
    if player.instance().link() != Link::Half {
        return orders;
    }
    let mut sequences = Vec::new();
    for order in orders {
        let uploads: Vec<usize> = order.iter().map(|&i| n + i).collect();
        sequences.push(player.greedy(&[order.clone(), uploads.clone()].concat()));
        sequences.push(player.greedy(&[uploads, order].concat()));
    }
    sequences
}

/// Johnson's rule for two machines with the times `d + c` and `c + u`: the best order if each task computed for `c`,
/// independent of the others, and if uploads kept the order of the downloads (Mitten 1959).
pub(crate) fn mitten(instance: &Instance, c: &[f64]) -> Vec<usize> {
    let jobs = instance.jobs();
    let (mut front, mut back): (Vec<usize>, Vec<usize>) =
        (0..jobs.len()).partition(|&i| jobs[i].download_s <= jobs[i].upload_s);
    let head = |i: usize| jobs[i].download_s + c[i];
    let tail = |i: usize| c[i] + jobs[i].upload_s;
    front.sort_by(|&a, &b| head(a).total_cmp(&head(b)).then(a.cmp(&b)));
    back.sort_by(|&a, &b| tail(b).total_cmp(&tail(a)).then(a.cmp(&b)));
    front.extend(back);
    front
}

/// Improves `sequence` by moving one of the entries in the bit set `open`, or swapping it with another, until no such
/// change helps; returns its value. Positions near an improvement are searched again, so that after a perturbation
/// only its surroundings are searched.
pub(crate) fn descend(
    player: &mut Player<'_, '_>,
    sequence: &mut Vec<usize>,
    mut value: f64,
    open: u128,
    budget: &mut Budget,
) -> f64 {
    let len = sequence.len();
    let mut open = open & everything(len);
    let mut trial = Vec::with_capacity(len);
    player.mark(sequence, 0);
    let mut from = 0;
    while open != 0 {
        while open & 1 << sequence[from] == 0 {
            from = (from + 1) % len;
        }
        let entry = sequence[from];
        open &= !(1 << entry);
        for to in 0..len {
            for swap in [false, true] {
                // A swap of neighbours is a move.
                if to == from || (swap && to.abs_diff(from) < 2) {
                    continue;
                }
                if !player.rates.spend(budget) {
                    return value;
                }
                trial.clone_from(sequence);
                if swap {
                    trial.swap(from, to);
                } else {
                    let entry = trial.remove(from);
                    trial.insert(to, entry);
                }
                // Up to `same` the order is unchanged, so the player continues from its mark there. A gain below 1e-12
                // is a rounding error: accepting it could loop for ever.
                let same = from.min(to);
                let enough = value * (1.0 - 1e-12);
                let v = player.value_from(&trial, same, enough);
                if v < enough {
                    value = v;
                    std::mem::swap(sequence, &mut trial);
                    player.mark(sequence, same);
                    for place in [from, to] {
                        let near = place.saturating_sub(1)..(place + 2).min(len);
                        open |= sequence[near].iter().fold(0, |set, &e| set | 1 << e);
                    }
                    from = to;
                }
            }
        }
    }
    value
}

/// The set of the first `len` entries: at most two for each of [`crate::MAX_TASKS`] tasks.
fn everything(len: usize) -> u128 {
    // A shared link has no sequence, so no entries.
    u128::MAX.checked_shr(128 - len as u32).unwrap_or(0)
}

/// A search continues from the end of a descent that is worse than the last by this fraction, so that it can leave a
/// point with slightly worse neighbours everywhere. 0, and factors of 10 down and of 10 and 100 up, were tried on 36
/// rounds each of 12 and 16 tasks with 20,000 plays: their averages were within 0.02 % of each other, so it hardly
/// matters, and larger values were never better.
const NOT_MUCH_WORSE: f64 = 2e-4;

/// Legs of an iterated descent: every second one starts from a random sequence, the others from the best. On the same
/// rounds with 16 tasks, one leg missed the best known by 0.07 % on average and by 2.2 % at worst, 6 legs by 0.01 %
/// and 0.1 %. With 12 tasks, the average was at most 0.06 % with any number of legs from 1 to 24.
const LEGS: u64 = 6;

/// Iterated descent: perturb, descend, keep the result unless it is much worse, until the budget ends or `enough` is
/// reached.
pub(crate) fn iterate(
    player: &mut Player<'_, '_>,
    best: &mut Vec<usize>,
    mut best_s: f64,
    enough: f64,
    seed: u64,
    budget: &mut Budget,
) -> f64 {
    let mut rng = SmallRng::seed_from_u64(seed);
    let len = best.len();
    let mut here = best.clone();
    let mut here_s = best_s;
    let leg = (budget.limit() / LEGS).max(1);
    let mut legs = 0;
    while best_s > enough && len > 2 && !budget.exhausted() {
        if budget.spent() / leg > legs {
            legs = budget.spent() / leg;
            here.clone_from(best);
            here_s = best_s;
            if legs % 2 == 1 {
                here.shuffle(&mut rng);
                here_s = f64::INFINITY;
            }
        }
        let mut trial = here.clone();
        // One to three swaps, half of the time of entries at most four apart: an order that is nearly right needs
        // small changes, an entirely wrong one needs large ones. The numbers were chosen by hand; others were not
        // tried.
        let mut open = 0u128;
        let near = rng.random_range(0..2) == 0;
        for _ in 0..rng.random_range(1..=3) {
            let a = rng.random_range(0..len);
            let b = if near {
                (a + rng.random_range(1..=4)).min(len - 1)
            } else {
                rng.random_range(0..len)
            };
            open |= 1 << trial[a] | 1 << trial[b];
            trial.swap(a, b);
        }
        // After a random start, no part is known to be a local optimum.
        if here_s.is_infinite() {
            open = everything(len);
        }
        if player.instance().link() == Link::Half {
            download_first(&mut trial);
            open = everything(len);
        }
        if !player.rates.spend(budget) {
            break;
        }
        let start = player.value(&trial);
        let value = descend(player, &mut trial, start, open, budget);
        if value < best_s {
            best_s = value;
            best.clone_from(&trial);
        }
        if value <= here_s * (1.0 + NOT_MUCH_WORSE) {
            here = trial;
            here_s = value;
        }
    }
    best_s
}

/// Sets `player.holds` so that `sequence`, whose makespan is `value` without holds, ends sooner; returns the new
/// value.
///
/// Starts with no holds, and from chains in which each task waits for the one `width` places before it, so that at
/// most `width` compute together: the rounds for which waiting pays most run one or two tasks at a time, and adding
/// single holds does not lead there. From each start it adds, moves and releases one hold at a time while that helps.
pub(crate) fn hold_back(
    player: &mut Player<'_, '_>,
    sequence: &[usize],
    value: f64,
    budget: &mut Budget,
) -> f64 {
    let n = player.instance().len();
    let downloads: Vec<usize> = sequence.iter().copied().filter(|&code| code < n).collect();
    let (mut best, mut best_s) = (vec![None; n], value);
    // `n`: no holds. Widths of three and more were not tried.
    for width in [n, 2, 1] {
        let mut holds = vec![None; n];
        for (at, &i) in downloads.iter().enumerate() {
            holds[i] = at.checked_sub(width).map(|before| downloads[before]);
        }
        player.holds = holds;
        let start = player.value(sequence);
        let end = move_holds(player, sequence, &downloads, start, budget);
        if end < best_s {
            best_s = end;
            best.clone_from(&player.holds);
        }
    }
    player.holds = best;
    best_s
}

/// Changes one hold at a time while that ends the round sooner.
fn move_holds(
    player: &mut Player<'_, '_>,
    sequence: &[usize],
    downloads: &[usize],
    mut value: f64,
    budget: &mut Budget,
) -> f64 {
    loop {
        let before = value;
        for (at, &i) in downloads.iter().enumerate() {
            let others = downloads[..at].iter().map(|&j| Some(j));
            for until in std::iter::once(None).chain(others) {
                let kept = player.holds[i];
                if until == kept || !player.rates.spend(budget) {
                    continue;
                }
                player.holds[i] = until;
                let got = player.value(sequence);
                if got < value * (1.0 - 1e-12) {
                    value = got;
                } else {
                    player.holds[i] = kept;
                }
            }
        }
        if value >= before || budget.exhausted() {
            return value;
        }
    }
}

/// Swaps every upload of a half-duplex sequence that comes before its download with that download.
fn download_first(sequence: &mut [usize]) {
    let n = sequence.len() / 2;
    let mut place = vec![0; sequence.len()];
    for (at, &code) in sequence.iter().enumerate() {
        place[code] = at;
    }
    for i in 0..n {
        if place[n + i] < place[i] {
            sequence.swap(place[i], place[n + i]);
        }
    }
}
