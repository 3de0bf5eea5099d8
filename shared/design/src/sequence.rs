//! Which configurations to measure, and in which order.

mod adaptive;
mod asked;
mod divided;
mod grid;
mod random;
mod space;

pub use adaptive::{Adaptive, lesson};
pub use random::Random;
pub use space::{Configuration, Space};

use std::collections::VecDeque;

use allocation::Limits;
use corun::Setting;
use device::Rate;
use doc::{DesignKind, StopReason, Workload};
use predict::design::Progress;
use predict::{Predictor, TaskSpec};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use units::Share;

use crate::DesignError;
use crate::settings::{self, DesignSettings, Strategy};

/// A sequence of configurations. The same seed and measurements give the same sequence, and a
/// larger budget only adds to it.
pub struct Sequence {
    listed: std::vec::IntoIter<Configuration>,
    chooser: Chooser,
    /// Solo runs to measure again in turn, so that drift shows; none where nothing drifts.
    again: VecDeque<Configuration>,
    /// Co-runs since the last of them.
    coruns: usize,
    /// Configurations in all, as far as that is known.
    pub length: u64,
    /// What the header of the profile says.
    pub kind: DesignKind,
}

/// Co-runs between two solo runs that are measured again: drift is seen within a few co-runs, and
/// a seventh of the samples is what that costs.
const COMPARED_EVERY: usize = 6;

/// What comes after the listed configurations.
enum Chooser {
    /// Nothing; why.
    Nothing(StopReason),
    Random(Box<Random>),
    Adaptive(Box<Adaptive>),
}

/// What a design depends on beside its settings.
#[derive(Clone, Copy)]
pub struct Conditions<'a> {
    /// The only configurations that can be measured; `None`: any.
    pub only: Option<&'a [Configuration]>,
    /// Whether the device may drift, as real ones do: lists are then taken in random order, so
    /// that it does not look like an effect of what comes later, and solo runs are repeated.
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
            kind: DesignKind::Given,
        }
    }

    /// The design that the settings ask for: every task alone at each of its batch sizes, then
    /// co-runs.
    pub fn designed(
        workload: &Workload,
        settings: &DesignSettings,
        conditions: Conditions<'_>,
    ) -> Result<Self, DesignError> {
        let mut plan = Self::without_repeats(workload, settings, conditions)?;
        if conditions.drifts {
            let whole = |c: &&Configuration| c.len() == 1 && c[0].share == Share::FULL;
            let alone = plan.listed.as_slice().iter().filter(whole);
            for solo in alone {
                if plan.again.iter().all(|c| c[0].task != solo[0].task) {
                    plan.again.push_back(solo.clone());
                }
            }
            let solos = plan.listed.as_slice().iter().filter(|c| c.len() == 1);
            let coruns = plan.length.saturating_sub(solos.count() as u64);
            plan.length = plan.length.saturating_add(coruns / COMPARED_EVERY as u64);
        }
        Ok(plan)
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
            // They say how a task scales by itself, are cheap (one worker), and start workers that
            // co-runs need anyway. Not measured on a real device what they gain.
            if only.is_none() && workload.tasks.len() > 1 {
                solos.extend(space.part_solos());
            }
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

    /// Solo runs, then what a chooser says.
    fn open(solos: Vec<Configuration>, chooser: Chooser, kind: DesignKind, budget: u64) -> Self {
        Self {
            length: (solos.len() as u64).saturating_add(budget),
            listed: solos.into_iter(),
            chooser,
            again: VecDeque::new(),
            coruns: 0,
            kind,
        }
    }

    /// Solo runs, then at most `budget` of a list.
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
            kind,
        }
    }

    /// The next configuration to measure.
    pub fn next_configuration(&mut self) -> Result<Option<Configuration>, DesignError> {
        if self.coruns == COMPARED_EVERY {
            self.coruns = 0;
            if let Some(solo) = self.again.pop_front() {
                self.again.push_back(solo.clone());
                return Ok(Some(solo));
            }
        }
        let next = self.designed_next()?;
        self.coruns += usize::from(next.as_ref().is_some_and(|c| c.len() > 1));
        Ok(next)
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

    /// Learns what a configuration gave; `None`: it could not be measured.
    pub fn observe(&mut self, configuration: &[Setting], rates: Option<&[Rate]>) {
        if let Chooser::Adaptive(adaptive) = &mut self.chooser {
            let lesson = rates.map(|rates| lesson(configuration, rates));
            adaptive.observe(configuration, lesson);
        }
    }

    /// How an adaptive design stands.
    pub fn progress(&self) -> Option<&Progress> {
        match &self.chooser {
            Chooser::Adaptive(adaptive) => adaptive.progress.as_ref(),
            Chooser::Nothing(_) | Chooser::Random(_) => None,
        }
    }

    /// Why there is no next one.
    pub fn stopped(&self) -> StopReason {
        match &self.chooser {
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
            ..Limits::default()
        },
    };
    let wanted = adaptive::Wanted {
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

/// What was recorded beside the solo runs, which come first.
fn recorded(only: &[Configuration], solos: &[Configuration]) -> Vec<Configuration> {
    let others = only.iter().filter(|c| !solos.contains(c));
    others.cloned().collect()
}

#[cfg(test)]
mod tests;
