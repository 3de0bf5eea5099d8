//! Predicts how long each task trains in a round under any shares, with a Gaussian process for each task.
//!
//! `ln seconds_i = a_i + own(s_i) + b_i ln s_i + c_i load_i + f_i(ln s) + drift_i(t) + noise`, where `load_i` is the
//! sum of the shares of the other tasks, each weighted by the fraction of task `i`'s time in which it still runs. `own`
//! is the mean curve of all tasks in 560 simulated rounds of 14 trial mixes of 2 to 8 tasks, and the scales of `b`, `c`
//! and `f` maximise the likelihood of these rounds.

use math::Cholesky;
use math::stats::{normal_cdf, normal_pdf};
use units::Share;

/// `ln` of the ratio of a task's time under a share to its time under the whole device, with the other tasks unchanged;
/// mean over the tasks of the trial mixes. Above 70 % of the device, a larger share changes nothing.
const OWN_CURVE: [(f64, f64); 6] = [
    (0.1, 0.596),
    (0.25, 0.197),
    (0.4, 0.123),
    (0.55, 0.056),
    (0.7, 0.0),
    (1.0, 0.0),
];
/// Standard deviation, over tasks, of the exponent of the own share relative to that curve.
const OWN: f64 = 0.15;
/// Mean and standard deviation of the effect of the others' shares, per whole device.
const LOAD: (f64, f64) = (0.05, 0.035);
/// Deviation from the power law as a function of the own share: standard deviation, and length scale in `ln`.
const BEND: (f64, f64) = (0.10, 0.21);
/// Deviation as a function of all shares: standard deviation, and length scale in `ln`.
const JOINT: (f64, f64) = (0.03, 2.0);
/// Prior variance of the level, which is practically unknown.
const LEVEL: f64 = 4.0;
/// Correlation time of the drift, in rounds.
const MEMORY: f64 = 20.0;
/// Candidate standard deviations of the noise of a round and of the drift; maximum likelihood chooses among them.
const NOISES: [f64; 5] = [0.003, 0.01, 0.025, 0.06, 0.12];
const DRIFTS: [f64; 3] = [0.01, 0.04, 0.10];
/// Number of rounds that are remembered; later ones replace the earliest. With 48, a hundred rounds with 10 % of noise
/// forgot what they had tried: they took 1.024 times the best in hindsight on average over seven trial mixes, now 1.020.
const KEPT: usize = 100;

/// Measurements of one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Share of each task.
    pub shares: Vec<Share>,
    /// Seconds that each task trained.
    pub seconds: Vec<f64>,
    /// Seconds of each task before and after its training: transfers, and waits for them.
    pub transfers: Vec<f64>,
}

impl Observed {
    /// Duration of the round, in seconds.
    #[must_use]
    pub fn round_s(&self) -> f64 {
        let each = self
            .seconds
            .iter()
            .zip(&self.transfers)
            .map(|(s, more)| s + more);
        each.fold(0.0, f64::max)
    }
}

/// Prediction of one task's time under some shares, relative to its time under the best shares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    /// `ln` seconds under the best shares.
    pub at_best: f64,
    /// Mean and standard deviation of `ln` of the ratio.
    pub ratio: f64,
    pub sd: f64,
    /// Standard deviation of the part of the ratio that one round would reveal.
    pub learnable: f64,
}

/// One task under the best shares, which every candidate is compared with.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    ln_seconds: f64,
    point: Point,
    toward: Vec<f64>,
}

/// Everything learnt so far.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    tasks: usize,
    rounds: Vec<(f64, Observed)>,
    clock: f64,
    noise: f64,
    drift: f64,
    models: Vec<Model>,
    /// `weights[i][j]`: fraction of task `i`'s time in which task `j` still runs.
    weights: Vec<Vec<f64>>,
}

#[derive(Debug, Clone)]
struct Model {
    /// Shares of each observation.
    points: Vec<Point>,
    factor: Cholesky,
    /// `K^-1 (y - mean)`.
    weights: Vec<f64>,
}

/// Features of a task for some shares.
#[derive(Debug, Clone)]
struct Point {
    /// `ln` of its own share.
    own: f64,
    load: f64,
    all: Vec<f64>,
    /// Prior mean of `ln seconds` without the level.
    mean: f64,
}

/// The mean curve, interpolated between its points and constant beyond its ends.
fn own_curve(share: f64) -> f64 {
    let pairs = OWN_CURVE.windows(2);
    let between = pairs
        .map(|pair| (pair[0], pair[1]))
        .find(|(_, right)| share <= right.0);
    let Some((left, right)) = between else {
        return 0.0;
    };
    let part = ((share - left.0) / (right.0 - left.0)).max(0.0);
    left.1 + part * (right.1 - left.1)
}

/// Where two normal distributions are further apart than this many standard deviations, the maximum is one of them to
/// nine digits.
const APART: f64 = 6.0;

