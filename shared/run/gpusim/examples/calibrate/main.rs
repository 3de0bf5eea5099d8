//! Fits the simulator to Tables IV and V of the FedMT paper and judges it.
//!
//! `calibrate` evaluates the built-in constants; `calibrate fit` fits them again; `calibrate ablate` switches
//! mechanisms off, with the calibrated constants and fitted again; `calibrate hold-out` fits without each combination
//! in turn and evaluates on it; `calibrate sweep` shows throughput against the total virtual resource.

mod evaluate;
mod fit;
mod report;
mod rows;

use std::error::Error;
use std::io::Write;

use evaluate::Constants;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let rows = rows::read()?;
    let constants = Constants::built_in()?;
    let what = std::env::args().nth(1).unwrap_or_default();
    match what.as_str() {
        "" => report::rows(&mut out, &rows, &constants),
        "fit" => {
            let all: Vec<&rows::Row> = rows.iter().collect();
            let fitted = fit::fit(&fit::fit_set(&all), Constants::guess()?, &[])?;
            fit::write(&mut out, &fitted)?;
            report::rows(&mut out, &rows, &fitted)
        }
        "ablate" => report::ablation(&mut out, &rows, &constants),
        "hold-out" => hold_out(&mut out, &rows),
        "sweep" => report::sweep(&mut out, &constants),
        other => {
            let known = "fit, ablate, hold-out, sweep or nothing";
            Err(format!("unknown word {other:?}: expected {known}").into())
        }
    }
}

/// Fits without one combination (on every GPU where it was measured) and evaluates on it.
fn hold_out(out: &mut impl Write, rows: &[rows::Row]) -> Result<(), Box<dyn Error>> {
    let mut mixes: Vec<&str> = rows.iter().map(|r| r.mix.as_str()).collect();
    mixes.dedup();
    let mut sum = 0.0;
    let mut count = 0.0;
    for mix in mixes {
        let (held, kept): (Vec<&rows::Row>, Vec<&rows::Row>) =
            rows.iter().partition(|r| r.mix == mix);
        let fitted = fit::fit(&fit::fit_set(&kept), Constants::guess()?, &[])?;
        for row in held {
            let simulated = evaluate::simulate(row, &fitted, 10)?;
            let errors = report::errors(row, &simulated);
            let [isolated, sharing, best] = errors;
            let gpu = &row.gpu;
            writeln!(
                out,
                "{mix:22} {gpu:9} {isolated:+.2} {sharing:+.2} {best:+.2}"
            )?;
            sum += errors.iter().map(|e| e.abs()).sum::<f64>();
            count += 3.0;
        }
    }
    writeln!(out, "mean absolute error held out: {:.3}", sum / count)?;
    Ok(())
}
