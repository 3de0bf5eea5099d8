use units::corun::Throughput;

use crate::instance::Instance;
use crate::tolerance::TOLERANCE;

/// Finds batch sizes when what each task gains at each of them is known: all combinations within
/// memory and (where loads are given) mismatch, best first, by depth-first search with the bound that the rest
/// gains its most. Tables are rows of [`Instance::width`]; a gain of minus infinity forbids a batch size.
pub(crate) struct Chooser {
    order: Vec<Vec<u8>>,
    rest: Vec<f64>,
    rest_memory: Vec<f64>,
    pick: Vec<u8>,
    /// Loads of the picked batch sizes.
    picked_load: Vec<f64>,
    /// Partial combinations that one walk looks at, at most.
    pub most_nodes: u64,
}

/// One search of the combinations.
struct Walk<'a, 'b, C: Throughput + ?Sized, F> {
    inst: &'a Instance<'b, C>,
    gains: &'a [f64],
    loads: Option<&'a [f64]>,
    visit: F,
    cutoff: f64,
    nodes: u64,
}

impl Chooser {
    pub fn new<C: Throughput + ?Sized>(inst: &Instance<'_, C>) -> Self {
        Self {
            order: inst
                .batches
                .iter()
                .map(|l| (0..l.len() as u8).collect())
                .collect(),
            rest: vec![0.0; inst.n + 1],
            rest_memory: inst.rest_memory(),
            pick: vec![0; inst.n],
            picked_load: vec![0.0; inst.n],
            most_nodes: u64::MAX,
        }
    }

    /// Calls `visit(value, batches)` for combinations of a value above the cutoff, which `visit`
    /// returns again. Returns whether all were looked at within [`Chooser::most_nodes`].
    pub fn visit<C: Throughput + ?Sized>(
        &mut self,
        inst: &Instance<'_, C>,
        gains: &[f64],
        loads: Option<&[f64]>,
        cutoff: f64,
        visit: impl FnMut(f64, &[u8]) -> f64,
    ) -> bool {
        let fold = inst.fold();
        self.rest[inst.n] = fold.start();
        for i in (0..inst.n).rev() {
            let row = &gains[i * inst.width..][..inst.batches[i].len()];
            self.order[i].sort_by(|&a, &b| row[usize::from(b)].total_cmp(&row[usize::from(a)]));
            let Some(&top) = self.order[i].first() else {
                return true;
            };
            self.rest[i] = fold.join(self.rest[i + 1], row[usize::from(top)]);
        }
        let mut walk = Walk {
            inst,
            gains,
            loads,
            visit,
            cutoff,
            nodes: 0,
        };
        walk.descend(self, 0, fold.start(), 0.0, 0.0);
        walk.nodes < self.most_nodes
    }

    /// The best combination above the cutoff.
    pub fn best<C: Throughput + ?Sized>(
        &mut self,
        inst: &Instance<'_, C>,
        gains: &[f64],
        loads: Option<&[f64]>,
        cutoff: f64,
    ) -> Option<(f64, Vec<u8>)> {
        let mut best = None;
        self.visit(inst, gains, loads, cutoff, |value, pick| {
            best = Some((value, pick.to_vec()));
            value
        });
        best
    }
}

impl<C: Throughput + ?Sized, F: FnMut(f64, &[u8]) -> f64> Walk<'_, '_, C, F> {
    fn descend(&mut self, c: &mut Chooser, i: usize, value: f64, memory: f64, mismatch: f64) {
        let inst = self.inst;
        if i == inst.n {
            self.cutoff = (self.visit)(value, &c.pick);
            return;
        }
        let fold = inst.fold();
        for at in 0..c.order[i].len() {
            if self.nodes >= c.most_nodes {
                return;
            }
            self.nodes += 1;
            let b = c.order[i][at];
            if inst.same && i > 0 && b != c.pick[0] {
                continue;
            }
            let cell = i * inst.width + usize::from(b);
            let value = fold.join(value, self.gains[cell]);
            // Batch sizes come in order of falling gain: none after this one can do better.
            // Written so that a bound that is not a number ends the branch.
            let bound = fold.join(value, c.rest[i + 1]);
            if bound.is_nan() || bound <= self.cutoff || bound == f64::NEG_INFINITY {
                // With one size for all the others have to follow this one, each at a gain of its own: the next
                // may be better although this task gains less.
                if inst.same {
                    continue;
                }
                return;
            }
            let memory = memory + inst.memory[cell];
            if memory + c.rest_memory[i + 1] > inst.capacity {
                continue;
            }
            let mut mismatch = mismatch;
            if let Some(loads) = self.loads {
                let load = loads[cell];
                for k in 0..i {
                    mismatch += inst.pair_mismatch(i, load, k, c.picked_load[k]);
                }
                // A sum of pairs, none below 0: more tasks make it no smaller.
                if mismatch > inst.epsilon + TOLERANCE {
                    continue;
                }
                c.picked_load[i] = load;
            }
            c.pick[i] = b;
            self.descend(c, i + 1, value, memory, mismatch);
        }
    }
}
