//! Co-runs chosen one after another by what they are expected to gain.

use std::collections::BTreeSet;

use corun::Setting;
use doc::StopReason;
use predict::design::{Design, Goal, Progress, Step};
use predict::{Dataset, Predictor, Sample, TaskSpec};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use units::{Batch, Share};

use crate::DesignError;

use super::asked::Asked;
use super::{Configuration, Space};

/// Co-runs before expected improvement decides: the baselines, then some spread over what looks
/// promising.
pub(super) const STARTS: usize = 8;

/// Settings of an adaptive design.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// What the measurements are for.
    pub goal: Goal,
    /// The plan that they are for; `None`: of several GPUs.
    pub plan: Option<Asked>,
    /// Least throughput of every task relative to alone that the best is to keep.
    pub floor: f64,
    /// Co-runs to measure.
    pub budget: u64,
    /// Relative expected gain that is not worth another co-run.
    pub tolerance: f64,
    /// Part of the co-runs that leaves a task out, 0 to 1.
    pub subsets: f64,
    /// Seed of every random choice.
    pub seed: u64,
}

/// Solo runs are measured before; this chooses the co-runs. It begins with the schemes that plans
/// are compared with, since full sharing above all is an edge of the space that others tell
/// little of; some of the co-runs are the best one so far with a task left out, which the
/// ordering of transfers needs.
pub struct Adaptive {
    space: Space,
    wanted: Wanted,
    starts: std::vec::IntoIter<Configuration>,
    only: Option<BTreeSet<Configuration>>,
    data: Dataset,
    tried: BTreeSet<Configuration>,
    earlier: Option<Predictor>,
    coruns: u64,
    /// How things stood when the last co-run was chosen.
    pub progress: Option<Progress>,
    /// Why there is no next one, once there is none.
    pub stopped: Option<StopReason>,
}

impl Adaptive {
    /// An adaptive design over a space; `only` limits it to what can be measured. A model of a
    /// similar workload says where to begin, and stands in for the spread starts.
    pub fn new(
        space: Space,
        tasks: Vec<TaskSpec>,
        wanted: Wanted,
        only: Option<&[Configuration]>,
        earlier: Option<&Predictor>,
    ) -> Self {
        let mut adaptive = Self {
            starts: Vec::new().into_iter(),
            only: only.map(|only| only.iter().cloned().collect()),
            data: Dataset {
                tasks,
                samples: Vec::new(),
            },
            tried: BTreeSet::new(),
            earlier: earlier.cloned(),
            coruns: 0,
            progress: None,
            stopped: None,
            space,
            wanted,
        };
        let mut starts: Vec<Configuration> = Vec::new();
        if let Some(model) = earlier {
            let best = adaptive.with_design(|design| design.best(model));
            starts.extend(best.map(|(active, _)| runs(&active)));
        }
        if earlier.is_none() {
            starts.extend(schemes(&adaptive.space));
        }
        starts.retain(|runs| adaptive.may(runs));
        adaptive.starts = starts.into_iter();
        adaptive
    }

    /// Whether a configuration can and may be measured.
    fn may(&self, configuration: &[Setting]) -> bool {
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
        ask(&Design {
            batches: self.measured_batches(),
            shares: self.space.shares.clone(),
            goal: self.wanted.goal.clone(),
            floor: self.wanted.floor,
            admissible: &admissible,
            tolerance: self.wanted.tolerance,
            starts: STARTS,
            earlier: self.earlier.as_ref(),
            seed: self.wanted.seed,
        })
    }

