/// A falling curve over `x`, the steps as a fraction of those made so far (`x = 1` is now).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// `(x + x0)^-q`. With `q = 1` this is the `1/(a k + b)` of Optimus (Peng et al., EuroSys
    /// 2018); small `q` falls like a logarithm.
    Power { q: f64, x0: f64 },
    /// `exp(-x / tau)`: linear convergence, of strongly convex losses.
    Exponential { tau: f64 },
    /// `1 - x / end`: the last stretch of a training whose learning rate falls to zero.
    Line { end: f64 },
}

impl Shape {
    /// The curve at `x >= 0`.
    pub(crate) fn at(self, x: f64) -> f64 {
        match self {
            Shape::Power { q, x0 } => (x + x0).powf(-q),
            Shape::Exponential { tau } => (-x / tau).exp(),
            Shape::Line { end } => (1.0 - x / end).max(0.0),
        }
    }

    /// Where the curve has fallen to `y`, for `y` above 0.
    pub(crate) fn inverse(self, y: f64) -> f64 {
        match self {
            Shape::Power { q, x0 } => y.powf(-1.0 / q) - x0,
            Shape::Exponential { tau } => -tau * y.ln(),
            Shape::Line { end } => end * (1.0 - y),
        }
    }
}

const fn power(q: f64, x0: f64) -> Shape {
    Shape::Power { q, x0 }
}

const fn exponential(tau: f64) -> Shape {
    Shape::Exponential { tau }
}

const fn line(end: f64) -> Shape {
    Shape::Line { end }
}

/// The candidate shapes. The grid is geometric: neighbours differ by less than a fit can distinguish in the presence
/// of noise.
pub(crate) const SHAPES: &[Shape] = &[
    power(0.1, 0.003),
    power(0.1, 0.03),
    power(0.1, 0.3),
    power(0.1, 1.0),
    power(0.25, 0.003),
    power(0.25, 0.03),
    power(0.25, 0.3),
    power(0.25, 1.0),
    power(0.5, 0.003),
    power(0.5, 0.01),
    power(0.5, 0.03),
    power(0.5, 0.1),
    power(0.5, 0.2),
    power(0.5, 0.4),
    power(0.5, 1.0),
    power(1.0, 0.003),
    power(1.0, 0.01),
    power(1.0, 0.03),
    power(1.0, 0.1),
    power(1.0, 0.2),
    power(1.0, 0.4),
    power(1.0, 1.0),
    power(2.0, 0.03),
    power(2.0, 0.3),
    power(2.0, 1.0),
    exponential(0.1),
    exponential(0.2),
    exponential(0.4),
    exponential(0.8),
    exponential(1.6),
    exponential(4.0),
    line(1.1),
    line(1.3),
    line(1.6),
    line(2.0),
    line(3.0),
    line(5.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_undoes_the_shape() {
        for shape in SHAPES {
            for x in [0.2, 0.9, 1.05] {
                let back = shape.inverse(shape.at(x));
                assert!((back - x).abs() < 1e-9, "{shape:?} at {x}: {back}");
            }
        }
    }

    #[test]
    fn every_shape_falls() {
        for shape in SHAPES {
            assert!(shape.at(0.1) > shape.at(0.5) && shape.at(0.5) > shape.at(1.0));
        }
    }
}
