//! A fast player of full-duplex rounds in which downloads and compute may wait for the end of any
//! phase.

use doc::{Hold, PhaseKind};

use crate::instance::members;
use crate::play::round::{Holds, Order};
use crate::rates::cache::RateCache;
use crate::{Instance, Set};

/// A phase counts as ended at this remaining fraction of its work, or at this many remaining
/// seconds of a transfer: such a rest is rounding, not time.
const DONE: f64 = 1e-11;

/// The phase of a task until whose end another phase is held.
pub(crate) type Until = (usize, PhaseKind);

/// The decisions of a round: the order of downloads, and what each download and each compute waits for. Uploads go
/// first come first served; holding one back would leave the uplink idle and hasten no other task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldRound {
    pub downloads: Vec<usize>,
    /// For each task, the phase whose end its download waits for, if any.
    pub download_until: Vec<Option<Until>>,
    /// For each task, the phase whose end its compute waits for, if any.
    pub compute_until: Vec<Option<Until>>,
}

impl HeldRound {
    /// A round without holds.
    pub fn new(downloads: Vec<usize>) -> Self {
        let n = downloads.len();
        Self {
            downloads,
            download_until: vec![None; n],
            compute_until: vec![None; n],
        }
    }

    /// Copies another round with the same number of tasks, without an allocation.
    pub fn copy(&mut self, other: &Self) {
        self.downloads.copy_from_slice(&other.downloads);
        self.download_until.copy_from_slice(&other.download_until);
        self.compute_until.copy_from_slice(&other.compute_until);
    }

    /// Task `i` takes the place of `j` in the order and in all holds, and `j` that of `i`.
    pub fn swap_tasks(&mut self, i: usize, j: usize) {
        let swapped = |task: &mut usize| {
            if *task == i {
                *task = j;
            } else if *task == j {
                *task = i;
            }
        };
        self.downloads.iter_mut().for_each(swapped);
        for held in [&mut self.download_until, &mut self.compute_until] {
            held.swap(i, j);
            held.iter_mut()
                .flatten()
                .for_each(|until| swapped(&mut until.0));
        }
    }

    /// All holds, those of compute first.
    pub fn holds(&self) -> Holds {
        let of = |phase: PhaseKind, held: &[Option<Until>]| -> Holds {
            let each = held.iter().enumerate();
            each.filter_map(|(task, until)| {
                let (until, end_of) = (*until)?;
                Some(Hold {
                    task,
                    phase,
                    until,
                    end_of,
                })
            })
            .collect()
        };
        let mut all = of(PhaseKind::Compute, &self.compute_until);
        all.extend(of(PhaseKind::Download, &self.download_until));
        all
    }
}

/// Plays rounds from event to event, as [`crate::simulate_held`] does, but keeps no phases and may stop early.
pub(crate) struct HeldPlayer<'a, 'r> {
    instance: &'a Instance,
    pub rates: &'a mut RateCache<'r>,
    /// Uploads keep the order of the downloads.
    single: bool,
    /// Remaining work of each task that computes.
    left: Vec<f64>,
    /// The tasks in the order in which they came to the uplink.
    uploads: Vec<usize>,
}

/// A transfer under way and its remaining seconds.
type Under = Option<(usize, f64)>;

impl<'a, 'r> HeldPlayer<'a, 'r> {
    pub fn new(instance: &'a Instance, rates: &'a mut RateCache<'r>, single: bool) -> Self {
        Self {
            instance,
            rates,
            single,
            left: vec![0.0; instance.len()],
            uploads: Vec::with_capacity(instance.len()),
        }
    }

    /// The orders of the round that was played last; its makespan must have been finite.
    pub fn order(&self, round: &HeldRound) -> Order {
        let uploads = if self.single {
            &round.downloads
        } else {
            &self.uploads
        };
        Order::PerDirection {
            downloads: round.downloads.clone(),
            uploads: uploads.clone(),
        }
    }

