//! The search of FedMT Table II: orders times batch sizes, with a predictor learnt from 125
//! samples.

use std::cell::Cell;

use doc::Method;
use overlap::{
    FixedRates, Instance, Link, ModelRates, OrderOptions, OverlapError, Rates, RoundTask, Set, vary,
};
use predict::{Dataset, FitOptions, Predictor, Sample, TaskSpec, fit};
use rand::Rng;
use units::corun::Setting;
use units::{Batch, Share};

use crate::common::rng;
use crate::rows::BenchError;

const BATCHES: [u64; 3] = [102, 128, 154];

/// A round of `n` tasks whose rates come from a Gaussian process.
pub struct Predicted {
    pub instance: Instance,
    pub predictor: Predictor,
    pub shares: Vec<Share>,
    pub batches: Vec<Vec<Batch>>,
}

/// Rates that count how often they are queried.
pub struct Counted<'a> {
    pub inner: &'a dyn Rates,
    pub calls: Cell<u64>,
}

impl Rates for Counted<'_> {
    fn rates(&self, active: Set, batches: &[Batch], out: &mut [f64]) -> Result<(), OverlapError> {
        self.calls.set(self.calls.get() + 1);
        self.inner.rates(active, batches, out)
    }
}

impl Predicted {
    /// Learns from every task alone and 125 random co-runs of a processor-sharing law.
    pub fn new(n: usize) -> Result<Self, BenchError> {
        let mut rng = rng(2022);
        let sizes: Vec<Batch> = BATCHES
            .iter()
            .map(|&b| Batch::new(b))
            .collect::<Result<_, _>>()?;
        let step: Vec<f64> = (0..n).map(|_| rng.random_range(0.02..0.12)).collect();
        let law = |active: &[Setting]| -> Vec<f64> {
            let load: f64 = active.iter().map(|a| 0.8 * a.share.fraction()).sum();
            active
                .iter()
                .map(|a| {
                    let b = a.batch.as_f64();
                    let compute = step[a.task] * (0.3 + 0.7 * b / 128.0);
                    b / (compute * load.max(1.0) / a.share.fraction().powf(0.6))
                })
                .collect()
        };
        let mut samples = Vec::new();
        let mut add = |active: Vec<Setting>| {
            samples.push(Sample {
                throughput: law(&active),
                active,
                stderr: None,
            });
        };
        for task in 0..n {
            for &batch in &sizes {
                add(vec![Setting {
                    task,
                    batch,
                    share: Share::FULL,
                }]);
            }
        }
        for k in 0..125 {
            let mut active = Vec::new();
            for task in 0..n {
                if k % 3 == 0 || rng.random_range(0..3) > 0 {
                    active.push(Setting {
                        task,
                        batch: sizes[rng.random_range(0..3)],
                        share: Share::from_percent(10.0 * f64::from(rng.random_range(3..=10)))?,
                    });
                }
            }
            if active.len() > 1 {
                add(active);
            }
        }
        let tasks = (0..n)
            .map(|_| TaskSpec {
                flops_per_sample: None,
                bytes_per_sample: None,
                batches: sizes.clone(),
                copy_of: None,
            })
            .collect();
        let options = FitOptions {
            validate: false,
            ..FitOptions::default()
        };
        let predictor = fit(&Dataset { tasks, samples }, Method::Gp, &options)?.predictor;
        let jobs = (0..n)
            .map(|i| RoundTask {
                download_s: rng.random_range(0.3..3.0),
                work: rng.random_range(4.0..9.0) * 128.0 / step[i],
                upload_s: rng.random_range(0.3..3.0),
            })
            .collect();
        Ok(Self {
            instance: Instance::new(jobs, Link::Full)?,
            predictor,
            shares: vec![Share::from_percent(70.0)?; n],
            batches: vec![vary(Batch::new(128)?, 20.0); n],
        })
    }

    pub fn rates(&self) -> ModelRates<'_, Predictor> {
        let n = self.instance.len();
        ModelRates::new(
            &self.predictor,
            (0..n).collect(),
            self.shares.clone(),
            &vec![0; n],
        )
    }

    pub fn options(&self) -> OrderOptions {
        OrderOptions {
            batches: self.batches.clone(),
            ..OrderOptions::default()
        }
    }

    /// The search of the paper: one prediction of all tasks for every order and batch
    /// combination, `T_i = D_i / P_i`; returns the best makespan.
    pub fn as_in_the_paper(&self) -> Result<f64, BenchError> {
        let n = self.instance.len();
        let source = self.rates();
        let mut best = f64::INFINITY;
        let mut order: Vec<usize> = (0..n).collect();
        let mut rates = vec![0.0; n];
        permute(&mut order, 0, &mut |order| {
            for mut code in 0..3_usize.pow(n as u32) {
                let batches: Vec<Batch> = (0..n)
                    .map(|i| {
                        let level = code % 3;
                        code /= 3;
                        self.batches[i][level]
                    })
                    .collect();
                source.rates((1 << n) - 1, &batches, &mut rates)?;
                let fixed = FixedRates(rates.clone());
                let order = overlap::Order::PerDirection {
                    downloads: order.to_vec(),
                    uploads: order.to_vec(),
                };
                let round = overlap::simulate(&self.instance, &fixed, &batches, &order)?;
                best = best.min(round.makespan_s);
            }
            Ok(())
        })?;
        Ok(best)
    }
}

fn permute(
    order: &mut Vec<usize>,
    from: usize,
    visit: &mut dyn FnMut(&[usize]) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    if from == order.len() {
        return visit(order);
    }
    for i in from..order.len() {
        order.swap(from, i);
        permute(order, from + 1, visit)?;
        order.swap(from, i);
    }
    Ok(())
}