/// Mean and standard deviation of the maximum of two independent normal variables (Clark 1961, *The greatest of a
/// finite set of random variables*), which is taken for normal again.
fn later((a, s): (f64, f64), (b, t): (f64, f64)) -> (f64, f64) {
    let apart = s.hypot(t);
    let z = (a - b) / apart;
    if z.abs() > APART || apart == 0.0 {
        return if a >= b { (a, s) } else { (b, t) };
    }
    let (first, density) = (normal_cdf(z), normal_pdf(z));
    let mean = a * first + b * (1.0 - first) + apart * density;
    let square =
        (a * a + s * s) * first + (b * b + t * t) * (1.0 - first) + (a + b) * apart * density;
    (mean, (square - mean * mean).max(0.0).sqrt())
}

impl Point {
    fn mean(&self) -> f64 {
        self.mean
    }

    fn covariance(&self, other: &Self) -> f64 {
        let bend = (self.own - other.own) / BEND.1;
        let apart: f64 = self
            .all
            .iter()
            .zip(&other.all)
            .map(|(a, b)| (a - b) * (a - b))
            .sum();
        LEVEL
            + OWN * OWN * self.own * other.own
            + LOAD.1 * LOAD.1 * self.load * other.load
            + BEND.0 * BEND.0 * math::exp(-0.5 * bend * bend)
            + JOINT.0 * JOINT.0 * math::exp(-apart.sqrt() / JOINT.1)
    }
}

