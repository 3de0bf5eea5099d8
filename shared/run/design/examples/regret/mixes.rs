//! Mixes of models on simulated GPUs, drawn by a seed.

use doc::Workload;
use gpusim::Network;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use units::Share;

use super::Failure;

/// The mixes that are reported: the ISO week of the page, 2026-W48. No choice was made by them; whoever makes a
/// choice does so on others, and gives the page the week of the day.
pub(crate) const SEED: u64 = 202_648;
/// Those that ideas are tried on.
pub(crate) const TRIAL_SEED: u64 = 77;

/// A workload, and how finely its shares are chosen.
pub(crate) struct Mix {
    pub name: String,
    /// The workload as a document.
    pub text: String,
    pub workload: Workload,
    pub step: Share,
}

impl Mix {
    fn new(name: String, text: String, step: Share) -> Result<Self, Failure> {
        let frames = doc::Frames::new(text.as_bytes(), "mix");
        let read = doc::Documents::<_, Workload>::new(frames).next();
        let workload = read.ok_or("no workload")??;
        // One line, so that a list of mixes is one of lines.
        let text = text.split_whitespace().collect();
        Ok(Self {
            name,
            text,
            workload,
            step,
        })
    }
}

/// Two resnet34 on an RTX 3090, which were the worst case of plans by windows of five steps: 0.63 of
/// solo where 80 % each gives 0.70.
pub(crate) fn twins() -> Result<Mix, Failure> {
    let task = |id| {
        format!(
            r#"{{"id":"{id}","model":"resnet34","batch_sizes":[32,64,96],"samples":50000,
            "update_bytes":{{"down":20000000,"up":20000000}}}}"#
        )
    };
    let text = workload("rtx-3090", &[task("a"), task("b")]);
    let name = "rtx-3090: resnet34 twice".to_owned();
    Mix::new(name, text, Share::from_hundredths(500))
}

fn workload(gpu: &str, tasks: &[String]) -> String {
    format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim","gpu":"{gpu}"}},
        "link":{{"down_bps":4e8,"up_bps":2e8}},"tasks":[{}]}}"#,
        tasks.join(",")
    )
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
    let name = format!("{gpu}: {}", models.join(", "));
    Mix::new(name, workload(gpu, &tasks), Share::from_hundredths(step))
}
