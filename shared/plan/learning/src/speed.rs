use std::collections::BTreeMap;

/// Cost of a step on each number of GPUs.
///
/// Model of a data-parallel step with a ring all-reduce, global batch `B`, on `g` GPUs: `t(g) = c0 + c1 B/g + 2 V
/// (g-1)/g` seconds, all coefficients 0 or more (Thakur, Rabenseifner and Gropp, *Optimization of Collective
/// Communication Operations in MPICH*, 2005, for the last term). For a measured number of GPUs the measurement is
/// used, not the model: more GPUs are not assumed to be faster, nor the gain to shrink.
#[derive(Debug, Clone, Default)]
pub struct Speed {
    measured: BTreeMap<u32, Measured>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    steps: f64,
    seconds: f64,
}

/// Steps after which a measurement counts half, because rates change with co-runners. Measurements of an earlier run
/// count like this many steps.
pub(crate) const HALF_LIFE_STEPS: f64 = 200.0;

/// Speed-up exponent that is assumed until two numbers of GPUs have been measured for any training of the machine:
/// `t(g) ~ g^-0.5`. With it two trainings on four GPUs are split 3:1, as in the paper; exponents measured in its
/// table are between 0 and 0.9.
pub(crate) const ASSUMED_EXPONENT: f64 = 0.5;

/// Speed-up exponents that are possible before one has been measured. The first move measures it,
/// which pays for the rest of the trainings if the exponent is large.
pub(crate) const POSSIBLE_EXPONENTS: [f64; 3] = [0.3, 0.6, 0.9];

/// Minimum speed-up exponent assumed for more GPUs than were ever tried, whatever other trainings or smaller numbers
/// show. Otherwise freed GPUs would stay idle for ever after co-runners had slowed a training down: one of 60 random
/// cases kept 2 of 4 GPUs idle for 600 s of 2300, while trying them costs two pauses. At 0 nothing is tried; from .3
/// on it takes GPUs away from trainings that are known to use them.
const LEAST_EXPONENT: f64 = 0.1;

/// Weight of an assumed time relative to a measured one in the fit: enough to decide what measurements leave open,
/// too little to distort them.
const ASSUMED_WEIGHT: f64 = 1e-3;

impl Speed {
    /// Records that `steps` took `seconds` on `gpus` GPUs. Durations that are not positive are
    /// ignored: two reports at the same time say nothing about speed.
    pub fn push(&mut self, gpus: u32, steps: f64, seconds: f64) {
        if gpus == 0 || !(steps > 0.0 && seconds > 0.0 && seconds.is_finite()) {
            return;
        }
        let m = self.measured.entry(gpus).or_default();
        let keep = 0.5f64.powf(steps / HALF_LIFE_STEPS);
        m.steps = m.steps * keep + steps;
        m.seconds = m.seconds * keep + seconds;
    }

