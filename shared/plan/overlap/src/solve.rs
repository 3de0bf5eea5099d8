mod anneal;
mod annealing;
pub mod anytime;
mod estimate;
mod one_at_a_time;
mod outcome;
mod proof;
mod prune;
pub mod serial;
mod vary;
mod waiting;

use std::time::{Duration, Instant};

use units::Batch;
use units::search::{Budget, SAME, Stop};

use crate::bounds::Floor;
use crate::instance::batches::combinations;
use crate::play::branch::{BranchAndBound, Candidates, Step};
use crate::play::full_duplex::FullState;
use crate::play::half_duplex::HalfRound;
use crate::play::round::{ComputeHolds, Holds, Order, Transfer, play};
use crate::play::sequence::Player;
use crate::rates::cache::RateCache;
use crate::solve::anytime::{descend, iterate, mitten, seeds};
use crate::{Instance, Link, OverlapError, Rates};

pub use estimate::{Estimate, estimate, estimate_along};
pub use outcome::{Schedules, SolvedRound};
pub use prune::may_end_before;

/// What to search for, and how hard.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderOptions {
    /// Uploads keep the order of the downloads (FedMT Algorithm 1).
    pub single_order: bool,
    /// Batch sizes each task may take; empty if batch sizes are unknown.
    pub batches: Vec<Vec<Batch>>,
    /// Maximum nodes of branch and bound, over all batch combinations; ten times as many up to 9 tasks, which are
    /// nearly always solved completely, and a tenth beyond 14, which seldom are. 0: no proof is attempted, and the
    /// lower bound uses only the link and the solo rates.
    pub nodes: u64,
    /// Maximum number of rounds simulated by the descent, over all batch combinations.
    pub plays: u64,
    /// Time limit; the result may then differ from run to run.
    pub time_limit: Option<Duration>,
    /// Seed of the perturbations of the descent.
    pub seed: u64,
    /// Compute and transfers may be held back until a phase of another task ends, if that ends the round sooner.
    pub waits: bool,
    /// The lower bound of the outcome counts the processor, even if the order is proven without that bound: for few
    /// tasks its linear program takes longer than the search.
    pub lower_bound: bool,
}

impl Default for OrderOptions {
    fn default() -> Self {
        Self {
            single_order: false,
            batches: Vec::new(),
            nodes: 200_000,
            plays: 600_000,
            time_limit: None,
            seed: 1,
            waits: true,
            lower_bound: true,
        }
    }
}

/// Up to this many batch combinations all are tried: six tasks with three batch sizes each.
const ALL_COMBINATIONS: usize = 729;
/// Up to this many tasks the search is meant to be exact.
const EXACT_TASKS: usize = 9;
/// Beyond this many tasks a proof is seldom in reach, and descent is a better use of the time.
const PROVABLE_TASKS: usize = 14;
/// Up to this many tasks orders are searched without the bound of the processor.
const SMALL_TASKS: usize = 5;

/// Finds the order of transfers and the batch sizes (among the choices) that end the round soonest.
///
/// Small rounds are solved by branch and bound ([`Stop::Bounded`]). It starts from the best of several heuristic
/// orders after descent, so that an interrupted search has a good result, too. Up to 729 batch combinations are all
/// searched; beyond that, batch sizes are changed one task at a time. The result is never worse than with the first
/// batch size of each task alone, unless the time limit stops it.
pub fn solve(
    instance: &Instance,
    rates: &dyn Rates,
    options: &OrderOptions,
) -> Result<SolvedRound, OverlapError> {
    for (task, choices) in options.batches.iter().enumerate() {
        if !(1..=3).contains(&choices.len()) {
            let count = choices.len();
            return Err(OverlapError::BadBatches { task, count });
        }
    }
    let outcome = search(instance, rates, options)?;
    let several = options.batches.iter().any(|choices| choices.len() > 1);
    let proven = outcome.proven() && outcome.certificate.class > Schedules::NeverWaiting;
    if !several || proven || outcome.certificate.stop == Stop::TimeLimit {
        return Ok(outcome);
    }
    // A search over many batch sizes spends less on each, and looks for waits only from the best round without waits.
    // With the first sizes alone it may find a shorter round.
    let first = OrderOptions {
        batches: options.batches.iter().map(|c| vec![c[0]]).collect(),
        ..options.clone()
    };
    Ok(outcome.or_shorter(search(instance, rates, &first)?))
}

fn search(
    instance: &Instance,
    rates: &dyn Rates,
    options: &OrderOptions,
) -> Result<SolvedRound, OverlapError> {
    let mut cache = RateCache::new(rates, instance.len(), &options.batches);
    let mut search = Search::new(instance, &mut cache, options);
    let counts: Vec<usize> = options.batches.iter().map(Vec::len).collect();
    let total = counts
        .iter()
        .try_fold(1usize, |p, &c| p.checked_mul(c))
        .unwrap_or(usize::MAX);
    if total <= ALL_COMBINATIONS {
        search.plays_each = options.plays / total.max(1) as u64;
        for levels in combinations(&counts) {
            search.levels(&levels);
        }
    } else {
        search.vary_one_by_one(&counts);
    }
    search.wait(&counts, total);
    search.rates.failure()?;
    Ok(search.outcome())
}

