//! The length of a round, as `mt-overlap` computes it.

use doc::{DeviceKind, PhaseKind, Workload};
use overlap::{
    Instance, ModelRates, OverlapError, Phase, PlanError, QuickBound, SolvedRound,
    one_after_another, simulate_held,
};
use units::corun::{Setting, Throughput};
use units::{Batch, Share};

use crate::problem::compute::finish;
use crate::rates::{Nearby, Rows, Shifted};

/// Maximum number of tasks for which the best order is found for every choice: a round of 3 tasks has 36 orders, one
/// of 4 has 576. With more tasks, choices are ranked by heuristic orders, and only the best few are ordered
/// thoroughly.
pub(crate) const EXACT_TASKS: usize = 3;
/// Maximum number of tasks for which the best choice can be proven, if all choices can be predicted: the limit of
/// [`QuickBound`].
pub(crate) const PROVEN_TASKS: usize = 4;
/// Maximum number of tasks for which the ranking includes transfers. With more, the heuristic orders contain too many
/// sets of tasks to predict them for thousands of choices.
const RANKED_TASKS: usize = 12;
/// Search nodes and simulated orders (plays) for ordering the best few choices. For plans of 12 mixes of 4 to 8
/// tasks, a tenth and a hundred times of these gave exactly the same makespan, in 7, 20 and 70 milliseconds for 8
/// tasks. The limits bound the time of a plan with more tasks, for which the gap to a lower bound is reported.
const NODES: u64 = 2_000;
const PLAYS: u64 = 5_000;
/// Maximum number of tasks for which a proof of an order is attempted. With more tasks, the number of plays decreases
/// with the square of the tasks, because nearly every play contains sets whose rates were never predicted. With all
/// plays and a bound, neither of which a plan needs, half the time of a plan of 16 tasks was spent on ordering the
/// schemes for comparison.
const PLAYED_TASKS: usize = 8;
/// Plays of the descent that improves the order of the transfers at the end of a climb.
const REORDERED: u64 = 100;
/// Maximum number of tasks for which a plan includes its transfers. With more, nearly every order contains sets of
/// tasks whose rates were never predicted: a plan of 32 tasks took two CPU minutes with transfers, and three seconds
/// without. `mt-overlap` later orders the chosen plan, whatever the number of its tasks.
const MOST_TASKS: usize = 31;
/// Relative excess over a known round up to which a round with extrapolated rates is still evaluated with its own
/// rates. Of 24,000 neighbours of choices of 8 and 12 tasks, 7 and 12 % were evaluated this way, and the others would
/// have contributed 3 % of the gains of all improvements; with 0.002, these figures were 14 and 31 %, and 1 %.
const NEARLY: f64 = 2e-4;
/// Like [`NEARLY`], for a change of two tasks whose rates with all others are extrapolated, too. It is larger because
/// such rates have larger errors. Chosen by hand.
const SEEMINGLY: f64 = 5e-4;
/// Relative excess over a known round up to which a round is still evaluated, so that equally long rounds are
/// distinguished by their content and not by which was seen first. Lengths of rounds are exact to 1e-9.
pub(crate) const ROUNDING: f64 = 1e-8;

/// Why a plan includes compute only and no transfers.
#[derive(Debug, thiserror::Error)]
pub enum NoRound {
    /// Rounds are ordered only on a single GPU.
    #[error("a round is ordered on one GPU, and there are {0}")]
    Gpus(u32),
    /// Ordering each of many choices would take too long.
    #[error("a plan counts the transfers of at most {MOST_TASKS} tasks, and there are {0}")]
    Many(usize),
    /// A task has no samples, or there are more tasks than a round can have.
    #[error(transparent)]
    Tasks(PlanError),
}

/// The current choice of a climb; its order and rates are used to rank its neighbours.
///
/// The best order seldom changes between neighbouring choices. So a neighbour is first evaluated in the order of the
/// current choice with rates extrapolated from it ([`Nearby`]); if promising, with its own rates; and only if that is
/// better, in all heuristic orders. Predictions dominate the cost: each order of `n` tasks contains about `2 n` sets
/// of computing tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guide {
    here: PlayedChoice,
    /// The last choice that was ranked; becomes `here` if the climb moves there.
    next: PlayedChoice,
}

#[derive(Debug, Clone, Default)]
struct PlayedChoice {
    sequence: Vec<usize>,
    settings: Vec<Setting>,
    rows: Rows,
}

impl PlayedChoice {
    fn new(sequence: Vec<usize>, settings: &[Setting]) -> Self {
        Self {
            sequence,
            settings: settings.to_vec(),
            rows: Rows::default(),
        }
    }
}

impl Guide {
    /// Call before another choice is ranked.
    pub(crate) fn forget(&mut self) {
        self.next.sequence.clear();
    }

