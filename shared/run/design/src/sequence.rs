//! Decides which configurations to measure, and in which order.

mod adaptive;
mod asked;
mod divided;
mod grid;
mod random;
mod rivals;
mod space;

pub use adaptive::{Adaptive, lesson};
pub use random::Random;
pub use space::{Configuration, Space};

use std::collections::VecDeque;

use allocation::Limits;
use device::Rate;
use doc::{DesignKind, StopReason, Workload};
use predict::design::DesignState;
use predict::{Predictor, TaskSpec};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use units::corun::Setting;

use crate::DesignError;
use crate::settings::{self, DesignSettings, Strategy};

/// A sequence of configurations. The same seed and measurements give the same sequence, and a
/// larger budget only adds to it.
pub struct Sequence {
    listed: std::vec::IntoIter<Configuration>,
    chooser: Chooser,
    /// Solo runs to repeat in turn, to notice drift; empty if the device does not drift.
    again: VecDeque<Configuration>,
    /// Co-runs since the last repeated solo run.
    coruns: usize,
    /// Solo runs at partial shares, measured between co-runs; only on devices where measuring takes time.
    parts: VecDeque<Configuration>,
    /// Co-runs since the last solo run at a partial share.
    unparted: usize,
    /// Configurations that may still be measured.
    left: u64,
    /// Total number of configurations, as far as it is known.
    pub length: u64,
    /// Kind of design in the header of the profile.
    pub kind: DesignKind,
}

/// Co-runs between two repeated solo runs: drift is noticed within a few co-runs, at the cost of a
/// seventh of the samples.
const COMPARED_EVERY: usize = 6;

/// Maximum number of configurations that a device is told in advance: enough for the solo runs of 64 tasks, and for
/// more co-runs than can start workers at once. A limit is needed because a grid may have a hundred thousand
/// configurations.
const AHEAD: usize = 128;

/// Co-runs between two solo runs at partial shares. Such solo runs show how a task scales by itself and cost one
/// worker each; their benefit was not measured, so most runs are co-runs.
const PARTED_EVERY: usize = 2;

/// Chooses the configurations after the listed ones.
enum Chooser {
    /// No further configurations, for this reason.
    Nothing(StopReason),
    Random(Box<Random>),
    Adaptive(Box<Adaptive>),
}

/// Inputs of a design besides its settings.
#[derive(Clone, Copy)]
pub struct Conditions<'a> {
    /// The only configurations that can be measured (those of a recording); `None` for any.
    pub only: Option<&'a [Configuration]>,
    /// Whether the device may drift, as real ones do. Then lists are measured in random order, so that drift does not
    /// look like an effect of the order, and solo runs are repeated.
    pub drifts: bool,
    /// A model of a similar workload.
    pub earlier: Option<&'a Predictor>,
    /// Seed of every random choice.
    pub seed: u64,
}

impl Sequence {
    /// Given configurations, in order.
    pub fn given(configurations: Vec<Configuration>) -> Self {
        Self {
            length: configurations.len() as u64,
            listed: configurations.into_iter(),
            chooser: Chooser::Nothing(StopReason::Complete),
            again: VecDeque::new(),
            coruns: 0,
            parts: VecDeque::new(),
            unparted: 0,
            left: u64::MAX,
            kind: DesignKind::Given,
        }
    }

    /// The design according to the settings: every task alone at each of its batch sizes, then co-runs.
    pub fn designed(
        workload: &Workload,
        settings: &DesignSettings,
        conditions: Conditions<'_>,
    ) -> Result<Self, DesignError> {
        let mut plan = Self::without_repeats(workload, settings, conditions)?;
        if conditions.drifts {
            plan.between(workload, settings, conditions)?;
        }
        Ok(plan)
    }

    /// For a device where measuring takes time: adds solo runs between the co-runs (at partial shares, and repeated
    /// ones), and applies the budget to all measurements. The solo runs on the whole device and one co-run are always
    /// measured, because nothing can be learnt without them.
    fn between(
        &mut self,
        workload: &Workload,
        settings: &DesignSettings,
        conditions: Conditions<'_>,
    ) -> Result<(), DesignError> {
        let listed = self.listed.as_slice();
        let solos: Vec<&Configuration> = listed.iter().filter(|c| c.len() == 1).collect();
        for &solo in &solos {
            if self.again.iter().all(|c| c[0].task != solo[0].task) {
                self.again.push_back(solo.clone());
            }
        }
        if conditions.only.is_none() {
            let mut parts = Space::new(workload, settings, None)?.part_solos();
            // Use another random stream than the design.
            parts.shuffle(&mut StdRng::seed_from_u64(!conditions.seed));
            self.parts = parts.into();
        }
        let several = u64::from(workload.tasks.len() > 1);
        let least = solos.len() as u64 + several;
        let coruns = self.length.saturating_sub(solos.len() as u64);
        let repeats = several * (coruns / COMPARED_EVERY as u64);
        let all = self
            .length
            .saturating_add(self.parts.len() as u64 + repeats);
        self.left = settings.budget.unwrap_or(u64::MAX).max(least).min(all);
        self.length = self.left;
        Ok(())
    }

