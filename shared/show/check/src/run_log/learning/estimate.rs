//! Estimates how long a round takes under any shares, from the rounds so far.
//!
//! For each task the model is a Gaussian process, `ln seconds = level + own(s_i) + b ln s_i + c load + f(ln s_i) +
//! g(ln s) + drift(t) + noise`. `load` is the sum of the other tasks' shares, each weighted by the part of this
//! task's time in which the other task still runs, averaged over the rounds; `g` weights the logarithms in the same
//! way. A round takes as long as its slowest task including transfers: the mean of the maximum of normal variables, taken
//! one after another as by Clark (1961), since noise is part of it. The transfers are those of the last round with these
//! shares or, without one, the mean of all remembered rounds.

use std::collections::VecDeque;

/// Number of rounds that are remembered.
const REMEMBERED: usize = 100;
/// Standard deviations of the noise, and below of the drift, that a launch may choose from.
pub const NOISES: [f64; 5] = [0.003, 0.01, 0.025, 0.06, 0.12];
pub const DRIFTS: [f64; 3] = [0.01, 0.04, 0.10];
/// Prior mean of a task's own slowdown: share, and `ln` of the time under this share relative to the time on the
/// whole device.
const OWN: [(f64, f64); 5] = [
    (0.1, 0.596),
    (0.25, 0.197),
    (0.4, 0.123),
    (0.55, 0.056),
    (0.7, 0.0),
];
/// Prior mean of the effect of the load.
const LOAD: f64 = 0.05;

/// Lesson of a round, task by task.
#[derive(Debug, Clone, Default)]
pub struct Taught {
    pub shares: Vec<f64>,
    /// Seconds of compute.
    pub seconds: Vec<f64>,
    /// Seconds of the round that the task spends before and after its compute.
    pub rest: Vec<f64>,
}

impl Taught {
    pub fn round_s(&self) -> f64 {
        let each = self.seconds.iter().zip(&self.rest).map(|(a, b)| a + b);
        each.fold(0.0, f64::max)
    }
}

/// Estimates from the rounds so far.
#[derive(Debug, Default)]
pub struct Estimate {
    /// The remembered rounds. Each has its number, counted over the rounds that gave a lesson.
    rounds: VecDeque<(f64, Taught)>,
    learnt: f64,
    noise: f64,
    drift: f64,
    tasks: Vec<Task>,
}

/// One task's estimate: the weights of the rounds.
#[derive(Debug)]
struct Task {
    /// Part of this task's time in which each other task runs; 1 for itself.
    beside: Vec<f64>,
    points: Vec<Point>,
    weights: Vec<f64>,
}

/// Shares of all tasks from the point of view of one task.
#[derive(Debug, Clone)]
struct Point {
    ln: Vec<f64>,
    own: f64,
    load: f64,
    mean: f64,
}

impl Estimate {
    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    pub fn knows(&self, shares: &[f64]) -> bool {
        self.rounds.iter().any(|(_, r)| r.shares == shares)
    }

    pub fn learn(&mut self, taught: Taught) {
        self.rounds.push_back((self.learnt, taught));
        self.learnt += 1.0;
        if self.rounds.len() > REMEMBERED {
            self.rounds.pop_front();
        }
    }

    /// Solves for the weights of the rounds under these standard deviations.
    pub fn assume(&mut self, noise: f64, drift: f64) {
        (self.noise, self.drift) = (noise, drift);
        let tasks = self.rounds.front().map_or(0, |(_, r)| r.seconds.len());
        self.tasks = (0..tasks).map(|i| self.task(i)).collect();
    }

    fn task(&self, i: usize) -> Task {
        let rounds = self.rounds.len();
        let mut beside = vec![0.0; self.rounds[0].1.seconds.len()];
        for (_, r) in &self.rounds {
            for (k, part) in beside.iter_mut().enumerate() {
                *part += (r.seconds[k] / r.seconds[i]).min(1.0) / rounds as f64;
            }
        }
        beside[i] = 1.0;
        let points: Vec<Point> = self
            .rounds
            .iter()
            .map(|(_, r)| Point::new(&r.shares, &beside, i))
            .collect();
        let mut rows: Vec<Vec<f64>> = (0..rounds)
            .map(|a| {
                let at = self.rounds[a].0;
                let mut row = self.covariances(&points, &points[a], at);
                row[a] += self.noise * self.noise;
                row.push(self.rounds[a].1.seconds[i].ln() - points[a].mean);
                row
            })
            .collect();
        Task {
            weights: solved(&mut rows),
            beside,
            points,
        }
    }

    /// Covariances between the rounds and a point at time `at`.
    fn covariances(&self, points: &[Point], point: &Point, at: f64) -> Vec<f64> {
        let each = points.iter().zip(&self.rounds);
        each.map(|(other, (then, _))| {
            let drift = self.drift * self.drift * (-(at - then).abs() / 20.0).exp();
            point.covariance(other) + drift
        })
        .collect()
    }

