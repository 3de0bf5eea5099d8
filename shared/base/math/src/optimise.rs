//! Minimisation with `argmin`, with safeguards: evaluations are bounded, the best point seen is returned, and a
//! non-finite cost ends the search, which might otherwise never end.

use std::cell::{Cell, RefCell};

use argmin::core::{CostFunction, Error, Executor, Gradient, Hessian, IterState};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use argmin::solver::trustregion::{Steihaug, TrustRegion};

/// Why a minimisation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Stop {
    /// The gradient, or the last improvement, became negligible.
    Converged,
    /// The allowed number of evaluations was used up.
    EvaluationLimit,
    /// The solver could not continue: a step was not finite, or there was no descent direction.
    Stalled,
}

/// The best point that a minimisation saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Minimum {
    /// The point.
    pub x: Vec<f64>,
    /// Cost there; infinite if not even the start could be evaluated.
    pub cost: f64,
    /// Evaluations of the cost.
    pub evaluations: usize,
    /// Why it ended.
    pub stop: Stop,
}

/// Gradient norm below which a point counts as stationary.
const FLAT: f64 = 1e-7;

struct State {
    best: Vec<f64>,
    best_cost: f64,
    evaluations: usize,
    /// Number of requests by the solver, evaluated or cached.
    questions: usize,
    stop: Option<Stop>,
    /// The last evaluation: solvers request its parts one by one.
    last: Option<Evaluation>,
}

struct Evaluation {
    x: Vec<f64>,
    cost: f64,
    gradient: Vec<f64>,
    curvature: Matrix,
}

type Matrix = Vec<Vec<f64>>;
type LeastSquaresState = IterState<Vec<f64>, Vec<f64>, (), Matrix, (), f64>;

/// A cost with its gradient and curvature, behind the safeguards.
struct Guarded<F> {
    evaluate: F,
    limit: usize,
    /// Relative improvement of the best cost below which the search ends.
    tolerance: f64,
    state: RefCell<State>,
}

impl<F> Guarded<F>
where
    F: Fn(&[f64], &mut Vec<f64>, &mut Vec<Vec<f64>>) -> f64,
{
    fn new(evaluate: F, x0: &[f64], limit: usize, tolerance: f64) -> Self {
        Self {
            evaluate,
            limit,
            tolerance,
            state: RefCell::new(State {
                best: x0.to_vec(),
                best_cost: f64::INFINITY,
                evaluations: 0,
                questions: 0,
                stop: None,
                last: None,
            }),
        }
    }

    fn stop(&self, why: Stop) -> Error {
        self.state.borrow_mut().stop = Some(why);
        Error::msg("search ended by its guard")
    }

    /// Evaluates at `x` unless that was the last point.
    fn at(&self, x: &[f64]) -> Result<(), Error> {
        {
            let mut s = self.state.borrow_mut();
            s.questions += 1;
            // A line search whose steps are too small to move the point would request the same point forever.
            if s.questions > 16 * (self.limit + 4) {
                drop(s);
                return Err(self.stop(Stop::Stalled));
            }
        }
        if matches!(&self.state.borrow().last, Some(l) if l.x == x) {
            return Ok(());
        }
        if self.state.borrow().evaluations >= self.limit {
            return Err(self.stop(Stop::EvaluationLimit));
        }
        let mut gradient = vec![0.0; x.len()];
        let mut curvature = Vec::new();
        let cost = (self.evaluate)(x, &mut gradient, &mut curvature);
        let finite = cost.is_finite()
            && x.iter().all(|v| v.is_finite())
            && gradient.iter().all(|v| v.is_finite())
            && curvature.iter().flatten().all(|v| v.is_finite());
        let mut s = self.state.borrow_mut();
        s.evaluations += 1;
        if !finite {
            drop(s);
            return Err(self.stop(Stop::Stalled));
        }
        let before = s.best_cost;
        if cost < before {
            s.best_cost = cost;
            s.best = x.to_vec();
        }
        let gained = before - cost;
        let small = before.is_finite()
            && gained >= 0.0
            && gained <= self.tolerance * before.abs().max(1e-12);
        let flat = gradient.iter().map(|g| g * g).sum::<f64>().sqrt() < FLAT;
        s.last = Some(Evaluation {
            x: x.to_vec(),
            cost,
            gradient,
            curvature,
        });
        drop(s);
        if small || flat {
            return Err(self.stop(Stop::Converged));
        }
        Ok(())
    }

    fn last<T>(&self, x: &[f64], get: impl Fn(&Evaluation) -> T) -> Result<T, Error> {
        self.at(x)?;
        match &self.state.borrow().last {
            Some(l) => Ok(get(l)),
            None => Err(Error::msg("nothing was evaluated")),
        }
    }

    fn into_minimum(self, converged: bool) -> Minimum {
        let s = self.state.into_inner();
        Minimum {
            x: s.best,
            cost: s.best_cost,
            evaluations: s.evaluations,
            stop: s.stop.unwrap_or(if converged {
                Stop::Converged
            } else {
                Stop::Stalled
            }),
        }
    }
}