    /// The makespan in seconds; infinite if the round waits for itself, or once it is certain that it does not end
    /// before `below_s`.
    pub fn play(&mut self, round: &HeldRound, below_s: f64) -> f64 {
        let jobs = self.instance.jobs();
        let n = jobs.len();
        let mut now = 0.0_f64;
        // Ended phases, by kind; downloaded tasks whose compute has not begun; tasks that compute.
        let mut ended: [Set; 3] = [0; 3];
        let (mut ready, mut active): (Set, Set) = (0, 0);
        let (mut down, mut up): (Under, Under) = (None, None);
        let (mut downloaded, mut uploaded) = (0, 0);
        let mut uploads_s: f64 = jobs.iter().map(|j| j.upload_s).sum();
        self.uploads.clear();
        while ended[PhaseKind::Upload as usize] != self.instance.everyone() {
            let free = |until: Option<Until>| {
                until.is_none_or(|(task, kind)| ended[kind as usize] & 1 << task != 0)
            };
            if up.is_none()
                && uploaded < n
                && let Some(i) = self.next_upload(round, uploaded, ended)
            {
                up = Some((i, jobs[i].upload_s));
                uploaded += 1;
            }
            if down.is_none()
                && let Some(&i) = round.downloads.get(downloaded)
                && free(round.download_until[i])
            {
                down = Some((i, jobs[i].download_s));
                downloaded += 1;
            }
            for i in members(ready) {
                if free(round.compute_until[i]) {
                    ready &= !(1 << i);
                    active |= 1 << i;
                    self.left[i] = jobs[i].work;
                }
            }
            // The remaining uploads take at least this long, since they go one after another.
            if now + uploads_s >= below_s {
                return f64::INFINITY;
            }
            let transfers = [down, up].into_iter().flatten().map(|t| t.1);
            let mut step = transfers.fold(f64::INFINITY, f64::min);
            if active != 0 {
                let row = self.rates.row(active);
                for i in members(active) {
                    step = step.min(self.left[i] / row[i]);
                }
                if step.is_infinite() {
                    return f64::INFINITY;
                }
                for i in members(active) {
                    self.left[i] -= row[i] * step;
                    if self.left[i] <= DONE * jobs[i].work {
                        active &= !(1 << i);
                        ended[PhaseKind::Compute as usize] |= 1 << i;
                        self.uploads.push(i);
                    }
                }
            } else if step.is_infinite() {
                // Every phase that is left waits for another.
                return f64::INFINITY;
            }
            now += step;
            if up.is_some() {
                uploads_s -= step;
            }
            if let Some(i) = advance(&mut down, step) {
                ready |= 1 << i;
                ended[PhaseKind::Download as usize] |= 1 << i;
            }
            if let Some(i) = advance(&mut up, step) {
                ended[PhaseKind::Upload as usize] |= 1 << i;
            }
        }
        now
    }

    /// The `served`-th task to upload, if it may begin.
    fn next_upload(&self, round: &HeldRound, served: usize, ended: [Set; 3]) -> Option<usize> {
        if !self.single {
            return self.uploads.get(served).copied();
        }
        let next = round.downloads[served];
        (ended[PhaseKind::Compute as usize] & 1 << next != 0).then_some(next)
    }
}

