//! Recomputes the value of a sample from trainings at several batch sizes: how many samples each training needed to
//! reach the lowest loss that all of them reached, and the law or the table that fits these numbers.

use std::collections::BTreeMap;

use doc::{Efficiency, EventPayload, RunEvent};
use units::TaskId;

use super::student::student;
use crate::falling::falling;

/// Minimum number of losses of a training; `FEWEST_AT_END` is the minimum in the last level of its smoothed curve.
const FEWEST: usize = 10;
const FEWEST_AT_END: usize = 3;
/// Prior of the error: the usual relative error of the number of samples to a loss, and the weight of this prior in
/// degrees of freedom.
const USUAL: (f64, f64) = (0.2, 4.0);
/// The fit searches noise scales within this factor of the smallest and the largest batch size. It divides that range
/// into `STEPS` equal logarithmic steps; the steps here are `FINER` times as fine.
const BEYOND: f64 = 30.0;
const STEPS: usize = 700;
const FINER: usize = 8;
/// Relative tolerance within which two slopes belong to one level: sums round.
const EQUAL: f64 = 1e-12;

/// Value of a sample as learnt from the trainings.
pub enum Learnt {
    Scale(Scale),
    Table(Vec<Row>),
}

/// A batch size with its progress per sample relative to that of the smallest, and the interval of one more training.
pub struct Row {
    pub batch: u32,
    pub progress: f64,
    pub interval: Option<[f64; 2]>,
}

pub struct Scale {
    pub phi: f64,
    pub interval: [f64; 2],
    /// Whether the noise scale is at the end of the searched range.
    pub at_limit: bool,
    /// Relative distance between two neighbouring noise scales of the fit's search.
    pub step: f64,
}

/// One training of a task in a run, up to the first disturbance.
#[derive(Default)]
struct Training {
    batch: Option<u32>,
    /// Total samples so far, and the loss reported there.
    points: Vec<(f64, f64)>,
    round: u32,
    earlier_rounds: u64,
    this_round: u64,
    over: bool,
}

impl Training {
    fn takes(&mut self, batch: Option<u32>) {
        // After a change of the batch size, training continues from weights that no training at that size produced.
        self.over |= matches!((self.batch, batch), (Some(a), Some(b)) if a != b);
        self.batch = self.batch.or(batch);
    }

    fn tells(&mut self, round: u32, samples: u64, loss: Option<f64>) {
        if round != self.round {
            self.earlier_rounds += self.this_round;
            self.round = round;
            self.this_round = 0;
        }
        // Fewer samples than before: the process restarted from an unknown checkpoint, so the rest of the training is
        // ignored.
        self.over |= samples < self.this_round;
        if self.over {
            return;
        }
        self.this_round = samples;
        if let Some(loss) = loss.filter(|l| l.is_finite()) {
            let all = (self.earlier_rounds + samples) as f64;
            self.points.push((all, loss));
        }
    }

    /// Fits a non-increasing curve to the losses by least squares, and returns the mean samples and mean loss of each
    /// of its levels: the slopes of the least concave majorant of the running sum (Robertson, Wright, Dykstra 1988,
    /// section 1.2). Levels at the end with fewer than three losses in total are left out.
    fn levels(&self) -> Vec<(f64, f64)> {
        if self.points.len() < FEWEST {
            return Vec::new();
        }
        let mut sums = vec![(0.0, 0.0)];
        for &(samples, loss) in &self.points {
            let (s, l) = sums[sums.len() - 1];
            sums.push((s + samples, l + loss));
        }
        let slope = |a: usize, b: usize| (sums[b].1 - sums[a].1) / (b - a) as f64;
        let mut corners = vec![0];
        for k in 1..sums.len() {
            while let [.., a, b] = corners[..] {
                let (before, now) = (slope(a, b), slope(b, k));
                if now < before - EQUAL * before.abs() {
                    break;
                }
                corners.pop();
            }
            corners.push(k);
        }
        while let [.., a, _] = corners[..]
            && self.points.len() - a < FEWEST_AT_END
        {
            corners.pop();
        }
        let level = |pair: &[usize]| {
            let count = (pair[1] - pair[0]) as f64;
            let samples = sums[pair[1]].0 - sums[pair[0]].0;
            (samples / count, slope(pair[0], pair[1]))
        };
        corners.windows(2).map(level).collect()
    }
}

/// Number of samples at which a falling curve of levels reaches `target`, interpolated linearly between two levels;
/// `None` if it never does, or is below `target` from the start.
fn reached(levels: &[(f64, f64)], target: f64) -> Option<f64> {
    let below = levels.iter().position(|l| l.1 <= target)?;
    let (a, b) = (levels[below.checked_sub(1)?], levels[below]);
    Some(a.0 + (b.0 - a.0) * (a.1 - target) / (a.1 - b.1))
}

