//! Remaining steps of a recorded training: our forecast beside two published ones.

use std::path::Path;

use learning::{History, Point, REACHED_REPORTS, remaining};

/// Remaining steps, with a 90 % interval if there is one.
type RemainingSteps = (f64, Option<(f64, f64)>);

/// A forecast of remaining steps from the losses so far; `None`: the target is never reached.
type Forecast = fn(&[Point], f64) -> Option<RemainingSteps>;

/// Ours, Optimus' and SLAQ's.
pub const FORECASTS: [(&str, Forecast); 3] = [("ours", ours), ("Optimus", optimus), ("SLAQ", slaq)];

/// Recorded losses of every training of at least 40 reports; `None` without the file.
pub fn curves(file: &Path) -> Option<Vec<Vec<Point>>> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut curves: Vec<Vec<Point>> = Vec::new();
    let mut last = None;
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let (name, step, loss) = (cells.first()?, cells.get(2)?, cells.get(3)?);
        if last != Some((*name).to_owned()) {
            last = Some((*name).to_owned());
            curves.push(Vec::new());
        }
        let loss: f64 = loss.parse().ok()?;
        if let Some(curve) = curves.last_mut().filter(|_| loss.is_finite()) {
            let step = step.parse().ok()?;
            curve.push(Point { step, loss });
        }
    }
    curves.retain(|c| c.len() >= 40);
    Some(curves)
}

/// The mean of the last reports is the target; the training ends when it is first reached.
pub fn target_and_end(curve: &[Point]) -> (f64, f64) {
    let mean = |to: usize| {
        let window = &curve[to + 1 - REACHED_REPORTS..=to];
        window.iter().map(|p| p.loss).sum::<f64>() / REACHED_REPORTS as f64
    };
    let target = mean(curve.len() - 1);
    let hit = (REACHED_REPORTS - 1..curve.len()).find(|&i| mean(i) <= target);
    (target, curve[hit.unwrap_or(curve.len() - 1)].step)
}

/// Counts of trainings: all, forecasts within a factor of two, intervals that contain the true value, and forecasts
/// of "never".
#[derive(Clone, Copy, Default)]
pub struct Score {
    pub within: usize,
    pub held: Option<usize>,
    pub never: usize,
    pub all: usize,
}

impl Score {
    /// Fraction within a factor of two.
    pub fn part(&self) -> f64 {
        self.within as f64 / self.all.max(1) as f64
    }
}

/// Judges a forecast when a training is at `part` of its steps.
pub fn judge(curves: &[Vec<Point>], forecast: Forecast, part: f64) -> Score {
    let mut score = Score::default();
    for curve in curves {
        let (target, end) = target_and_end(curve);
        let seen = curve.iter().take_while(|p| p.step <= part * end).count();
        let seen = &curve[..seen];
        let Some(now) = seen.last().map(|p| p.step).filter(|_| seen.len() >= 8) else {
            continue;
        };
        score.all += 1;
        match forecast(seen, target) {
            Some((steps, interval)) => {
                let truth = end - now;
                score.within += usize::from((steps / truth).ln().abs() <= 2f64.ln());
                if let Some((low, high)) = interval {
                    let held = usize::from(low <= truth && truth <= high);
                    score.held = Some(score.held.unwrap_or(0) + held);
                }
            }
            None => score.never += 1,
        }
    }
    score
}

fn ours(seen: &[Point], target: f64) -> Option<RemainingSteps> {
    let mut history = History::default();
    for point in seen {
        let _ = history.push(point.step as u64, Some(point.loss));
    }
    let found = remaining(&history.curve(), target, None);
    found.map(|r| (r.steps, Some((r.low, r.high))))
}

/// Optimus (Peng et al., EuroSys 2018, equation 1): `l = 1 / (a k + b) + c`, every report alike.
fn optimus(seen: &[Point], target: f64) -> Option<RemainingSteps> {
    fitted(seen, target, |_| 1.0, |k| [k, 1.0, 0.0])
}

/// SLAQ (Zhang et al., SoCC 2017, section 3): `l = 1 / (a k^2 + b k + d) + c` for methods of first
/// order, recent reports weighted exponentially (half after a tenth of the history).
fn slaq(seen: &[Point], target: f64) -> Option<RemainingSteps> {
    let half = seen.len() as f64 / 10.0;
    fitted(
        seen,
        target,
        |age| 0.5f64.powf(age / half),
        |k| [k * k, k, 1.0],
    )
}

