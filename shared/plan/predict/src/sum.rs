//! Predicts the co-run as a whole: the sum of its tasks' relative rates (co-run over solo).
//!
//! How two tasks divide the device depends on much that no feature describes, but their total hardly varies: what one
//! task gains, the other mostly loses. So the sum is learnt separately, and the rates are scaled to it in proportion,
//! which keeps their ratios. Whether sharing is worth it depends only on the sum.

use math::stats;
use units::corun::MAX_TASKS;

use crate::base::Base;
use crate::dataset::Dataset;
use crate::features::CorunInputs;
use crate::gp::{MEMBER, MOST_POINTS, Members, SetGp, SetHyper};
use crate::model::{MOST_FOR_HYPER, factor, mark};

/// The process of the sums, and its weight.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    pub gp: SetGp,
    /// Mean of the logarithms of the sums; the process learns deviations from it.
    pub mean: f64,
    /// Indices of its points: of samples during the fit, of points of the model afterwards.
    pub points: Vec<usize>,
    /// Weight of the process, on logarithms, 0 to 1.
    pub weight: f64,
}

/// Training data: co-runs in which all rates are known.
struct Rows {
    members: Members,
    samples: Vec<usize>,
    /// Logarithms of the sums, minus `mean`.
    ln_sum: Vec<f64>,
    mean: f64,
    noise_factor: Vec<f64>,
}

impl Rows {
    fn of(data: &Dataset, base: &Base, most: usize) -> Option<Self> {
        let known = |k: &usize| {
            let s = &data.samples[*k];
            s.active.len() > 1 && s.throughput.iter().all(|p| *p > 0.0)
        };
        let all: Vec<usize> = (0..data.samples.len()).filter(known).collect();
        let mut members = Members::default();
        let mut samples = Vec::new();
        let mut ln_sum = Vec::new();
        for k in stats::evenly(all.len(), most) {
            let s = &data.samples[all[k]];
            let inputs = base.inputs(&s.active);
            if !members.push(&members_of(&inputs)[..inputs.len]) {
                continue;
            }
            let rates = s.active.iter().zip(&s.throughput).enumerate();
            let relative =
                rates.map(|(at, (a, p))| p / a.batch.as_f64() * inputs.ln_alone[at].exp());
            samples.push(all[k]);
            ln_sum.push(relative.sum::<f64>().ln());
        }
        let mean = stats::mean(&ln_sum)?;
        for y in &mut ln_sum {
            *y -= mean;
        }
        let spread = stats::mad_sigma(&ln_sum, 0.0)?.max(0.01);
        let absurd = |y: &f64| factor(*y, (2.0 * spread).max(0.08));
        Some(Self {
            noise_factor: ln_sum.iter().map(absurd).collect(),
            members,
            samples,
            ln_sum,
            mean,
        })
    }

    fn condition(mut self, hyper: &SetHyper) -> Option<Sums> {
        let of =
            |rows: &Self| SetGp::condition(&rows.members, hyper, &rows.ln_sum, &rows.noise_factor);
        let (mut gp, left_out) = of(&self)?;
        if mark(
            &mut self.noise_factor,
            &left_out,
            hyper.noise * hyper.signal,
        )? {
            (gp, _) = of(&self)?;
        }
        Some(Sums {
            gp,
            mean: self.mean,
            points: self.samples,
            weight: 0.0,
        })
    }
}

/// Length scales and noise of the process of the sums of all data.
pub(crate) fn hyper(data: &Dataset, base: &Base) -> Option<SetHyper> {
    let rows = Rows::of(data, base, MOST_FOR_HYPER)?;
    Some(SetHyper::most_probable(
        &rows.members,
        &rows.ln_sum,
        &rows.noise_factor,
    ))
}

/// The running tasks, as members of a set.
pub(crate) fn members_of(inputs: &CorunInputs) -> [[f64; MEMBER]; MAX_TASKS] {
    let mut members = [[0.0; MEMBER]; MAX_TASKS];
    let others = (inputs.len - 1) as f64;
    for (at, m) in members[..inputs.len].iter_mut().enumerate() {
        let kind = inputs.kind[at] as f64;
        let share = inputs.share[at].ln();
        *m = [kind, inputs.ln_step[at], inputs.ln_batch[at], share, others];
    }
    members
}

impl Sums {
    /// The process with known hyper-parameters; `None` without co-runs.
    pub fn condition(data: &Dataset, base: &Base, hyper: &SetHyper) -> Option<Self> {
        Rows::of(data, base, MOST_POINTS)?.condition(hyper)
    }

    /// Sets the weight of the process.
    pub fn counting(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// Logarithm of the sum of the rates relative to solo rates.
    pub fn ln_sum(&self, inputs: &CorunInputs) -> f64 {
        self.mean + self.gp.mean(&members_of(inputs)[..inputs.len])
    }

    /// Shift of `ln step` of every task, given the sum of their rates relative to solo rates.
    pub fn shift(&self, inputs: &CorunInputs, sum: f64) -> f64 {
        self.weight * (sum.ln() - self.ln_sum(inputs))
    }
}