/// For each training of a task that reaches the common loss: its batch size, and the samples it needed.
fn trainings(runs: &[Vec<RunEvent>], id: &TaskId) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for run in runs {
        let mut own = Training::default();
        for event in run {
            match &event.payload {
                EventPayload::Start { task, batch, .. } if task == id => {
                    own.takes(batch.map(units::Batch::get));
                }
                EventPayload::Progress {
                    task,
                    round,
                    progress,
                } if task == id => {
                    own.takes(progress.batch.map(units::Batch::get));
                    own.tells(*round, progress.samples, progress.loss);
                }
                _ => {}
            }
        }
        let levels = own.levels();
        if let Some(batch) = own.batch.filter(|_| levels.len() > 1) {
            all.push((f64::from(batch), levels));
        }
    }
    let lowest = all.iter().map(|(_, levels)| levels[levels.len() - 1].1);
    let target = lowest.fold(f64::NEG_INFINITY, f64::max);
    let row = |(batch, levels): &(f64, Vec<(f64, f64)>)| Some((*batch, reached(levels, target)?));
    all.iter().filter_map(row).filter(|r| r.1 > 0.0).collect()
}

/// The value of a sample from the runs: two batch sizes give a noise scale, three or more give a table. More sizes
/// than a table may have rows give a noise scale again.
pub fn learnt(runs: &[Vec<RunEvent>], id: &TaskId) -> Option<Learnt> {
    let rows = trainings(runs, id);
    let mut sizes: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (batch, samples) in &rows {
        sizes.entry(*batch as u32).or_default().push(samples.ln());
    }
    match sizes.len() {
        0 | 1 => None,
        2 => scale(&rows).map(Learnt::Scale),
        n if n > Efficiency::MOST_ROWS => scale(&rows).map(Learnt::Scale),
        _ => Some(Learnt::Table(table(&sizes))),
    }
}

/// Progress per sample, the reciprocal of the samples needed: the non-increasing table closest to the trainings in
/// least squares of the logarithm.
///
/// The interval is that of a further observation (Student's t, variance pooled over the sizes with its prior), if a
/// size has more than one training.
fn table(sizes: &BTreeMap<u32, Vec<f64>>) -> Vec<Row> {
    let items = sizes.values().map(|l| (-l.iter().sum::<f64>(), l.len()));
    let levels = falling(&items.collect::<Vec<_>>());
    let (mut squares, mut repeats) = (0.0, 0.0);
    for logs in sizes.values() {
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        squares += logs
            .iter()
            .map(|log| (log - mean) * (log - mean))
            .sum::<f64>();
        repeats += n - 1.0;
    }
    let freedom = repeats + USUAL.1;
    let deviation = ((squares + USUAL.1 * USUAL.0 * USUAL.0) / freedom).sqrt();
    let row = |((&batch, logs), level): ((&u32, &Vec<f64>), &f64)| {
        let progress = (level - levels[0]).exp();
        let half_width = student(freedom) * deviation * (1.0 + 1.0 / logs.len() as f64).sqrt();
        let factor = half_width.exp().min(100.0);
        Row {
            batch,
            progress,
            interval: (repeats > 0.0).then_some([progress / factor, progress * factor]),
        }
    };
    sizes.iter().zip(&levels).map(row).collect()
}

/// Fits `c (phi + B)` to the samples that the trainings needed, by least squares of the logarithm, and returns the
/// noise scale `phi` with its likelihood-ratio interval.
fn scale(rows: &[(f64, f64)]) -> Option<Scale> {
    let least = rows.iter().map(|r| r.0).fold(f64::INFINITY, f64::min);
    let most = rows.iter().map(|r| r.0).fold(0.0, f64::max);
    let misfit = |phi: f64| {
        let off: Vec<f64> = rows.iter().map(|(b, n)| n.ln() - (phi + b).ln()).collect();
        let (n, sum) = (off.len() as f64, off.iter().sum::<f64>());
        off.iter().map(|o| o * o).sum::<f64>() - sum * sum / n
    };
    let low = least / BEYOND;
    let range = (most / least * BEYOND * BEYOND).ln();
    let points = STEPS * FINER;
    let at = |k: usize| low * (range * k as f64 / points as f64).exp();
    let scanned: Vec<f64> = (0..=points).map(|k| misfit(at(k))).collect();
    let best = (0..=points).min_by(|&a, &b| scanned[a].total_cmp(&scanned[b]))?;
    let freedom = rows.len() as f64 - 2.0 + USUAL.1;
    let variance = (scanned[best] + USUAL.1 * USUAL.0 * USUAL.0) / freedom;
    let bound = scanned[best] + student(freedom).powi(2) * variance;
    let inside = |k: &usize| scanned[*k] <= bound;
    let first = (0..=points).find(inside)?;
    let last = (0..=points).rev().find(inside)?;
    let phi = at(best);
    // If the interval reaches an end of the searched range, the noise scale is unbounded on that side; use a
    // hundredth or a hundred times the value.
    let low = if first == 0 {
        at(0).min(phi / 100.0)
    } else {
        at(first)
    };
    let high = if last == points {
        at(points).max(phi * 100.0)
    } else {
        at(last)
    };
    Some(Scale {
        phi,
        interval: [low, high],
        at_limit: best < FINER / 2 || best > points - FINER / 2,
        step: range / STEPS as f64,
    })
}
