//! Fitting the constants: least absolute errors by reweighted Gauss-Newton steps.

use std::error::Error;
use std::io::Write;

use gpusim::temporal;
use math::Cholesky;

use crate::evaluate::{Constants, Mix};
use crate::rows::Row;

/// Maximum number of steps; the cost falls by less than a hundredth after five to seven.
const STEPS: usize = 12;

/// Shares are searched in shorter windows than those used for the final evaluation.
const SEARCH_WINDOW_S: f64 = 1.0;

/// Windows of the fit: their rates equal those of longer ones up to noise of about 0.5 %.
const FIT_WINDOW_S: f64 = 4.0;

/// Distance of the finite differences in the unbounded parameter: a fifth of a unit moves a constant by a twentieth
/// of its interval, so the noise of a window is a tenth of the effect on the ratios.
const DIFFERENCE: f64 = 0.2;

/// Errors below this count as squares, those above it linearly: it is half of the rounding and measurement noise of
/// the paper's own ratios.
const ROUND_ERROR: f64 = 0.02;

/// A constant under fit with its bounds.
#[derive(Clone, Copy)]
pub struct Knob {
    name: &'static str,
    of: fn(&mut Constants) -> &mut f64,
    low: f64,
    high: f64,
}

const fn knob(name: &'static str, of: fn(&mut Constants) -> &mut f64, low: f64, high: f64) -> Knob {
    Knob {
        name,
        of,
        low,
        high,
    }
}

/// The constants under fit.
pub const KNOBS: [Knob; 9] = [
    knob(
        "conv3_efficiency",
        |c| &mut c.tuning.conv3_efficiency,
        0.5,
        1.5,
    ),
    knob(
        "gemm_efficiency",
        |c| &mut c.tuning.gemm_efficiency,
        0.3,
        0.95,
    ),
    knob("traffic", |c| &mut c.tuning.traffic, 0.3, 1.5),
    knob("operand_rate", |c| &mut c.tuning.operand_rate, 2e5, 2e6),
    knob("occupancy", |c| &mut c.tuning.occupancy, 2.0, 6.0),
    knob("handover", |c| &mut c.tuning.handover, 0.0, 0.2),
    knob(
        "titan_v_host_us_per_sample",
        |c| &mut c.host.us_per_sample,
        50.0,
        400.0,
    ),
    knob(
        "rtx_host_us_per_sample",
        |c| &mut c.rtx_host.us_per_sample,
        50.0,
        400.0,
    ),
    knob("host_contention", |c| &mut c.host.contention, 0.0, 1.0),
];

impl Knob {
    /// From the whole real line to the interval of the knob.
    fn bounded(&self, x: f64) -> f64 {
        self.low + (self.high - self.low) / (1.0 + (-x).exp())
    }

    fn unbounded(&self, value: f64) -> f64 {
        let t = ((value - self.low) / (self.high - self.low)).clamp(0.02, 0.98);
        (t / (1.0 - t)).ln()
    }
}

fn constants(x: &[f64], knobs: &[Knob], start: &Constants) -> Constants {
    let mut c = *start;
    for (x, knob) in x.iter().zip(knobs) {
        *(knob.of)(&mut c) = knob.bounded(*x);
    }
    c.rtx_host.contention = c.host.contention;
    c
}

/// Rows that may be fitted: all but those of the RTX 3080.
pub fn fit_set<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let fitted = rows.iter().filter(|r| r.gpu != "rtx-3080");
    fitted.copied().collect()
}

/// Writes the fitted constants.
pub fn write(out: &mut impl Write, fitted: &Constants) -> Result<(), Box<dyn Error>> {
    let mut c = *fitted;
    for knob in &KNOBS {
        writeln!(out, "{} = {:.5}", knob.name, *(knob.of)(&mut c))?;
    }
    Ok(())
}

/// Errors of one row: of the three ratios, of the temporal rate beyond 15 %, and of sharing below isolated if the
/// paper has it above.
fn row_errors(row: &Row, c: &Constants, shares: &[u32]) -> Result<[f64; 5], Box<dyn Error>> {
    let n = row.models.len();
    let mut mix = Mix::new(&row.gpu, &row.models, &vec![128; n], c, FIT_WINDOW_S)?;
    let base = temporal(&mix.solos());
    let isolated = mix.total(&vec![100 / n as u32; n]) / base;
    let sharing = mix.total(&vec![100; n]) / base;
    let best = mix.total(shares) / base;
    let off = (base / row.temporal).ln();
    let inverted = if row.ratios[1] >= row.ratios[0] {
        (isolated - sharing - 0.02).max(0.0)
    } else {
        0.0
    };
    Ok([
        isolated - row.ratios[0],
        sharing - row.ratios[1],
        best - row.ratios[2],
        off.signum() * (off.abs() - 0.15).max(0.0),
        inverted,
    ])
}

