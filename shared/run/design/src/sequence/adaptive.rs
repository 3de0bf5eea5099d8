//! Co-runs chosen one at a time by their expected gain.

use std::collections::{BTreeSet, VecDeque};

use doc::StopReason;
use predict::design::{Design, DesignState, Goal, Step, coruns_per_fit, fit_so_far};
use predict::{Dataset, Predictor, Sample, TaskSpec};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use units::corun::Setting;
use units::{Batch, Share};

use crate::DesignError;

use super::asked::Asked;
use super::space::{Configuration, Space};

/// Number of co-runs before expected improvement decides: the baselines, then some spread over the promising region.
pub(super) const STARTS: usize = 8;

/// Settings of an adaptive design.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveSettings {
    /// Goal of the measurements.
    pub goal: Goal,
    /// The plan that the measurements serve.
    pub plan: Asked,
    /// Floor: minimum throughput of every task in the best configuration, relative to its solo rate.
    pub floor: f64,
    /// Co-runs to measure.
    pub budget: u64,
    /// Relative expected gain below which the design ends. On several GPUs no gain is computed; any tolerance above 0
    /// then ends the design once the plan has been measured.
    pub tolerance: f64,
    /// Fraction of the co-runs that leave a task out, 0 to 1.
    pub subsets: f64,
    /// Seed of every random choice.
    pub seed: u64,
}

/// For several GPUs: divisions of the tasks among the GPUs, whose parts are measured as co-runs.
#[derive(Debug, Default)]
pub(super) struct Divisions {
    /// Parts of the current division that have not been measured.
    pub(super) queue: VecDeque<Configuration>,
    /// Parts of the last plan.
    pub(super) plan: Vec<Configuration>,
    /// Number of divisions begun.
    pub(super) divisions: u64,
}

/// Chooses the co-runs of an adaptive design; solo runs are measured before. It starts with the schemes that plans are
/// compared with, because other co-runs tell little about these edges of the space, above all full sharing. Some
/// co-runs are the best one so far with tasks left out, which the ordering of transfers needs.
pub struct Adaptive {
    pub(super) space: Space,
    pub(super) wanted: AdaptiveSettings,
    /// Divisions of the tasks, on several GPUs.
    pub(super) parts: Divisions,
    starts: std::vec::IntoIter<Configuration>,
    pub(super) only: Option<BTreeSet<Configuration>>,
    pub(super) data: Dataset,
    pub(super) tried: BTreeSet<Configuration>,
    pub(super) earlier: Option<Predictor>,
    pub(super) coruns: u64,
    /// The model of all measurements so far; fitted on demand.
    pub(super) fitted: Option<Predictor>,
    /// Further co-runs that the last model chose.
    pub(super) pending_batch: VecDeque<Configuration>,
    /// Solo runs at partial shares that occur in the rounds of the best choices and were not measured yet.
    pub(super) alone: Vec<Configuration>,
    /// Whether the last co-run chosen by a model was the plan.
    planned_last: bool,
    /// State of the design when the last co-run was chosen.
    pub progress: Option<DesignState>,
    /// Why the design has ended; `None` if it has not.
    pub stopped: Option<StopReason>,
}

impl Adaptive {
    /// An adaptive design over a space; `only` limits it to recorded configurations. A model of a similar workload
    /// replaces the spread co-runs at the start.
    pub fn new(
        space: Space,
        tasks: Vec<TaskSpec>,
        wanted: AdaptiveSettings,
        only: Option<&[Configuration]>,
        earlier: Option<&Predictor>,
    ) -> Self {
        let mut adaptive = Self {
            parts: Divisions::default(),
            starts: Vec::new().into_iter(),
            only: only.map(|only| only.iter().cloned().collect()),
            data: Dataset {
                tasks,
                samples: Vec::new(),
            },
            tried: BTreeSet::new(),
            earlier: earlier.cloned(),
            coruns: 0,
            fitted: None,
            pending_batch: VecDeque::new(),
            alone: Vec::new(),
            planned_last: false,
            progress: None,
            stopped: None,
            space,
            wanted,
        };
        if adaptive.gpus() > 1 {
            return adaptive;
        }
        let mut starts: Vec<Configuration> = Vec::new();
        if let Some(model) = earlier {
            let best = adaptive.with_design(|design| design.best(model));
            starts.extend(best.map(|(active, _)| runs(&active)));
        }
        if earlier.is_none() {
            let all: Vec<usize> = (0..adaptive.space.task_count()).collect();
            let sizes = adaptive.scheme_sizes();
            starts.extend(schemes(&adaptive.space, &all, &sizes));
        }
        starts.retain(|runs| adaptive.may(runs));
        adaptive.starts = starts.into_iter();
        adaptive
    }

