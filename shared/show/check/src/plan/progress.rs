//! Value of a sample at a batch size, recomputed independently.

use doc::{EfficiencyCurve, EfficiencyRow, Target, Task};
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
    let reference = reference(task);
    if let EfficiencyCurve::NoiseScale { samples, .. } = &known.curve {
        return (samples + reference.as_f64()) / (samples + batch.as_f64());
    }
    (in_table(&known.curve, batch) - in_table(&known.curve, reference)).exp()
}

/// The task if its efficiency is at the lower (0) or upper (1) end of its interval, each row of a table at its own;
/// `None` if no interval is known.
///
/// The end of a row is one of the rounds at its size. So if the row of the reference size moves, the rounds at the
/// reference size do.
pub fn at_end(task: &Task, end: usize) -> Option<Task> {
    let mut moved = task.clone();
    let curve = &mut moved.efficiency.as_mut()?.curve;
    match curve {
        EfficiencyCurve::NoiseScale { samples, interval } => *samples = (*interval)?[end],
        EfficiencyCurve::Progress(rows) | EfficiencyCurve::Rounds(rows) => {
            for row in rows {
                row.value = row.interval?[end];
            }
            let before = in_table(&task.efficiency.as_ref()?.curve, reference(task));
            let change = (before - in_table(curve, reference(task))).exp();
            moved.rounds_to_target = Some(task.rounds_at_reference().unwrap_or(1.0) * change);
        }
    }
    Some(moved)
}

/// What the rounds of a task add to the squared logarithm of the plan's time relative to one task after another, below
/// and above, because it has another batch size there than the `chosen` one; `None` if it has the same, so that its
/// error is common to both. One after another is faster than planned where the plan is relatively slower.
pub fn errors_alone(claimed: &Target, task: &Task, chosen: Batch) -> Option<[f64; 2]> {
    let own = claimed.tasks.iter().find(|t| t.id == task.id)?;
    if own.alone_batch == chosen {
        return None;
    }
    let rounds =
        |task: &Task| task.rounds_at_reference().unwrap_or(1.0) / efficiency(task, own.alone_batch);
    let offs: Vec<f64> = (0..2)
        .filter_map(|end| Some((rounds(&at_end(task, end)?) / rounds(task)).ln()))
        .collect();
    let slower = offs.iter().copied().fold(0.0, f64::max);
    let faster = offs.iter().map(|off| -off).fold(0.0, f64::max);
    Some([slower * slower, faster * faster])
}

fn reference(task: &Task) -> Batch {
    task.batch.unwrap_or(task.batch_sizes[0])
}

/// Logarithm of the progress per sample at a batch size, by a table; 0 for a noise scale.
fn in_table(curve: &EfficiencyCurve, batch: Batch) -> f64 {
    let of = |rows: &[EfficiencyRow], sign: f64| -> Vec<(f64, f64)> {
        let row = |r: &EfficiencyRow| (r.batch.as_f64(), sign * r.value.ln());
        rows.iter().map(row).collect()
    };
    let rows = match curve {
        EfficiencyCurve::NoiseScale { .. } => return 0.0,
        EfficiencyCurve::Progress(rows) => of(rows, 1.0),
        EfficiencyCurve::Rounds(rows) => of(rows, -1.0),
    };
    let level = falling(&rows.iter().map(|r| (r.1, 1)).collect::<Vec<_>>());
    let b = batch.as_f64();
    let last = rows.len() - 1;
    let Some(above) = rows.iter().position(|row| row.0 >= b) else {
        return level[last] - (b / rows[last].0).ln();
    };
    if above == 0 {
        return level[0];
    }
    let low = rows[above - 1].0.ln();
    let high = rows[above].0.ln();
    let part = (b.ln() - low) / (high - low);
    level[above - 1] * (1.0 - part) + level[above] * part
}

#[cfg(test)]
mod tests {
    use super::*;
    use doc::{Efficiency, EfficiencySource};

    #[test]
    fn the_rounds_of_a_table_move_at_every_size() {
        let batch = |size| Batch::new(size).unwrap();
        let row = |(size, value, interval)| EfficiencyRow {
            interval: Some(interval),
            ..EfficiencyRow::of(batch(size), value)
        };
        let rows = [(16, 4.0, [2.0, 6.0]), (64, 8.0, [8.0, 16.0])];
        for rounds_to_target in [None, Some(12.0)] {
            let task = Task {
                batch_sizes: vec![batch(16), batch(64)],
                efficiency: Some(Efficiency {
                    curve: EfficiencyCurve::Rounds(rows.map(row).to_vec()),
                    source: EfficiencySource::Declared,
                }),
                rounds_to_target,
                ..Task::named(units::TaskId::new("a").unwrap())
            };
            let unit = rounds_to_target.map_or(1.0, |rounds| rounds / 4.0);
            let rounds = |task: &Task, size| {
                task.rounds_at_reference().unwrap() / efficiency(task, batch(size)) / unit
            };
            for (end, wanted) in [[2.0, 8.0, 16.0], [6.0, 16.0, 32.0]]
                .into_iter()
                .enumerate()
            {
                let moved = at_end(&task, end).unwrap();
                for (size, wanted) in [16, 64, 128].into_iter().zip(wanted) {
                    let found = rounds(&moved, size);
                    assert!(
                        (found / wanted - 1.0).abs() < 1e-12,
                        "{end} {size}: {found}"
                    );
                }
            }
        }
    }
}
