//! Mixes of two to eight trainings on simulated GPUs, drawn by a seed.

use doc::Workload;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use super::Failure;

/// Models of the simulator's catalogue.
const MODELS: [&str; 9] = gpusim::Network::CATALOGUE;

/// Mix number `index`: 2 to 8 tasks in turn. Rounds of its tasks alone differ by up to a factor of three in half of
/// the mixes, and by up to twenty in the others.
pub(crate) fn draw(index: usize, seed: u64) -> Result<(String, Workload), Failure> {
    let mut rng = StdRng::seed_from_u64(seed + 1_000 * index as u64);
    let count = 2 + index % 7;
    let gpu = ["titan-v", "rtx-3080", "rtx-3090", "a100", "h100"]
        .choose(&mut rng)
        .copied()
        .unwrap_or("a100");
    let mut models = MODELS.to_vec();
    models.shuffle(&mut rng);
    models.truncate(count);
    let decades = if index.is_multiple_of(2) { 0.5 } else { 1.3 };
    let tasks: Vec<String> = models
        .iter()
        .map(|model| {
            let batch = 32 << rng.random_range(0..3);
            let samples = 10f64.powf(4.5 + rng.random_range(0.0..decades)) as u64;
            format!(r#"{{"id":"{model}","model":"{model}","batch_sizes":[{batch}],"samples":{samples}}}"#)
        })
        .collect();
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim","gpu":"{gpu}"}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    let mut documents =
        doc::Documents::<_, Workload>::new(doc::Frames::new(text.as_bytes(), "mix"));
    let workload = documents.next().ok_or("no workload")??;
    Ok((format!("{gpu}: {}", models.join(", ")), workload))
}
