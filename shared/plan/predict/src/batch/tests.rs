use crate::{Dataset, FitOptions, Method, Sample, TaskSpec, fit};
use units::corun::Setting;
use units::{Batch, Share};

fn run(k: u64, tasks: usize, without: Option<usize>) -> Vec<Setting> {
    (0..tasks)
        .filter(|t| Some(*t) != without)
        .map(|task| Setting {
            task,
            batch: Batch::new(16 << ((k / 3 + task as u64) % 3)).unwrap(),
            share: Share::from_percent((1 + (k * 7 + 3 * task as u64) % 10) as f64 * 10.0).unwrap(),
        })
        .collect()
}

fn rates(active: &[Setting]) -> Vec<f64> {
    let total: f64 = active.iter().map(|a| a.share.fraction()).sum();
    let rate =
        |a: &Setting| 900.0 * a.share.fraction().sqrt() / (0.5 + total) / (1.0 + a.task as f64);
    active.iter().map(rate).collect()
}

#[test]
fn many_at_once_are_what_they_are_one_by_one() {
    let spec = TaskSpec {
        flops_per_sample: None,
        bytes_per_sample: None,
        batches: Vec::new(),
        copy_of: None,
    };
    let solo = |task, batch| Setting {
        task,
        batch: Batch::new(batch).unwrap(),
        share: Share::FULL,
    };
    let mut runs: Vec<Vec<Setting>> = (0..9).map(|k| vec![solo(k % 3, 16 << (k / 3))]).collect();
    runs.extend((0..40).map(|k| run(k, 3, None)));
    let samples = runs.iter().map(|active| Sample {
        throughput: rates(active),
        active: active.clone(),
        stderr: None,
    });
    let data = Dataset {
        tasks: vec![spec; 3],
        samples: samples.collect(),
    };
    for method in [Method::Structured, Method::Gp, Method::Blend] {
        let model = fit(&data, method, &FitOptions::default())
            .unwrap()
            .predictor;
        for (n, without) in [(3, None), (2, Some(1)), (1, None)] {
            let asked: Vec<Setting> = (0..131)
                .flat_map(|k| match n {
                    1 => vec![solo(k as usize % 3, 24)],
                    _ => {
                        let mut asked = run(k * k, 3, without);
                        // Outside the shares that the task had with others.
                        if k % 7 == 0 {
                            asked[0].share = Share::from_percent(5.0).unwrap();
                        }
                        asked
                    }
                })
                .collect();
            let mut many = vec![0.0; asked.len()];
            model.means_many(n, &asked, &mut many);
            let mut one = [0.0; 3];
            for (a, m) in asked.chunks_exact(n).zip(many.chunks_exact(n)) {
                model.means(a, &mut one);
                assert_eq!(&one[..n], m, "{method:?} {a:?}");
                // `means_until` predicts only the requested places, in the requested order.
                let places: Vec<usize> = (0..n).rev().collect();
                let mut seen = Vec::new();
                model.means_until(a, &places, &mut |at, rate| {
                    seen.push((at, rate));
                    seen.len() < 2
                });
                let wanted: Vec<_> = places.iter().map(|&at| (at, one[at])).take(2).collect();
                assert_eq!(seen, wanted, "{method:?} {a:?}");
            }
        }
    }
}