    /// Whether any step has been timed.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.measured.is_empty()
    }

    /// Number of steps timed on the best-known number of GPUs; older ones count less.
    pub(crate) fn most_steps(&self) -> f64 {
        self.measured.values().map(|m| m.steps).fold(0.0, f64::max)
    }

    /// Number of steps timed on `gpus` GPUs; older ones count less.
    pub(crate) fn steps_on(&self, gpus: u32) -> f64 {
        self.measured.get(&gpus).map_or(0.0, |m| m.steps)
    }

    /// Seconds of a step on `gpus` GPUs, if that has been measured.
    #[must_use]
    pub fn measured_step_s(&self, gpus: u32) -> Option<f64> {
        self.measured.get(&gpus).map(|m| m.seconds / m.steps)
    }

    /// The measured speed-up exponent, within 0 to 1; `None` with fewer than two numbers of GPUs.
    pub(crate) fn measured_exponent(&self) -> Option<f64> {
        let most = *self.measured.keys().next_back()?;
        let rate = |g| self.measured_step_s(g).map_or(0.0, |t| 1.0 / t);
        let rates: Vec<f64> = (0..=most).map(rate).collect();
        (self.measured.len() > 1).then(|| exponent(&rates).clamp(0.0, 1.0))
    }

    /// Steps per second on 0 to `most` GPUs, with the speed-up exponent `assumed` if no other number of GPUs is
    /// known; before any measurement, in units of one step per second on one GPU.
    #[must_use]
    pub fn rates(&self, most: u32, assumed: f64) -> Vec<f64> {
        let coefficients = self.coefficients(most, assumed);
        let largest = self.measured.keys().next_back().copied().unwrap_or(most);
        // Start from the best measurement: beside co-runners, the largest number may have been
        // slower than a smaller one.
        let hope = |g: u32| {
            let times = self.measured.iter().map(|(&l, m)| {
                m.seconds / m.steps * (f64::from(l) / f64::from(g)).powf(LEAST_EXPONENT)
            });
            times.fold(f64::INFINITY, f64::min)
        };
        let rate = |g: u32| {
            let model: f64 = features(g)
                .iter()
                .zip(coefficients)
                .map(|(f, c)| f * c)
                .sum();
            let hoped = if g > largest { hope(g) } else { f64::INFINITY };
            1.0 / self.measured_step_s(g).unwrap_or(model.min(hoped))
        };
        std::iter::once(0.0).chain((1..=most).map(rate)).collect()
    }

    /// `c0`, `c1 B` and `V`, by non-negative least squares of relative errors.
    fn coefficients(&self, most: u32, assumed: f64) -> [f64; 3] {
        let anchor = self
            .measured
            .iter()
            .max_by(|a, b| a.1.steps.total_cmp(&b.1.steps));
        let (g0, t0) = anchor.map_or((1, 1.0), |(g, m)| (*g, m.seconds / m.steps));
        let assumed = (1..=most.max(1)).map(|g| {
            let t = t0 * (f64::from(g0) / f64::from(g)).powf(assumed);
            (g, t, ASSUMED_WEIGHT)
        });
        let measured = self
            .measured
            .iter()
            .map(|(g, m)| (*g, m.seconds / m.steps, 1.0));
        let rows: Vec<([f64; 3], f64)> = assumed
            .chain(measured)
            .map(|(g, t, w)| (features(g).map(|f| f / t), w))
            .collect();
        let best = (1u8..8)
            .filter_map(|mask| solve(&rows, mask))
            .filter(|c| c.iter().all(|v| *v >= 0.0 && v.is_finite()))
            .min_by(|a, b| error(&rows, a).total_cmp(&error(&rows, b)));
        best.unwrap_or([t0, 0.0, 0.0])
    }
}

/// `t(g) = features(g) . (c0, c1 B, V)`.
fn features(gpus: u32) -> [f64; 3] {
    let g = f64::from(gpus);
    [1.0, 1.0 / g, 2.0 * (g - 1.0) / g]
}

/// Weighted squares of `row . c - 1`.
fn error(rows: &[([f64; 3], f64)], c: &[f64; 3]) -> f64 {
    rows.iter()
        .map(|(row, w)| w * (row.iter().zip(c).map(|(f, c)| f * c).sum::<f64>() - 1.0).powi(2))
        .sum()
}

