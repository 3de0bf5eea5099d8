//! How good is the plan when it is measured? Runs the whole chain (profile, fit, solve) on simulated
//! mixes, and measures its choice again: on other seeds than the profile's, for longer. Compares it with
//! the best choice that a search of the simulator finds, and with the best scheme of equal shares in
//! hindsight.
//!
//! ```sh
//! cargo run --release -p mt-design --example regret                 # 20 mixes, for RESULTS.md
//! cargo run --release -p mt-design --example regret -- --trial --budgets 20 --objectives raw
//! ```
//!
//! `--trial` takes other mixes: what ideas are tried on, so that the figures reported are of mixes
//! that no choice was made by; `--seed N` draws others still. `--random` measures co-runs drawn at random.
//! `--noise 0,3` puts noise on what the profiler sees, in turn, `--window 0.25 --repeats 1` says how long it
//! looks (default: as mt-profile does); what is judged is without noise. `--python FILE` names an interpreter that
//! has Optuna, whose samplers then are rivals with as many samples. `--inputs` prints the mixes and nothing else;
//! `--summary FILE --inputs-sha256 HASH` writes the figures as JSON, too, with the hash of what `--inputs` prints.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints a table"
)]

mod chain;
mod mixes;
mod rival;
mod summary;
mod table;
mod truth;

use std::path::PathBuf;
use std::process::ExitCode;

use design::Strategy;
use doc::ObjectiveKind;
use rival::Rival;

pub(crate) type Failure = Box<dyn std::error::Error>;

/// Seeds of the profiles of the twins: two of those that their plan was bad for.
const TWIN_SEEDS: [u64; 2] = [2, 34];

/// What to run.
pub(crate) struct Study {
    /// The mixes are drawn from it.
    pub seed: u64,
    pub mixes: usize,
    pub budgets: Vec<u64>,
    pub objectives: Vec<ObjectiveKind>,
    /// Which co-runs are measured.
    pub strategy: Strategy,
    /// Noise on what the profiler sees; each in turn.
    pub noise_percent: Vec<f64>,
    /// Windows of the profiler: at least this many seconds, this many of them.
    pub window_s: f64,
    pub repeats: u32,
    /// Print a row for each chain.
    pub each: bool,
    /// An interpreter that has Optuna: its samplers are rivals.
    pub python: Option<PathBuf>,
    /// Print the mixes, and run nothing.
    pub inputs: bool,
    /// Where the figures are written as JSON, with the hash of the mixes.
    pub summary: Option<PathBuf>,
    pub inputs_sha256: String,
}

fn study() -> Result<Study, Failure> {
    let mut study = Study {
        seed: mixes::SEED,
        mixes: 20,
        budgets: vec![10, 20],
        objectives: vec![
            ObjectiveKind::Raw,
            ObjectiveKind::Fairness,
            ObjectiveKind::MaxMin,
            ObjectiveKind::Round,
        ],
        strategy: Strategy::Adaptive,
        noise_percent: vec![0.0, 3.0],
        window_s: 10.0,
        repeats: 3,
        each: false,
        python: None,
        inputs: false,
        summary: None,
        inputs_sha256: String::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let mut value = || args.next().ok_or(format!("{option}: give a value"));
        match option.as_str() {
            "--trial" => study.seed = mixes::TRIAL_SEED,
            "--random" => study.strategy = Strategy::Random,
            "--seed" => study.seed = value()?.parse()?,
            "--window" => study.window_s = value()?.parse()?,
            "--repeats" => study.repeats = value()?.parse()?,
            "--each" => study.each = true,
            "--mixes" => study.mixes = value()?.parse()?,
            "--python" => study.python = Some(value()?.into()),
            "--inputs" => study.inputs = true,
            "--summary" => study.summary = Some(value()?.into()),
            "--inputs-sha256" => study.inputs_sha256 = value()?,
            "--noise" => {
                let all = value()?;
                study.noise_percent = all.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--budgets" => {
                let all = value()?;
                study.budgets = all.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--objectives" => {
                let all = value()?;
                let one = |name| {
                    let mut all = study
                        .objectives
                        .iter()
                        .copied()
                        .filter(|kind| doc::name_of(kind) == name);
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
    let drawn = |index| mixes::draw(index, study.seed);
    let mixes: Vec<mixes::Mix> = (0..study.mixes).map(drawn).collect::<Result<_, _>>()?;
    let twins = mixes::twins()?;
    if study.inputs {
        for mix in mixes.iter().chain([&twins]) {
            println!("{}", mix.text);
        }
        return Ok(());
    }
    let samplers = study.python.iter().flat_map(|python| {
        let start = move |sampler| Rival::start(python, sampler);
        rival::SAMPLERS.into_iter().map(start)
    });
    let mut rivals: Vec<Rival> = samplers.collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for mix in &mixes {
        rows.extend(chain::of_mix(mix, &study, &mut rivals)?);
    }
    let judge = chain::Judge::new(&twins, ObjectiveKind::MaxMin)?;
    let mut worst = Vec::new();
    for seed in TWIN_SEEDS {
        let chain = chain::Chain {
            mix: &twins,
            objective: ObjectiveKind::MaxMin,
            noise_percent: 0.0,
            seed,
            budgets: &[20],
        };
        worst.extend(chain.rows(&judge, &study, &mut [])?);
    }
    let summary = summary::Summary::new(&study, &rows, &worst);
    table::print(&summary);
    if let Some(path) = &study.summary {
        std::fs::write(path, serde_json::to_string_pretty(&summary)? + "\n")?;
    }
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
