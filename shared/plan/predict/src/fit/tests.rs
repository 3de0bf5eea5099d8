use super::*;
use crate::{Sample, TaskSpec};
use units::corun::Setting;
use units::{Batch, Share};

fn law(r: f64, other: f64) -> f64 {
    1000.0 * r.powf(0.7) / (1.0 + 0.4 * other)
}

fn pair(r0: f64, r1: f64) -> Sample {
    let one = |task, r: f64| Setting {
        task,
        batch: Batch::new(64).unwrap(),
        share: Share::from_percent((r * 100.0).round()).unwrap(),
    };
    Sample {
        active: vec![one(0, r0), one(1, r1)],
        throughput: vec![law(r0, r1), 2.0 * law(r1, r0)],
        stderr: None,
    }
}

#[test]
fn learns_a_smooth_law_of_shares() {
    let mut data = Dataset {
        tasks: vec![
            TaskSpec {
                flops_per_sample: None,
                bytes_per_sample: None,
                batches: vec![Batch::new(64).unwrap()],
                copy_of: None,
            };
            2
        ],
        samples: Vec::new(),
    };
    for task in 0..2 {
        data.samples.push(Sample {
            active: vec![Setting {
                task,
                batch: Batch::new(64).unwrap(),
                share: Share::FULL,
            }],
            throughput: vec![1000.0 * (task + 1) as f64],
            stderr: None,
        });
    }
    for i in 1..=5 {
        for j in 1..=5 {
            data.samples
                .push(pair(0.2 * f64::from(i), 0.2 * f64::from(j)));
        }
    }
    let fitted = fit(&data, Method::Gp, &FitOptions::default()).unwrap();
    let s = pair(0.5, 0.7);
    let mut out = [0.0; 2];
    fitted.predictor.means(&s.active, &mut out);
    for (p, t) in out.iter().zip(&s.throughput) {
        assert!((p / t - 1.0).abs() < 0.05, "{p} {t}");
    }
    let solo = fitted.predictor.solo(1, Batch::new(64).unwrap());
    assert!((solo - 2000.0).abs() < 1e-9);
}