/// Best shares on a coarse grid in short windows.
fn coarse_best(row: &Row, c: &Constants) -> Result<Vec<u32>, Box<dyn Error>> {
    let n = row.models.len();
    let mut mix = Mix::new(&row.gpu, &row.models, &vec![128; n], c, SEARCH_WINDOW_S)?;
    let mut best = vec![60; n];
    for uniform in [60, 65, 70, 80] {
        let shares = vec![uniform; n];
        if mix.total(&shares) > mix.total(&best) {
            best = shares;
        }
    }
    Ok(mix.ascend(best, 20))
}

fn errors(rows: &[&Row], c: &Constants, shares: &[Vec<u32>]) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut all = Vec::new();
    for (row, shares) in rows.iter().zip(shares) {
        all.extend(row_errors(row, c, shares)?);
    }
    Ok(all)
}

fn sum_abs(errors: &[f64]) -> f64 {
    errors.iter().map(|e| e.abs()).sum()
}

/// Fits all constants except the `frozen` ones to `rows`, starting from `start`: minimises the sum of absolute errors
/// by iteratively reweighted least squares, where each step is damped as by Levenberg and Marquardt until it helps.
pub fn fit(rows: &[&Row], start: Constants, frozen: &[&str]) -> Result<Constants, Box<dyn Error>> {
    let free: Vec<Knob> = KNOBS
        .into_iter()
        .filter(|knob| !frozen.contains(&knob.name))
        .collect();
    let (knobs, p) = (&free[..], free.len());
    let mut start_values = start;
    let mut x: Vec<f64> = knobs
        .iter()
        .map(|knob| knob.unbounded(*(knob.of)(&mut start_values)))
        .collect();
    let search = |c: &Constants| -> Result<Vec<Vec<u32>>, Box<dyn Error>> {
        rows.iter().map(|row| coarse_best(row, c)).collect()
    };
    let at = |x: &[f64]| constants(x, knobs, &start);
    let mut shares = search(&at(&x))?;
    let mut now = errors(rows, &at(&x), &shares)?;
    let mut damping = 0.1;
    for _ in 0..STEPS {
        let mut jacobian = vec![vec![0.0; p]; now.len()];
        for k in 0..p {
            let mut moved = x.clone();
            moved[k] += DIFFERENCE;
            let there = errors(rows, &at(&moved), &shares)?;
            for (row, (a, b)) in jacobian.iter_mut().zip(there.iter().zip(&now)) {
                row[k] = (a - b) / DIFFERENCE;
            }
        }
        let mut improved = false;
        for _ in 0..5 {
            let candidate = step(&x, &jacobian, &now, damping)?;
            let better_shares = search(&at(&candidate))?;
            let there = errors(rows, &at(&candidate), &better_shares)?;
            if sum_abs(&there) < sum_abs(&now) {
                improved = sum_abs(&there) < 0.997 * sum_abs(&now);
                (x, now, shares) = (candidate, there, better_shares);
                damping /= 4.0;
                break;
            }
            damping *= 8.0;
        }
        if !improved {
            break;
        }
    }
    Ok(at(&x))
}

/// One damped Gauss-Newton step of the reweighted problem.
fn step(
    x: &[f64],
    jacobian: &[Vec<f64>],
    errors: &[f64],
    damping: f64,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let p = x.len();
    let mut normal = vec![0.0; p * p];
    let mut gradient = vec![0.0; p];
    for (row, e) in jacobian.iter().zip(errors) {
        let weight = 1.0 / e.abs().max(ROUND_ERROR);
        for a in 0..p {
            gradient[a] -= weight * row[a] * e;
            for b in 0..p {
                normal[a * p + b] += weight * row[a] * row[b];
            }
        }
    }
    let scale = (0..p).map(|a| normal[a * p + a]).fold(0.0, f64::max);
    for a in 0..p {
        normal[a * p + a] += damping * (normal[a * p + a] + 0.01 * scale);
    }
    Cholesky::new(normal, p)?.solve(&mut gradient);
    // A unit step crosses a quarter of a knob's interval: more leaves the range of the model.
    Ok(x.iter()
        .zip(&gradient)
        .map(|(x, d)| x + d.clamp(-1.0, 1.0))
        .collect())
}