/// Lets a transfer go on for `step` seconds; returns its task if it ends.
fn advance(under: &mut Under, step: f64) -> Option<usize> {
    let (i, left) = under.as_mut()?;
    *left -= step;
    let ended = (*left <= DONE).then_some(*i);
    if ended.is_some() {
        *under = None;
    }
    ended
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::{Link, RoundTask, TableRates, simulate_held};

    fn random_round(rng: &mut SmallRng, n: usize) -> HeldRound {
        let mut round = HeldRound::new((0..n).collect());
        round.downloads.shuffle(rng);
        for i in 0..n {
            let kinds = [PhaseKind::Download, PhaseKind::Compute, PhaseKind::Upload];
            for held in [&mut round.compute_until, &mut round.download_until] {
                let until = rng.random_range(0..n);
                if until != i && rng.random_range(0..3) == 0 {
                    held[i] = Some((until, kinds[rng.random_range(0..3)]));
                }
            }
        }
        round
    }

    /// Rounds with random holds have the same makespan as with the player that keeps every phase,
    /// and an infinite one exactly where that player refuses holds that wait for themselves.
    #[test]
    fn rounds_take_as_long_as_by_the_slow_player() {
        let (mut played, mut stuck) = (0, 0);
        for case in 0..2_000 {
            let rng = &mut SmallRng::seed_from_u64(case);
            let n = rng.random_range(1..=5);
            let mut rates = TableRates::new();
            for set in 1..1 << n {
                rates.insert(set, (0..n).map(|_| rng.random_range(0.2..2.0)).collect());
            }
            // Some phases take no time.
            let time = |rng: &mut SmallRng| f64::from(rng.random_range(0..40));
            let job = |_| RoundTask {
                download_s: time(rng),
                work: time(rng) + 1.0,
                upload_s: time(rng),
            };
            let instance = Instance::new((0..n).map(job).collect(), Link::Full).unwrap();
            let round = random_round(rng, n);
            let mut cache = RateCache::at(&rates, n, &[]);
            let single = case % 2 == 0;
            let mut player = HeldPlayer::new(&instance, &mut cache, single);
            let fast = player.play(&round, f64::INFINITY);
            if fast.is_infinite() {
                // With `single`, the slow player must refuse this order of uploads. First come
                // first served has no fixed order to compare.
                let order = Order::PerDirection {
                    downloads: round.downloads.clone(),
                    uploads: round.downloads.clone(),
                };
                assert!(
                    !single
                        || simulate_held(&instance, &rates, &[], &order, &round.holds()).is_err()
                );
                stuck += 1;
                continue;
            }
            let order = player.order(&round);
            let slow = simulate_held(&instance, &rates, &[], &order, &round.holds()).unwrap();
            let slow_s = slow.makespan_s;
            assert!(
                (fast - slow_s).abs() <= 1e-9 * slow_s,
                "case {case}: {fast} not {slow_s}"
            );
            assert!(player.play(&round, fast * 0.999).is_infinite());
            assert!(player.play(&round, fast * 1.001).is_finite());
            played += 1;
        }
        assert!(
            played > 500 && stuck > 100,
            "{played} played, {stuck} stuck"
        );
    }

    /// Among tasks that swap their work and rates, too, nothing has changed but their names.
    #[test]
    fn tasks_that_swap_places_and_work_take_as_long() {
        let mut played = 0;
        for case in 0..500 {
            let rng = &mut SmallRng::seed_from_u64(case);
            let n = rng.random_range(2..=5);
            let (i, j) = (rng.random_range(0..n), rng.random_range(0..n));
            let renamed = |k: usize| match k {
                k if k == i => j,
                k if k == j => i,
                k => k,
            };
            let mut tables = [TableRates::new(), TableRates::new()];
            for set in 1..1 << n {
                let mut row: Vec<f64> = (0..n).map(|_| rng.random_range(0.2..2.0)).collect();
                tables[0].insert(set, row.clone());
                row.swap(i, j);
                tables[1].insert(members(set).map(|k| 1 << renamed(k)).sum(), row);
            }
            let job = |_| RoundTask {
                download_s: rng.random_range(0.1..4.0),
                work: rng.random_range(0.1..4.0),
                upload_s: rng.random_range(0.1..4.0),
            };
            let mut jobs: Vec<RoundTask> = (0..n).map(job).collect();
            let mut round = random_round(rng, n);
            let [first, second] = tables.map(|table| {
                let instance = Instance::new(jobs.clone(), Link::Full).unwrap();
                let mut cache = RateCache::at(&table, n, &[]);
                let s = HeldPlayer::new(&instance, &mut cache, false).play(&round, f64::INFINITY);
                jobs.swap(i, j);
                round.swap_tasks(i, j);
                s
            });
            assert!(
                first == second || (first - second).abs() <= 1e-9 * first,
                "case {case}: {first} not {second}"
            );
            played += usize::from(first.is_finite());
        }
        assert!(played > 150, "{played} played");
    }
}