    /// Call when the climb moves to the last choice that was ranked.
    pub(crate) fn follow(&mut self) {
        if !self.next.sequence.is_empty() {
            self.here = std::mem::take(&mut self.next);
        }
    }
}

/// Transfers and work of the tasks of a round, and whether the device gives idle tasks' shares to
/// computing ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    instance: Instance,
    divides: bool,
    exact: bool,
}

impl Round {
    /// The round of a workload on one GPU.
    ///
    /// # Errors
    /// [`NoRound`] if its transfers cannot be ordered.
    pub fn of_workload(workload: &Workload) -> Result<Self, NoRound> {
        if workload.device.gpus != 1 {
            return Err(NoRound::Gpus(workload.device.gpus));
        }
        if workload.tasks.len() > MOST_TASKS {
            return Err(NoRound::Many(workload.tasks.len()));
        }
        Ok(Self {
            instance: overlap::workload_instance(workload).map_err(NoRound::Tasks)?,
            divides: workload.device.kind == DeviceKind::Cpu,
            exact: workload.tasks.len() <= EXACT_TASKS,
        })
    }

    /// The round of the tasks at these positions after the others have left.
    pub(crate) fn restricted(&self, places: &[usize]) -> Option<Self> {
        let jobs = places.iter().map(|&i| self.instance.jobs()[i]).collect();
        Some(Self {
            // A non-empty part of a valid list of jobs is valid.
            instance: Instance::new(jobs, self.instance.link()).ok()?,
            divides: self.divides,
            exact: places.len() <= EXACT_TASKS,
        })
    }

