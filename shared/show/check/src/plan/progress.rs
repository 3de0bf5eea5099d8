//! Value of a sample at a batch size, recomputed independently.

use doc::{EfficiencyCurve, Task};
use units::Batch;

use crate::falling::falling;

/// Progress per sample at a batch size, relative to that at the task's reference size; 1 if nothing is known.
///
/// With a noise scale `phi` it is `(phi + B0) / (phi + B)`. A table is interpolated linearly in both logarithms
/// between rows; it is constant below the first row and proportional to `1 / B` above the last. Rising rows are
/// replaced by the closest non-increasing curve.
pub fn efficiency(task: &Task, batch: Batch) -> f64 {
    let Some(known) = &task.efficiency else {
        return 1.0;
    };
    let reference = task.batch.unwrap_or(task.batch_sizes[0]);
    let rows: Vec<(f64, f64)> = match &known.curve {
        EfficiencyCurve::NoiseScale { samples, .. } => {
            return (samples + reference.as_f64()) / (samples + batch.as_f64());
        }
        EfficiencyCurve::Progress(rows) => rows.iter().map(|(b, p)| (b.as_f64(), p.ln())).collect(),
        EfficiencyCurve::Rounds(rows) => rows.iter().map(|(b, n)| (b.as_f64(), -n.ln())).collect(),
    };
    let level = falling(&rows.iter().map(|r| (r.1, 1)).collect::<Vec<_>>());
    let at = |b: f64| {
        let last = rows.len() - 1;
        let Some(above) = rows.iter().position(|row| row.0 >= b) else {
            return level[last] - (b / rows[last].0).ln();
        };
        if above == 0 {
            return level[0];
        }
        let (low, high) = (rows[above - 1].0.ln(), rows[above].0.ln());
        let part = (b.ln() - low) / (high - low);
        level[above - 1] * (1.0 - part) + level[above] * part
    };
    (at(batch.as_f64()) - at(reference.as_f64())).exp()
}
