/// A falling curve over `x`, the steps as a fraction of those made so far (`x = 1` is now).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// `(x + x0)^-q`. With `q = 1` this is the `1/(a k + b)` of Optimus (Peng et al., EuroSys
    /// 2018); small `q` falls like a logarithm.
    Power { q: f64, x0: f64 },
    /// `exp(-x / tau)`: linear convergence, of strongly convex losses.
    Exponential { tau: f64 },
    /// `1 + cos(pi x / end)`: a learning rate that falls to zero along a cosine.
    Cosine { end: f64 },
    /// `-x`: the last stretch of a training whose learning rate falls to zero.
    Line,
}

impl Shape {
    /// The curve at `x >= 0`.
    pub(crate) fn at(self, x: f64) -> f64 {
        match self {
            Shape::Power { q, x0 } => (x + x0).powf(-q),
            Shape::Exponential { tau } => (-x / tau).exp(),
            Shape::Cosine { end } => 1.0 + (std::f64::consts::PI * x / end).cos(),
            Shape::Line => -x,
        }
    }

    /// Whether the curve still falls at `x`.
    pub(crate) fn reaches(self, x: f64) -> bool {
        match self {
            Shape::Cosine { end } => x <= end,
            _ => true,
        }
    }
}

/// Exponents of the power laws.
const POWERS: [f64; 7] = [0.1, 0.25, 0.5, 0.75, 1.0, 1.4, 2.0];
/// Prior weight of all cosines together, against 1 for all power laws and 1 for all exponentials: most recorded trainings
/// have such a learning rate. With 2 instead of 1, 61 and not 57 % of the AlgoPerf trainings are forecast within a factor
/// of two at 75 %.
const COSINES: f64 = 2.0;
/// Prior weight of the line: between that of a single shape and that of a family.
const LINE: f64 = 0.3;

/// The candidate shapes with their prior weights. The grid is geometric: neighbours differ by less than a fit can
/// distinguish in the presence of noise.
pub(crate) fn shapes() -> Vec<(Shape, f64)> {
    let starts = geometric(0.003, 20.0, 20);
    let power = |q| starts.iter().map(move |&x0| Shape::Power { q, x0 });
    let powers: Vec<Shape> = POWERS.into_iter().flat_map(power).collect();
    let exponential = |tau| Shape::Exponential { tau };
    let exponentials = geometric(0.06, 20.0, 32).into_iter().map(exponential);
    let cosine = |left| Shape::Cosine { end: 1.0 + left };
    let cosines = geometric(0.02, 50.0, 32).into_iter().map(cosine);
    [
        (powers, 1.0),
        (exponentials.collect(), 1.0),
        (cosines.collect(), COSINES),
        (vec![Shape::Line], LINE),
    ]
    .into_iter()
    .flat_map(|(family, weight)| {
        let each = weight / family.len() as f64;
        family.into_iter().map(move |shape| (shape, each))
    })
    .collect()
}

/// `count` numbers from `from` to `to`, each the same multiple of the one before.
fn geometric(from: f64, to: f64, count: u32) -> Vec<f64> {
    let ratio: f64 = to / from;
    let at = |i| from * ratio.powf(f64::from(i) / f64::from(count - 1));
    (0..count).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_falls() {
        for (shape, _) in shapes() {
            assert!(shape.at(0.1) > shape.at(0.5) && shape.at(0.5) > shape.at(1.0));
        }
    }

    #[test]
    fn a_cosine_ends() {
        let cosine = Shape::Cosine { end: 1.5 };
        assert!(cosine.reaches(1.5) && !cosine.reaches(1.51));
    }
}
