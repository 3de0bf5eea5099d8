//! Training on the processor: data-parallel stochastic gradient descent with momentum.

mod data;
mod network;
mod norms;

use std::num::NonZero;
use std::ops::Range;

use cli::Failure;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use paralight::prelude::*;
use units::Batch;

use crate::config::Network;
use crate::trainer::{Step, Trainer};
use data::Clusters;
pub use network::ForwardPass;
use network::{Layout, Workspace};

use norms::HALVE_EVERY;
pub use norms::{MEASURE_EVERY, Norms, mean_square};

/// Number of gradients that are computed and discarded as a warm-up before the job reports that it is ready.
const WARM_UP_STEPS: usize = 2;

/// A network in training. Every step is split over the threads: each computes a gradient over its part of the batch,
/// and then each sums and applies a part of the parameters.
pub struct CpuTrainer {
    layout: Layout,
    weights: Vec<f32>,
    velocity: Vec<f32>,
    lanes: Vec<Lane>,
    threads: ThreadPool,
    learning_rate: f32,
    momentum: f32,
    /// Number of samples trained on, which is the index of the next one.
    position: u64,
    steps: u64,
    /// Gradient of the first half of a batch, if one thread computes it in two parts.
    half: Vec<f32>,
}

/// Private data of one thread.
struct Lane {
    data: Clusters,
    work: Workspace,
    /// Result of the last step.
    outcome: ForwardPass,
}