fn timed_out(budget: &Budget) -> bool {
    budget.stopped() == Some(Stop::TimeLimit)
}

/// Whether no round ends before `best_s` by these lower bounds.
fn meets(best_s: f64, floor: &Floor, instance: &Instance) -> bool {
    best_s <= floor.bounds(instance).best() * (1.0 + SAME)
}

/// The task of a transfer.
fn task_of(transfer: Transfer) -> usize {
    match transfer {
        Transfer::Download(i) | Transfer::Upload(i) => i,
    }
}

/// The best decisions below `best_s` by branch and bound, and their makespan; empty if there are none.
fn best_steps(
    instance: &Instance,
    rates: &mut RateCache<'_>,
    floor: &Floor,
    candidates: Candidates,
    best_s: f64,
    first: &[usize],
    nodes: &mut Budget,
) -> (f64, Vec<Step>) {
    if instance.link() == Link::Half {
        let mut search = BranchAndBound::new(instance, rates, floor, candidates, best_s);
        search.run(&HalfRound::new(instance.everyone()), first, nodes);
        (search.best_s, search.best)
    } else {
        let mut search = BranchAndBound::new(instance, rates, floor, candidates, best_s);
        search.run(&FullState::new(instance), first, nodes);
        (search.best_s, search.best)
    }
}

struct Search<'a, 'r> {
    instance: &'a Instance,
    rates: &'a mut RateCache<'r>,
    options: &'a OrderOptions,
    nodes: Budget,
    plays: u64,
    plays_each: u64,
    deadline: Option<Instant>,
    best_s: f64,
    best: Option<(Vec<u8>, Order)>,
    holds: Holds,
    /// Lower bound on every schedule of the evaluated batch combinations, with any idling.
    floor_s: f64,
    class: Schedules,
    complete: bool,
    bound_met: bool,
    assumed: bool,
    timed_out: bool,
}

impl<'a, 'r> Search<'a, 'r> {
    fn new(
        instance: &'a Instance,
        rates: &'a mut RateCache<'r>,
        options: &'a OrderOptions,
    ) -> Self {
        let deadline = options
            .time_limit
            .and_then(|limit| Instant::now().checked_add(limit));
        let nodes = match instance.len() {
            0..=EXACT_TASKS => options.nodes.saturating_mul(10),
            n if n <= PROVABLE_TASKS => options.nodes,
            _ => options.nodes / 10,
        };
        Self {
            instance,
            rates,
            options,
            nodes: Budget::new(nodes, deadline),
            plays: 0,
            // If batch sizes are changed one task at a time (7 tasks of 3 sizes, or more): the first pass over seven
            // tasks consists of 14 descents between two searches. That makes 16 parts, so each may take a sixteenth
            // of the plays.
            plays_each: options.plays / 16,
            deadline,
            best_s: f64::INFINITY,
            best: None,
            holds: Holds::new(),
            class: Schedules::NeverWaiting,
            floor_s: f64::INFINITY,
            complete: true,
            bound_met: true,
            assumed: false,
            timed_out: false,
        }
    }

    /// Searches the orders of one batch combination.
    fn levels(&mut self, levels: &[u8]) {
        self.rates.set_levels(levels);
        let small = self.instance.len() <= SMALL_TASKS;
        let mut floor = self.floor(self.instance);
        self.assumed |= floor.bounds(self.instance).assumes_falling_rates;
        if self.excluded(&floor) {
            return;
        }
        if self.instance.link() == Link::Shared {
            let value = play(self.instance, self.rates, &Order::Together, &[]).makespan_s;
            self.plays += 1;
            self.keep(value, levels, || Order::Together);
            self.bound_met = false;
            self.note_bound(&mut floor, true);
            return;
        }
        // The bound of the processor is expensive, so it comes last, if nothing cheaper decides.
        let known = self.best.is_some();
        if known && small {
            // Trying all orders takes less time than a good start would save.
            self.bound_met = false;
            if self.branch_and_bound(levels, &floor) {
                self.note_bound(&mut floor, true);
                return;
            }
        } else if known {
            floor.add_workload(self.instance, self.rates);
            if self.excluded(&floor) {
                return;
            }
        }
        let descended = self.descent(levels, &floor);
        // Without nodes no proof is attempted, and no bound that takes longer than the search.
        if !known && !small && self.options.nodes > 0 && !self.excluded(&floor) {
            floor.add_workload(self.instance, self.rates);
        }
        if self.excluded(&floor) {
            return;
        }
        self.bound_met = false;
        let complete = self.options.nodes > 0 && self.branch_and_bound(levels, &floor);
        self.note_bound(&mut floor, complete);
        if complete {
            return;
        }
        self.complete = false;
        let bound = floor.bounds(self.instance).best();
        self.iterated(levels, descended, bound);
    }

