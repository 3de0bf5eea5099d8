//! Mixes of models on simulated GPUs, drawn by a seed.

use doc::Workload;
use gpusim::Network;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use units::Share;

use super::Failure;

/// The mixes that are reported; no other figure of this project is of them, and no choice was made by them.
pub(crate) const SEED: u64 = 20_261_124;
/// Those that ideas are tried on.
pub(crate) const TRIAL_SEED: u64 = 77;

/// A workload, and how finely its shares are chosen.
pub(crate) struct Mix {
    pub name: String,
    pub workload: Workload,
    pub step: Share,
}

/// Mix number `index`: 2 to 6 tasks in turn.
pub(crate) fn draw(index: usize, seed: u64) -> Result<Mix, Failure> {
    let mut rng = StdRng::seed_from_u64(seed + 1_000 * index as u64);
    let (count, step) = [(2, 500), (3, 1_000), (4, 1_000), (5, 1_000), (6, 1_000)][index % 5];
    let gpus = ["titan-v", "rtx-3080", "rtx-3090", "a100", "h100"];
    let gpu = gpus.choose(&mut rng).copied().unwrap_or(gpus[0]);
    let mut models = Network::CATALOGUE.to_vec();
    models.shuffle(&mut rng);
    models.truncate(count);
    let tasks: Vec<String> = models
        .iter()
        .map(|model| {
            let largest: u32 = 64 << rng.random_range(0..3);
            let samples = (10f64.powf(rng.random_range(3.7..5.3))) as u64;
            let bytes: u64 = rng.random_range(2_000_000..60_000_000);
            format!(
                r#"{{"id":"{model}","model":"{model}","batch_sizes":[{},{largest}],
                "samples":{samples},"update_bytes":{{"down":{bytes},"up":{bytes}}}}}"#,
                largest / 2
            )
        })
        .collect();
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim","gpu":"{gpu}"}},
        "link":{{"down_bps":4e8,"up_bps":2e8}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    let frames = doc::Frames::new(text.as_bytes(), "mix");
    let workload = doc::Documents::<_, Workload>::new(frames).next();
    let workload = workload.ok_or("no workload")??;
    Ok(Mix {
        name: format!("{gpu}: {}", models.join(", ")),
        workload,
        step: Share::from_hundredths(step),
    })
}
