//! How good is the plan when it is measured? The whole chain (profile, fit, solve) on simulated
//! mixes, and what it chose measured again, against an exhaustive search of the same choices and
//! against the best scheme of equal shares, measured alike.
//!
//! ```sh
//! cargo run --release -p mt-design --example regret                 # 20 mixes, for RESULTS.md
//! cargo run --release -p mt-design --example regret -- --trial --budgets 20 --objectives raw
//! ```
//!
//! `--trial` takes other mixes: what ideas are tried on, so that the figures reported are of mixes
//! that no choice was made by. `--noise 3` puts noise on what the profiler sees; what is judged is
//! without.

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
    pub trial: bool,
    pub mixes: usize,
    pub budgets: Vec<u64>,
    pub objectives: Vec<ObjectiveKind>,
    pub noise_percent: f64,
    /// Print a row for each chain.
    pub each: bool,
}

fn study() -> Result<Study, Failure> {
    let mut study = Study {
        trial: false,
        mixes: 20,
        budgets: vec![10, 20, 40, 80],
        objectives: vec![
            ObjectiveKind::Raw,
            ObjectiveKind::Fairness,
            ObjectiveKind::MaxMin,
            ObjectiveKind::Round,
        ],
        noise_percent: 0.0,
        each: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let mut value = || args.next().ok_or(format!("{option}: give a value"));
        match option.as_str() {
            "--trial" => study.trial = true,
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
        let mix = mixes::draw(index, study.trial)?;
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