/// Least squares over the coefficients in `mask`, the others 0. With three coefficients, the non-negative optimum is
/// among the seven masks (Lawson and Hanson, *Solving Least Squares Problems*, 1974).
fn solve(rows: &[([f64; 3], f64)], mask: u8) -> Option<[f64; 3]> {
    let free: Vec<usize> = (0..3).filter(|i| mask & (1 << i) != 0).collect();
    let n = free.len();
    let mut a = vec![vec![0.0; n + 1]; n];
    for (row, w) in rows {
        for (i, &p) in free.iter().enumerate() {
            for (j, &q) in free.iter().enumerate() {
                a[i][j] += w * row[p] * row[q];
            }
            a[i][n] += w * row[p];
        }
    }
    for i in 0..n {
        let pivot = (i..n).max_by(|&p, &q| a[p][i].abs().total_cmp(&a[q][i].abs()))?;
        a.swap(i, pivot);
        if a[i][i].abs() < 1e-14 {
            return None;
        }
        let (above, below) = a.split_at_mut(i + 1);
        let pivot_row = &above[i];
        for row in below {
            let factor = row[i] / pivot_row[i];
            for (x, p) in row.iter_mut().zip(pivot_row).skip(i) {
                *x -= factor * p;
            }
        }
    }
    let mut found = [0.0; 3];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| a[i][j] * found[free[j]]).sum();
        found[free[i]] = (a[i][n] - known) / a[i][i];
    }
    Some(found)
}

/// The speed-up exponent `p` of `rate(g) ~ g^p`, by least squares of logarithms over the numbers of GPUs with a rate;
/// 0 if there are fewer than two. `rates[g]` is the rate on `g` GPUs.
#[must_use]
pub fn exponent(rates: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> = rates
        .iter()
        .enumerate()
        .filter(|(g, r)| *g > 0 && **r > 0.0)
        .map(|(g, r)| ((g as f64).ln(), r.ln()))
        .collect();
    let n = points.len() as f64;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / n;
    let xx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let xy: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    if xx > 0.0 { xy / xx } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(g: u32) -> f64 {
        let f = features(g);
        0.2 * f[0] + 0.8 * f[1] + 0.05 * f[2]
    }

    #[test]
    fn three_measured_sizes_give_the_others() {
        let mut speed = Speed::default();
        for g in [1, 2, 4] {
            speed.push(g, 100.0, 100.0 * law(g));
        }
        for (g, rate) in speed.rates(8, ASSUMED_EXPONENT).iter().enumerate().skip(1) {
            let error = (rate * law(g as u32) - 1.0).abs();
            assert!(error < 0.02, "{g} GPUs: off by {error}");
        }
    }

    #[test]
    fn a_measured_size_is_believed_even_if_it_is_slower() {
        let mut speed = Speed::default();
        speed.push(1, 100.0, 100.0);
        speed.push(2, 100.0, 130.0);
        let rates = speed.rates(4, ASSUMED_EXPONENT);
        assert!((rates[2] - 1.0 / 1.3).abs() < 1e-9 && rates[2] < rates[1]);
    }

    #[test]
    fn with_one_size_measured_the_paper_s_exponent_is_assumed() {
        let mut speed = Speed::default();
        speed.push(2, 100.0, 50.0);
        let rates = speed.rates(4, ASSUMED_EXPONENT);
        assert!((rates[2] - 2.0).abs() < 1e-9);
        let p = exponent(&rates);
        assert!((0.35..0.65).contains(&p), "{p}");
    }

    #[test]
    fn what_is_newer_weighs_more() {
        let mut speed = Speed::default();
        speed.push(2, 100.0, 100.0);
        speed.push(2, 2000.0, 1000.0);
        assert!((speed.measured_step_s(2).unwrap() - 0.5).abs() < 0.01);
    }

    #[test]
    fn times_that_are_none_are_ignored() {
        let mut speed = Speed::default();
        for (g, steps, seconds) in [
            (0, 1.0, 1.0),
            (1, 0.0, 1.0),
            (1, 1.0, 0.0),
            (1, 1.0, f64::NAN),
        ] {
            speed.push(g, steps, seconds);
        }
        assert!(!speed.is_known());
        assert_eq!(speed.rates(2, ASSUMED_EXPONENT)[0], 0.0);
    }

    #[test]
    fn exponents() {
        assert!((exponent(&[0.0, 1.0, 2.0, 3.0, 4.0]) - 1.0).abs() < 1e-12);
        assert_eq!(exponent(&[0.0, 3.0]), 0.0);
        assert_eq!(exponent(&[]), 0.0);
    }
}