impl<F> CostFunction for &Guarded<F>
where
    F: Fn(&[f64], &mut Vec<f64>, &mut Vec<Vec<f64>>) -> f64,
{
    type Param = Vec<f64>;
    type Output = f64;
    fn cost(&self, x: &Self::Param) -> Result<f64, Error> {
        self.last(x, |l| l.cost)
    }
}

impl<F> Gradient for &Guarded<F>
where
    F: Fn(&[f64], &mut Vec<f64>, &mut Vec<Vec<f64>>) -> f64,
{
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;
    fn gradient(&self, x: &Self::Param) -> Result<Vec<f64>, Error> {
        self.last(x, |l| l.gradient.clone())
    }
}

impl<F> Hessian for &Guarded<F>
where
    F: Fn(&[f64], &mut Vec<f64>, &mut Vec<Vec<f64>>) -> f64,
{
    type Param = Vec<f64>;
    type Hessian = Vec<Vec<f64>>;
    fn hessian(&self, x: &Self::Param) -> Result<Vec<Vec<f64>>, Error> {
        self.last(x, |l| l.curvature.clone())
    }
}

/// Minimises a smooth function with L-BFGS and a More-Thuente line search.
///
/// `f(x, g)` returns the cost at `x` and writes the gradient to `g`. At most `limit` evaluations.
/// Ends when an evaluation gains less than the fraction `tolerance` of the cost.
pub fn minimise(
    f: impl Fn(&[f64], &mut [f64]) -> f64,
    x0: &[f64],
    limit: usize,
    tolerance: f64,
) -> Minimum {
    // The first step is as long as the gradient: scaled, it is at most 1 and seldom wasted.
    let scale = Cell::new(None);
    let scaled = |x: &[f64], g: &mut Vec<f64>, _: &mut Vec<Vec<f64>>| {
        let cost = f(x, g);
        let scale = scale.get().unwrap_or_else(|| {
            let s = 1.0 / g.iter().map(|v| v * v).sum::<f64>().sqrt().max(1.0);
            scale.set(Some(s));
            s
        });
        for v in g {
            *v *= scale;
        }
        cost * scale
    };
    let guarded = Guarded::new(scaled, x0, limit, tolerance);
    let solver = LBFGS::new(MoreThuenteLineSearch::new(), 8);
    let done = Executor::new(&guarded, solver)
        .configure(|s: IterState<Vec<f64>, Vec<f64>, (), (), (), f64>| {
            s.param(x0.to_vec()).max_iters(limit as u64)
        })
        .ctrlc(false)
        .timer(false)
        .run();
    let converged = done.is_ok();
    drop(done);
    let mut minimum = guarded.into_minimum(converged);
    minimum.cost /= scale.get().unwrap_or(1.0);
    minimum
}

