//! Which configurations to measure, and in which order.

mod grid;
mod random;
mod space;

pub use random::Random;
pub use space::Space;

use cli::Failure;
use device::Run;
use doc::{DesignKind, StopReason, Workload};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::args::Design;
use crate::settings::DesignSettings;

/// Tasks that run together, by index in the workload, ascending.
pub type Configuration = Vec<Run>;

/// A sequence of configurations. The same seed gives the same sequence, and a larger budget only
/// adds to it.
pub struct Plan {
    listed: std::vec::IntoIter<Configuration>,
    random: Option<Random>,
    /// Configurations in all, where that is known.
    pub length: u64,
    /// What the header of the profile says.
    pub kind: DesignKind,
    stopped: StopReason,
}

impl Plan {
    /// Given configurations, in order.
    pub fn given(configurations: Vec<Configuration>) -> Self {
        Self {
            length: configurations.len() as u64,
            listed: configurations.into_iter(),
            random: None,
            kind: DesignKind::Given,
            stopped: StopReason::Complete,
        }
    }

    /// The design that the settings ask for: every task alone at each of its batch sizes, then
    /// co-runs. `only` limits it to what can be measured; `shuffle` takes all in random order, as
    /// drift on a real device would otherwise look like an effect of what comes later.
    pub fn designed(
        workload: &Workload,
        settings: &DesignSettings,
        only: Option<&[Configuration]>,
        shuffle: bool,
        seed: u64,
    ) -> Result<Self, Failure> {
        let space = Space::new(workload, settings)?;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut solos = space.solos();
        if let Some(only) = only {
            solos.retain(|solo| only.contains(solo));
        }
        if shuffle {
            solos.shuffle(&mut rng);
        }
        let (corun, kind) = match (settings.design, only) {
            (Design::Grid, None) => (Some(grid::grid(&space)?), DesignKind::Grid),
            (Design::Grid, Some(only)) => (Some(recorded(only, &solos)), DesignKind::Grid),
            (Design::Random, Some(only)) => (Some(recorded(only, &solos)), DesignKind::Random),
            (Design::Random, None) => (None, DesignKind::Random),
        };
        let budget = settings.budget;
        let Some(mut coruns) = corun else {
            let budget = budget.unwrap_or(u64::MAX);
            return Ok(Self {
                length: solos.len() as u64 + budget,
                random: Some(Random::new(space, rng, settings.subsets, budget)),
                listed: solos.into_iter(),
                kind,
                stopped: StopReason::Budget,
            });
        };
        if shuffle || budget.is_some() {
            coruns.shuffle(&mut rng);
        }
        let wanted = budget.map_or(usize::MAX, |b| usize::try_from(b).unwrap_or(usize::MAX));
        let stopped = if wanted < coruns.len() {
            StopReason::Budget
        } else {
            StopReason::Complete
        };
        coruns.truncate(wanted);
        solos.append(&mut coruns);
        Ok(Self {
            length: solos.len() as u64,
            listed: solos.into_iter(),
            random: None,
            kind,
            stopped,
        })
    }

    /// The next configuration to measure.
    pub fn next(&mut self) -> Option<Configuration> {
        self.listed.next().or_else(|| self.random.as_mut()?.next())
    }

    /// Why there is no next one.
    pub fn stopped(&self) -> StopReason {
        match &self.random {
            Some(random) if random.exhausted() => StopReason::Complete,
            _ => self.stopped,
        }
    }
}

/// What was recorded beside the solo runs, which come first.
fn recorded(only: &[Configuration], solos: &[Configuration]) -> Vec<Configuration> {
    let others = only.iter().filter(|c| !solos.contains(c));
    others.cloned().collect()
}

#[cfg(test)]
mod tests;
