//! Tables for people.

use std::error::Error;
use std::io::Write;

use crate::evaluate::{Constants, Mix, Simulated, simulate};
use crate::fit;
use crate::rows::Row;
use gpusim::{RATE_WINDOW_S, temporal};

/// Simulated minus reported ratios: isolated, sharing, best.
pub fn errors(row: &Row, simulated: &Simulated) -> [f64; 3] {
    std::array::from_fn(|i| simulated.ratios[i] - row.ratios[i])
}

/// Every row with its errors, and the figures by which the calibration is judged.
pub fn rows(out: &mut impl Write, rows: &[Row], c: &Constants) -> Result<(), Box<dyn Error>> {
    writeln!(
        out,
        "gpu       mix                     temporal img/s sim/paper   isolated     sharing      best        sharing-isolated  best/sharing"
    )?;
    let mut judged = Judged::default();
    for row in rows {
        let s = simulate(row, c, 10)?;
        judged.add(row, &s);
        let e = errors(row, &s);
        let [i, f, b] = s.ratios;
        let [pi, pf, pb] = row.ratios;
        writeln!(
            out,
            "{:9} {:24} {:5.0}/{:5.0} = {:4.2}  {i:.2} ({:+.2})  {f:.2} ({:+.2})  {b:.2} ({:+.2})  {:+.2} / {:+.2}  {:.2} / {:.2}  {:?}",
            row.gpu,
            row.mix,
            s.temporal,
            row.temporal,
            s.temporal / row.temporal,
            e[0],
            e[1],
            e[2],
            f - i,
            pf - pi,
            b / f,
            pb / pf,
            s.best_shares
        )?;
    }
    judged.write(out)
}

/// Sums for the judgement.
#[derive(Default)]
pub struct Judged {
    all: Vec<f64>,
    unfitted: Vec<f64>,
    by_scheme: [Vec<f64>; 3],
    below: f64,
    temporal: f64,
}

impl Judged {
    pub fn add(&mut self, row: &Row, s: &Simulated) {
        for (i, error) in errors(row, s).iter().enumerate() {
            self.all.push(error.abs());
            self.by_scheme[i].push(error.abs());
            if row.gpu == "rtx-3080" {
                self.unfitted.push(error.abs());
            }
        }
        self.below = self.below.max(s.ratios[0] - s.ratios[1]);
        if row.gpu != "rtx-3080" {
            self.temporal = self.temporal.max((s.temporal / row.temporal - 1.0).abs());
        }
    }