    fn rates<'p, C: Throughput + ?Sized>(
        &self,
        rates: &'p C,
        settings: &[Setting],
    ) -> ModelRates<'p, C> {
        let tasks = settings.iter().map(|s| s.task).collect();
        let shares = settings.iter().map(|s| s.share).collect();
        let played = ModelRates::new(rates, tasks, shares, &vec![0; settings.len()]);
        if self.divides {
            played.that_divide()
        } else {
            played
        }
    }

    /// A fast bound for rounds of these tasks at many different rates; `None` with too many tasks.
    pub(crate) fn quick_bound(&self) -> Option<QuickBound> {
        QuickBound::new(&self.instance)
    }

    /// Whether the device gives the shares of idle tasks to those that compute.
    pub(crate) fn divides(&self) -> bool {
        self.divides
    }

    /// The same round, ranked by its best order; `None` with more than 4 tasks. It is for proofs, which need the best
    /// order of few choices only; a search with it would take a hundred times as long.
    pub(crate) fn exactly(&self) -> Option<Self> {
        (self.instance.len() <= PROVEN_TASKS).then(|| Self {
            exact: true,
            ..self.clone()
        })
    }

    /// Whether no transfer takes time.
    fn computes_only(&self) -> bool {
        let jobs = self.instance.jobs().iter();
        jobs.map(|j| j.download_s + j.upload_s).sum::<f64>() == 0.0
    }

    /// Whether choices are ranked by their best order rather than by a heuristic one.
    pub(crate) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Seconds by which choices are ranked; infinite if a task makes no progress, or if the round is longer than
    /// `most_s` and that is cheaper to detect.
    pub(crate) fn rank<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        most_s: f64,
        guide: Option<&mut Guide>,
    ) -> f64 {
        if self.is_exact() {
            return self.best(rates, settings, most_s).0;
        }
        // Nothing to order: without transfers all tasks compute from the start.
        if self.computes_only() && !self.divides {
            return self.compute_alone(rates, settings);
        }
        match guide {
            Some(guide) if most_s.is_finite() && !guide.here.sequence.is_empty() => {
                let along = self
                    .along(rates, settings, most_s, &guide.here)
                    .unwrap_or(f64::INFINITY);
                if along < most_s {
                    guide.next = PlayedChoice::new(guide.here.sequence.clone(), settings);
                }
                along
            }
            guide => self.in_order(rates, settings, guide, 0),
        }
    }

    /// Seconds in the best order with the best holds, and whether both are proven, which is always the case for up to
    /// 3 tasks. Infinite as in [`Round::rank`].
    pub(crate) fn best<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        most_s: f64,
    ) -> (f64, bool) {
        // Nearly all choices are worse than the incumbent, and detecting that takes a tenth of the time of ordering
        // them. A choice that is rejected here is proven to be longer.
        if most_s.is_finite() && !self.may_take(rates, settings, most_s) {
            return (f64::INFINITY, true);
        }
        let Ok(played) = self.played(rates, settings) else {
            return (f64::INFINITY, true);
        };
        // On a link that all transfers share, there is nothing to order or hold.
        let waits = played.certificate.class > overlap::Schedules::NeverWaiting
            || self.instance.link() == overlap::Link::Shared;
        let proven = played.proven() && waits;
        (played.schedule.makespan_s, proven)
    }

    /// Seconds in the best order of a descent; `guide` then follows this order.
    pub(crate) fn reordered<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        guide: &mut Guide,
    ) -> f64 {
        self.in_order(rates, settings, Some(guide), REORDERED)
    }

    /// The round in the order of a neighbour; infinite if it is found not to be below `most_s`.
    fn along<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        most_s: f64,
        here: &PlayedChoice,
    ) -> Result<f64, OverlapError> {
        // Evaluate twice, the cheap way first: extrapolated rates need one prediction of all tasks together, the
        // choice's own rates need one for each set of tasks in the round. The extrapolation has errors, so a choice
        // that it finds only slightly too long is still evaluated with its own rates ([`NEARLY`]). A rejected choice
        // is merely not moved to; no proof relies on the rejection.
        let likely = most_s * (1.0 + NEARLY);
        let rough = self.extrapolated(rates, settings, None, likely, here)?;
        if rough >= likely {
            return Ok(f64::INFINITY);
        }
        let played = self.rates(rates, settings);
        let sizes = batches(settings);
        overlap::estimate_along(&self.instance, &played, &sizes, &here.sequence, most_s)
    }

    /// Seconds of the round in the order of a nearby choice, at rates extrapolated from that choice. The rates of all
    /// tasks together are `together` if given, otherwise predicted.
    fn extrapolated<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        together: Option<&[f64]>,
        below_s: f64,
        here: &PlayedChoice,
    ) -> Result<f64, OverlapError> {
        let played = self.rates(rates, settings);
        let sizes = batches(settings);
        let base = self.rates(rates, &here.settings);
        let at = batches(&here.settings);
        let near = Nearby::new(&base, &at, &here.rows, &played, &sizes, together)?;
        overlap::estimate_along(&self.instance, &near, &sizes, &here.sequence, below_s)
    }

    /// Whether the round at these settings seems to take `most_s` or longer. The rates of all tasks together are
    /// `together`; other rates are extrapolated from the current choice of `guide`.
    pub(crate) fn seems_longer<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        together: &[f64],
        most_s: f64,
        guide: &Guide,
    ) -> bool {
        if !most_s.is_finite() || guide.here.sequence.is_empty() {
            return false;
        }
        let likely = most_s * (1.0 + SEEMINGLY);
        let rough = self.extrapolated(rates, settings, Some(together), likely, &guide.here);
        rough.is_ok_and(|rough| rough >= likely)
    }

    /// Seconds in the best of all heuristic orders after a descent of this many plays.
    fn in_order<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        guide: Option<&mut Guide>,
        plays: u64,
    ) -> f64 {
        let played = self.rates(rates, settings);
        let known = guide.as_ref().map_or(&[][..], |g| &g.here.sequence);
        let found = overlap::estimate(&self.instance, &played, &batches(settings), known, plays);
        let Ok(found) = found else {
            return f64::INFINITY;
        };
        if let Some(guide) = guide {
            guide.next = PlayedChoice::new(found.sequence, settings);
        }
        found.makespan_s
    }

    /// Seconds by which choices are ranked if no neighbour is known: like [`Round::rank`], but without transfers if
    /// there are many tasks.
    pub(crate) fn rank_alone<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
    ) -> f64 {
        if self.instance.len() > RANKED_TASKS {
            return self.compute_alone(rates, settings);
        }
        self.rank(rates, settings, f64::INFINITY, None)
    }

    fn compute_alone<C: Throughput + ?Sized>(&self, rates: &C, settings: &[Setting]) -> f64 {
        let work: Vec<f64> = self.instance.jobs().iter().map(|j| j.work).collect();
        finish(rates, settings, &work, 0.0).unwrap_or(f64::INFINITY)
    }

    /// Whether a lower bound allows a round of at most `most_s` at these settings.
    fn may_take<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        most_s: f64,
    ) -> bool {
        let played = self.rates(rates, settings);
        let below_s = most_s * (1.0 + ROUNDING);
        let may =
            overlap::may_end_before(&self.instance, &played, &batches(settings), below_s, NODES);
        may.unwrap_or(false)
    }

    /// The round at these settings in the best order found, with holds if waiting shortens it.
    ///
    /// # Errors
    /// [`OverlapError::BadRate`] if a task makes no progress.
    pub(crate) fn played<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
    ) -> Result<SolvedRound, OverlapError> {
        let n = settings.len();
        // Square, because a play of `n` tasks contains about `2 n` sets, and each takes the prediction of up to `n`
        // rates.
        let (nodes, plays) = match n <= PLAYED_TASKS {
            true => (NODES, PLAYS),
            false => (0, PLAYS * PLAYED_TASKS.pow(2) as u64 / n.pow(2) as u64),
        };
        let options = overlap::OrderOptions {
            batches: settings.iter().map(|s| vec![s.batch]).collect(),
            nodes,
            plays,
            lower_bound: false,
            ..overlap::OrderOptions::default()
        };
        overlap::solve(&self.instance, &self.rates(rates, settings), &options)
    }

    /// Seconds of [`Round::played`]; infinite if a task makes no progress, so that a search ranks such a choice last.
    pub(crate) fn seconds<C: Throughput + ?Sized>(&self, rates: &C, settings: &[Setting]) -> f64 {
        let played = self.played(rates, settings);
        played.map_or(f64::INFINITY, |o| o.schedule.makespan_s)
    }

    /// Seconds of a played round, with the same order and holds, if every rate is `deviations` standard deviations
    /// above its mean.
    ///
    /// # Errors
    /// [`OverlapError::BadRate`] if a rate is not above 0.
    pub(crate) fn shifted<C: Throughput + ?Sized>(
        &self,
        rates: &C,
        settings: &[Setting],
        played: &SolvedRound,
        deviations: f64,
    ) -> Result<f64, OverlapError> {
        let shifted = Shifted {
            inner: rates,
            deviations,
        };
        let rates = self.rates(&shifted, settings);
        let (order, holds) = (&played.order, &played.holds);
        let again = simulate_held(&self.instance, &rates, &batches(settings), order, holds);
        again.map(|s| s.makespan_s)
    }

    /// The co-runs of a round, longest first, each with its fraction of the time in which any task computes.
    pub(crate) fn met(
        &self,
        played: &SolvedRound,
        settings: &[Setting],
    ) -> Vec<(Vec<Setting>, f64)> {
        let phases = played.schedule.phases.iter();
        let computes: Vec<&Phase> = phases.filter(|p| p.kind == PhaseKind::Compute).collect();
        let mut times: Vec<f64> = computes.iter().flat_map(|p| [p.start_s, p.end_s]).collect();
        times.sort_by(f64::total_cmp);
        let mut met: Vec<(Vec<Setting>, f64)> = Vec::new();
        for (from, to) in times.iter().zip(times.iter().skip(1)) {
            let mut now = vec![false; settings.len()];
            for phase in &computes {
                now[phase.task] |= phase.start_s <= *from && phase.end_s >= *to;
            }
            let set = self.corun(settings, &now);
            match met.iter_mut().find(|(known, _)| *known == set) {
                Some((_, seconds)) => *seconds += to - from,
                None if set.is_empty() => {}
                None => met.push((set, to - from)),
            }
        }
        met.sort_by(|a, b| b.1.total_cmp(&a.1));
        let whole: f64 = met.iter().map(|(_, seconds)| seconds).sum();
        met.iter_mut().for_each(|(_, seconds)| *seconds /= whole);
        met
    }

    /// The settings of the tasks that compute, with divided shares if the device redistributes idle shares.
    /// `settings` are those of all tasks, in order.
    pub(crate) fn corun(&self, settings: &[Setting], computes: &[bool]) -> Vec<Setting> {
        let planned: Vec<Share> = settings.iter().map(|s| s.share).collect();
        let shares = match self.divides {
            true => overlap::divided(&planned, computes),
            false => planned,
        };
        let each = settings.iter().zip(shares).zip(computes);
        each.filter(|(_, computes)| **computes)
            .map(|((s, share), _)| Setting { share, ..*s })
            .collect()
    }

    /// Seconds with one task at a time on the whole device, while transfers overlap with the compute of other tasks;
    /// `solo` in samples per second.
    pub(crate) fn one_after_another(&self, solo: &[f64]) -> f64 {
        one_after_another(&self.instance, solo)
    }

    /// A lower bound in seconds on every round at any shares, if no task computes faster in a co-run than alone at
    /// `solo` samples per second. All predictors of this project satisfy that.
    pub(crate) fn at_least(&self, solo: &[f64]) -> f64 {
        let jobs = self.instance.jobs();
        let c = |i: usize| jobs[i].work / solo[i];
        let least =
            |of: &dyn Fn(usize) -> f64| (0..jobs.len()).map(of).fold(f64::INFINITY, f64::min);
        let longest = (0..jobs.len()).map(|i| jobs[i].download_s + c(i) + jobs[i].upload_s);
        let down: f64 = jobs.iter().map(|j| j.download_s).sum();
        let up: f64 = jobs.iter().map(|j| j.upload_s).sum();
        if self.instance.link() == overlap::Link::Shared {
            return longest.fold(0.0, f64::max);
        }
        longest
            .fold(0.0, f64::max)
            .max(down + least(&|i| c(i) + jobs[i].upload_s))
            .max(up + least(&|i| c(i) + jobs[i].download_s))
    }
}

fn batches(settings: &[Setting]) -> Vec<Batch> {
    settings.iter().map(|s| s.batch).collect()
}
