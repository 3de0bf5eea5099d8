//! Fitting the constants by the simplex method.

use std::error::Error;

use argmin::core::{CostFunction, Executor, State};
use argmin::solver::neldermead::NelderMead;

use crate::evaluate::{Constants, Mix};
use crate::rows::Row;
use gpusim::temporal;

/// Constants under fit, each with its bounds.
type Knob = (&'static str, fn(&mut Constants) -> &mut f64, f64, f64);

pub const KNOBS: &[Knob] = &[
    ("conv3_efficiency", |c| &mut c.tuning.conv3_efficiency, 0.5, 1.5),
    ("gemm_efficiency", |c| &mut c.tuning.gemm_efficiency, 0.3, 0.95),
    ("operand_rate", |c| &mut c.tuning.operand_rate, 1.5e5, 1.5e6),
    ("memory_reach", |c| &mut c.tuning.memory_reach, 1.0, 4.0),
    ("traffic", |c| &mut c.tuning.traffic, 0.3, 1.5),
    ("occupancy", |c| &mut c.tuning.occupancy, 1.5, 6.0),
    ("gap_us", |c| &mut c.tuning.gap_us, 0.5, 8.0),
    ("interference", |c| &mut c.tuning.interference, 0.0, 1.5),
    ("switch_us", |c| &mut c.tuning.switch_us, 0.0, 40.0),
    ("handover", |c| &mut c.tuning.handover, 0.0, 1.0),
    ("us_per_sample", |c| &mut c.host.us_per_sample, 50.0, 400.0),
    ("contention", |c| &mut c.host.contention, 0.0, 1.0),
    ("rtx us_per_sample", |c| &mut c.rtx_host.us_per_sample, 50.0, 400.0),
    ("rtx contention", |c| &mut c.rtx_host.contention, 0.0, 1.0),
    ("launch_us", |c| &mut c.host.launch_us, 2.0, 15.0),
];

struct Cost<'a> {
    rows: &'a [&'a Row],
    start: Constants,
}

/// Maps the unbounded coordinate onto the interval of a knob.
fn bounded(x: f64, low: f64, high: f64) -> f64 {
    low + (high - low) / (1.0 + (-x).exp())
}

fn unbounded(v: f64, low: f64, high: f64) -> f64 {
    let t = ((v - low) / (high - low)).clamp(0.01, 0.99);
    (t / (1.0 - t)).ln()
}

fn constants(x: &[f64], start: &Constants) -> Constants {
    let mut c = *start;
    for (x, (_, knob, low, high)) in x.iter().zip(KNOBS) {
        *knob(&mut c) = bounded(*x, *low, *high);
    }
    c.rtx_host.launch_us = c.host.launch_us;
    c
}

/// Errors of one row on a coarse grid: squares of the ratios, of the temporal rate beyond a
/// tenth, and of sharing below isolated.
fn row_cost(row: &Row, c: &Constants) -> Result<f64, Box<dyn Error>> {
    let n = row.models.len();
    let mut mix = Mix::new(&row.gpu, &row.models, &vec![128; n], c)?;
    let base = temporal(&mix.solos());
    let isolated = mix.total(&vec![100 / n as u32; n]) / base;
    let sharing = mix.total(&vec![100; n]) / base;
    let shares = mix.ascend(vec![60; n], 20);
    let best = mix.total(&shares) / base;
    let errors = [isolated, sharing, best];
    let mut sum: f64 = errors.iter().zip(&row.ratios).map(|(a, b)| huber(a - b)).sum();
    let off = ((base / row.temporal).ln().abs() - 0.1).max(0.0);
    sum += 1.0 * off * off;
    let below = (isolated - sharing - 0.02).max(0.0);
    if row.ratios[1] >= row.ratios[0] - 0.05 {
        sum += 2.0 * below * below;
    }
    Ok(sum)
}

fn huber(e: f64) -> f64 {
    let a = e.abs();
    if a < 0.1 { e * e } else { 0.1 * (2.0 * a - 0.1) }
}

impl CostFunction for Cost<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Vec<f64>) -> Result<f64, argmin::core::Error> {
        let c = constants(x, &self.start);
        let costs: Vec<f64> = std::thread::scope(|s| {
            let half = self.rows.len() / 2;
            let work = |part: &[&Row]| -> f64 {
                part.iter().map(|r| row_cost(r, &c).unwrap_or(1e6)).sum()
            };
            let (a, b) = self.rows.split_at(half);
            let other = s.spawn(move || work(a));
            let mine = work(b);
            vec![mine, other.join().unwrap_or(1e6)]
        });
        Ok(costs.iter().sum())
    }
}

pub fn fit(rows: &[Row], start: Constants) -> Result<Constants, Box<dyn Error>> {
    let fitted: Vec<&Row> = rows.iter().filter(|r| r.gpu != "rtx-3080").collect();
    let rounds: usize = std::env::var("FIT")?.parse()?;
    let mut best = start;
    for round in 0..rounds {
        let mut copy = best;
        let x: Vec<f64> = KNOBS
            .iter()
            .map(|(_, knob, low, high)| unbounded(*knob(&mut copy), *low, *high))
            .collect();
        let mut simplex = vec![x.clone()];
        for i in 0..x.len() {
            let mut y = x.clone();
            y[i] += if round % 2 == 0 { 0.7 } else { -0.7 };
            simplex.push(y);
        }
        let solver = NelderMead::new(simplex).with_sd_tolerance(1e-4)?;
        let result = Executor::new(Cost { rows: &fitted, start: best }, solver)
            .configure(|s| s.max_iters(220))
            .run()?;
        let x = result.state().get_best_param().ok_or("no result")?;
        eprintln!("round {round}: {:.4}", result.state().get_best_cost());
        best = constants(x, &best);
        for (name, knob, _, _) in KNOBS {
            eprint!(" {name} {:.4}", *knob(&mut best));
        }
        eprintln!();
    }
    Ok(best)
}
