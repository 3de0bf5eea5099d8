//! How long does mt-solve take under random options? Draws models of mixes of the catalogue and
//! options, and prints the ten slowest with their wall time and processor time: mt-solve searches on
//! every core.
//!
//! ```sh
//! make options
//! target/release/examples/options --file options.csv
//! ```
//!
//! `--count N` draws this many (200), `--tasks N` limits models to this many tasks (16; every fourth has 6 or more),
//! `--file` takes a CSV with columns `method,tasks,options` instead of random ones, `--seed N` draws others.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints a table"
)]

use std::collections::BTreeMap;
use std::process::ExitCode;

use mt_tests::Folder;
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

type Failure = Box<dyn std::error::Error>;

/// A call of mt-solve: a method of mt-fit, the number of tasks, and options.
#[derive(Debug, Clone)]
struct Call {
    method: String,
    tasks: usize,
    options: String,
}

/// Most calls are of up to this many tasks, every fourth of one of the others.
const FEW: usize = 5;
const MANY: [usize; 4] = [6, 8, 12, 16];

/// Longest time of a call; exceeding it is a failure.
const LONGEST_S: u32 = 60;

fn draw(rng: &mut SmallRng, most_tasks: usize) -> Call {
    let method = ["blend", "gp", "structured"]
        .choose(rng)
        .unwrap_or(&"blend");
    let many: Vec<usize> = MANY.into_iter().filter(|n| *n <= most_tasks).collect();
    let tasks = match many.choose(rng) {
        Some(&tasks) if rng.random_bool(0.25) => tasks,
        _ => rng.random_range(2..=most_tasks.min(FEW)),
    };
    let objective = ["raw", "fairness", "max-min", "round", "weighted"]
        .choose(rng)
        .copied()
        .unwrap_or("raw");
    let mut options = vec![format!("--objective {objective}")];
    let mut add = |rng: &mut SmallRng, part: f64, text: String| {
        if rng.random_bool(part) {
            options.push(text);
        }
    };
    let of = |rng: &mut SmallRng, all: &[&'static str]| all.choose(rng).copied().unwrap_or("");
    let rv = 50 * rng.random_range(2..=2 * tasks);
    add(rng, 0.4, format!("--rv {rv}"));
    let step = of(rng, &["1", "2", "2.5", "5", "10", "25"]);
    add(rng, 0.4, format!("--step {step}"));
    let floor = f64::from(rng.random_range(5..65)) / 100.0;
    add(rng, 0.4, format!("--floor {floor}"));
    let batch = of(rng, &["free", "fixed", "same", "reference"]);
    add(rng, 0.3, format!("--batch {batch}"));
    let mismatch = of(rng, &["0.01", "0.5", "1", "3", "10", "least"]);
    add(rng, 0.4, format!("--mismatch {mismatch}"));
    let balance = of(rng, &["batch", "workload", "time"]);
    add(rng, 0.5, format!("--balance {balance}"));
    let front = of(rng, &["mismatch", "fairness", "mismatch,fairness"]);
    add(rng, 0.3, format!("--pareto {front}"));
    let memory = of(rng, &["1000000", "4000000000", "12000000000"]);
    add(rng, 0.2, format!("--memory {memory}"));
    let max = of(rng, &["32", "64"]);
    add(rng, 0.2, format!("--max-batch {max}"));
    let top = of(rng, &["5", "50", "500"]);
    add(rng, 0.2, format!("--top {top}"));
    add(rng, 0.3, "--explain".to_owned());
    add(rng, 0.2, "--outside".to_owned());
    Call {
        method: (*method).to_owned(),
        tasks,
        options: options.join(" "),
    }
}

fn listed(text: &str) -> Result<Vec<Call>, Failure> {
    let mut lines = text.lines();
    let heading = lines.next().ok_or("the file is empty")?;
    let names: Vec<&str> = heading.split(',').collect();
    let at = |name: &str| {
        let found = names.iter().position(|n| *n == name);
        found.ok_or_else(|| format!("no column {name}"))
    };
    let (method, tasks, options) = (at("method")?, at("tasks")?, at("options")?);
    let call = |line: &str| -> Result<Call, Failure> {
        // Options come last and may contain commas.
        let cells: Vec<&str> = line.splitn(names.len(), ',').collect();
        let cell = |i: usize| cells.get(i).copied().ok_or("a cell is missing");
        Ok(Call {
            method: cell(method)?.to_owned(),
            tasks: cell(tasks)?.parse()?,
            options: cell(options)?.trim_matches('"').to_owned(),
        })
    };
    lines.map(call).collect()
}

/// A workload of this many tasks of the catalogue, which depends only on their number.
fn workload(tasks: usize) -> String {
    let mut rng = SmallRng::seed_from_u64(tasks as u64);
    let mut models = gpusim::Network::CATALOGUE.to_vec();
    models.shuffle(&mut rng);
    let task = |(i, model): (usize, &&str)| {
        let samples: u32 = rng.random_range(2_000..60_000);
        format!(
            r#"{{"id":"t{i}","model":"{model}","batch_sizes":[16,32,64,128],"samples":{samples},
            "weight":{},"update_bytes":{{"down":{1}000000,"up":{1}000000}},
            "memory":{{"fixed_bytes":800000000,"bytes_per_sample":12000000}}}}"#,
            1 + i % 3,
            10 + 7 * i
        )
    };
    let all: Vec<String> = models
        .iter()
        .cycle()
        .take(tasks)
        .enumerate()
        .map(task)
        .collect();
    format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim","gpu":"rtx-3090"}},
        "link":{{"down_bps":4e8,"up_bps":2e8}},"tasks":[{}]}}"#,
        all.join(",")
    )
}