    /// Batch sizes of each task whose solo rate is known; all of them as long as none is.
    fn measured_batches(&self) -> Vec<Vec<Batch>> {
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
        let next = match self.start_or_part() {
            Some(runs) => Some(runs),
            None => match self.planned() {
                Some(runs) => Some(runs),
                None => self.improve()?,
            },
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

    fn start_or_part(&mut self) -> Option<Configuration> {
        for runs in self.starts.by_ref() {
            if !self.tried.contains(&runs) {
                return Some(runs);
            }
        }
        let every = if self.wanted.subsets > 0.0 {
            (1.0 / self.wanted.subsets).round() as u64
        } else {
            return None;
        };
        if self.coruns < STARTS as u64 || !self.coruns.is_multiple_of(every.max(1)) {
            return None;
        }
        self.part_of_best()
    }

    /// The plan that would be chosen now, in every second turn until it is measured: what the user
    /// will run is then known and not predicted, and a prediction that is too good is found out.
    /// In turns throughout rather than at the end: how much is still to come must change nothing,
    /// so that a profile can be gone on with under a larger budget.
    fn planned(&self) -> Option<Configuration> {
        let together = self.data.samples.iter().filter(|s| s.active.len() > 1);
        let count = together.count();
        if self.earlier.is_some() || count < STARTS || count % 2 == 1 {
            return None;
        }
        let asked = self.wanted.plan.as_ref()?;
        let plan = asked.best(&self.data, self.wanted.seed)?;
        (self.may(&plan) && !self.tried.contains(&plan)).then_some(plan)
    }

    /// The best co-run of all tasks so far with some of three or more left out.
    fn part_of_best(&self) -> Option<Configuration> {
        let n = self.space.task_count();
        if n < 3 {
            return None;
        }
        let value = |sample: &Sample| {
            let solo: Option<Vec<f64>> = sample.active.iter().map(|a| self.solo(a)).collect();
            let solo = solo?;
            let kept = Goal::MaxMin.value(&sample.throughput, &solo) >= self.wanted.floor;
            Some((kept, self.wanted.goal.value(&sample.throughput, &solo)))
        };
        let whole = self.data.samples.iter().filter(|s| s.active.len() == n);
        let best = whole
            .filter_map(|sample| Some((value(sample)?, sample)))
            .max_by(|((kept, a), _), ((also, b), _)| kept.cmp(also).then(a.total_cmp(b)))?
            .1;
        let best = runs(&best.active);
        let mut rng = StdRng::seed_from_u64(self.wanted.seed ^ (self.coruns << 32));
        // As many tries as there are parts of a small workload.
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

    /// Throughput of a task alone at the best of its batch sizes, as far as measured.
    fn solo(&self, run: &Setting) -> Option<f64> {
        let alone = |s: &&Sample| matches!(s.active[..], [a] if a.task == run.task && a.share == Share::FULL);
        let samples = self.data.samples.iter().filter(alone);
        let rates = samples.filter_map(|s| s.throughput.first().copied());
        rates.reduce(f64::max)
    }

    fn improve(&mut self) -> Result<Option<Configuration>, DesignError> {
        if self.measured_batches().iter().any(Vec::is_empty) {
            // A task that never ran alone cannot be compared with anything.
            return Ok(None);
        }
        let step = self.with_design(|design| design.next(&self.data))?;
        match step {
            Step::Measure { active, state, .. } => {
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

    /// Learns what was measured; `None`: it could not be.
    pub fn observe(&mut self, configuration: &[Setting], measured: Option<Sample>) {
        self.tried.insert(configuration.to_vec());
        self.data.samples.extend(measured);
    }
}

/// The schemes that plans are compared with, at the largest batch sizes that fit: everyone 100 %,
/// `100/n`, `200/n`, 60 and 80 %.
fn schemes(space: &Space) -> Vec<Configuration> {
    let n = space.task_count() as u32;
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
            let runs: Option<Configuration> = (0..space.task_count())
                .map(|task| {
                    Some(Setting {
                        task,
                        batch: *space.batches(task).last()?,
                        share: Share::from_hundredths(share),
                    })
                })
                .collect();
            runs
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

/// What a measured configuration teaches.
pub fn lesson(runs: &[Setting], rates: &[device::Rate]) -> Sample {
    let stderr: Option<Vec<f64>> = rates.iter().map(|r| r.stderr.map(|s| s.get())).collect();
    Sample {
        active: active(runs),
        throughput: rates.iter().map(|r| r.throughput.get()).collect(),
        stderr,
    }
}