impl Belief {
    pub(super) fn new(tasks: usize) -> Self {
        Self {
            tasks,
            rounds: Vec::new(),
            clock: 0.0,
            noise: NOISES[2],
            drift: DRIFTS[0],
            models: Vec::new(),
            weights: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    pub(super) fn noise_and_drift(&self) -> (f64, f64) {
        (self.noise, self.drift)
    }

    pub(super) fn tried(&self) -> impl Iterator<Item = &Vec<Share>> {
        self.rounds.iter().map(|(_, round)| &round.shares)
    }

    pub(super) fn learn(&mut self, observed: Observed) {
        self.rounds.push((self.clock, observed));
        self.clock += 1.0;
        if self.rounds.len() > KEPT {
            self.rounds.remove(0);
        }
        let n = self.rounds.len();
        let mut weights = vec![vec![0.0; self.tasks]; self.tasks];
        for (_, round) in &self.rounds {
            for (i, row) in weights.iter_mut().enumerate() {
                for (j, weight) in row.iter_mut().enumerate() {
                    let part = (round.seconds[j] / round.seconds[i]).min(1.0);
                    *weight += if i == j { 0.0 } else { part / n as f64 };
                }
            }
        }
        self.weights = weights;
        // Before the third round the likelihood says little about noise, and later it changes slowly.
        if n >= 3 && (n < 12 || n.is_multiple_of(8)) {
            self.estimate_noise();
        }
        self.refit();
    }

    /// Fits the models to all observations, for the next round.
    pub(super) fn prepare(&mut self) {
        self.refit();
    }

    fn point(&self, task: usize, shares: &[Share]) -> Point {
        let load = shares.iter().zip(&self.weights[task]);
        let ln = |(j, share): (usize, &Share)| {
            let weight = if j == task {
                1.0
            } else {
                self.weights[task][j]
            };
            weight * share.fraction().ln()
        };
        let load = load.map(|(share, weight)| share.fraction() * weight).sum();
        let own = shares[task].fraction();
        Point {
            own: own.ln(),
            load,
            all: shares.iter().enumerate().map(ln).collect(),
            mean: own_curve(own) + LOAD.0 * load,
        }
    }

    fn model(&self, task: usize, noise: f64, drift: f64) -> Option<(Model, f64)> {
        let n = self.rounds.len();
        let points: Vec<Point> = self
            .rounds
            .iter()
            .map(|(_, r)| self.point(task, &r.shares))
            .collect();
        let mut k = vec![0.0; n * n];
        for a in 0..n {
            for b in 0..=a {
                let apart = (self.rounds[a].0 - self.rounds[b].0).abs();
                let mut value = points[a].covariance(&points[b]);
                value += drift * drift * math::exp(-apart / MEMORY);
                if a == b {
                    value += noise * noise;
                }
                (k[a * n + b], k[b * n + a]) = (value, value);
            }
        }
        let factor = Cholesky::new(k, n).ok()?;
        let residual: Vec<f64> = self
            .rounds
            .iter()
            .zip(&points)
            .map(|((_, r), p)| r.seconds[task].ln() - p.mean())
            .collect();
        let mut weights = residual.clone();
        factor.solve(&mut weights);
        let fit = math::dot(&residual, &weights);
        let merit = -0.5 * (fit + factor.log_det());
        Some((
            Model {
                points,
                factor,
                weights,
            },
            merit,
        ))
    }

    fn refit(&mut self) {
        let models: Option<Vec<Model>> = (0..self.tasks)
            .map(|task| Some(self.model(task, self.noise, self.drift)?.0))
            .collect();
        self.models = models.unwrap_or_default();
    }

    /// Estimates noise and drift, common to all tasks, by maximum likelihood.
    fn estimate_noise(&mut self) {
        let mut most = f64::NEG_INFINITY;
        for noise in NOISES {
            for drift in DRIFTS {
                let merits: Option<Vec<f64>> = (0..self.tasks)
                    .map(|task| Some(self.model(task, noise, drift)?.1))
                    .collect();
                // A weak prior for a few percent of noise and little drift.
                let doubt = 0.5 * (noise / NOISES[2]).ln().powi(2) + (drift / DRIFTS[0]).ln();
                let merit = merits.map_or(f64::NEG_INFINITY, |m| m.iter().sum::<f64>() - doubt);
                if merit > most {
                    (most, self.noise, self.drift) = (merit, noise, drift);
                }
            }
        }
    }

    /// Covariances of a point at a time with the observations.
    fn toward(&self, model: &Model, point: &Point, at: f64) -> Vec<f64> {
        let each = model.points.iter().zip(&self.rounds);
        each.map(|(other, (then, _))| {
            let drift = self.drift * self.drift * math::exp(-(at - then).abs() / MEMORY);
            point.covariance(other) + drift
        })
        .collect()
    }

    fn ln_seconds(&self, task: usize, shares: &[Share], at: f64) -> f64 {
        let Some(model) = self.models.get(task) else {
            return self
                .rounds
                .last()
                .map_or(0.0, |(_, r)| r.seconds[task].ln());
        };
        let point = self.point(task, shares);
        point.mean() + math::dot(&self.toward(model, &point, at), &model.weights)
    }

    /// Expected seconds of the next round.
    pub(super) fn round(&self, shares: &[Share]) -> f64 {
        self.round_at(shares, self.clock)
    }

    /// Expected seconds of the last round if it had run under these shares.
    pub(super) fn round_of_last(&self, shares: &[Share]) -> Option<f64> {
        let (at, _) = self.rounds.last()?;
        Some(self.round_at(shares, *at))
    }

    fn round_at(&self, shares: &[Share], at: f64) -> f64 {
        let more = self.transfers(shares);
        let trains = (0..self.tasks).map(|task| math::exp(self.ln_seconds(task, shares, at)));
        self.longest(trains.zip(more))
    }

    /// Expected seconds until the last task ends, of their seconds of training and of transfers: where two end at
    /// about the same time, noise has one or the other end later. Without it, shares under which all tasks end
    /// together look as good as ones under which only one is as late; with 10 % of noise they take 4 % longer.
    pub(super) fn longest(&self, tasks: impl Iterator<Item = (f64, f64)>) -> f64 {
        let each = tasks.map(|(trains, more)| (trains + more, self.noise * trains));
        each.reduce(later).map_or(0.0, |(mean, _)| mean)
    }

    /// Seconds of each task's transfers in the last round with these shares or, without such a round, on average over
    /// all rounds. A task waits for the link when others end their compute at the same time, so its wait depends on the
    /// shares. When this function always used the waits of the last round, every second round of a mix with transfers
    /// was a trial, because the trial was predicted with the waits of the best shares.
    pub(super) fn transfers(&self, shares: &[Share]) -> Vec<f64> {
        let newest = self.rounds.iter().rev();
        let same = newest.clone().find(|(_, round)| round.shares == shares);
        if let Some((_, round)) = same {
            return round.transfers.clone();
        }
        let mean = |task: usize| {
            let all = newest.clone().map(|(_, round)| round.transfers[task]);
            all.sum::<f64>() / self.rounds.len() as f64
        };
        (0..self.tasks).map(mean).collect()
    }

    /// The state of a task under the best shares.
    pub(super) fn standing(&self, task: usize, best: &[Share]) -> Standing {
        let point = self.point(task, best);
        let toward = self
            .models
            .get(task)
            .map(|model| self.toward(model, &point, self.clock));
        Standing {
            ln_seconds: self.ln_seconds(task, best, self.clock),
            point,
            toward: toward.unwrap_or_default(),
        }
    }

    /// Prediction of a task's time under some shares relative to the best ones.
    pub(super) fn beside(&self, task: usize, shares: &[Share], best: &Standing) -> Beside {
        let at_best = best.ln_seconds;
        let Some(model) = self.models.get(task) else {
            return Beside {
                at_best,
                ratio: 0.0,
                sd: 0.0,
                learnable: 0.0,
            };
        };
        let here = self.point(task, shares);
        let toward = self.toward(model, &here, self.clock);
        let ratio = here.mean() + math::dot(&toward, &model.weights) - at_best;
        // Drift affects both times equally, so it cancels in the ratio.
        let mut difference: Vec<f64> = toward
            .iter()
            .zip(&best.toward)
            .map(|(a, b)| a - b)
            .collect();
        let there = &best.point;
        let prior = here.covariance(&here) + there.covariance(there) - 2.0 * here.covariance(there);
        model.factor.solve_lower(&mut difference);
        let known = math::dot(&difference, &difference);
        let variance = (prior - known).max(0.0);
        let taught = variance / (variance + self.noise * self.noise);
        Beside {
            at_best,
            ratio,
            sd: variance.sqrt(),
            learnable: (variance * taught).sqrt(),
        }
    }
}
