//! Is sharing worth it? The same work done together and one task after another.

use corun::{Setting, Throughput};
use doc::{Verdict, WorkAlone, WorkKind, Workload};
use units::{Batch, Samples, Seconds};

use crate::baseline::Scheme;
use crate::document::{INTERVAL, Part, rate};
use crate::subset::Subset;
use crate::{AllocError, Round};

/// The verdict on a plan made of `parts`, one for each GPU.
///
/// The work is the samples of a round where every task has a volume, and otherwise what the plan
/// trains in one second: then together is one second, and one after another says how long that
/// mixture takes alone.
pub(crate) fn verdict<C: Throughput + ?Sized>(
    rates: &C,
    workload: &Workload,
    parts: &[Part],
) -> Result<Option<Verdict>, AllocError> {
    let volumes = workload.tasks.iter().all(|t| t.samples.is_some());
    let mut tasks: Vec<(usize, WorkAlone)> = Vec::new();
    let (mut together, mut low, mut high) = (0.0_f64, 0.0_f64, Some(0.0_f64));
    let mut alone = 0.0_f64;
    let mut schemes = STATIC.map(|scheme| (scheme, Some(0.0_f64)));
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
            let batches = &workload.tasks[i].batch_sizes;
            let Some((batch, solo)) = best_alone(rates, i, batches) else {
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

    /// The ends of the interval keep the order of the mean. More throughput ends sooner: the
    /// upper ends of the rates give the lower end in time. `None` where a task does not advance.
    fn interval(&self, settings: &[Setting]) -> Option<Times> {
        let order = match self.round {
            Some(round) => Some((round, round.played(self.rates, settings).ok()?)),
            None => None,
        };
        // An end of the interval at which a task does not advance is no end.
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
            // Holds may make a round longer where rates rise.
            low: at(INTERVAL).unwrap_or(mean).min(mean),
            high: at(-INTERVAL).map(|high| high.max(mean)),
        })
    }
}

/// The schemes of equal shares. On ties the first is named: the one that caps least.
const STATIC: [Scheme; 5] = [
    Scheme::Sharing,
    Scheme::Aggressive,
    Scheme::Moderate,
    Scheme::Nvidia,
    Scheme::Isolated,
];

fn seconds(value: f64) -> Result<Seconds, AllocError> {
    Seconds::new(value).map_err(|error| AllocError::Prediction {
        what: error.to_string(),
    })
}

/// The batch size with the highest throughput alone, the smallest of equals.
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

/// Seconds until every task has trained on its work if all begin at once and keep their shares:
/// between two ends the rates are those of the tasks that are left. Rates lie `deviations`
/// standard deviations above their means. `None` if a task does not advance.
pub(crate) fn finish<C: Throughput + ?Sized>(
    rates: &C,
    settings: &[Setting],
    work: &[f64],
    deviations: f64,
) -> Option<f64> {
    let mut left: Vec<(Setting, f64)> =
        settings.iter().copied().zip(work.iter().copied()).collect();
    let mut now = 0.0;
    while !left.is_empty() {
        let active: Vec<Setting> = left.iter().map(|(s, _)| *s).collect();
        let mut speed = vec![0.0; active.len()];
        rates.means(&active, &mut speed);
        if deviations != 0.0 {
            for (speed, error) in speed.iter_mut().zip(rates.std_errors(&active)) {
                *speed += deviations * error;
            }
        }
        if !speed.iter().all(|s| s.is_finite() && *s > 0.0) {
            return None;
        }
        let times = left.iter().zip(&speed).map(|((_, work), s)| work / s);
        let next = times.fold(f64::INFINITY, f64::min);
        now += next;
        for ((_, work), speed) in left.iter_mut().zip(&speed) {
            *work -= speed * next;
        }
        // Rounding may leave a trillionth of the work of a task that has ended.
        let total: f64 = work.iter().sum();
        left.retain(|(_, work)| *work > 1e-12 * total);
    }
    Some(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Share;

    /// Two tasks of 100 samples/s alone; together each has `slow` of that.
    struct Law {
        slow: f64,
    }

    impl Throughput for Law {
        fn task_count(&self) -> usize {
            2
        }

        fn solo(&self, _: usize, batch: Batch) -> f64 {
            if batch.get() == 32 { 100.0 } else { 80.0 }
        }

        fn covers(&self, _: Setting, _: usize) -> bool {
            true
        }

        fn means(&self, active: &[Setting], out: &mut [f64]) {
            let speed = if active.len() == 1 { 1.0 } else { self.slow };
            out.fill(100.0 * speed);
        }

        fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
            vec![10.0; active.len()]
        }
    }

    fn settings() -> Vec<Setting> {
        let batch = Batch::new(32).unwrap();
        let setting = |task| Setting {
            task,
            batch,
            share: Share::FULL,
        };
        vec![setting(0), setting(1)]
    }

    #[test]
    fn what_is_left_runs_at_the_speed_of_those_left() {
        let law = Law { slow: 0.6 };
        // 60/s each until task 0 ends after 10 s; then 100/s for the 600 left.
        let time = finish(&law, &settings(), &[600.0, 1200.0], 0.0).unwrap();
        assert!((time - 16.0).abs() < 1e-9, "{time}");
        let sooner = finish(&law, &settings(), &[600.0, 1200.0], 1.96).unwrap();
        let later = finish(&law, &settings(), &[600.0, 1200.0], -1.96).unwrap();
        assert!(sooner < time && time < later);
    }

    #[test]
    fn a_rate_whose_interval_reaches_nought_has_no_upper_end() {
        let law = Law { slow: 0.1 };
        assert_eq!(finish(&law, &settings(), &[1.0, 1.0], -1.96), None);
    }

    #[test]
    fn alone_a_task_takes_its_best_batch_size() {
        let sizes = [16, 32, 64].map(|b| Batch::new(b).unwrap());
        let best = best_alone(&Law { slow: 1.0 }, 0, &sizes).unwrap();
        assert_eq!((best.0.get(), best.1), (32, 100.0));
    }
}
