use std::collections::BTreeMap;

use units::{Batch, Share};

use crate::{Dataset, PredictError};

/// Solo rate of one task at every batch size.
///
/// Between measured batch sizes the step time `B / S(B)` is interpolated linearly in `B`, which
/// is exact for the law `t = gamma_0 + gamma_1 O` (FedMT), and extrapolated with the slope of the
/// nearest two.
#[derive(Debug, Clone, PartialEq)]
pub struct Anchor {
    /// `(batch, step seconds)`, by batch, not empty.
    points: Vec<(f64, f64)>,
    /// Seconds per sample added where only one batch size is known.
    slope: f64,
}

impl Anchor {
    /// Step time in seconds, alone on the whole device.
    #[must_use]
    pub fn step_seconds(&self, batch: Batch) -> f64 {
        let b = batch.as_f64();
        let p = &self.points;
        let (first, last) = (p[0], p[p.len() - 1]);
        if p.len() == 1 {
            return first.1 + self.slope * (b - first.0);
        }
        let at = p.partition_point(|q| q.0 < b).clamp(1, p.len() - 1);
        let ((b0, t0), (b1, t1)) = (p[at - 1], p[at]);
        let t = t0 + (t1 - t0) * (b - b0) / (b1 - b0);
        if b < first.0 || b > last.0 {
            // A law through noisy points may not make a step free or a larger one cheaper.
            let floor = if b < first.0 {
                first.1 * (b / first.0)
            } else {
                last.1
            };
            let ceiling = if b < first.0 {
                first.1
            } else {
                last.1 * (b / last.0)
            };
            return t.clamp(floor, ceiling);
        }
        t
    }

    /// Samples per second, alone on the whole device.
    #[must_use]
    pub fn rate(&self, batch: Batch) -> f64 {
        batch.as_f64() / self.step_seconds(batch)
    }

    /// Anchors of all tasks from the solo runs at full share; where a task has none, from its
    /// fastest co-runs; where it has no run at all, from the others' law in FLOPs and bytes.
    pub(crate) fn of_all(data: &Dataset) -> Result<Vec<Anchor>, PredictError> {
        let n = data.tasks.len();
        let mut solo: Vec<BTreeMap<u32, Vec<f64>>> = vec![BTreeMap::new(); n];
        let mut shared = solo.clone();
        for s in &data.samples {
            for (a, &p) in s.active.iter().zip(&s.throughput) {
                if p <= 0.0 {
                    continue;
                }
                let alone = s.active.len() == 1 && a.share == Share::FULL;
                let table = if alone { &mut solo } else { &mut shared };
                table[a.task].entry(a.batch.get()).or_default().push(p);
            }
        }
        let known: Vec<Option<Anchor>> = (0..n)
            .map(|i| Anchor::of_one(&solo[i], &shared[i]))
            .collect();
        if known.iter().all(Option::is_none) {
            return Err(PredictError::NoUsableSample);
        }
        let per_flop = seconds_per_flop(data, &known);
        known
            .into_iter()
            .enumerate()
            .map(
                |(task, a)| match (a, data.tasks[task].flops_per_sample, per_flop) {
                    (Some(a), _, _) => Ok(a),
                    (None, Some(f), Some(c)) => Ok(Anchor {
                        points: vec![(1.0, c * f)],
                        slope: c * f,
                    }),
                    _ => Err(PredictError::UnknownTask { task }),
                },
            )
            .collect()
    }

    fn of_one(solo: &BTreeMap<u32, Vec<f64>>, shared: &BTreeMap<u32, Vec<f64>>) -> Option<Anchor> {
        let points: Vec<(f64, f64)> = if solo.is_empty() {
            shared
                .iter()
                .map(|(&b, v)| (f64::from(b), v.iter().copied().fold(0.0, f64::max)))
                .collect()
        } else {
            solo.iter()
                .filter_map(|(&b, v)| Some((f64::from(b), math::stats::median(v)?)))
                .collect()
        };
        let points: Vec<(f64, f64)> = points.into_iter().map(|(b, p)| (b, b / p)).collect();
        let &(b, t) = points.first()?;
        Some(Anchor {
            slope: 0.5 * t / b,
            points,
        })
    }
}

/// Median solo seconds per FLOP over the tasks that have both.
fn seconds_per_flop(data: &Dataset, known: &[Option<Anchor>]) -> Option<f64> {
    let rates: Vec<f64> = known
        .iter()
        .zip(&data.tasks)
        .filter_map(|(a, t)| {
            let &(b, step) = a.as_ref()?.points.last()?;
            Some(step / (b * t.flops_per_sample?))
        })
        .collect();
    math::stats::median(&rates)
}