impl CpuTrainer {
    /// A network with random weights.
    pub fn new(network: &Network) -> Self {
        let threads = ThreadPoolBuilder {
            num_threads: ThreadCount::Count(network.threads),
            range_strategy: RangeStrategy::Fixed,
            // Without pinning, the threads of competing jobs settle into one of several placements on the processors,
            // with different rates.
            cpu_pinning: if fill_the_machine(network.threads) {
                CpuPinningPolicy::IfSupported
            } else {
                CpuPinningPolicy::No
            },
        };
        let layout = Layout::new(&network.sizes);
        let weights = layout.random_weights(network.seed);
        let (inputs, outputs) = (layout.inputs(), layout.outputs());
        let lanes = (0..network.threads.get())
            .map(|_| Lane {
                data: Clusters::new(inputs, outputs, network.seed, network.round),
                work: Workspace::new(&layout),
                outcome: ForwardPass::default(),
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
            position: 0,
            steps: 0,
            half: Vec::new(),
        }
    }

    /// Number of threads that share a step.
    pub fn threads(&self) -> usize {
        self.lanes.len()
    }

    /// The weights, and the update of the last step for each of them.
    pub fn parameters(&mut self) -> (&mut [f32], &mut [f32]) {
        (&mut self.weights, &mut self.velocity)
    }

    /// Whether norms are measured in a step with this number.
    pub fn is_measured(&self, step: u64) -> bool {
        step.is_multiple_of(match self.lanes.len() {
            1 => HALVE_EVERY,
            _ => MEASURE_EVERY,
        })
    }

    /// One step on `batch` samples.
    fn train(&mut self, batch: usize) -> Step {
        let measured = self.is_measured(self.steps);
        let (lanes, outcome, norms) = self.measured_gradients(self.position, batch, measured);
        self.steps += 1;
        self.position += batch as u64;
        let gradients: Vec<&[f32]> = self.lanes[..lanes]
            .iter()
            .map(|lane| lane.work.gradients())
            .collect();
        let step = Descent {
            rate: self.learning_rate / batch as f32,
            momentum: self.momentum,
        };
        step.apply(
            &mut self.threads,
            &mut self.weights,
            &mut self.velocity,
            &gradients,
        );
        Step {
            loss: outcome.loss / batch as f64,
            norms,
        }
    }

    /// Like [`CpuTrainer::gradients`]; if `measured`, also norms of the parts of the threads, or of two halves if there
    /// is only one thread.
    fn measured_gradients(
        &mut self,
        first: u64,
        rows: usize,
        measured: bool,
    ) -> (usize, ForwardPass, Option<Norms>) {
        if measured && self.lanes.len() == 1 && rows > 1 {
            let before = rows / 2;
            let (_, mut outcome) = self.gradients(first, before);
            self.half.clear();
            self.half.extend_from_slice(self.lanes[0].work.gradients());
            outcome += self.gradients(first + before as u64, rows - before).1;
            let work = &mut self.lanes[0].work;
            let parts = [(before, &self.half[..]), (rows - before, work.gradients())];
            let norms = Norms::of_parts(&parts);
            work.add(&self.half);
            return (1, outcome, norms);
        }
        let (lanes, outcome) = self.gradients(first, rows);
        if !measured {
            return (lanes, outcome, None);
        }
        let parts: Vec<(usize, &[f32])> = self.lanes[..lanes]
            .iter()
            .enumerate()
            .map(|(i, lane)| (part(rows, i, lanes).len(), lane.work.gradients()))
            .collect();
        let norms = Norms::of_parts(&parts);
        (lanes, outcome, norms)
    }

    /// Sums the gradient over the samples `first` to `first + rows` into `sum`; returns norms of its parts if
    /// `measured`.
    pub fn summed_gradient(
        &mut self,
        first: u64,
        rows: usize,
        sum: &mut Vec<f32>,
        measured: bool,
    ) -> (ForwardPass, Option<Norms>) {
        sum.clear();
        if rows == 0 {
            sum.resize(self.weights.len(), 0.0);
            return (ForwardPass::default(), None);
        }
        let (lanes, outcome, norms) = self.measured_gradients(first, rows, measured);
        sum.extend_from_slice(self.lanes[0].work.gradients());
        for lane in &self.lanes[1..lanes] {
            for (s, g) in sum.iter_mut().zip(lane.work.gradients()) {
                *s += g;
            }
        }
        (outcome, norms)
    }

    /// Applies a gradient that was summed over `batch` samples.
    pub fn descend(&mut self, sum: &[f32], batch: usize) {
        let step = Descent {
            rate: self.learning_rate / batch as f32,
            momentum: self.momentum,
        };
        step.apply(
            &mut self.threads,
            &mut self.weights,
            &mut self.velocity,
            &[sum],
        );
    }

    /// Gradients of the lanes over their parts of `rows` samples: the number of lanes with a part, and their results.
    fn gradients(&mut self, first: u64, rows: usize) -> (usize, ForwardPass) {
        let lanes = self.lanes.len().min(rows);
        let (layout, weights) = (&self.layout, &self.weights[..]);
        let parts = (0..lanes).map(|i| part(rows, i, lanes));
        let work = |(lane, part): (&mut Lane, Range<usize>)| {
            lane.data
                .draw(first.wrapping_add(part.start as u64), part.len());
            let samples = lane.data.samples();
            let labels = lane.data.labels();
            lane.outcome = lane.work.gradient(layout, weights, samples, labels);
        };
        on_threads(&mut self.threads, self.lanes.iter_mut().zip(parts), work);
        let mut all = ForwardPass::default();
        for lane in &self.lanes[..lanes] {
            all += lane.outcome;
        }
        (lanes, all)
    }
}

/// Samples of part `i` if a step of `rows` samples is split into `parts`.
fn part(rows: usize, i: usize, parts: usize) -> Range<usize> {
    rows * i / parts..rows * (i + 1) / parts
}

/// `v <- momentum v - rate g`, `w <- w + v`, where `g` is a sum of gradients and `rate` is the learning rate divided by
/// the number of samples.
struct Descent {
    rate: f32,
    momentum: f32,
}

impl Descent {
    fn apply(
        &self,
        threads: &mut ThreadPool,
        weights: &mut [f32],
        velocity: &mut [f32],
        gradients: &[&[f32]],
    ) {
        let size = weights.len().div_ceil(gradients.len());
        let parts = weights
            .chunks_mut(size)
            .zip(velocity.chunks_mut(size))
            .enumerate();
        on_threads(threads, parts, |(part, (weights, velocity))| {
            let from = part * size;
            let range = from..from + weights.len();
            for (v, g) in velocity.iter_mut().zip(&gradients[0][range.clone()]) {
                *v = self.momentum * *v - self.rate * g;
            }
            for other in &gradients[1..] {
                for (v, g) in velocity.iter_mut().zip(&other[range.clone()]) {
                    *v -= self.rate * g;
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
            // The warm-up leaves the weights unchanged, so that learning does not depend on restarts.
            self.gradients(0, batch.get() as usize);
        }
        Ok(vec![("threads", self.lanes.len().to_string())])
    }

    fn step(&mut self, batch: Batch) -> Result<Step, Failure> {
        Ok(self.train(batch.get() as usize))
    }
}

/// Whether this process may use exactly the processors 0 to `threads` - 1, to which threads are pinned in turn.
fn fill_the_machine(threads: NonZero<usize>) -> bool {
    let ours = |set: CpuSet, cpu| set.is_set(cpu).unwrap_or(false);
    sched_getaffinity(Pid::from_raw(0))
        .is_ok_and(|set| (0..CpuSet::count()).all(|cpu| ours(set, cpu) == (cpu < threads.get())))
}

/// Runs `work` on every item, one per thread. Waiting threads sleep, because among competing jobs a thread that spins
/// or yields loses its time slices to the others.
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
        let first = trainer.train(64).loss;
        let last = (0..200).map(|_| trainer.train(64).loss).last().unwrap();
        assert!(first > 0.8, "{first}");
        assert!(last < 0.3 * first, "from {first} to {last}");
    }

    #[test]
    fn threads_do_not_change_what_is_learnt() {
        let losses = |threads| {
            let mut trainer = CpuTrainer::new(&network(threads));
            (0..50).map(|_| trainer.train(30).loss).collect::<Vec<_>>()
        };
        for (one, three) in losses(1).iter().zip(losses(3)) {
            assert!((one - three).abs() < 1e-4 * one, "{one} {three}");
        }
    }

    #[test]
    fn more_threads_than_samples_train_too() {
        let mut trainer = CpuTrainer::new(&network(8));
        assert!(trainer.train(3).loss.is_finite());
    }

    #[test]
    fn the_same_seed_trains_the_same_way() {
        let run = || {
            let mut trainer = CpuTrainer::new(&network(2));
            (0..20)
                .map(|_| trainer.train(32).loss.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}