    /// Whether a configuration is available in `only` and allowed by the space.
    pub(super) fn may(&self, configuration: &[Setting]) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| only.contains(configuration))
            && self.space.allows(configuration)
            && self.space.fits(configuration)
    }

    fn with_design<T>(&self, ask: impl FnOnce(&Design<'_>) -> T) -> T {
        let failed: BTreeSet<&Configuration> = self
            .tried
            .iter()
            .filter(|runs| !self.data.samples.iter().any(|s| s.active == active(runs)))
            .collect();
        let admissible = |active: &[Setting]| {
            let runs = runs(active);
            self.may(&runs) && !failed.contains(&runs)
        };
        let batches = self.measured_batches();
        let shrink = |active: &mut [Setting]| self.space.shrink(active, &batches);
        ask(&Design {
            batches: batches.clone(),
            shares: self.space.shares.clone(),
            goal: self.wanted.goal.clone(),
            rounds: &|active| self.wanted.plan.rounds(active),
            floor: self.wanted.floor,
            admissible: &admissible,
            shrink: &shrink,
            tolerance: self.wanted.tolerance,
            starts: STARTS,
            earlier: self.earlier.as_ref(),
            fitted: self.fitted.as_ref(),
            seed: self.wanted.seed,
        })
    }

    /// Batch sizes of the schemes: the largest ones of co-runs. For progress, which large batches slow, the reference
    /// sizes of the number of rounds.
    pub(super) fn scheme_sizes(&self) -> Vec<Batch> {
        let plan = &self.wanted.plan;
        let size = |(i, task): (usize, &doc::Task)| match self.space.batches(i).last() {
            Some(&largest) if !plan.counts_rounds() => largest,
            _ => task.reference(),
        };
        plan.workload.tasks.iter().enumerate().map(size).collect()
    }

    /// Batch sizes of each task with a known solo rate; all of them if there are none.
    pub(super) fn measured_batches(&self) -> Vec<Vec<Batch>> {
        let measured = |task: usize, batch: Batch| {
            let solo = Setting {
                task,
                batch,
                share: Share::FULL,
            };
            self.data.samples.iter().any(|s| s.active == [solo])
        };
        (0..self.space.task_count())
            .map(|task| {
                let all = self.space.batches(task).iter().copied();
                if self.data.samples.is_empty() {
                    return all.collect();
                }
                all.filter(|&batch| measured(task, batch)).collect()
            })
            .collect()
    }

    /// The next co-run.
    pub fn next_configuration(&mut self) -> Result<Option<Configuration>, DesignError> {
        if self.stopped.is_some() {
            return Ok(None);
        }
        if self.coruns >= self.wanted.budget {
            self.stopped = Some(StopReason::Budget);
            return Ok(None);
        }
        let next = if self.gpus() > 1 {
            self.next_part()
        } else {
            let start = self.starts.by_ref().find(|runs| !self.tried.contains(runs));
            // Co-runs that the last model chose come first, because rivals need a new fit.
            let chosen = match coruns_per_fit(self.space.task_count()) > 1 && start.is_none() {
                true => self.of_subsets().or_else(|| self.of_pending_batch()),
                false => start,
            };
            if let Some(runs) = chosen.or_else(|| self.of_rivals()) {
                // Rivals may repeat a configuration that was measured before.
                self.tried.insert(runs.clone());
                self.coruns += 1;
                return Ok(Some(runs));
            }
            match self.of_subsets().or_else(|| self.planned_in_turn()) {
                Some(runs) => Some(runs),
                None => self.improve()?,
            }
        };
        match next {
            Some(runs) if self.tried.insert(runs.clone()) => {
                self.coruns += 1;
                Ok(Some(runs))
            }
            _ => {
                self.stopped.get_or_insert(StopReason::Complete);
                Ok(None)
            }
        }
    }

    /// The co-runs that are already chosen.
    pub(super) fn coming(&self) -> impl Iterator<Item = &Configuration> {
        let starts = self.starts.as_slice().iter();
        let corun_budget = self.wanted.budget.saturating_sub(self.coruns);
        let left = usize::try_from(corun_budget).unwrap_or(usize::MAX);
        let all = starts.chain(&self.pending_batch).take(left);
        all.filter(|runs| !self.tried.contains(*runs))
    }

    fn of_subsets(&self) -> Option<Configuration> {
        self.is_turn_of_subsets().then(|| self.part_of_best())?
    }

    /// Whether the next co-run should leave a task out.
    pub(super) fn is_turn_of_subsets(&self) -> bool {
        if self.wanted.subsets <= 0.0 {
            return false;
        }
        let every = (1.0 / self.wanted.subsets).round() as u64;
        self.coruns >= STARTS as u64 && self.coruns.is_multiple_of(every.max(1))
    }

    /// With many tasks, the next co-run chosen by the last model.
    fn of_pending_batch(&mut self) -> Option<Configuration> {
        while let Some(runs) = self.pending_batch.pop_front() {
            if self.may(&runs) && !self.tried.contains(&runs) {
                return Some(runs);
            }
        }
        None
    }

    /// The plan, in its turn; if one model chooses several co-runs, once for each such batch.
    fn planned_in_turn(&mut self) -> Option<Configuration> {
        let again = self.planned_last && coruns_per_fit(self.space.task_count()) > 1;
        let plan = if again { None } else { self.planned() };
        self.planned_last = plan.is_some();
        plan
    }

    /// The plan that would be chosen now, in every second turn until it is measured. The user will run it, so it should
    /// be measured and not only predicted; this also detects an optimistic prediction. For a round, these are all sets
    /// of tasks that run together in it. It alternates from the start, and not only at the end, because the sequence
    /// must not depend on the remaining budget, so that a profile can be resumed with a larger budget.
    fn planned(&mut self) -> Option<Configuration> {
        let together = self.data.samples.iter().filter(|s| s.active.len() > 1);
        let count = together.count();
        let out_of_turn = count % 2 == 1 && coruns_per_fit(self.space.task_count()) == 1;
        if self.earlier.is_some() || count < STARTS || out_of_turn {
            return None;
        }
        let mut plan = self.plan_so_far().into_iter();
        plan.find(|runs| self.may(runs) && !self.tried.contains(runs))
    }

    /// Fits a model to all measurements so far. There is none if nothing can be learnt yet; the design reports that.
    pub(super) fn fit(&mut self) {
        if self.fitted.is_none() {
            self.fitted = fit_so_far(&self.data).ok();
        }
    }

    /// The best plan by the model of all measurements so far.
    pub(super) fn plan_so_far(&mut self) -> Vec<Configuration> {
        self.fit();
        let plan = |model| self.wanted.plan.by_model(model, self.wanted.seed);
        self.fitted.as_ref().map_or_else(Vec::new, plan)
    }

    /// The best co-run of all tasks so far.
    fn best_so_far(&self) -> Option<&Sample> {
        let n = self.space.task_count();
        let value = |sample: &Sample| {
            let solo = sample
                .active
                .iter()
                .map(|a| self.solo(a))
                .collect::<Option<Vec<f64>>>()?;
            let kept = Goal::MaxMin.value(&sample.throughput, &solo) >= self.wanted.floor;
            let value = self.wanted.goal.value(&sample.throughput, &solo);
            Some((kept, value / self.wanted.plan.rounds(&sample.active)))
        };
        let whole = self.data.samples.iter().filter(|s| s.active.len() == n);
        whole
            .filter_map(|sample| Some((value(sample)?, sample)))
            .max_by(|((kept, a), _), ((also, b), _)| kept.cmp(also).then(a.total_cmp(b)))
            .map(|(_, sample)| sample)
    }

    /// A solo run of a task at its share in the best co-run so far, the task with the longest training first. At the
    /// end of a round the last task runs alone, but still at its share. Co-runs do not show its throughput there:
    /// without these solo runs, models of simulated mixes of four to six tasks predicted it 5 to 10 % too high.
    pub(super) fn left_alone(&self) -> Option<Configuration> {
        if self.coruns < STARTS as u64 || self.earlier.is_some() {
            return None;
        }
        let wanted = self.alone.iter().find(|runs| !self.tried.contains(*runs));
        if let Some(runs) = wanted {
            return Some(runs.clone());
        }
        let best = self.best_so_far()?;
        let length = |run: &Setting, rate: f64| {
            let samples = self.wanted.plan.workload.tasks[run.task].samples;
            samples.map_or(1.0, units::Samples::as_f64) / rate
        };
        let each = best.active.iter().zip(&best.throughput);
        let mut each: Vec<(f64, Setting)> =
            each.map(|(run, &rate)| (length(run, rate), *run)).collect();
        each.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut alone = each.into_iter().map(|(_, run)| vec![run]);
        alone.find(|runs| {
            runs[0].share < Share::FULL && self.may(runs) && !self.tried.contains(runs)
        })
    }

    /// The best co-run of all tasks so far with some tasks left out; only for three or more tasks.
    fn part_of_best(&self) -> Option<Configuration> {
        let n = self.space.task_count();
        if n < 3 {
            return None;
        }
        let best = runs(&self.best_so_far()?.active);
        let mut rng = StdRng::seed_from_u64(self.wanted.seed ^ (self.coruns << 32));
        // Try as many times as a small workload has subsets.
        for _ in 0..(1 << n.min(7)) {
            let size = rand::Rng::random_range(&mut rng, 2..n);
            let mut keep = sample(&mut rng, n, size).into_vec();
            keep.sort_unstable();
            let part: Configuration = keep.iter().map(|&i| best[i]).collect();
            if self.may(&part) && !self.tried.contains(&part) {
                return Some(part);
            }
        }
        None
    }

    /// Solo throughput of a task at the best of its measured batch sizes; `None` if none was measured.
    pub(super) fn solo(&self, run: &Setting) -> Option<f64> {
        let alone = |s: &&Sample| matches!(s.active[..], [a] if a.task == run.task && a.share == Share::FULL);
        let samples = self.data.samples.iter().filter(alone);
        let rates = samples.filter_map(|s| s.throughput.first().copied());
        rates.reduce(f64::max)
    }

    fn improve(&mut self) -> Result<Option<Configuration>, DesignError> {
        if self.measured_batches().iter().any(Vec::is_empty) {
            // Without a solo run of the task, there is no reference for its co-runs.
            return Ok(None);
        }
        let step = self.with_design(|design| design.next(&self.data))?;
        match step {
            Step::Measure {
                active,
                more,
                state,
                ..
            } => {
                self.pending_batch = more.iter().map(|active| runs(active)).collect();
                if state.is_some() {
                    self.progress = state;
                }
                Ok(Some(runs(&active)))
            }
            Step::Stop(progress) => {
                self.progress = Some(progress);
                self.stopped = Some(StopReason::Tolerance);
                Ok(None)
            }
        }
    }

    /// Learns a measurement; `None` if the configuration could not be measured.
    pub fn observe(&mut self, configuration: &[Setting], measured: Option<Sample>) {
        self.tried.insert(configuration.to_vec());
        if let Some(sample) = measured {
            self.data.samples.push(sample);
            self.fitted = None;
        }
    }
}