/// Minimises `0.5 sum r_k(x)^2` with a trust region on the Gauss-Newton model `J^T J`, its
/// subproblem by Steihaug's conjugate gradients (Nocedal and Wright, *Numerical Optimization*,
/// algorithms 4.1 and 7.2).
///
/// `f(x, r, j)` writes `residuals` numbers to `r` and, row by row, their derivatives to `j`
/// (`residuals x parameters`). At most `limit` evaluations.
pub fn least_squares(
    f: impl Fn(&[f64], &mut [f64], &mut [f64]),
    x0: &[f64],
    residuals: usize,
    limit: usize,
) -> Minimum {
    let p = x0.len();
    let work = RefCell::new((vec![0.0; residuals], vec![0.0; residuals * p]));
    let evaluate = |x: &[f64], g: &mut Vec<f64>, h: &mut Vec<Vec<f64>>| {
        let mut w = work.borrow_mut();
        let (r, j) = &mut *w;
        f(x, r, j);
        *h = vec![vec![0.0; p]; p];
        let mut cost = 0.0;
        for (rk, row) in r.iter().zip(j.chunks_exact(p)) {
            cost += 0.5 * rk * rk;
            for a in 0..p {
                // Skip zeros. Regularisation rows have one entry, and rows of co-runs of few tasks only a few: with
                // 64 tasks, most of the time was spent adding zeros.
                if row[a] == 0.0 {
                    continue;
                }
                g[a] += rk * row[a];
                for b in 0..=a {
                    h[a][b] += row[a] * row[b];
                }
            }
        }
        let (mut below, scale) = (
            h.clone(),
            h.iter().enumerate().map(|(a, r)| r[a]).fold(0.0, f64::max),
        );
        for a in 0..p {
            // Keeps the model strictly convex if a parameter has no influence.
            below[a][a] += 1e-10 * scale + 1e-300;
            for b in a + 1..p {
                below[a][b] = h[b][a];
            }
        }
        *h = below;
        cost
    };
    let guarded = Guarded::new(evaluate, x0, limit, 1e-9);
    let solver = TrustRegion::new(Steihaug::new().with_max_iters(4 * p as u64 + 8));
    let done = Executor::new(&guarded, solver)
        .configure(|s: LeastSquaresState| s.param(x0.to_vec()).max_iters(2 * limit as u64))
        .ctrlc(false)
        .timer(false)
        .run();
    let converged = done.is_ok();
    drop(done);
    guarded.into_minimum(converged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lbfgs_reaches_the_bottom_of_rosenbrock() {
        let m = minimise(
            |x, g| {
                let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
                g[0] = -2.0 * a - 400.0 * x[0] * b;
                g[1] = 200.0 * b;
                a * a + 100.0 * b * b
            },
            &[-1.2, 1.0],
            500,
            1e-7,
        );
        assert!((m.x[0] - 1.0).abs() < 1e-3, "{m:?}");
    }

    #[test]
    fn least_squares_recovers_an_exponential() {
        let t: Vec<f64> = (0..20).map(|k| 0.1 * f64::from(k)).collect();
        let y: Vec<f64> = t.iter().map(|t| 3.0 * (-1.7 * t).exp()).collect();
        let m = least_squares(
            |x, r, j| {
                for k in 0..t.len() {
                    let e = (-x[1] * t[k]).exp();
                    r[k] = x[0] * e - y[k];
                    j[2 * k] = e;
                    j[2 * k + 1] = -x[0] * t[k] * e;
                }
            },
            &[1.0, 0.5],
            t.len(),
            100,
        );
        assert!(
            (m.x[0] - 3.0).abs() < 1e-4 && (m.x[1] - 1.7).abs() < 1e-4,
            "{m:?}"
        );
    }

    #[test]
    fn a_cost_that_is_not_finite_ends_the_search() {
        let m = minimise(
            |x, g| {
                g[0] = -1.0;
                if x[0] > 2.0 { f64::NAN } else { -x[0] }
            },
            &[0.0],
            50,
            1e-7,
        );
        assert!(m.cost.is_finite() && m.evaluations <= 50);
        assert_eq!(m.stop, Stop::Stalled);
    }

    #[test]
    fn evaluations_are_bounded() {
        let m = minimise(
            |x, g| {
                g[0] = -1.0;
                -x[0]
            },
            &[0.0],
            5,
            1e-7,
        );
        assert_eq!(m.evaluations, 5);
        assert_eq!(m.stop, Stop::EvaluationLimit);
    }

    #[test]
    fn a_stationary_start_is_converged() {
        let m = least_squares(
            |x, r, j| {
                r[0] = x[0];
                j[0] = 1.0;
            },
            &[0.0],
            1,
            10,
        );
        assert_eq!((m.stop, m.evaluations), (Stop::Converged, 1));
    }
}
