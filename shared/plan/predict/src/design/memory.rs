//! Uses a model of a similar workload for the first measurements.

use rand::SeedableRng;
use rand::rngs::StdRng;
use units::Share;
use units::corun::Setting;

use super::space::Design;
use crate::dataset::{Dataset, Sample};
use crate::predictor::Predictor;

/// Number of predictions of the earlier model that are used as data; each measured co-run replaces one.
const REMEMBERED: usize = 40;

/// The data plus predictions of the earlier model at random configurations: its slow-downs, applied to the
/// newly measured solo runs.
pub(super) fn with_memory(design: &Design<'_>, earlier: &Predictor, data: &Dataset) -> Dataset {
    let mut known = data.clone();
    let coruns = data.samples.iter().filter(|s| s.active.len() > 1).count();
    let mut rng = StdRng::seed_from_u64(design.seed);
    let mut rates = vec![0.0; design.batches.len()];
    // The draws have the same order each time, so the set of used predictions only shrinks.
    for _ in coruns..REMEMBERED {
        let Some(active) = design.draw(&mut rng) else {
            break;
        };
        earlier.means(&active, &mut rates);
        let now = active.iter().zip(&rates).map(|(a, rate)| {
            let solo = solo_rate(data, *a)?;
            Some(rate / earlier.solo(a.task, a.batch) * solo)
        });
        if let Some(throughput) = now.collect::<Option<Vec<f64>>>() {
            known.samples.push(Sample {
                active,
                throughput,
                stderr: None,
            });
        }
    }
    known
}

fn solo_rate(data: &Dataset, run: Setting) -> Option<f64> {
    let alone = Setting {
        share: Share::FULL,
        ..run
    };
    let mut samples = data.samples.iter();
    let sample = samples.find(|s| s.active == [alone] && s.throughput[0] > 0.0)?;
    Some(sample.throughput[0])
}
