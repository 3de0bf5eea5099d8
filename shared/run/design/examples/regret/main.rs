//! How good is the plan when it is measured? The whole chain (profile, fit, solve) on simulated
//! mixes, and what it chose measured again: on other seeds than the profile's, for longer. Beside it
//! the best choice that a search of the simulator knows, and the best scheme of equal shares in hindsight.
//!
//! ```sh
//! cargo run --release -p mt-design --example regret                 # 20 mixes, for RESULTS.md
//! cargo run --release -p mt-design --example regret -- --trial --budgets 20 --objectives raw
//! ```
//!
//! `--trial` takes other mixes: what ideas are tried on, so that the figures reported are of mixes
//! that no choice was made by; `--seed N` draws others still. `--noise 3` puts noise on what the profiler
//! sees, `--window 0.25 --repeats 1` says how long it looks (default: as mt-profile does); what is judged
//! is without noise.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints a table"
)]

mod chain;
mod mixes;
mod table;
mod truth;

use std::process::ExitCode;

use doc::ObjectiveKind;

pub(crate) type Failure = Box<dyn std::error::Error>;

/// What to run.
pub(crate) struct Study {
    /// The mixes are drawn from it.
    pub seed: u64,
    pub mixes: usize,
    pub budgets: Vec<u64>,
    pub objectives: Vec<ObjectiveKind>,
    pub noise_percent: f64,
    /// Windows of the profiler: at least so many seconds, so many of them.
    pub window_s: f64,
    pub repeats: u32,
    /// Print a row for each chain.
    pub each: bool,
}

fn study() -> Result<Study, Failure> {
    let mut study = Study {
        seed: mixes::SEED,
        mixes: 20,
        budgets: vec![10, 20, 40, 80],
        objectives: vec![
            ObjectiveKind::Raw,
            ObjectiveKind::Fairness,
            ObjectiveKind::MaxMin,
            ObjectiveKind::Round,
        ],
        noise_percent: 0.0,
        window_s: 10.0,
        repeats: 3,
        each: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let mut value = || args.next().ok_or(format!("{option}: give a value"));
        match option.as_str() {
            "--trial" => study.seed = mixes::TRIAL_SEED,
            "--seed" => study.seed = value()?.parse()?,
            "--window" => study.window_s = value()?.parse()?,
            "--repeats" => study.repeats = value()?.parse()?,
            "--each" => study.each = true,
            "--mixes" => study.mixes = value()?.parse()?,
            "--noise" => study.noise_percent = value()?.parse()?,
            "--budgets" => {
                let all = value()?;
                study.budgets = all.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--objectives" => {
                let all = value()?;
                let one = |name| {
                    let all = study.objectives.iter().copied();
                    let mut all = all.filter(|kind| doc::name_of(kind) == name);
                    all.next().ok_or(format!("no objective is called {name}"))
                };
                study.objectives = all.split(',').map(one).collect::<Result<_, _>>()?;
            }
            _ => return Err(format!("{option}: unknown; see the head of main.rs").into()),
        }
    }
    Ok(study)
}

fn run() -> Result<(), Failure> {
    let study = study()?;
    let mut rows = Vec::new();
    for index in 0..study.mixes {
        let mix = mixes::draw(index, study.seed)?;
        rows.extend(chain::of_mix(&mix, &study)?);
    }
    table::print(&rows, &study);
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("regret: {error}");
            ExitCode::from(2)
        }
    }
}
