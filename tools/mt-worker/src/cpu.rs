//! Training on the processor: data-parallel stochastic gradient descent with momentum.

mod data;
mod network;

use std::num::NonZero;

use cli::Failure;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use paralight::prelude::*;
use units::Batch;

use crate::args::Network;
use crate::trainer::Trainer;
use data::Clusters;
use network::{Layout, Workspace};

/// Steps that are made and forgotten before the job says that it is ready.
const WARM_UP_STEPS: usize = 2;

/// A network in training. Every step is split over the threads: each trains on its part of the
/// batch into a gradient of its own, then each sums and applies its part of the gradient.
pub struct CpuTrainer {
    layout: Layout,
    weights: Vec<f32>,
    velocity: Vec<f32>,
    lanes: Vec<Lane>,
    threads: ThreadPool,
    learning_rate: f32,
    momentum: f32,
}

/// What one thread needs for itself.
struct Lane {
    data: Clusters,
    work: Workspace,
    /// Sum over the samples of the last step.
    loss: f64,
}

impl CpuTrainer {
    /// A network with random weights.
    pub fn new(network: &Network) -> Self {
        let threads = ThreadPoolBuilder {
            num_threads: ThreadCount::Count(network.threads),
            range_strategy: RangeStrategy::Fixed,
            // Left alone, the threads of jobs that compete settle into one of several patterns of
            // who runs beside whom, each with rates of its own.
            cpu_pinning: if fill_the_machine(network.threads) {
                CpuPinningPolicy::IfSupported
            } else {
                CpuPinningPolicy::No
            },
        };
        let layout = Layout::new(&network.sizes);
        let weights = layout.random_weights(network.seed);
        let lanes = (0..network.threads.get())
            .map(|lane| Lane {
                data: Clusters::new(
                    layout.inputs(),
                    layout.outputs(),
                    network.seed,
                    network
                        .round
                        .wrapping_mul(1 << 20)
                        .wrapping_add(lane as u64),
                ),
                work: Workspace::new(&layout),
                loss: 0.0,
            })
            .collect();
        Self {
            velocity: vec![0.0; weights.len()],
            weights,
            layout,
            lanes,
            threads: threads.build(),
            learning_rate: network.learning_rate,
            momentum: network.momentum,
        }
    }

    /// One step on `batch` samples; the mean loss over them before the step.
    fn train(&mut self, batch: usize) -> f64 {
        let lanes = self.lanes.len().min(batch);
        let (layout, weights) = (&self.layout, &self.weights[..]);
        let parts = (0..lanes).map(|i| batch * (i + 1) / lanes - batch * i / lanes);
        let work = |(lane, rows): (&mut Lane, usize)| {
            lane.data.draw(rows);
            let (samples, labels) = (lane.data.samples(), lane.data.labels());
            lane.loss = lane.work.gradient(layout, weights, samples, labels);
        };
        on_threads(&mut self.threads, self.lanes.iter_mut().zip(parts), work);
        self.apply(lanes, batch);
        self.lanes[..lanes]
            .iter()
            .map(|lane| lane.loss)
            .sum::<f64>()
            / batch as f64
    }

    /// `v <- momentum v - rate g`, `w <- w + v`, with `g` the mean gradient over the batch.
    fn apply(&mut self, lanes: usize, batch: usize) {
        let rate = self.learning_rate / batch as f32;
        let momentum = self.momentum;
        let gradients: Vec<&[f32]> = self.lanes[..lanes]
            .iter()
            .map(|lane| lane.work.gradients())
            .collect();
        let gradients = &gradients;
        let size = self.weights.len().div_ceil(lanes);
        let parts = self
            .weights
            .chunks_mut(size)
            .zip(self.velocity.chunks_mut(size))
            .enumerate();
        on_threads(&mut self.threads, parts, |(part, (weights, velocity))| {
            let from = part * size;
            let range = from..from + weights.len();
            for (v, g) in velocity.iter_mut().zip(&gradients[0][range.clone()]) {
                *v = momentum * *v - rate * g;
            }
            for other in &gradients[1..] {
                for (v, g) in velocity.iter_mut().zip(&other[range.clone()]) {
                    *v -= rate * g;
                }
            }
            for (w, v) in weights.iter_mut().zip(velocity.iter()) {
                *w += v;
            }
        });
    }
}

impl Trainer for CpuTrainer {
    fn warm_up(&mut self, batch: Batch) -> Result<Vec<(&'static str, String)>, Failure> {
        for _ in 0..WARM_UP_STEPS {
            self.train(batch.get() as usize);
        }
        Ok(vec![("threads", self.lanes.len().to_string())])
    }

    fn step(&mut self, batch: Batch) -> Result<f64, Failure> {
        Ok(self.train(batch.get() as usize))
    }
}

/// Whether this process may use the processors 0 to `threads` - 1, which are pinned to in turn,
/// and no others.
fn fill_the_machine(threads: NonZero<usize>) -> bool {
    let ours = |set: CpuSet, cpu| set.is_set(cpu).unwrap_or(false);
    sched_getaffinity(Pid::from_raw(0))
        .is_ok_and(|set| (0..CpuSet::count()).all(|cpu| ours(set, cpu) == (cpu < threads.get())))
}

/// Runs `work` on every item, one on each thread. Threads that wait sleep: where jobs compete, one
/// that spins or yields loses its turns to the others.
fn on_threads<I: Send>(
    threads: &mut ThreadPool,
    items: impl Iterator<Item = I>,
    work: impl Fn(I) + Sync,
) {
    let items: Vec<I> = items.collect();
    if items.len() == 1 {
        items.into_iter().for_each(work);
    } else {
        let items = items.into_par_iter();
        items.with_thread_pool(threads).for_each(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(threads: usize) -> Network {
        Network {
            threads: NonZero::new(threads).unwrap(),
            sizes: vec![16, 32, 32, 4],
            learning_rate: 0.05,
            momentum: 0.9,
            seed: 7,
            round: 0,
        }
    }

    #[test]
    fn the_loss_falls_far_below_guessing() {
        let mut trainer = CpuTrainer::new(&network(2));
        let first = trainer.train(64);
        let last = (0..200).map(|_| trainer.train(64)).last().unwrap();
        assert!(first > 0.8, "{first}");
        assert!(last < 0.3 * first, "from {first} to {last}");
    }

    #[test]
    fn more_threads_than_samples_train_too() {
        let mut trainer = CpuTrainer::new(&network(8));
        assert!(trainer.train(3).is_finite());
    }

    #[test]
    fn the_same_seed_trains_the_same_way() {
        let run = || {
            let mut trainer = CpuTrainer::new(&network(2));
            (0..20)
                .map(|_| trainer.train(32).to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}
