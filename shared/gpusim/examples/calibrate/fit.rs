//! Fitting the constants by the simplex method of Nelder and Mead.

use std::error::Error;
use std::io::Write;

use argmin::core::{CostFunction, Executor, State};
use argmin::solver::neldermead::NelderMead;
use gpusim::temporal;

use crate::evaluate::{Constants, Mix};
use crate::rows::Row;

/// Iterations of one round; every round starts a new simplex at the best point so far.
const ITERATIONS: u64 = 200;

/// Shares are searched in shorter windows than those in which they are judged.
const SEARCH_WINDOW_S: f64 = 1.0;

/// Windows of the fit: rates in them are those of longer ones but for noise of some 0.4 %.
const FIT_WINDOW_S: f64 = 8.0;

/// A constant under fit with its bounds.
struct Knob {
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

const KNOBS: [Knob; 9] = [
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
        "Titan V host us_per_sample",
        |c| &mut c.host.us_per_sample,
        50.0,
        400.0,
    ),
    knob(
        "RTX host us_per_sample",
        |c| &mut c.rtx_host.us_per_sample,
        50.0,
        400.0,
    ),
    knob("host contention", |c| &mut c.host.contention, 0.0, 1.0),
];

impl Knob {
    /// From the whole line to the interval of the knob.
    fn bounded(&self, x: f64) -> f64 {
        self.low + (self.high - self.low) / (1.0 + (-x).exp())
    }

    fn unbounded(&self, value: f64) -> f64 {
        let t = ((value - self.low) / (self.high - self.low)).clamp(0.01, 0.99);
        (t / (1.0 - t)).ln()
    }
}

fn constants(x: &[f64], start: &Constants) -> Constants {
    let mut c = *start;
    for (x, knob) in x.iter().zip(&KNOBS) {
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
        writeln!(out, "{} = {:.4}", knob.name, *(knob.of)(&mut c))?;
    }
    Ok(())
}

struct Cost<'a> {
    rows: &'a [&'a Row],
    start: Constants,
}

/// Absolute errors of one row on a coarse grid: of the three ratios, of the temporal rate beyond
/// 15 %, and of sharing below isolated where the paper has it above.
fn row_cost(row: &Row, c: &Constants) -> Result<f64, Box<dyn Error>> {
    let n = row.models.len();
    let batches = vec![128; n];
    let shares =
        Mix::new(&row.gpu, &row.models, &batches, c, SEARCH_WINDOW_S)?.ascend(vec![60; n], 20);
    let mut mix = Mix::new(&row.gpu, &row.models, &batches, c, FIT_WINDOW_S)?;
    let base = temporal(&mix.solos());
    let isolated = mix.total(&vec![100 / n as u32; n]) / base;
    let sharing = mix.total(&vec![100; n]) / base;
    let best = mix.total(&shares) / base;
    let ratios = [isolated, sharing, best];
    let mut sum: f64 = ratios
        .iter()
        .zip(&row.ratios)
        .map(|(a, b)| (a - b).abs())
        .sum();
    sum += ((base / row.temporal).ln().abs() - 0.15).max(0.0);
    if row.ratios[1] >= row.ratios[0] {
        sum += (isolated - sharing - 0.02).max(0.0);
    }
    Ok(sum)
}

impl CostFunction for Cost<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Vec<f64>) -> Result<f64, argmin::core::Error> {
        let c = constants(x, &self.start);
        let sum = |rows: &[&Row]| -> f64 {
            let costs = rows.iter().map(|row| row_cost(row, &c).unwrap_or(1e6));
            costs.sum()
        };
        let (a, b) = self.rows.split_at(self.rows.len() / 2);
        std::thread::scope(|s| {
            let other = s.spawn(|| sum(a));
            let mine = sum(b);
            Ok(mine + other.join().unwrap_or(1e6))
        })
    }
}

/// Fits the knobs to `rows`, starting from `start`.
pub fn fit(rows: &[&Row], start: Constants, rounds: u32) -> Result<Constants, Box<dyn Error>> {
    let mut best = start;
    for round in 0..rounds {
        let x: Vec<f64> = KNOBS
            .iter()
            .map(|knob| knob.unbounded(*(knob.of)(&mut best)))
            .collect();
        let mut simplex = vec![x.clone()];
        for i in 0..x.len() {
            let mut corner = x.clone();
            corner[i] += if round % 2 == 0 { 0.7 } else { -0.7 };
            simplex.push(corner);
        }
        let cost = Cost { rows, start: best };
        let solver = NelderMead::new(simplex).with_sd_tolerance(1e-4)?;
        let result = Executor::new(cost, solver)
            .configure(|state| state.max_iters(ITERATIONS))
            .run()?;
        let found = result
            .state()
            .get_best_param()
            .ok_or("the fit found nothing")?;
        best = constants(found, &best);
    }
    Ok(best)
}
