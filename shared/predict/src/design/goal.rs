//! What a design looks for.

/// What the measurements are to be good for.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// Total throughput.
    Raw,
    /// Total of throughput relative to solo.
    Fairness,
    /// Total throughput times a weight for each task.
    Weighted(Vec<f64>),
    /// Least throughput relative to solo.
    MaxMin,
    /// Samples of each task; the time until all are done is to be short.
    Round(Vec<f64>),
}

impl Goal {
    /// Value of throughputs; larger is better. `solo` are the rates alone.
    #[must_use]
    pub fn value(&self, rates: &[f64], solo: &[f64]) -> f64 {
        let relative = rates.iter().zip(solo).map(|(p, s)| p / s);
        match self {
            Goal::Raw => rates.iter().sum(),
            Goal::Fairness => relative.sum(),
            Goal::Weighted(w) => rates.iter().zip(w).map(|(p, w)| p * w).sum(),
            Goal::MaxMin => relative.fold(f64::INFINITY, f64::min),
            // Rounds per second of the slowest.
            Goal::Round(d) => rates
                .iter()
                .zip(d)
                .map(|(p, d)| p / d)
                .fold(f64::INFINITY, f64::min),
        }
    }

    /// Standard deviation of the value, the rates taken as independent.
    pub(super) fn deviation(&self, rates: &[f64], errors: &[f64], solo: &[f64]) -> f64 {
        let weighted = |w: &dyn Fn(usize) -> f64| {
            let square = errors.iter().enumerate().map(|(i, e)| (w(i) * e).powi(2));
            square.sum::<f64>().sqrt()
        };
        // A minimum is as uncertain as the task that attains it.
        let at_least = |w: &dyn Fn(usize) -> f64| {
            let of = |i: &usize| w(*i) * rates[*i];
            let least = (0..rates.len()).min_by(|a, b| of(a).total_cmp(&of(b)));
            least.map_or(0.0, |i| w(i) * errors[i])
        };
        match self {
            Goal::Raw => weighted(&|_| 1.0),
            Goal::Fairness => weighted(&|i| 1.0 / solo[i]),
            Goal::Weighted(w) => weighted(&|i| w[i]),
            Goal::MaxMin => at_least(&|i| 1.0 / solo[i]),
            Goal::Round(d) => at_least(&|i| 1.0 / d[i]),
        }
    }
}
