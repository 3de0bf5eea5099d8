//! Promises that a job is not slowed down by more than so many percent: kept, explained and judged.

use crate::book::Id;
use crate::learnt::{Learnt, Tried};
use crate::meter::At;

use super::Explorer;

/// A promise is kept with this much to spare, as a fraction of a job's time alone: rates drift by some percent.
const DOUBT: f64 = 0.03;

/// What a job alone gives, with the whole device: under a cap it may give less.
fn alone(learnt: &Learnt) -> Option<f64> {
    let tried = learnt.tried.iter().filter(|t| t.at_once == 1);
    tried.map(|t| t.gives).max_by(f64::total_cmp)
}

/// Fraction by which each of some jobs was slower than alone.
fn slow(tried: &Tried, alone: f64) -> f64 {
    tried.at_once as f64 * alone / tried.gives - 1.0
}

impl Explorer {
    /// Whether, beside `number - 1` others, no job is slowed down by more than this many percent, as far as was
    /// measured. The next number after those measured is tried if the slow-down, growing as it did, stays below. That
    /// two get along is shown by jobs without a promise: to try it with those that have one broke a twentieth of the
    /// promises, and sweeps in which every job had one ended 2 % sooner by it.
    pub(crate) fn keeps(&self, device: usize, template: &str, number: usize, percent: u32) -> bool {
        if number < 2 {
            return true;
        }
        if self.processors.is_some() {
            // Jobs on processors of their own do not slow each other down.
            return number <= self.first();
        }
        let mix = self.mix(device, Some(template));
        let Some(learnt) = self.learnt.get(&mix) else {
            return false;
        };
        let Some(alone) = alone(learnt) else {
            return false;
        };
        let of = |number: usize| {
            let tried = learnt.tried.iter().filter(|t| t.at_once == number);
            tried.map(|t| slow(t, alone)).max_by(f64::total_cmp)
        };
        let allowed = f64::from(percent) / 100.0 - DOUBT;
        let expected = of(number).or(match number {
            2 => None,
            _ => of(number - 1).map(|slow| slow * (number - 1) as f64 / (number - 2) as f64),
        });
        expected.is_some_and(|slow| slow <= allowed)
    }

    /// Why a promise that a job is slowed down by at most so many percent, if one was made, keeps it from starting here.
    pub(crate) fn slowed(
        &self,
        device: usize,
        template: &str,
        percent: Option<u32>,
    ) -> Option<String> {
        let running = self.running(device);
        if running == 0 {
            return None;
        }
        let learnt = self.learnt.get(&self.mix(device, Some(template)));
        let tried = learnt.and_then(|learnt| {
            let tried = learnt.tried.iter().filter(|t| t.at_once == running + 1);
            let worst = tried.min_by(|a, b| a.gives.total_cmp(&b.gives))?;
            Some((worst, slow(worst, alone(learnt)?)))
        });
        let promised = match percent {
            Some(percent) => format!("{percent} % at most were promised"),
            None => "a job that runs was promised less".to_owned(),
        };
        Some(match tried {
            Some((t, slow)) => format!(
                "{} at once were slower by {:.0} %, measured on {} jobs, and {promised}",
                t.at_once,
                slow * 100.0,
                t.jobs
            ),
            None => format!(
                "{} at once were not measured yet, and {promised}",
                running + 1
            ),
        })
    }

    /// Percent by which a running job is slower than alone so far; `None`: not measured. A job that never ran alone is
    /// compared by what its situations did to others of its template.
    pub(crate) fn slower(&self, id: Id) -> Option<f64> {
        let runner = self.runners.get(&id)?;
        let of = |at: &At| self.tables.get(&at.mix)?.get(&(at.number, at.cap));
        let own = self.mixes.iter().position(|mix| *mix == runner.template)?;
        let alone = self.tables.get(&own)?.iter();
        let alone = alone.filter(|((number, _), _)| *number == 1);
        let alone = alone.map(|(_, worth)| worth.log).max_by(f64::total_cmp)?;
        let (mut seconds, mut worth) = (0.0, 0.0);
        for (at, _, lasted) in runner.meter.rates() {
            seconds += lasted;
            worth += lasted * (of(&at)?.log - alone).exp();
        }
        (worth > 0.0).then(|| (seconds / worth - 1.0) * 100.0)
    }
}
