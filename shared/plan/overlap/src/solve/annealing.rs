//! Simulated annealing over orders and waits together.
//!
//! A descent that first orders transfers and then adds holds stops early: the order that is best
//! without waits is seldom the best one with holds. It misses rounds that compute tasks in pairs
//! with little contention; these are reached only by changing order and holds in turn, through
//! worse rounds.

use doc::PhaseKind;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use units::search::Budget;

use crate::play::held::{HeldPlayer, HeldRound, Until};

/// First temperature as a fraction of the start's makespan: on 27 tables of 6 to 8 tasks, 0.03
/// found slightly worse rounds in the same number of plays.
const TEMPERATURE: f64 = 0.02;
/// With every play the temperature falls by this fraction, divided by the square of the number of
/// tasks: there are some `10 n^2` moves. For 8 tasks it halves in 350 plays. Twice as fast was up
/// to 0.23 % worse on the same tables.
const COOLING: f64 = 0.128;
/// An annealing ends after this many plays, times the square of the number of tasks, without a
/// better round.
const STALE: u64 = 10;

/// The makespan and the round of the best of several annealings; `None` if no round is better than
/// `best_s`. The first annealing starts from `start`, every fourth from the best round so far, the
/// others from random orders. Ends with the budget, or when a makespan of at most `enough` is
/// found.
pub(crate) fn anneal(
    player: &mut HeldPlayer<'_, '_>,
    start: &HeldRound,
    mut best_s: f64,
    enough: f64,
    seed: u64,
    budget: &mut Budget,
) -> Option<(f64, HeldRound)> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut best = None;
    let n = start.downloads.len();
    let stale = STALE * (n * n) as u64;
    let cooling = 1.0 - COOLING / (n * n) as f64;
    let mut here = start.clone();
    let mut trial = start.clone();
    for run in 0u64.. {
        match &best {
            _ if run == 0 => {}
            Some(best) if run % 4 == 0 => here.copy(best),
            _ => here = HeldRound::new(shuffled(n, &mut rng)),
        }
        let mut here_s = player.play(&here, f64::INFINITY);
        let mut temperature = TEMPERATURE * here_s;
        let mut since = 0;
        while since < stale {
            if best_s <= enough || !player.rates.spend(budget) {
                return best.map(|best| (best_s, best));
            }
            trial.copy(&here);
            change(&mut trial, &mut rng);
            // Metropolis' rule, with the random number drawn before the play, so that the play can
            // stop as soon as it is certain to be refused.
            let below_s = here_s - temperature * (1.0 - rng.random::<f64>()).ln();
            let value = player.play(&trial, below_s);
            temperature *= cooling;
            since += 1;
            if value < below_s {
                // A gain below 1e-9 is rounding.
                if value < here_s * (1.0 - 1e-9) {
                    since = 0;
                }
                here.copy(&trial);
                here_s = value;
                if value < best_s * (1.0 - 1e-9) {
                    best_s = value;
                    best = Some(trial.clone());
                }
            }
        }
    }
    None
}

fn shuffled(n: usize, rng: &mut SmallRng) -> Vec<usize> {
    use rand::seq::SliceRandom;
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(rng);
    order
}

/// One random change: two downloads swap, one moves, a hold of compute or of a download is set or released, or two
/// tasks swap their whole parts in the round. Without the last, exchanging a member of two pairs that compute together
/// takes several changes, most of which make the round longer: on 60 tables of 6 to 8 tasks rounds were 0.06 % longer in
/// the mean, 0.96 % at worst, than the best that 16 times as many plays found, with it 0.02 and 0.20 %.
fn change(round: &mut HeldRound, rng: &mut SmallRng) {
    let n = round.downloads.len();
    let i = rng.random_range(0..n);
    let j = rng.random_range(0..n);
    match rng.random_range(0..7) {
        0 => round.downloads.swap(i, j),
        1 if i < j => round.downloads[i..=j].rotate_left(1),
        1 => round.downloads[j..=i].rotate_right(1),
        2 if i != j => round.compute_until[i] = Some(compute_waits_for(j, rng)),
        3 => round.compute_until[i] = None,
        4 if i != j => round.download_until[i] = Some(download_waits_for(j, rng)),
        5 => round.download_until[i] = None,
        6 if i != j => round.swap_tasks(i, j),
        _ => {}
    }
}

/// Mostly the end of compute, which is where rates change.
fn compute_waits_for(j: usize, rng: &mut SmallRng) -> Until {
    let kind = match rng.random_range(0..16) {
        0..4 => PhaseKind::Upload,
        4..7 => PhaseKind::Download,
        _ => PhaseKind::Compute,
    };
    (j, kind)
}

/// Never the end of another download: the order of downloads already covers that.
fn download_waits_for(j: usize, rng: &mut SmallRng) -> Until {
    if rng.random_range(0..2) == 0 {
        (j, PhaseKind::Upload)
    } else {
        (j, PhaseKind::Compute)
    }
}