    fn under(&self, shares: &[f64], at: f64) -> f64 {
        let like = self.rounds.iter().rfind(|(_, r)| r.shares == shares);
        let count = self.rounds.len() as f64;
        let rest = |i: usize| match like {
            Some((_, round)) => round.rest[i],
            None => self.rounds.iter().map(|(_, r)| r.rest[i]).sum::<f64>() / count,
        };
        let each = self.tasks.iter().enumerate().map(|(i, task)| {
            let point = Point::new(shares, &task.beside, i);
            let toward = self.covariances(&task.points, &point, at);
            let more: f64 = toward.iter().zip(&task.weights).map(|(a, b)| a * b).sum();
            let trains = (point.mean + more).exp();
            Normal {
                mean: trains + rest(i),
                variance: (self.noise * trains).powi(2),
            }
        });
        each.reduce(Normal::or_later).map_or(0.0, |last| last.mean)
    }

    /// Expected seconds of the next round under these shares.
    pub fn next_under(&self, shares: &[f64]) -> f64 {
        self.under(shares, self.learnt)
    }

    /// Seconds that the last round would have taken under these shares.
    pub fn last_under(&self, shares: &[f64]) -> Option<f64> {
        let (at, _) = self.rounds.back()?;
        Some(self.under(shares, *at))
    }

    /// Expected seconds of the next round under the best of the shares tried so far.
    pub fn best(&self) -> Option<f64> {
        self.best_but(&[])
    }

    /// The same of all shares but some.
    pub fn best_but(&self, shares: &[f64]) -> Option<f64> {
        let others = self.rounds.iter().filter(|(_, r)| r.shares != shares);
        let each = others.map(|(_, r)| self.next_under(&r.shares));
        each.reduce(f64::min)
    }
}

/// A normal variable.
#[derive(Debug, Clone, Copy)]
struct Normal {
    mean: f64,
    variance: f64,
}

impl Normal {
    /// Mean and variance of the larger of two.
    fn or_later(self, other: Self) -> Self {
        let spread = (self.variance + other.variance).sqrt();
        let ahead = self.mean - other.mean;
        // The other is the larger one less often than once in a billion.
        if ahead.abs() > 6.0 * spread {
            return if ahead > 0.0 { self } else { other };
        }
        let (p, density) = normal(ahead / spread);
        let q = 1.0 - p;
        let mean = other.mean + p * ahead + spread * density;
        // About the mean, where squares of large numbers do not cancel.
        let (a, b) = (self.mean - mean, other.mean - mean);
        let variance =
            p * (self.variance + a * a) + q * (other.variance + b * b) + (a + b) * spread * density;
        Self {
            mean,
            variance: variance.max(0.0),
        }
    }
}

/// Distribution function and density of the standard normal distribution, for at most 6 standard deviations: the
/// series of Marsaglia (2004, *Evaluating the normal distribution*).
fn normal(x: f64) -> (f64, f64) {
    let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    let (mut term, mut sum, mut k) = (x, x, 1.0);
    while term.abs() > 1e-17 {
        k += 2.0;
        term *= x * x / k;
        sum += term;
    }
    (0.5 + density * sum, density)
}

impl Point {
    fn new(shares: &[f64], beside: &[f64], i: usize) -> Self {
        let others = |(k, share): (usize, &f64)| if k == i { 0.0 } else { share * beside[k] };
        let load: f64 = shares.iter().enumerate().map(others).sum();
        Self {
            ln: shares.iter().zip(beside).map(|(s, b)| b * s.ln()).collect(),
            own: shares[i].ln(),
            load,
            mean: own(shares[i]) + LOAD * load,
        }
    }

    fn covariance(&self, other: &Self) -> f64 {
        let apart = self
            .ln
            .iter()
            .zip(&other.ln)
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>()
            .sqrt();
        let bend = (self.own - other.own) / 0.21;
        4.0 + 0.15f64.powi(2) * self.own * other.own
            + 0.035f64.powi(2) * self.load * other.load
            + 0.10f64.powi(2) * (-0.5 * bend * bend).exp()
            + 0.03f64.powi(2) * (-apart / 2.0).exp()
    }
}

/// Interpolates [`OWN`] linearly; beyond its ends the value is constant.
fn own(share: f64) -> f64 {
    let above = OWN.iter().position(|(at, _)| share <= *at);
    match above {
        None => 0.0,
        Some(0) => OWN[0].1,
        Some(k) => {
            let ((a, low), (b, high)) = (OWN[k - 1], OWN[k]);
            low + (high - low) * (share - a) / (b - a)
        }
    }
}

/// Solves linear equations by elimination with partial pivoting; each row has its right-hand side last.
fn solved(rows: &mut [Vec<f64>]) -> Vec<f64> {
    let n = rows.len();
    for k in 0..n {
        let largest = (k..n).max_by(|&a, &b| rows[a][k].abs().total_cmp(&rows[b][k].abs()));
        rows.swap(k, largest.unwrap_or(k));
        let (above, below) = rows.split_at_mut(k + 1);
        let pivot = &above[k];
        for row in below {
            let factor = row[k] / pivot[k];
            for (x, p) in row[k..].iter_mut().zip(&pivot[k..]) {
                *x -= factor * p;
            }
        }
    }
    let mut solution = vec![0.0; n];
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|i| rows[k][i] * solution[i]).sum();
        solution[k] = (rows[k][n] - known) / rows[k][k];
    }
    solution
}
