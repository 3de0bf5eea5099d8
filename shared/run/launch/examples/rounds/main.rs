//! How long do N rounds take if their shares are learnt from the rounds themselves? Mixes of 2 to 8 tasks on the
//! simulator, in virtual time, beside the best fixed shares in hindsight and simpler schemes.
//!
//! ```sh
//! cargo run --release -p mt-launch-engine --example rounds -- --mixes 20 --rounds 5,20
//! ```
//!
//! `--seed N` draws other mixes; 77 are those on which constants were chosen. `--summary FILE` writes the figures as
//! JSON. The best in hindsight sees the noise and drift that come, and pays for no search. "first" pays 40 windows of
//! 2 s, without any start of a job, and then runs the best in hindsight: measuring first cannot do better.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints a table"
)]

mod mixes;
mod rivals;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use rivals::{equal, fixed};
use world::World;

pub(crate) type Failure = Box<dyn std::error::Error>;

/// Noise in percent, and whether rates drift.
const CONDITIONS: [(f64, bool); 5] = [
    (0.0, false),
    (3.0, false),
    (10.0, false),
    (3.0, true),
    (10.0, true),
];
/// Windows of measuring first, and their seconds.
const MEASURED: f64 = 40.0 * 2.0;
const SCHEMES: [&str; 7] = [
    "learnt",
    "100",
    "60",
    "200/n",
    "random",
    "first",
    "learnt/100",
];

/// Seconds of all rounds by each scheme, over the best in hindsight; the last over 100 % each.
struct Row {
    rounds: usize,
    over: [f64; SCHEMES.len()],
}

struct Study {
    seed: u64,
    mixes: usize,
    rounds: Vec<usize>,
    conditions: usize,
    summary: Option<PathBuf>,
}

fn study() -> Result<Study, Failure> {
    let mut study = Study {
        seed: 202_648,
        mixes: 20,
        rounds: vec![5, 20, 100],
        conditions: CONDITIONS.len(),
        summary: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or(format!("{option}: give a value"))?;
        match option.as_str() {
            "--seed" => study.seed = value.parse()?,
            "--mixes" => study.mixes = value.parse()?,
            "--conditions" => study.conditions = value.parse()?,
            "--summary" => study.summary = Some(value.into()),
            "--rounds" => {
                study.rounds = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            _ => return Err(format!("{option}: unknown; see the head of main.rs").into()),
        }
    }
    Ok(study)
}

fn of_mix(index: usize, study: &Study) -> Result<Vec<Row>, Failure> {
    let (name, workload) = mixes::draw(index, study.seed)?;
    let mut world = World::new(&workload, study.seed)?;
    let n = world.tasks();
    let mut rows = Vec::new();
    for (noise, drifts) in CONDITIONS.into_iter().take(study.conditions) {
        for &rounds in &study.rounds {
            let weather = rivals::weather(n, rounds, noise, drifts, study.seed + index as u64);
            let (_, best) = rivals::best(&mut world, &weather)?;
            let (learnt, trials) = rivals::learnt(&mut world, &weather)?;
            let full = fixed(&mut world, &equal(n, 10_000), &weather)?;
            let seconds = [
                learnt,
                full,
                fixed(&mut world, &equal(n, 6_000), &weather)?,
                fixed(&mut world, &equal(n, 20_000 / n as u32), &weather)?,
                rivals::random(&mut world, &weather, study.seed)?,
                best + MEASURED,
                learnt * best / full,
            ];
            let over = seconds.map(|s| s / best);
            let told: Vec<String> = over.iter().map(|r| format!("{r:.3}")).collect();
            println!(
                "{n} {rounds:3} {noise:2} {drifts:5} {} trials {trials:2} best {best:.0} s {name}",
                told.join(" ")
            );
            rows.push(Row { rounds, over });
        }
    }
    Ok(rows)
}

/// Median and worst of each scheme, by number of rounds.
fn summary(rows: &[Row], study: &Study) -> serde_json::Value {
    let mut all = serde_json::Map::new();
    all.insert("seed".to_owned(), study.seed.into());
    all.insert("mixes".to_owned(), study.mixes.into());
    for &rounds in &study.rounds {
        let own: Vec<&Row> = rows.iter().filter(|r| r.rounds == rounds).collect();
        let mut schemes = serde_json::Map::new();
        for (k, scheme) in SCHEMES.into_iter().enumerate() {
            let mut over: Vec<f64> = own.iter().map(|r| r.over[k]).collect();
            over.sort_by(f64::total_cmp);
            let milli = |x: f64| (x * 1e3).round() / 1e3;
            let (median, worst) = (over.get(over.len() / 2), over.last());
            let one = serde_json::json!({"median": median.map(|x| milli(*x)), "worst": worst.map(|x| milli(*x))});
            schemes.insert(scheme.to_owned(), one);
        }
        let sooner = own.iter().filter(|r| r.over[0] < r.over[5]).count();
        schemes.insert("cases".to_owned(), own.len().into());
        schemes.insert("before_first".to_owned(), sooner.into());
        all.insert(format!("rounds_{rounds}"), schemes.into());
    }
    all.into()
}

fn run() -> Result<(), Failure> {
    let study = study()?;
    println!("tasks rounds noise drift {}", SCHEMES.join(" "));
    let mut rows = Vec::new();
    for index in 0..study.mixes {
        rows.extend(of_mix(index, &study)?);
    }
    let text = serde_json::to_string_pretty(&summary(&rows, &study))? + "\n";
    print!("{text}");
    if let Some(path) = &study.summary {
        std::fs::write(path, text)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rounds: {error}");
            ExitCode::from(2)
        }
    }
}