    fn without_repeats(
        workload: &Workload,
        settings: &DesignSettings,
        conditions: Conditions<'_>,
    ) -> Result<Self, DesignError> {
        let only = conditions.only;
        let space = Space::new(workload, settings, only)?;
        let mut rng = StdRng::seed_from_u64(conditions.seed);
        let mut solos = space.solos();
        if let Some(only) = only {
            solos.retain(|solo| only.contains(solo));
        }
        if conditions.drifts {
            solos.shuffle(&mut rng);
        }
        let alone = workload.tasks.len() == 1;
        let budget = settings.budget.unwrap_or(u64::MAX);
        let coruns = match (settings.strategy, only) {
            (Strategy::Adaptive, _) if !alone => {
                let adaptive = adaptive(workload, settings, conditions, space)?;
                let chooser = Chooser::Adaptive(Box::new(adaptive));
                return Ok(Self::open(solos, chooser, DesignKind::Adaptive, budget));
            }
            // A single task has no co-runs; its partial shares show how it scales.
            (Strategy::Adaptive, None) if conditions.drifts => Vec::new(),
            (Strategy::Adaptive | Strategy::Random, None) => {
                let chooser =
                    Chooser::Random(Box::new(Random::new(space, rng, settings.subsets, budget)));
                return Ok(Self::open(solos, chooser, DesignKind::Random, budget));
            }
            (_, Some(only)) => recorded(only, &solos),
            (Strategy::Grid, None) => grid::grid(&space)?,
        };
        let kind = match settings.strategy {
            Strategy::Grid => DesignKind::Grid,
            Strategy::Random | Strategy::Adaptive => DesignKind::Random,
        };
        let shuffle = conditions.drifts || settings.budget.is_some();
        let rng = shuffle.then_some(&mut rng);
        Ok(Self::list(solos, coruns, kind, budget, rng))
    }

    /// Solo runs, then the co-runs of a chooser.
    fn open(solos: Vec<Configuration>, chooser: Chooser, kind: DesignKind, budget: u64) -> Self {
        Self {
            length: (solos.len() as u64).saturating_add(budget),
            listed: solos.into_iter(),
            chooser,
            again: VecDeque::new(),
            coruns: 0,
            parts: VecDeque::new(),
            unparted: 0,
            left: u64::MAX,
            kind,
        }
    }

    /// Solo runs, then at most `budget` co-runs of a list.
    fn list(
        mut solos: Vec<Configuration>,
        mut coruns: Vec<Configuration>,
        kind: DesignKind,
        budget: u64,
        rng: Option<&mut StdRng>,
    ) -> Self {
        if let Some(rng) = rng {
            coruns.shuffle(rng);
        }
        let wanted = usize::try_from(budget).unwrap_or(usize::MAX);
        let stopped = if wanted < coruns.len() {
            StopReason::Budget
        } else {
            StopReason::Complete
        };
        coruns.truncate(wanted);
        solos.append(&mut coruns);
        Self {
            length: solos.len() as u64,
            listed: solos.into_iter(),
            chooser: Chooser::Nothing(stopped),
            again: VecDeque::new(),
            coruns: 0,
            parts: VecDeque::new(),
            unparted: 0,
            left: u64::MAX,
            kind,
        }
    }

