use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use units::Batch;
use units::search::Budget;

use crate::instance::members;
use crate::{OverlapError, Rates, Set};

/// Up to this many tasks the sets are indexed by an array.
const DENSE_TASKS: usize = 20;
/// Up to this many tasks the rates of all sets are kept.
const REMEMBER_TASKS: usize = 12;
/// With more than [`DENSE_TASKS`] tasks, a search may query this many times the rates that take a tenth of a second
/// ([`Rates::all_sets_of`]). With so many tasks, nearly every order meets new sets, so predictions, not plays, take
/// the time. Without the limit, 64 tasks took minutes.
const MOST_ASKED: usize = 8;
/// Marks a set whose rates have not been queried yet.
const UNKNOWN: u32 = u32::MAX;

enum Index {
    Dense(Vec<u32>),
    Sparse(HashMap<Set, u32, SetHash>),
}

type SetHash = BuildHasherDefault<SetHasher>;

/// Hash of a set of tasks: the keys are dense integers that no adversary chooses, and are looked up in the innermost
/// loop.
#[derive(Default)]
struct SetHasher(u64);

impl Hasher for SetHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    fn write_u64(&mut self, value: u64) {
        // Fibonacci hashing; the table uses the high and the low bits.
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Rates that are queried once for each active set and the batch levels of the tasks that they depend on.
///
/// With three batch levels there are at most `4^n - 1` calls, however many orders are tried: this keeps the search in
/// milliseconds if one prediction costs microseconds.
pub(crate) struct RateCache<'r> {
    source: &'r dyn Rates,
    n: usize,
    choices: Vec<Vec<Batch>>,
    levels: Vec<u8>,
    batches: Vec<Batch>,
    by_levels: HashMap<(Set, u128), u32, SetHash>,
    by_set: Index,
    rows: Vec<f64>,
    failure: Option<OverlapError>,
    /// Cached answer of [`Rates::falls_with_corunners`].
    falls: Option<bool>,
}

fn one_each(batches: &[Batch]) -> Vec<Vec<Batch>> {
    batches.iter().map(|&b| vec![b]).collect()
}

impl<'r> RateCache<'r> {
    /// `choices` are the batch sizes of each task, at most three; empty if batch sizes are unknown.
    pub fn new(source: &'r dyn Rates, n: usize, choices: &[Vec<Batch>]) -> Self {
        Self::with_places(source, n, choices, DENSE_TASKS)
    }

    /// Sets are indexed by an array up to `placed` tasks.
    fn with_places(source: &'r dyn Rates, n: usize, choices: &[Vec<Batch>], placed: usize) -> Self {
        let by_set = if n <= placed {
            Index::Dense(vec![UNKNOWN; 1 << n])
        } else {
            Index::Sparse(HashMap::default())
        };
        let mut cache = Self {
            source,
            n,
            choices: choices.to_vec(),
            levels: vec![0; n],
            batches: Vec::new(),
            by_levels: HashMap::default(),
            by_set,
            rows: Vec::new(),
            failure: None,
            falls: None,
        };
        cache.batches = cache.choices.iter().map(|c| c[0]).collect();
        cache
    }

    /// A cache with one batch size for each task, for a few plays of a round: no table of all sets
    /// is allocated, which for 16 tasks would take longer than a play.
    pub fn few(source: &'r dyn Rates, n: usize, batches: &[Batch]) -> Self {
        const PLACED_TASKS: usize = 8;
        Self::with_places(source, n, &one_each(batches), PLACED_TASKS)
    }

    /// A cache with one batch size for each task; `batches` is empty if they are unknown.
    pub fn at(source: &'r dyn Rates, n: usize, batches: &[Batch]) -> Self {
        Self::new(source, n, &one_each(batches))
    }

    /// Batch sizes in use; empty if they are unknown.
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// Uses choice `levels[i]` for task `i` from now on; `levels` is empty if batch sizes are
    /// unknown.
    pub fn set_levels(&mut self, levels: &[u8]) {
        if levels.is_empty() || self.levels == levels {
            return;
        }
        self.levels.copy_from_slice(levels);
        for (i, &level) in levels.iter().enumerate() {
            self.batches[i] = self.choices[i][usize::from(level)];
        }
        match &mut self.by_set {
            Index::Dense(v) => v.fill(UNKNOWN),
            Index::Sparse(m) => m.clear(),
        }
    }

    /// The first failure to get rates, if any; every search must check it before it returns.
    pub fn failure(&self) -> Result<(), OverlapError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// `r_i(active)` for every active `i`. A set without rates is recorded as a failure and gets rate 1.
    #[inline]
    pub fn row(&mut self, active: Set) -> &[f64] {
        let at = match &self.by_set {
            Index::Dense(v) => v[active as usize],
            Index::Sparse(m) => m.get(&active).copied().unwrap_or(UNKNOWN),
        };
        let at = if at == UNKNOWN {
            self.look_up(active)
        } else {
            at
        };
        &self.rows[at as usize..][..self.n]
    }

