//! Promises that a job is not slowed down by more than so many percent: kept, explained and judged.

use crate::book::Id;
use crate::learnt::Tried;
use crate::meter::At;

use super::Explorer;

/// A promise is kept with this much to spare, as a fraction of a job's time alone: rates drift by some percent.
const DOUBT: f64 = 0.03;

impl Explorer {
    /// Whether, beside `number - 1` others, no job is slowed down by more than this many percent, as far as was
    /// measured. The next number after those measured is tried if the slow-down, growing as it did, stays below.
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
        let slow = |t: &Tried| t.at_once as f64 / t.gives - 1.0;
        let of = |number: usize| {
            let tried = learnt.tried.iter().filter(|t| t.at_once == number);
            tried.map(slow).max_by(f64::total_cmp)
        };
        let allowed = f64::from(percent) / 100.0 - DOUBT;
        // Every figure is relative to a job alone.
        if of(1).is_none() {
            return false;
        }
        let expected = of(number).or(match number {
            2 => Some(0.0),
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
        let tried = self.learnt.get(&self.mix(device, Some(template)));
        let tried = tried.and_then(|l| l.tried.iter().find(|t| t.at_once == running + 1));
        let promised = match percent {
            Some(percent) => format!("{percent} % at most were promised"),
            None => "a job that runs was promised less".to_owned(),
        };
        Some(match tried {
            Some(t) => format!(
                "{} at once were slower by {:.0} %, measured on {} jobs, and {promised}",
                t.at_once,
                (t.at_once as f64 / t.gives - 1.0) * 100.0,
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
        let alone = self.tables.get(&own)?;
        let alone = alone.iter().find(|((number, _), _)| *number == 1)?.1;
        let (mut seconds, mut worth) = (0.0, 0.0);
        for (at, _, lasted) in runner.meter.rates() {
            seconds += lasted;
            worth += lasted * (of(&at)?.log - alone.log).exp();
        }
        (worth > 0.0).then(|| (seconds / worth - 1.0) * 100.0)
    }
}
