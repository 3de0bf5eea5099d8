//! One Gaussian process for all tasks, on the slow-down relative to the solo run: it transfers knowledge from tasks
//! and batch sizes with co-runs to those that never ran with others.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use crate::base::Base;
use crate::dataset::{Dataset, Sample};
use crate::features::{CorunInputs, MAX_FEATURES};
use crate::gp::Hyper;
use crate::model::{GpPart, condition, learn_groups};
use crate::rows::Rows;

/// The process.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    /// During the fit, its points refer to samples.
    pub part: GpPart,
    /// Mean of `ln(step / solo step)`.
    pub mean: f64,
    pub own: OwnHalves,
}

/// Key of the first group of features ([`CorunInputs::own`]).
type Own = [u64; 4];

/// Maximum number of cached halves of the kernel. 16 tasks with 4 batch sizes at 20 shares have 1,280, of 2 kB
/// each.
const MOST_HALVES: usize = 4_096;

/// Cache of kernel values on a task's own features, by its setting. They do not depend on the other tasks'
/// settings, and computing them takes half the time of a prediction.
#[derive(Debug, Default)]
pub(crate) struct OwnHalves(RwLock<HashMap<Own, Arc<[f64]>>>);

/// A clone starts with an empty cache, because its process may be changed.
impl Clone for OwnHalves {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl OwnHalves {
    fn of(&self, own: Own, compute: impl FnOnce() -> Vec<f64>) -> Arc<[f64]> {
        // Even after a panic in another thread the table is consistent, because halves are inserted in one step.
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(half) = known.get(&own) {
            return Arc::clone(half);
        }
        drop(known);
        let half: Arc<[f64]> = compute().into();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST_HALVES {
            known.insert(own, Arc::clone(&half));
        }
        half
    }
}

/// Weights of the process of all tasks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Weights {
    /// At share levels and numbers of tasks that the measured co-runs covered.
    pub known: f64,
    /// Elsewhere. There, trees are not used, and laws describe shares better than the process.
    pub far: f64,
}

impl Weights {
    pub fn of(self, has_levels: bool) -> f64 {
        if has_levels { self.known } else { self.far }
    }
}

/// Prediction of the process for all tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pooled {
    /// `ln(step seconds)`.
    pub ln_step: f64,
    /// Its variance, noise included.
    pub variance: f64,
}

/// Training data of the process: the co-runs, task by task.
#[derive(Debug)]
pub(crate) struct PoolRows {
    pub rows: Rows,
    mean: f64,
}

impl PoolRows {
    /// Rows of every task that ran with others, without throughputs of zero.
    pub fn of(data: &Dataset, base: &Base) -> Self {
        let mut pool = Self {
            rows: Rows::default(),
            mean: 0.0,
        };
        for task in 0..data.tasks.len() {
            for (k, s) in data.samples.iter().enumerate() {
                for (at, (a, p)) in s.active.iter().zip(&s.throughput).enumerate() {
                    if a.task == task && s.active.len() > 1 && *p > 0.0 {
                        pool.push(k, s, at, base);
                    }
                }
            }
        }
        let rows = &mut pool.rows;
        let slow_down = rows.ln_step.iter().zip(&rows.ln_solo);
        let sum: f64 = slow_down.map(|(a, b)| a - b).sum();
        pool.mean = sum / (rows.len() as f64).max(1.0);
        // The process learns the residual of `ln_law`.
        rows.ln_law = rows.ln_solo.iter().map(|s| s + pool.mean).collect();
        pool
    }

    fn push(&mut self, position: usize, s: &Sample, at: usize, base: &Base) {
        let inputs = base.inputs(&s.active);
        let rate = s.throughput[at];
        let rows = &mut self.rows;
        rows.sample.push(position);
        rows.place.push(at);
        rows.features.push(base.layout.groups_of(&inputs, at));
        rows.ln_step.push((s.active[at].batch.as_f64() / rate).ln());
        rows.ln_solo.push(inputs.ln_alone[at]);
        rows.error.push(s.stderr.as_ref().map(|e| e[at] / rate));
    }

    fn pool(&self, mut part: GpPart) -> Pool {
        part.places = part.points.iter().map(|p| self.rows.place[*p]).collect();
        for p in &mut part.points {
            *p = self.rows.sample[*p];
        }
        Pool {
            part,
            mean: self.mean,
            own: OwnHalves::default(),
        }
    }

    /// The process with the most probable hyper-parameters.
    pub fn learn(&self, base: &Base) -> Option<Pool> {
        learn_groups(&self.rows, base.layout).map(|p| self.pool(p))
    }

    /// The process with known hyper-parameters.
    pub fn condition(&self, hyper: &Hyper) -> Option<Pool> {
        condition(&self.rows, hyper.clone(), None).map(|p| self.pool(p))
    }
}

impl Pool {
    fn scaled(&self, base: &Base, inputs: &CorunInputs, at: usize) -> [f64; MAX_FEATURES] {
        let mut x = [0.0; MAX_FEATURES];
        base.layout.fill_groups(inputs, at, &mut x);
        self.part.gp.scale(&mut x);
        x
    }

    /// `ln(step seconds)` of the task at position `at` of a co-run.
    pub fn ln_step(&self, base: &Base, inputs: &CorunInputs, at: usize) -> f64 {
        let mut ln_step = [0.0];
        self.fill(base, inputs, at..at + 1, &mut ln_step);
        ln_step[0]
    }

    /// [`Pool::ln_step`] of every task of a co-run, bit-identical. Computing two at a time is faster than one after
    /// the other.
    pub fn ln_steps(&self, base: &Base, inputs: &CorunInputs, out: &mut [f64]) {
        let n = inputs.len;
        self.fill(base, inputs, 0..n, &mut out[..n]);
    }

    fn fill(&self, base: &Base, inputs: &CorunInputs, places: Range<usize>, out: &mut [f64]) {
        let gp = &self.part.gp;
        let width = gp.hyper.inverse_length.len();
        let mut rows = Vec::with_capacity(places.len() * width);
        for at in places.clone() {
            rows.extend_from_slice(&self.scaled(base, inputs, at)[..width]);
        }
        let halves: Vec<Arc<[f64]>> = places
            .clone()
            .zip(rows.chunks_exact(width))
            .map(|(at, row)| self.own.of(inputs.own(at), || gp.own_half(row)))
            .collect();
        let halves: Vec<&[f64]> = halves.iter().map(|half| &half[..]).collect();
        gp.means_beside(&halves, &rows, width, out);
        for (at, mean) in places.zip(out) {
            *mean += inputs.ln_alone[at] + self.mean;
        }
    }

    /// Like [`Pool::ln_step`], with its variance, noise included.
    pub fn answer(&self, base: &Base, inputs: &CorunInputs, at: usize) -> Pooled {
        let x = self.scaled(base, inputs, at);
        let (mean, variance) = self.part.gp.mean_variance(&x);
        Pooled {
            ln_step: inputs.ln_alone[at] + self.mean + mean,
            variance: variance + self.part.gp.hyper.noise,
        }
    }

    /// Variance of the prediction without noise, and that of the noise.
    pub fn variance(&self, base: &Base, inputs: &CorunInputs, at: usize) -> (f64, f64) {
        let x = self.scaled(base, inputs, at);
        (self.part.gp.mean_variance(&x).1, self.part.gp.hyper.noise)
    }
}
