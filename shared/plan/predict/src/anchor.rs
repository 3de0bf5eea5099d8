use std::collections::BTreeMap;

use math::stats;
use units::{Batch, Share};

use crate::structured::{Law, Meeting, Pace};
use crate::{Dataset, TaskSpec};

/// Solo rate of one task at every batch size.
///
/// Between measured batch sizes, the step time `B / S(B)` is interpolated linearly in `B`, which is exact for the law
/// `t = gamma_0 + gamma_1 O` (FedMT). Outside their range, the slope of the nearest two is used.
#[derive(Debug, Clone, PartialEq)]
pub struct Anchor {
    /// `(batch, step seconds)`, by batch, not empty.
    pub(crate) points: Vec<(f64, f64)>,
    /// Seconds per further sample if only one batch size is known.
    pub(crate) slope: f64,
}

/// A solo step is rejected as a stalled or broken run if its residual from the law (in logarithms) differs by more
/// than this from the residuals of other runs, unless other runs at its batch size have the same residual. If there
/// are no other runs at its batch size, it is kept, because one measurement says more about a batch size than a law.
const BROKEN: f64 = 0.3;

/// Minimum number of other runs at a batch size that can contradict its solo step. If a law is learnt from ten or
/// twenty co-runs, a large residual of one, two or three of them mostly means that the law lacks their interference.
/// On 20 pairs of trainings on a K80 (Gavel), accepting one run as evidence raised the error from 7.8 to 11.9 %, and
/// accepting three raised it to 8.6 %; requiring five did not raise it.
const WITNESSES: usize = 5;
/// The solo step must also differ by this many robust standard deviations of the residuals of single runs: a law that
/// is itself wrong by a third cannot show that a run is wrong. The error with 40 of these pairs was 7.0 % without
/// this condition and 5.8 % with it, the same as without any replacement.
const APART: f64 = 3.0;

/// Residuals of `ln step` of one task in co-runs and in runs at partial shares.
#[derive(Debug, Clone, Default)]
pub(crate) struct Elsewhere {
    /// Median residual by batch size, for batch sizes with enough runs ([`WITNESSES`]).
    pub medians: BTreeMap<u32, f64>,
    /// Robust standard deviation of the residual of one run.
    pub spread: f64,
}

impl Anchor {
    /// Step time in seconds, alone on the whole device.
    #[must_use]
    pub fn step_seconds(&self, batch: Batch) -> f64 {
        self.step_at(batch.as_f64())
    }

    pub(crate) fn step_at(&self, b: f64) -> f64 {
        let p = &self.points;
        let (first, last) = (p[0], p[p.len() - 1]);
        let t = if p.len() == 1 {
            first.1 + self.slope * (b - first.0)
        } else {
            let at = p.partition_point(|q| q.0 < b).clamp(1, p.len() - 1);
            let ((b0, t0), (b1, t1)) = (p[at - 1], p[at]);
            t0 + (t1 - t0) * (b - b0) / (b1 - b0)
        };
        // Despite noise, a larger batch must not have a shorter step, nor a longer time per sample than a smaller
        // one.
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

    /// The anchor from the solo runs if there are any, otherwise from the law.
    pub(crate) fn new(
        solo: &BTreeMap<u32, f64>,
        elsewhere: &Elsewhere,
        pace: &Pace,
        spec: &TaskSpec,
    ) -> Anchor {
        let by_law = |b: f64| pace.alone(b, 1.0);
        let mut points: Vec<(f64, f64)> = solo.iter().map(|(&b, &t)| (f64::from(b), t)).collect();
        if points.len() >= 3 {
            let gap = |p: &(f64, f64)| (p.1 / by_law(p.0)).ln();
            let gaps: Vec<f64> = points.iter().map(gap).collect();
            let usual = stats::median(&gaps).unwrap_or(0.0);
            let all: Vec<f64> = elsewhere.medians.values().copied().collect();
            let least = BROKEN.max(APART * elsewhere.spread);
            let usual_elsewhere = stats::median(&all).unwrap_or(0.0);
            for ((p, batch), g) in points.iter_mut().zip(solo.keys()).zip(gaps) {
                let Some(other) = elsewhere.medians.get(batch).map(|e| e - usual_elsewhere) else {
                    continue;
                };
                let off = g - usual;
                if off.abs() > least && (off - other).abs() > least {
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

/// [`Elsewhere`] of every task.
pub(crate) fn elsewhere(meetings: &[Vec<Meeting>], laws: &[Law]) -> Vec<Elsewhere> {
    let of_task = |(own, law): (&Vec<Meeting>, &Law)| {
        let mut gaps: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for m in own.iter().filter(|m| m.share < 1.0 || !m.others.is_empty()) {
            let gap = law.gap(m, laws);
            gaps.entry(m.batch as u32).or_default().push(gap);
        }
        let all: Vec<f64> = gaps.values().flatten().copied().collect();
        let enough = gaps.into_iter().filter(|(_, v)| v.len() >= WITNESSES);
        let median = |(b, v): (u32, Vec<f64>)| Some((b, stats::median(&v)?));
        Elsewhere {
            medians: enough.filter_map(median).collect(),
            spread: stats::mad_sigma(&all, 0.0).unwrap_or(0.0),
        }
    };
    meetings.iter().zip(laws).map(of_task).collect()
}

/// Median solo step in seconds of every task by batch size, from runs alone on the whole device.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(elsewhere: &[(u32, f64)]) -> Anchor {
        let solo = BTreeMap::from([(16, 0.26), (32, 0.42), (64, 0.74), (128, 2.8)]);
        let spec = TaskSpec {
            flops_per_sample: None,
            bytes_per_sample: None,
            batches: Vec::new(),
            copy_of: None,
        };
        let pace = Pace {
            fixed: 0.1,
            crowding: 0.4,
            per_sample: 0.01,
            bend: 0.4,
            sharpness: 3.0,
            overlap: 1.0,
            exponent: 1.0,
        };
        let elsewhere = Elsewhere {
            medians: elsewhere.iter().copied().collect(),
            spread: 0.01,
        };
        Anchor::new(&solo, &elsewhere, &pace, &spec)
    }

    #[test]
    fn an_odd_solo_step_stands_unless_co_runs_at_its_batch_size_speak_against_it() {
        let step = |a: &Anchor| a.step_seconds(Batch::new(128).unwrap());
        let even = [(16, 0.0), (32, 0.01), (64, -0.01)];
        assert_eq!(step(&anchor(&even)), 2.8, "nothing else is known of it");
        let odd_too = [(16, 0.0), (32, 0.01), (64, -0.01), (128, 0.7)];
        assert_eq!(step(&anchor(&odd_too)), 2.8, "its co-runs are as slow");
        let against = [(16, 0.0), (32, 0.01), (64, -0.01), (128, 0.02)];
        assert!((step(&anchor(&against)) / 1.38 - 1.0).abs() < 0.01);
        // One odd co-run must not change a sound solo step.
        let co_run = [(16, 0.0), (32, 0.01), (64, 0.9), (128, 0.7)];
        assert_eq!(anchor(&co_run).points[2].1, 0.74);
    }
}
