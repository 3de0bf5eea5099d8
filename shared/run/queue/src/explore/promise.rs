//! Promises (`--at-most-slower`) that other jobs slow a job down by at most some percent: whether a start keeps them,
//! why a job waits for one, and the slow-down that resulted.

use crate::book::Id;
use crate::learnt::{Learnt, Tried};
use crate::meter::At;

use super::Explorer;

/// Safety margin of a promise, as a fraction of the job's time alone: rates drift by some percent.
const DOUBT: f64 = 0.03;

/// Throughput of a job alone with the whole device; the maximum over caps, because a cap may reduce it.
fn alone(learnt: &Learnt) -> Option<f64> {
    let tried = learnt.tried.iter().filter(|t| t.at_once == 1);
    tried.map(|t| t.gives).max_by(f64::total_cmp)
}

/// Mean slow-down of the jobs of a trial relative to a job alone, as a fraction.
fn slow(tried: &Tried, alone: f64) -> f64 {
    tried.at_once as f64 * alone / tried.gives - 1.0
}

impl Explorer {
    /// Whether the measurements say that `number` jobs together are each slowed down by at most this many percent. If
    /// `number` was not measured but `number - 1` was, the slow-down is extrapolated linearly. Two jobs at once need a
    /// measurement from jobs without a promise: trying it with jobs that have one broke a twentieth of the promises,
    /// and made sweeps in which every job had one only 2 % shorter.
    pub(crate) fn keeps(&self, device: usize, template: &str, number: usize, percent: u32) -> bool {
        if number < 2 {
            return true;
        }
        if self.processors.is_some() {
            // As long as each job has a processor of its own, jobs do not slow each other down.
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

    /// Explains why a promise (`at_most_slower`, in percent) prevents a job from starting here; `None` if the device is
    /// idle.
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

    /// Percent by which a running job is slower than alone so far; `None`: not measured. The slow-down is that of the
    /// situations it ran in, measured over all jobs of its template, so it exists even for a job that never ran alone.
    pub(crate) fn slower(&self, id: Id) -> Option<f64> {
        let runner = self.runners.get(&id)?;
        let of = |at: &At| self.tables.get(&at.mix)?.get(&(at.number, at.cap));
        let own = self.number(&runner.template)?;
        let alone = self
            .tables
            .get(&own)?
            .iter()
            .filter(|((number, _), _)| *number == 1);
        let alone = alone.map(|(_, worth)| worth.log).max_by(f64::total_cmp)?;
        let (mut seconds, mut worth) = (0.0, 0.0);
        for (at, _, lasted) in runner.meter.rates() {
            seconds += lasted;
            worth += lasted * (of(&at)?.log - alone).exp();
        }
        (worth > 0.0).then(|| (seconds / worth - 1.0) * 100.0)
    }
}