    /// Like [`Self::row`], but does not cache for large rounds: for visiting every set once.
    pub fn with(&mut self, active: Set, f: impl FnOnce(&[f64])) {
        if self.n <= REMEMBER_TASKS {
            return f(self.row(active));
        }
        let at = self.rows.len();
        self.ask(active);
        f(&self.rows[at..]);
        self.rows.truncate(at);
    }

    /// The highest `r_i(active)` at any of the batch sizes, if no task is slower beside smaller
    /// ones: the best of the task's own sizes beside the smallest sizes of the others. Not cached.
    pub fn highest(&mut self, active: Set, i: usize) -> f64 {
        let smallest = |c: &Vec<Batch>| c.iter().copied().min();
        let mut batches: Vec<Batch> = self.choices.iter().filter_map(smallest).collect();
        let mut highest = 0.0_f64;
        for &own in &self.choices[i] {
            batches[i] = own;
            let rate = self.source.rate(active, &batches, i);
            match rate {
                Ok(rate) if rate.is_finite() && rate > 0.0 => highest = highest.max(rate),
                Ok(value) => {
                    let active = members(active).collect();
                    let bad = OverlapError::BadRate {
                        task: i,
                        active,
                        value,
                    };
                    self.failure.get_or_insert(bad);
                }
                Err(error) => {
                    self.failure.get_or_insert(error);
                }
            }
        }
        highest
    }

    /// Spends a unit of `budget`, which ends when no more rates may be queried.
    pub fn spend(&self, budget: &mut Budget) -> bool {
        let most = MOST_ASKED << self.source.all_sets_of();
        if self.n > DENSE_TASKS && self.rows.len() > most * self.n && !self.source_independent() {
            budget.stop();
        }
        budget.spend()
    }

    /// Largest number of tasks for which all sets may be evaluated.
    pub fn all_sets_of(&self) -> usize {
        self.source.all_sets_of()
    }

    fn look_up(&mut self, active: Set) -> u32 {
        // Two bits per task: 0 if it has no influence, otherwise its batch level from 1 to 3.
        let levels = members(self.source.depends_on(active)).fold(0u128, |levels, i| {
            levels | (u128::from(self.levels[i]) + 1) << (2 * i)
        });
        let key = (active, levels);
        let at = match self.by_levels.get(&key) {
            Some(&at) => at,
            None => {
                let at = self.rows.len() as u32;
                self.ask(active);
                self.by_levels.insert(key, at);
                at
            }
        };
        match &mut self.by_set {
            Index::Dense(v) => v[active as usize] = at,
            Index::Sparse(m) => {
                m.insert(active, at);
            }
        }
        at
    }

    fn ask(&mut self, active: Set) {
        let at = self.rows.len();
        self.rows.resize(at + self.n, 0.0);
        let row = &mut self.rows[at..];
        let mut outcome = self.source.rates(active, &self.batches, row);
        if outcome.is_ok() {
            let bad = members(active).find(|&i| !(row[i].is_finite() && row[i] > 0.0));
            if let Some(task) = bad {
                outcome = Err(OverlapError::BadRate {
                    task,
                    active: members(active).collect(),
                    value: row[task],
                });
            }
        }
        if let Err(error) = outcome {
            row.fill(1.0);
            self.failure.get_or_insert(error);
        }
    }

    /// Whether tasks are never slower with fewer co-runners, as the source says, or by checking every set if there
    /// are few.
    pub fn falls_with_corunners(&mut self) -> bool {
        // At most 1,024 sets, each predicted once and kept.
        const LOOK_TASKS: usize = 10;
        if self.source_falls() {
            return true;
        }
        if self.n > LOOK_TASKS {
            return false;
        }
        (1..(1 as Set) << self.n).all(|set| {
            let whole = self.row(set).to_vec();
            members(set).all(|out| {
                let fewer = set & !(1 << out);
                fewer == 0 || {
                    let row = self.row(fewer);
                    members(fewer).all(|i| row[i] >= whole[i])
                }
            })
        })
    }

    /// Whether the source says that tasks are never slower with fewer co-runners.
    pub fn source_falls(&mut self) -> bool {
        let source = self.source;
        *self
            .falls
            .get_or_insert_with(|| source.falls_with_corunners())
    }

    /// Whether the source says that every task has one rate, whatever else computes.
    pub fn source_independent(&self) -> bool {
        self.source.is_independent()
    }

    /// Highest rate of every task over all sets, if the source knows it.
    pub fn source_fastest(&self) -> Option<Vec<f64>> {
        self.source.fastest(self.n)
    }

    /// Whether every task has one rate, whatever else computes, by checking every set if there are few; `false` if
    /// there are many.
    pub fn is_independent(&mut self) -> bool {
        // At most 1,024 sets, each predicted once and kept.
        const LOOK_TASKS: usize = 10;
        self.n <= LOOK_TASKS
            && (1..(1 as Set) << self.n).all(|set| {
                let together = self.row(set).to_vec();
                members(set).all(|i| together[i] == self.row(1 << i)[i])
            })
    }
}