/// The file of a model, made when it is first needed.
fn model(
    folder: &Folder,
    made: &mut BTreeMap<(String, usize), String>,
    call: &Call,
) -> Result<String, Failure> {
    let key = (call.method.clone(), call.tasks);
    if let Some(name) = made.get(&key) {
        return Ok(name.clone());
    }
    let (name, tasks) = (format!("{}-{}", call.method, call.tasks), call.tasks);
    std::fs::write(folder.path().join("workload.json"), workload(tasks))?;
    let line = format!(
        "test -e profile-{tasks} || mt-profile -o profile-{tasks} workload.json && mt-fit --method {} \
         -q profile-{tasks} > {name}",
        call.method
    );
    let ran = folder.run(&line);
    if ran.code != Some(0) {
        return Err(format!("{ran:?}").into());
    }
    made.insert(key, name.clone());
    Ok(name)
}

fn run() -> Result<(), Failure> {
    let (mut count, mut most, mut seed, mut file) = (200, 16, 1, None);
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or(format!("{option}: give a value"))?;
        match option.as_str() {
            "--count" => count = value.parse()?,
            "--tasks" => most = value.parse::<usize>()?.max(2),
            "--seed" => seed = value.parse()?,
            "--file" => file = Some(value),
            _ => return Err(format!("{option}: unknown; see the head of main.rs").into()),
        }
    }
    let mut rng = SmallRng::seed_from_u64(seed);
    let calls = match file {
        Some(file) => listed(&std::fs::read_to_string(file)?)?,
        None => (0..count).map(|_| draw(&mut rng, most)).collect(),
    };
    let folder = Folder::new();
    let mut made = BTreeMap::new();
    let mut rows: Vec<([f64; 2], i32, Call)> = Vec::new();
    for call in calls {
        let name = model(&folder, &mut made, &call)?;
        let line = format!(
            "TIMEFORMAT='%R %U %S'; time timeout {LONGEST_S} mt-solve {} {name} > plan 2> notes",
            call.options
        );
        let ran = folder.run(&line);
        let mut times = ran
            .stderr
            .split_whitespace()
            .filter_map(|s| s.parse::<f64>().ok());
        let wall = times.next().unwrap_or(f64::INFINITY);
        rows.push(([wall, times.sum()], ran.code.unwrap_or(-1), call));
    }
    rows.sort_by(|a, b| b.0[0].total_cmp(&a.0[0]));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let slow = rows.iter().filter(|r| r.0[0] > 2.0).count();
    let failed = rows.iter().filter(|r| r.1 > 1).count();
    println!(
        "{} calls on {cores} cores, {slow} above 2 s, {failed} ended otherwise than with 0 or 1; the slowest:\n",
        rows.len()
    );
    println!("| s | processor s | exit | method | tasks | options |");
    println!("|---|---|---|---|---|---|");
    for ([wall, processor], code, call) in rows.iter().take(10) {
        println!(
            "| {wall:.2} | {processor:.2} | {code} | {} | {} | `{}` |",
            call.method, call.tasks, call.options
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("options: {error}");
            ExitCode::from(2)
        }
    }
}