/// Non-negative least squares of `1 / (l - c)` on features of the step, with the `c` below the minimum loss that
/// gives the smallest error of the loss; then the step at which the curve reaches `target`.
fn fitted(
    seen: &[Point],
    target: f64,
    weight: impl Fn(f64) -> f64,
    features: impl Fn(f64) -> [f64; 3],
) -> Option<RemainingSteps> {
    let now = seen.last()?.step;
    let least = seen.iter().map(|p| p.loss).fold(f64::INFINITY, f64::min);
    let range = seen.iter().map(|p| p.loss).fold(least, f64::max) - least;
    if range <= 0.0 {
        return None;
    }
    let scale = now.max(1.0);
    let weights: Vec<f64> = (0..seen.len())
        .map(|i| weight((seen.len() - 1 - i) as f64))
        .collect();
    let mut best: Option<(f64, f64, [f64; 3])> = None;
    for grid in 1..=40 {
        let c = least - range * (0.002 * 1.2f64.powi(grid));
        let rows: Vec<([f64; 3], f64, f64)> = seen
            .iter()
            .zip(&weights)
            .map(|(p, w)| {
                // In 1 / (l - c), an error of l is multiplied by 1 / (l - c)^2.
                let over = p.loss - c;
                (features(p.step / scale), 1.0 / over, w * over.powi(4))
            })
            .collect();
        let Some(found) = nonnegative(&rows) else {
            continue;
        };
        let curve = |k: f64| c + 1.0 / dot(&features(k / scale), &found);
        let error: f64 = seen
            .iter()
            .zip(&weights)
            .map(|(p, w)| w * (p.loss - curve(p.step)).powi(2))
            .sum();
        if error.is_finite() && best.is_none_or(|b| error < b.0) {
            best = Some((error, c, found));
        }
    }
    let (_, c, found) = best?;
    let curve = |k: f64| c + 1.0 / dot(&features(k / scale), &found);
    // The curve falls; a training counts as endless after a thousand times its steps so far.
    let (mut low, mut high) = (now, now * 1000.0);
    if curve(high) > target {
        return None;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        match curve(middle) > target {
            true => low = middle,
            false => high = middle,
        }
    }
    Some(((high - now).max(1.0), None))
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Least squares with coefficients of 0 or more: the best of all subsets of three features.
fn nonnegative(rows: &[([f64; 3], f64, f64)]) -> Option<[f64; 3]> {
    let mut best: Option<(f64, [f64; 3])> = None;
    for mask in 1u8..8 {
        let free: Vec<usize> = (0..3).filter(|i| mask & (1 << i) != 0).collect();
        let Some(x) = normal(rows, &free).filter(|x| x.iter().all(|v| *v >= 0.0)) else {
            continue;
        };
        let error: f64 = rows
            .iter()
            .map(|(f, y, w)| w * (y - dot(f, &x)).powi(2))
            .sum();
        if best.is_none_or(|b| error < b.0) {
            best = Some((error, x));
        }
    }
    best.map(|b| b.1)
}

/// Normal equations over some features, by Gauss and Jordan.
fn normal(rows: &[([f64; 3], f64, f64)], free: &[usize]) -> Option<[f64; 3]> {
    let n = free.len();
    let mut a = vec![vec![0.0; n + 1]; n];
    for (f, y, w) in rows {
        for i in 0..n {
            for j in 0..n {
                a[i][j] += w * f[free[i]] * f[free[j]];
            }
            a[i][n] += w * f[free[i]] * y;
        }
    }
    for i in 0..n {
        let pivot = (i..n).max_by(|&p, &q| a[p][i].abs().total_cmp(&a[q][i].abs()))?;
        a.swap(i, pivot);
        if a[i][i].abs() < 1e-300 {
            return None;
        }
        let row = a[i].clone();
        for (k, other) in a.iter_mut().enumerate() {
            if k != i {
                let factor = other[i] / row[i];
                for (x, p) in other.iter_mut().zip(&row) {
                    *x -= factor * p;
                }
            }
        }
    }
    let mut found = [0.0; 3];
    for (i, &at) in free.iter().enumerate() {
        found[at] = a[i][n] / a[i][i];
    }
    Some(found)
}
