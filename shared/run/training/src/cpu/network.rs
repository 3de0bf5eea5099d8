//! A fully connected network with ReLU, softmax and cross-entropy: loss and gradient.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, Zip};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use std::ops::AddAssign;

/// Result of a forward pass over some samples.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ForwardPass {
    /// Sum of their losses.
    pub loss: f64,
    /// Samples whose class had the largest output.
    pub correct: u64,
}

impl AddAssign for ForwardPass {
    fn add_assign(&mut self, other: Self) {
        self.loss += other.loss;
        self.correct += other.correct;
    }
}

/// Positions of the parameters of each layer in one flat vector: weights, row by row of the input, then biases.
#[derive(Debug, Clone)]
pub struct Layout {
    sizes: Vec<usize>,
    starts: Vec<usize>,
}

impl Layout {
    /// Layers between `sizes` neurons; at least two sizes.
    pub fn new(sizes: &[usize]) -> Self {
        let mut starts = vec![0];
        for pair in sizes.windows(2) {
            starts.push(starts[starts.len() - 1] + (pair[0] + 1) * pair[1]);
        }
        Self {
            sizes: sizes.to_vec(),
            starts,
        }
    }

    /// Features of a sample.
    pub fn inputs(&self) -> usize {
        self.sizes[0]
    }

    /// Classes.
    pub fn outputs(&self) -> usize {
        self.sizes[self.sizes.len() - 1]
    }

    fn layers(&self) -> usize {
        self.sizes.len() - 1
    }

    fn parameters(&self) -> usize {
        self.starts[self.layers()]
    }

    /// Uniform in `+-sqrt(6 / inputs)` (He et al. 2015), biases 0.
    pub fn random_weights(&self, seed: u64) -> Vec<f32> {
        let mut random = SmallRng::seed_from_u64(seed ^ 0x5eed);
        let mut weights = vec![0.0; self.parameters()];
        for layer in 0..self.layers() {
            let rows = self.sizes[layer];
            let columns = self.sizes[layer + 1];
            let bound = (6.0 / rows as f32).sqrt();
            for w in &mut weights[self.starts[layer]..][..rows * columns] {
                *w = random.random_range(-bound..bound);
            }
        }
        weights
    }

    fn split<'a>(&self, flat: &'a [f32], layer: usize) -> (Matrix<'a>, &'a [f32]) {
        let rows = self.sizes[layer];
        let columns = self.sizes[layer + 1];
        let part = &flat[self.starts[layer]..self.starts[layer + 1]];
        let (weights, biases) = part.split_at(rows * columns);
        (matrix(rows, columns, weights), biases)
    }
}

type Matrix<'a> = ArrayView2<'a, f32>;

#[expect(clippy::expect_used, reason = "the slices are cut to rows x columns")]
fn matrix(rows: usize, columns: usize, data: &[f32]) -> Matrix<'_> {
    ArrayView2::from_shape((rows, columns), data).expect("rows x columns values")
}

/// Activations, errors and gradient of one thread.
pub struct Workspace {
    activations: Vec<Array2<f32>>,
    errors: Vec<Array2<f32>>,
    gradients: Vec<f32>,
}

impl Workspace {
    /// A workspace for a network of this layout.
    pub fn new(layout: &Layout) -> Self {
        Self {
            activations: Vec::new(),
            errors: Vec::new(),
            gradients: vec![0.0; layout.parameters()],
        }
    }

    /// Gradient of the last call, summed over its samples, in the layout of the weights.
    pub fn gradients(&self) -> &[f32] {
        &self.gradients
    }

    /// Adds another gradient to that of the last call.
    pub fn add(&mut self, other: &[f32]) {
        for (g, more) in self.gradients.iter_mut().zip(other) {
            *g += more;
        }
    }

    /// Computes the gradient over the rows of `samples`; returns the result of the forward pass.
    pub fn gradient(
        &mut self,
        layout: &Layout,
        weights: &[f32],
        samples: &[f32],
        labels: &[usize],
    ) -> ForwardPass {
        let input = matrix(labels.len(), layout.inputs(), samples);
        self.resize(layout, labels.len());
        self.forward(layout, weights, input);
        let outcome = self.softmax_error(labels);
        self.backward(layout, weights, input);
        outcome
    }