/// The schemes that plans of some tasks are compared with, at one batch size of each task, if they fit into memory:
/// 100 % each, `100/n`, `200/n`, 60 and 80 %.
pub(super) fn schemes(space: &Space, tasks: &[usize], sizes: &[Batch]) -> Vec<Configuration> {
    let n = tasks.len() as u32;
    let full = Share::FULL.hundredths();
    let hundredths = [
        full,
        full / n.max(1),
        (2 * full / n.max(1)).min(full),
        6_000,
        8_000,
    ];
    hundredths
        .into_iter()
        .filter_map(|share| {
            let runs: Option<Configuration> = tasks
                .iter()
                .map(|&task| {
                    Some(Setting {
                        task,
                        batch: *sizes.get(task)?,
                        share: Share::from_hundredths(share),
                    })
                })
                .collect();
            runs.map(|runs| space.shrunk(runs))
        })
        .collect()
}

fn runs(active: &[Setting]) -> Configuration {
    let run = |a: &Setting| Setting {
        task: a.task,
        batch: a.batch,
        share: a.share,
    };
    active.iter().map(run).collect()
}

fn active(runs: &[Setting]) -> Vec<Setting> {
    let active = |r: &Setting| Setting {
        task: r.task,
        batch: r.batch,
        share: r.share,
    };
    runs.iter().map(active).collect()
}

/// A measured configuration as a sample for the predictor.
pub fn lesson(runs: &[Setting], rates: &[device::Rate]) -> Sample {
    let stderr: Option<Vec<f64>> = rates.iter().map(|r| r.stderr.map(|s| s.get())).collect();
    Sample {
        active: active(runs),
        throughput: rates.iter().map(|r| r.throughput.get()).collect(),
        stderr,
    }
}
