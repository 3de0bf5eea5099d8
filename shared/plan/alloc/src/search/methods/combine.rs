//! Combinations of batch sizes that meet the constraints that do not depend on rates.

use units::corun::Throughput;

use crate::search::instance::Instance;
use crate::tolerance::TOLERANCE;

/// Maximum number of combinations that are listed, whatever the budget of points: a million for 64 tasks take 90 MB,
/// and an enumeration of more, with their shares, would not end.
pub(super) const MOST_COMBINATIONS: usize = 1 << 20;
/// Partial combinations visited per listed one, in addition to [`FREE`]: bounds the walk if only a few of very many
/// combinations meet a constraint.
const PARTIAL_PER_COMBINATION: u64 = 64;
/// Partial combinations that every walk may visit. They take some milliseconds, so small problems are never rejected
/// because of the walk. Both limits were chosen by hand.
const FREE: u64 = 1_000_000;

/// Combinations of batch sizes that meet the constraints that do not depend on rates: memory, policy and, unless its
/// balance is `time`, mismatch. `None` if there are more than `most`, or if the walk is too long.
pub(crate) fn combinations<C: Throughput + ?Sized>(
    inst: &Instance<'_, C>,
    most: usize,
) -> Option<Vec<Vec<u8>>> {
    let most = most.min(MOST_COMBINATIONS);
    let load = inst.load.as_deref().filter(|_| inst.epsilon.is_finite());
    let bound = inst.epsilon + TOLERANCE;
    let mut all = Vec::new();
    let nodes = FREE + PARTIAL_PER_COMBINATION * most as u64;
    let complete = Walk::run(inst, load, bound, nodes, |pick, _| {
        all.push(pick.to_vec());
        // A mismatch is never negative, so a bound of -1 ends the walk.
        if all.len() > most { -1.0 } else { bound }
    });
    if all.len() > most || !complete {
        return None;
    }
    all.sort_unstable();
    Some(all)
}

/// Whether no combination of batch sizes meets the constraints that do not depend on rates, so that there is nothing
/// to search. Also `false` if a short walk cannot decide.
pub(crate) fn no_combination<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> bool {
    combinations(inst, 0).is_some_and(|all| all.is_empty())
}

/// Least mismatch of the combinations of batch sizes within memory and policy; `None` if there is no combination, or
/// if the mismatch depends on rates. Exact unless the walk is cut short at two million nodes, which 10 tasks of 5
/// batch sizes do not reach.
pub(crate) fn least_mismatch<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> Option<f64> {
    let load = inst.load.as_deref()?;
    let mut least = f64::INFINITY;
    Walk::run(inst, Some(load), f64::INFINITY, 2 * FREE, |_, mismatch| {
        least = mismatch;
        // From here on, only a smaller mismatch counts.
        least.next_down()
    });
    least.is_finite().then_some(least)
}

/// A depth-first walk through the combinations within memory, policy and a bound on the mismatch.
struct Walk<'w, 'i, C: Throughput + ?Sized, V> {
    inst: &'w Instance<'i, C>,
    /// If absent, the mismatch is 0.
    load: Option<&'w [f64]>,
    rest_memory: Vec<f64>,
    pick: Vec<u8>,
    bound: f64,
    nodes: u64,
    visit: V,
}

impl<'w, 'i, C: Throughput + ?Sized, V: FnMut(&[u8], f64) -> f64> Walk<'w, 'i, C, V> {
    /// Calls `visit(batches, mismatch)` for every combination whose mismatch is at most the bound; `visit` returns the
    /// bound for the rest of the walk. Returns whether the walk completed within the given number of partial
    /// combinations.
    fn run(
        inst: &'w Instance<'i, C>,
        load: Option<&'w [f64]>,
        bound: f64,
        nodes: u64,
        visit: V,
    ) -> bool {
        let mut walk = Self {
            inst,
            load,
            rest_memory: inst.rest_memory(),
            pick: Vec::with_capacity(inst.n),
            bound,
            nodes,
            visit,
        };
        walk.descend(0.0, 0.0);
        walk.nodes > 0
    }

    fn descend(&mut self, memory: f64, mismatch: f64) {
        let (inst, i) = (self.inst, self.pick.len());
        if i == inst.n {
            self.bound = (self.visit)(&self.pick, mismatch);
            return;
        }
        for b in 0..inst.batches[i].len() as u8 {
            if self.nodes == 0 {
                return;
            }
            self.nodes -= 1;
            let other = inst.same && i > 0 && b != self.pick[0];
            let cell = |i: usize, b: u8| i * inst.width + usize::from(b);
            let memory = memory + inst.memory[cell(i, b)];
            if other || memory + self.rest_memory[i + 1] > inst.capacity {
                continue;
            }
            let pairs = self.load.iter().flat_map(|load| {
                let others = self.pick.iter().enumerate();
                others.map(|(k, &c)| inst.pair_mismatch(i, load[cell(i, b)], k, load[cell(k, c)]))
            });
            // Add in the same order as [`Instance::judge`], so that both sums are equal to the last bit.
            let mismatch = pairs.fold(mismatch, |sum, pair| sum + pair);
            // The terms are not negative, so further tasks cannot decrease the sum.
            if mismatch <= self.bound {
                self.pick.push(b);
                self.descend(memory, mismatch);
                self.pick.pop();
            }
        }
    }
}
