use std::collections::BTreeMap;

use math::stats;
use units::{Batch, Share};

use crate::structured::Pace;
use crate::{Dataset, TaskSpec};

/// Solo rate of one task at every batch size.
///
/// Between measured batch sizes the step time `B / S(B)` is interpolated linearly in `B`, which
/// is exact for the law `t = gamma_0 + gamma_1 O` (FedMT), and extrapolated with the slope of the
/// nearest two.
#[derive(Debug, Clone, PartialEq)]
pub struct Anchor {
    /// `(batch, step seconds)`, by batch, not empty.
    pub(crate) points: Vec<(f64, f64)>,
    /// Seconds for each further sample where only one batch size is known.
    pub(crate) slope: f64,
}

/// A solo step that differs from the law by more than this (in logarithms) from how the others
/// differ was a stalled or broken run.
const BROKEN: f64 = 0.3;

impl Anchor {
    /// Step time in seconds, alone on the whole device.
    #[must_use]
    pub fn step_seconds(&self, batch: Batch) -> f64 {
        let b = batch.as_f64();
        let p = &self.points;
        let (first, last) = (p[0], p[p.len() - 1]);
        let t = if p.len() == 1 {
            first.1 + self.slope * (b - first.0)
        } else {
            let at = p.partition_point(|q| q.0 < b).clamp(1, p.len() - 1);
            let ((b0, t0), (b1, t1)) = (p[at - 1], p[at]);
            t0 + (t1 - t0) * (b - b0) / (b1 - b0)
        };
        // Noise may not make a larger step cheaper, nor a sample dearer than in a smaller one.
        if b < first.0 {
            t.clamp(first.1 * (b / first.0), first.1)
        } else if b > last.0 {
            t.clamp(last.1, last.1 * (b / last.0))
        } else {
            t
        }
    }

    /// Samples per second, alone on the whole device.
    #[must_use]
    pub fn rate(&self, batch: Batch) -> f64 {
        batch.as_f64() / self.step_seconds(batch)
    }

    /// From the solo runs where there are some, else from the law.
    pub(crate) fn new(solo: &BTreeMap<u32, f64>, pace: &Pace, spec: &TaskSpec) -> Anchor {
        let by_law = |b: f64| pace.fixed + pace.per_sample * b;
        let mut points: Vec<(f64, f64)> = solo.iter().map(|(&b, &t)| (f64::from(b), t)).collect();
        if points.len() >= 3 {
            let gap = |p: &(f64, f64)| (p.1 / by_law(p.0)).ln();
            let gaps: Vec<f64> = points.iter().map(gap).collect();
            let usual = stats::median(&gaps).unwrap_or(0.0);
            for (p, g) in points.iter_mut().zip(gaps) {
                if (g - usual).abs() > BROKEN {
                    p.1 = by_law(p.0) * usual.exp();
                }
            }
        }
        if points.is_empty() {
            points = spec
                .batches
                .iter()
                .map(|b| (b.as_f64(), by_law(b.as_f64())))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points.dedup_by(|a, b| a.0 == b.0);
        }
        if points.is_empty() {
            points.push((1.0, by_law(1.0)));
        }
        Anchor {
            points,
            slope: pace.per_sample,
        }
    }
}

/// Median solo step seconds of every task by batch size, from the runs alone on the whole device.
pub(crate) fn solo_steps(data: &Dataset) -> Vec<BTreeMap<u32, f64>> {
    let mut rates: Vec<BTreeMap<u32, Vec<f64>>> = vec![BTreeMap::new(); data.tasks.len()];
    for s in &data.samples {
        let ([a], [p]) = (s.active.as_slice(), s.throughput.as_slice()) else {
            continue;
        };
        if a.share == Share::FULL && *p > 0.0 {
            rates[a.task].entry(a.batch.get()).or_default().push(*p);
        }
    }
    let step = |(b, v): (u32, Vec<f64>)| Some((b, f64::from(b) / stats::median(&v)?));
    rates
        .into_iter()
        .map(|table| table.into_iter().filter_map(step).collect())
        .collect()
}