    /// The bounds of `instance` without that of the processor.
    fn floor(&mut self, instance: &Instance) -> Floor {
        match self.options.nodes {
            0 => Floor::by_rates_alone(instance, self.rates),
            _ => Floor::without_workload(instance, self.rates),
        }
    }

    /// Merges these bounds into the lower bound of all combinations. The bound of the processor is
    /// expensive, so it is computed only if the others do not already exceed the incumbent, and it
    /// is asked for or may yet prove the order.
    fn note_bound(&mut self, floor: &mut Floor, proven: bool) {
        let needed = self.options.lower_bound || !proven;
        let small = self.instance.len() <= SMALL_TASKS || self.instance.link() == Link::Shared;
        if needed && small && floor.bounds(self.instance).best() < self.floor_s {
            floor.add_workload(self.instance, self.rates);
        }
        self.floor_s = self.floor_s.min(floor.bounds(self.instance).best());
    }

    /// Whether the best so far meets these lower bounds.
    fn excluded(&mut self, floor: &Floor) -> bool {
        let met = meets(self.best_s, floor, self.instance);
        if met {
            self.floor_s = self.floor_s.min(floor.bounds(self.instance).best());
        }
        met
    }

    /// Takes over a better order; with other batch sizes it must be better by more than rounding.
    fn keep(&mut self, value: f64, levels: &[u8], order: impl FnOnce() -> Order) {
        let same_batches = self.best.as_ref().is_none_or(|(best, _)| best == levels);
        let margin = if same_batches { 0.0 } else { SAME };
        if value < self.best_s * (1.0 - margin) {
            self.best_s = value;
            self.best = Some((levels.to_vec(), order()));
            self.holds.clear();
        }
    }

    /// The best heuristic order after descent, as a sequence.
    fn descent(&mut self, levels: &[u8], floor: &Floor) -> (Vec<usize>, f64) {
        let bound = floor.bounds(self.instance).best();
        let mut budget = Budget::new(self.plays_each, self.deadline);
        let mut player = Player::new(self.instance, self.rates, self.options.single_order);
        let mut starts: Vec<(f64, Vec<usize>)> = seeds(&mut player, &floor.compute)
            .into_iter()
            .map(|s| (player.value(&s), s))
            .collect();
        starts.sort_by(|a, b| a.0.total_cmp(&b.0));
        starts.dedup();
        budget.add(starts.len() as u64);
        let (mut best_s, mut best) = starts[0].clone();
        // For the first batch sizes, descend from the two best heuristic orders, since the result
        // prunes everything after them. For the other sizes, only from the best one, which just has
        // to show whether these sizes may be better.
        let descents = if self.best.is_none() { 2 } else { 1 };
        for (value, start) in starts.into_iter().take(descents) {
            if best_s <= bound * (1.0 + SAME) {
                break;
            }
            let mut sequence = start;
            let value = descend(&mut player, &mut sequence, value, u128::MAX, &mut budget);
            if value < best_s {
                best_s = value;
                best = sequence;
            }
        }
        let order = player.order(&best);
        self.plays += budget.spent();
        self.timed_out |= timed_out(&budget);
        self.keep(best_s, levels, || order);
        (best, best_s)
    }

    /// The rounds that the options permit, with or without holds of compute.
    fn candidates(&self, waits: bool) -> Candidates {
        Candidates {
            single_order: self.options.single_order,
            waits,
        }
    }

    fn branch_and_bound(&mut self, levels: &[u8], floor: &Floor) -> bool {
        let first = mitten(self.instance, &floor.compute);
        let candidates = self.candidates(false);
        let (value, steps) = best_steps(
            self.instance,
            self.rates,
            floor,
            candidates,
            self.best_s,
            &first,
            &mut self.nodes,
        );
        let order = self.order_of(&steps, ComputeHolds::new());
        self.keep(value, levels, || order);
        self.timed_out |= timed_out(&self.nodes);
        !self.nodes.exhausted()
    }

    /// The order described by decisions, with the given holds.
    fn order_of(&mut self, steps: &[Step], holds: ComputeHolds) -> Order {
        if self.instance.link() == Link::Half {
            return Order::OneByOne(steps.iter().map(|s| s.transfer).collect());
        }
        let mut player = Player::new(self.instance, self.rates, self.options.single_order);
        player.holds = holds;
        player.order(
            &steps
                .iter()
                .map(|s| task_of(s.transfer))
                .collect::<Vec<_>>(),
        )
    }

    fn iterated(&mut self, levels: &[u8], start: (Vec<usize>, f64), bound: f64) {
        let mut budget = Budget::new(self.plays_each, self.deadline);
        let mut player = Player::new(self.instance, self.rates, self.options.single_order);
        let (mut sequence, value) = start;
        let enough = bound * (1.0 + SAME);
        let value = iterate(
            &mut player,
            &mut sequence,
            value,
            enough,
            self.options.seed,
            &mut budget,
        );
        let order = player.order(&sequence);
        self.plays += budget.spent();
        self.timed_out |= timed_out(&budget);
        self.keep(value, levels, || order);
    }
}
