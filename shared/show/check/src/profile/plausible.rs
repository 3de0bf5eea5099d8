//! Checks the plausibility of measurements on a real device. They cannot be repeated here, so implausible ones
//! are reported as doubts, never as wrong.

use std::collections::BTreeMap;

use doc::{Profile, Sample};
use units::{Batch, Share, TaskId};

use crate::judge::Judge;

/// Fraction by which a co-run may be faster than a solo run before it counts as implausible.
const NOISE: f64 = 0.10;
/// Relative standard error that is too large to learn from.
const LOOSE: f64 = 0.25;

/// Reports the implausible measurements.
pub fn judge(profile: &Profile, j: &mut Judge) {
    let solo = fastest_alone(profile);
    for (i, sample) in profile.samples.iter().enumerate() {
        j.field("samples", |j| j.index(i, |j| one(sample, &solo, j)));
    }
}

/// Highest rate of every task alone on the whole device at each batch size.
fn fastest_alone(profile: &Profile) -> BTreeMap<(TaskId, Batch), f64> {
    let mut solo = BTreeMap::new();
    for sample in &profile.samples {
        if let [run] = &sample.tasks[..]
            && run.share == Share::FULL
        {
            let best = solo.entry((run.id.clone(), run.batch)).or_insert(0.0_f64);
            *best = best.max(run.throughput.get());
        }
    }
    solo
}

fn one(sample: &Sample, solo: &BTreeMap<(TaskId, Batch), f64>, j: &mut Judge) {
    for (i, run) in sample.tasks.iter().enumerate() {
        let rate = run.throughput.get();
        let stderr = run.stderr.map_or(0.0, units::SamplesPerSec::get);
        j.field("tasks", |j| {
            j.index(i, |j| {
                if rate == 0.0 {
                    j.doubt("samples_per_s", "the task did not advance");
                }
                if stderr > LOOSE * rate {
                    let part = 100.0 * stderr / rate;
                    j.doubt(
                        "stderr_samples_per_s",
                        format!("{part:.0} % of the throughput"),
                    );
                }
                if let Some(run) = run.launch.run {
                    let whole = run.samples.as_f64() / run.time.get();
                    if whole > rate * (1.0 + NOISE) + 3.0 * stderr {
                        let text = format!(
                            "{whole} samples/s with start-up and end, but {rate} while it trained"
                        );
                        j.doubt("run_samples", text);
                    }
                }
                if let Some(&alone) = solo.get(&(run.id.clone(), run.batch))
                    && sample.tasks.len() > 1
                    && rate > alone * (1.0 + NOISE) + 3.0 * stderr
                {
                    let text = format!("{rate} with others, but {alone} alone on the whole device");
                    j.doubt("samples_per_s", text);
                }
            });
        });
    }
}