    fn resize(&mut self, layout: &Layout, rows: usize) {
        if self.activations.first().is_none_or(|a| a.nrows() != rows) {
            let new = || {
                layout.sizes[1..]
                    .iter()
                    .map(|&columns| Array2::zeros((rows, columns)))
                    .collect()
            };
            self.activations = new();
            self.errors = new();
        }
    }

    fn forward(&mut self, layout: &Layout, weights: &[f32], input: Matrix<'_>) {
        for layer in 0..layout.layers() {
            let (w, biases) = layout.split(weights, layer);
            let (before, after) = self.activations.split_at_mut(layer);
            let from = before.last().map_or(input.view(), |a| a.view());
            let to = &mut after[0];
            for mut row in to.rows_mut() {
                row.assign(&ndarray::ArrayView1::from(biases));
            }
            general_mat_mul(1.0, &from, &w, 1.0, to);
            if layer + 1 < layout.layers() {
                to.mapv_inplace(|x| x.max(0.0));
            }
        }
    }

    /// Turns the outputs into the error of the last layer, `softmax - one-hot`; the loss is
    /// `-sum ln softmax[label]`.
    fn softmax_error(&mut self, labels: &[usize]) -> ForwardPass {
        let last = self.activations.len() - 1;
        let mut outcome = ForwardPass::default();
        let rows = self.activations[last].rows();
        for ((outputs, mut error), &label) in rows
            .into_iter()
            .zip(self.errors[last].rows_mut())
            .zip(labels)
        {
            let most = outputs.fold(f32::NEG_INFINITY, |a, &b| a.max(b));
            error.assign(&outputs.mapv(|x| (x - most).exp()));
            let total = error.sum();
            error.mapv_inplace(|x| x / total);
            outcome.loss -= f64::from(outputs[label] - most) - f64::from(total).ln();
            outcome.correct += u64::from(outputs[label] >= most);
            error[label] -= 1.0;
        }
        outcome
    }

    fn backward(&mut self, layout: &Layout, weights: &[f32], input: Matrix<'_>) {
        for layer in (0..layout.layers()).rev() {
            let rows = layout.sizes[layer];
            let columns = layout.sizes[layer + 1];
            let part = &mut self.gradients[layout.starts[layer]..layout.starts[layer + 1]];
            let (gradient, biases) = part.split_at_mut(rows * columns);
            let (before, after) = self.errors.split_at_mut(layer);
            let error = &after[0];
            let from = match layer {
                0 => input.view(),
                _ => self.activations[layer - 1].view(),
            };
            let mut gradient = matrix_mut(rows, columns, gradient);
            general_mat_mul(1.0, &from.t(), error, 0.0, &mut gradient);
            for (b, sum) in biases.iter_mut().zip(error.sum_axis(Axis(0))) {
                *b = sum;
            }
            if let Some(previous) = before.last_mut() {
                let (w, _) = layout.split(weights, layer);
                general_mat_mul(1.0, error, &w.t(), 0.0, previous);
                Zip::from(previous).and(&from).for_each(|e, &a| {
                    if a <= 0.0 {
                        *e = 0.0;
                    }
                });
            }
        }
    }
}

#[expect(clippy::expect_used, reason = "the slices are cut to rows x columns")]
fn matrix_mut(rows: usize, columns: usize, data: &mut [f32]) -> ArrayViewMut2<'_, f32> {
    ArrayViewMut2::from_shape((rows, columns), data).expect("rows x columns values")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_the_slope_of_the_loss() {
        let layout = Layout::new(&[3, 5, 4, 2]);
        let mut weights = layout.random_weights(3);
        let samples = [0.3, -0.7, 0.2, -0.1, 0.9, 0.4];
        let labels = [1, 0];
        let mut work = Workspace::new(&layout);
        work.gradient(&layout, &weights, &samples, &labels);
        let gradient = work.gradients().to_vec();
        for i in 0..weights.len() {
            let at = |weights: &mut Vec<f32>, step: f32, work: &mut Workspace| {
                weights[i] += step;
                let outcome = work.gradient(&layout, weights, &samples, &labels);
                weights[i] -= step;
                outcome.loss
            };
            let h = 1e-2;
            let slope = (at(&mut weights, h, &mut work) - at(&mut weights, -h, &mut work))
                / f64::from(2.0 * h);
            let error = (slope - f64::from(gradient[i])).abs();
            assert!(
                error < 2e-2,
                "parameter {i}: {slope} against {}",
                gradient[i]
            );
        }
    }
}
