//! Error and intervals for a batch size, or a task, that never ran with others.

use predict::{Dataset, FitOptions, Method, Predictor, fit, fit_by_merit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::bench::Row;
use units::corun::Setting;

use crate::mixes::{BATCHES, Bed, Failure, MOST_SAMPLES, Measured, Mix, alone, draw, sample};

/// Models whose pairs run, and the number of pairs.
const MODELS: [&str; 6] = [
    "resnet18",
    "vgg16",
    "mobilenet_v3_large",
    "resnet50",
    "shufflenet_v2_x1_0",
    "densenet121",
];
const PAIRS: usize = 160;

/// Half the width of a 90 % interval, in standard errors.
const HALF_WIDTH: f64 = 1.645;

/// Errors (percent) of the default family and of the law alone, and how often intervals hold.
#[derive(Default)]
struct Judged {
    all: f64,
    error: f64,
    law: f64,
    inside: f64,
}

impl Judged {
    /// Learns from `data` and predicts the co-runs.
    fn add(&mut self, data: &Dataset, held: &[&Measured]) -> Result<(), Failure> {
        let options = FitOptions::default();
        let model = fit_by_merit(data, &options)?.predictor;
        let plain = FitOptions {
            validate: false,
            ..options
        };
        let law: Predictor = fit(data, Method::Structured, &plain)?.predictor;
        for m in held {
            let by_law = law.predict(&m.active);
            for (k, p) in model.predict(&m.active).iter().enumerate() {
                let off = |rate: f64| 100.0 * (rate / m.truth[k] - 1.0).abs();
                self.all += 1.0;
                self.error += off(p.samples_per_s);
                self.law += off(by_law[k].samples_per_s);
                let gap = (p.samples_per_s - m.measured[k]).abs();
                self.inside += f64::from(u8::from(gap <= HALF_WIDTH * p.std_error));
            }
        }
        Ok(())
    }

    fn rows(&self, name: &str, what: &str) -> [Row; 2] {
        let mean = |v: f64| v / self.all;
        [
            Row::new(
                format!("predict_unseen_{name}_mape"),
                (mean(self.error), "percent"),
                ("the structured law", mean(self.law)),
                format!("error of a throughput of co-runs with {what} that never ran among others"),
            ),
            Row::new(
                format!("predict_unseen_{name}_hold"),
                (100.0 * mean(self.inside), "percent"),
                ("what they should hold", 90.0),
                "measured throughputs of the same in 90 % intervals",
            ),
        ]
    }
}

pub fn rows(mixes: &[Mix]) -> Result<Vec<Row>, Failure> {
    let mut batches = Judged::default();
    for (k, mix) in mixes.iter().enumerate() {
        for task in 0..mix.tasks.len() {
            let batch = BATCHES[(task + k) % BATCHES.len()];
            let new = |a: &Setting| a.task == task && u64::from(a.batch.get()) == batch;
            let mut data = mix.dataset(0, MOST_SAMPLES);
            data.samples
                .retain(|s| s.active.len() == 1 || !s.active.iter().any(new));
            let held = mix.held_out.iter().filter(|m| m.active.iter().any(new));
            batches.add(&data, &held.collect::<Vec<_>>())?;
        }
    }
    let mut tasks = Judged::default();
    let (bed, specs) = Bed::new(&MODELS)?;
    let mut rng = StdRng::seed_from_u64(21);
    let solos = alone(&bed, MODELS.len(), &mut rng)?;
    let mut pairs = Vec::new();
    for _ in 0..PAIRS {
        let mut active = draw(MODELS.len(), &mut rng)?;
        while active.len() > 2 {
            active.remove(rng.random_range(0..active.len()));
        }
        pairs.push(bed.measure(active, &mut rng));
    }
    for task in 0..MODELS.len() {
        let new = |m: &&Measured| m.active.iter().any(|a| a.task == task);
        let (held, kept): (Vec<_>, Vec<_>) = pairs.iter().partition(new);
        let data = Dataset {
            tasks: specs.clone(),
            samples: solos.iter().chain(kept).map(sample).collect(),
        };
        tasks.add(&data, &held)?;
    }
    let mut rows = batches.rows("batch", "a batch size").to_vec();
    rows.extend(tasks.rows("task", "a task"));
    Ok(rows)
}