    /// The next configuration to measure.
    pub fn next_configuration(&mut self) -> Result<Option<Configuration>, DesignError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        let next = self.following()?;
        self.left = if next.is_some() { left } else { 0 };
        Ok(next)
    }

    fn following(&mut self) -> Result<Option<Configuration>, DesignError> {
        if self.coruns == COMPARED_EVERY {
            self.coruns = 0;
            if let Some(solo) = self.again.pop_front() {
                self.again.push_back(solo.clone());
                return Ok(Some(solo));
            }
        }
        if self.unparted == PARTED_EVERY {
            self.unparted = 0;
            if let Some(part) = self.next_part() {
                return Ok(Some(part));
            }
        }
        let next = self.designed_next()?;
        let together = next.as_ref().is_some_and(|c| c.len() > 1);
        self.coruns += usize::from(together);
        self.unparted += usize::from(together);
        Ok(next.or_else(|| self.parts.pop_front()))
    }

    /// The next solo run at a partial share: in an adaptive design, preferably that of a task that ends its round
    /// alone in the best co-run so far.
    fn next_part(&mut self) -> Option<Configuration> {
        let wanted = match &self.chooser {
            Chooser::Adaptive(adaptive) => adaptive.left_alone(),
            Chooser::Nothing(_) | Chooser::Random(_) => None,
        };
        let Some(wanted) = wanted else {
            return self.parts.pop_front();
        };
        self.parts.retain(|part| *part != wanted);
        Some(wanted)
    }

    fn designed_next(&mut self) -> Result<Option<Configuration>, DesignError> {
        if let Some(listed) = self.listed.next() {
            return Ok(Some(listed));
        }
        match &mut self.chooser {
            Chooser::Nothing(_) => Ok(None),
            Chooser::Random(random) => Ok(random.next()),
            Chooser::Adaptive(adaptive) => adaptive.next_configuration(),
        }
    }

    /// The next configurations in order, as far as they are already known.
    pub fn coming(&self) -> Vec<Configuration> {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let chosen = match &self.chooser {
            Chooser::Adaptive(adaptive) => Some(adaptive.coming()),
            Chooser::Nothing(_) | Chooser::Random(_) => None,
        };
        let listed = self.listed.as_slice().iter();
        let all = listed.chain(chosen.into_iter().flatten());
        all.take(left.min(AHEAD)).cloned().collect()
    }

    /// Learns the rates of a configuration; `None` if it could not be measured.
    pub fn observe(&mut self, configuration: &[Setting], rates: Option<&[Rate]>) {
        if let Chooser::Adaptive(adaptive) = &mut self.chooser {
            let lesson = rates.map(|rates| lesson(configuration, rates));
            adaptive.observe(configuration, lesson);
        }
    }

    /// State of an adaptive design.
    pub fn progress(&self) -> Option<&DesignState> {
        match &self.chooser {
            Chooser::Adaptive(adaptive) => adaptive.progress.as_ref(),
            Chooser::Nothing(_) | Chooser::Random(_) => None,
        }
    }

    /// Ends an adaptive design, because no expected gain is worth a measurement.
    pub fn end(&mut self) {
        if let Chooser::Adaptive(adaptive) = &mut self.chooser {
            adaptive.stopped = Some(StopReason::Tolerance);
        }
    }

    /// Why there is no next configuration.
    pub fn stopped(&self) -> StopReason {
        let more = !self.parts.is_empty() || self.listed.len() > 0;
        match &self.chooser {
            Chooser::Nothing(_) if more => StopReason::Budget,
            Chooser::Nothing(stopped) => *stopped,
            Chooser::Random(random) if random.exhausted() => StopReason::Complete,
            Chooser::Random(_) => StopReason::Budget,
            Chooser::Adaptive(adaptive) => adaptive.stopped.unwrap_or(StopReason::Budget),
        }
    }
}

fn adaptive(
    workload: &Workload,
    settings: &DesignSettings,
    conditions: Conditions<'_>,
    space: Space,
) -> Result<Adaptive, DesignError> {
    let tasks = TaskSpec::all(workload);
    let objective = settings.aim(workload).objective;
    let asked = asked::Asked {
        workload: workload.clone(),
        objective,
        limits: Limits {
            step: settings.step,
            floor: settings.floor,
            memory: workload.device.memory,
            policy: settings.policy(workload, conditions.only.is_some()),
            ..Limits::default()
        },
    };
    let wanted = adaptive::AdaptiveSettings {
        goal: settings::goal(objective, workload)?,
        plan: asked,
        floor: settings.floor,
        budget: settings.budget.unwrap_or(u64::MAX),
        tolerance: settings.tolerance,
        subsets: settings.subsets,
        seed: conditions.seed,
    };
    Ok(Adaptive::new(
        space,
        tasks,
        wanted,
        conditions.only,
        conditions.earlier,
    ))
}

/// The recorded configurations other than the solo runs.
fn recorded(only: &[Configuration], solos: &[Configuration]) -> Vec<Configuration> {
    let others = only.iter().filter(|c| !solos.contains(c));
    others.cloned().collect()
}

#[cfg(test)]
mod tests;
