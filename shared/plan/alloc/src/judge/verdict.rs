//! Is sharing worth it? Compares the time of the same work together and one task after another.

use doc::{Verdict, WorkAlone, WorkKind, Workload};
use units::corun::{Setting, Throughput};
use units::{Batch, Samples};

use super::schemes::Scheme;
use crate::error::AllocError;
use crate::problem::compute::finish;
use crate::problem::round::Round;
use crate::quantities::{rate, seconds};
use crate::rates::Subset;
use crate::search::answer::Part;
use crate::tolerance::INTERVAL;

/// The verdict on a plan with the given `parts`, one for each GPU.
///
/// The work is the samples of a round if every task has a volume, and otherwise the samples that the plan trains in
/// one second. In the second case, the time *together* is one second, and the time *one after another* is that of
/// the same samples of each task, alone on the device.
pub(crate) fn verdict<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    parts: &[Part],
) -> Result<Option<Verdict>, AllocError> {
    let volumes = workload.tasks.iter().all(|t| t.samples.is_some());
    let mut tasks: Vec<(usize, WorkAlone)> = Vec::new();
    let mut together = 0.0_f64;
    let mut low = 0.0_f64;
    let mut high = Some(0.0_f64);
    let mut alone = 0.0_f64;
    let mut schemes = Scheme::EQUAL.map(|scheme| (scheme, Some(0.0_f64)));
    for p in parts {
        let subset = Subset::new(rates, &p.members);
        let settings = &p.solution.settings;
        let work: Vec<f64> = p
            .members
            .iter()
            .zip(&p.solution.rates)
            .map(|(&i, &planned)| match workload.tasks[i].samples {
                Some(samples) if volumes => Samples::as_f64(samples),
                _ => planned,
            })
            .collect();
        let round = Round::of_workload(workload).ok().filter(|_| volumes);
        let played = Work {
            rates: &subset,
            work: &work,
            round: round.as_ref(),
        };
        let Some(times) = played.interval(settings) else {
            return Ok(None);
        };
        together = together.max(times.mean);
        low = low.max(times.low);
        high = high.zip(times.high).map(|(all, one)| all.max(one));
        for (scheme, all) in &mut schemes {
            let share = scheme.share(work.len());
            let equal: Vec<Setting> = settings.iter().map(|s| Setting { share, ..*s }).collect();
            let one = played.seconds(&equal);
            *all = all.zip(one).map(|(all, one)| all.max(one));
        }
        let mut serial = 0.0;
        let mut fastest = Vec::new();
        for (k, &i) in p.members.iter().enumerate() {
            let Some((batch, solo)) = best_alone(rates, i, &p.problem.sizes(k)) else {
                return Ok(None);
            };
            serial += work[k] / solo;
            fastest.push(solo);
            let one = WorkAlone {
                id: workload.tasks[i].id.clone(),
                samples: work[k],
                batch,
                solo: rate(solo)?,
            };
            tasks.push((i, one));
        }
        if let Some(round) = &round {
            serial = round.one_after_another(&fastest);
        }
        alone = alone.max(serial);
    }
    tasks.sort_by_key(|(i, _)| *i);
    let known = schemes.into_iter().filter_map(|(s, t)| Some((s, t?)));
    // `min_by` returns the first of equals, which is the scheme with the largest shares.
    let best = known.min_by(|a, b| a.1.total_cmp(&b.1));
    Ok(Some(Verdict {
        share: together < alone,
        work: if volumes {
            WorkKind::Round
        } else {
            WorkKind::Mixture
        },
        together: seconds(together)?,
        together_low: seconds(low)?,
        together_high: high.map(seconds).transpose()?,
        one_after_another: seconds(alone)?,
        best_static: best
            .map(|(scheme, time)| seconds(time).map(|t| (scheme.in_document(), t)))
            .transpose()?,
        tasks: tasks.into_iter().map(|(_, one)| one).collect(),
    }))
}

/// The work of the tasks of one GPU: a round with its transfers, or compute alone.
struct Work<'a, C: Throughput + ?Sized> {
    rates: &'a C,
    work: &'a [f64],
    round: Option<&'a Round>,
}

/// Seconds together with their 95 % interval.
struct Times {
    mean: f64,
    low: f64,
    high: Option<f64>,
}

impl<C: Throughput + ?Sized> Work<'_, C> {
    fn seconds(&self, settings: &[Setting]) -> Option<f64> {
        match self.round {
            Some(round) => Some(round.seconds(self.rates, settings)).filter(|s| s.is_finite()),
            None => finish(self.rates, settings, self.work, 0.0),
        }
    }

    /// Both ends of the interval use the order that is best at the mean rates. Higher rates finish sooner, so the
    /// upper ends of the rates give the lower end of the time. `None` if a task makes no progress.
    fn interval(&self, settings: &[Setting]) -> Option<Times> {
        let order = match self.round {
            Some(round) => Some((round, round.played(self.rates, settings).ok()?)),
            None => None,
        };
        // The interval has no upper end if a task makes no progress at the lower rates.
        let at = |deviations: f64| match &order {
            Some((round, played)) => {
                let shifted = round.shifted(self.rates, settings, played, deviations);
                shifted.ok()
            }
            None => finish(self.rates, settings, self.work, deviations),
        };
        let mean = at(0.0)?;
        Some(Times {
            mean,
            // Holds may make a round longer if rates rise.
            low: at(INTERVAL).unwrap_or(mean).min(mean),
            high: at(-INTERVAL).map(|high| high.max(mean)),
        })
    }
}

/// The batch size with the highest throughput alone; among equals, the smallest.
fn best_alone<C: Throughput + ?Sized>(
    rates: &C,
    task: usize,
    batches: &[Batch],
) -> Option<(Batch, f64)> {
    let mut best: Option<(Batch, f64)> = None;
    for &batch in batches {
        let solo = rates.solo(task, batch);
        if solo > 0.0 && best.is_none_or(|(_, most)| solo > most) {
            best = Some((batch, solo));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::compute::tests::Law;

    #[test]
    fn alone_a_task_takes_its_best_batch_size() {
        let sizes = [16, 32, 64].map(|b| Batch::new(b).unwrap());
        let best = best_alone(&Law { slow: 1.0 }, 0, &sizes).unwrap();
        assert_eq!((best.0.get(), best.1), (32, 100.0));
    }
}