    fn write(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        let [isolated, sharing, best] = self.by_scheme.each_ref().map(|v| mean(v));
        writeln!(
            out,
            "mean absolute error of {} ratios {:.3} (isolated {isolated:.3}, sharing {sharing:.3}, best {best:.3}); RTX 3080 rows, not fitted, {:.3}",
            self.all.len(),
            mean(&self.all),
            mean(&self.unfitted),
        )?;
        writeln!(
            out,
            "sharing below isolated by at most {:.2}; temporal off by at most {:.0} % on Titan V and RTX 3090",
            self.below,
            100.0 * self.temporal
        )?;
        Ok(())
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// A mechanism to switch off, and the constants that then have no effect or must stay.
struct Variant {
    name: &'static str,
    change: fn(&mut Constants),
    frozen: &'static [&'static str],
}

const VARIANTS: [Variant; 7] = [
    Variant {
        name: "as calibrated",
        change: |_| {},
        frozen: &[],
    },
    Variant {
        name: "no block spreading",
        change: |c| c.tuning.spreading = false,
        frozen: &[],
    },
    Variant {
        name: "fair dispatch instead of FIFO",
        change: |c| c.tuning.handover = 1.0,
        frozen: &["handover"],
    },
    Variant {
        name: "no host contention",
        change: |c| {
            c.host.contention = 0.0;
            c.rtx_host.contention = 0.0;
        },
        frozen: &["host_contention"],
    },
    Variant {
        name: "strict FIFO, no hand-over",
        change: |c| c.tuning.handover = 0.0,
        frozen: &["handover"],
    },
    Variant {
        name: "operands without limit",
        change: |c| c.tuning.operand_rate = 1e12,
        frozen: &["operand_rate"],
    },
    Variant {
        name: "no cache interference",
        change: |c| c.tuning.interference = 0.0,
        frozen: &[],
    },
];

/// Mean absolute error over all rows and over those that nothing was fitted to, and the mean gain of the best shares
/// over full sharing.
fn judge(rows: &[Row], c: &Constants) -> Result<[f64; 3], Box<dyn Error>> {
    let mut judged = Judged::default();
    let mut gain = Vec::new();
    for row in rows {
        let s = simulate(row, c, 10)?;
        judged.add(row, &s);
        gain.push(s.ratios[2] / s.ratios[1]);
    }
    Ok([mean(&judged.all), mean(&judged.unfitted), mean(&gain)])
}

/// One mechanism at a time switched off: with the other constants unchanged, and fitted again. Only the second shows
/// the effect of a mechanism, because the unchanged constants were fitted together with it.
pub fn ablation(out: &mut impl Write, rows: &[Row], c: &Constants) -> Result<(), Box<dyn Error>> {
    writeln!(
        out,
        "| variant | error | RTX 3080 | best / sharing | refitted: error | RTX 3080 | best / sharing |\n|---|---|---|---|---|---|---|"
    )?;
    let all: Vec<&Row> = rows.iter().collect();
    for variant in &VARIANTS {
        let mut changed = *c;
        (variant.change)(&mut changed);
        let [error, unfitted, gain] = judge(rows, &changed)?;
        let fitted = fit::fit(&fit::fit_set(&all), changed, variant.frozen)?;
        let [anew, anew_unfitted, anew_gain] = judge(rows, &fitted)?;
        writeln!(
            out,
            "| {} | {error:.3} | {unfitted:.3} | {gain:.2} | {anew:.3} | {anew_unfitted:.3} | {anew_gain:.2} |",
            variant.name
        )?;
        out.flush()?;
    }
    let paper: Vec<f64> = rows.iter().map(|r| r.ratios[2] / r.ratios[1]).collect();
    writeln!(out, "| reported | | | {:.2} | | | |", mean(&paper))?;
    Ok(())
}

/// Best throughput at each total virtual resource for D121+V16+M3, and which tasks starve.
pub fn sweep(out: &mut impl Write, c: &Constants) -> Result<(), Box<dyn Error>> {
    let models = ["densenet121", "vgg16", "mobilenet_v3_large"];
    let mut mix = Mix::new("titan-v", &models, &[128; 3], c, RATE_WINDOW_S)?;
    let solos = mix.solos();
    let base = temporal(&solos);
    let sharing = mix.total(&[100, 100, 100]);
    for total in (100..=300).step_by(20) {
        let mut best = (0.0, Vec::new());
        for a in (10..=100).step_by(10) {
            for b in (10..=100).step_by(10) {
                let rest = total - a - b;
                if (10..=100).contains(&rest) {
                    let shares = vec![a as u32, b as u32, rest as u32];
                    let sum = mix.total(&shares);
                    if sum > best.0 {
                        best = (sum, shares);
                    }
                }
            }
        }
        let (sum, shares) = best;
        let fairness: Vec<String> = mix
            .rates(&shares)
            .iter()
            .zip(&solos)
            .map(|(r, s)| format!("{:.2}", r / s))
            .collect();
        writeln!(
            out,
            "R_v {total:3} %: {sum:6.0} img/s = {:.2} x temporal, {:.2} x sharing at {shares:?}, of solo {}",
            sum / base,
            sum / sharing,
            fairness.join(" ")
        )?;
    }
    Ok(())
}
