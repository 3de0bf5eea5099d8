//! Runs every benchmark of the workspace, prints one table and writes `target/bench.json`.
//!
//! Each benchmark is the `bench` example of its crate, which prints rows
//! `{name, value, unit, baseline, baseline_value, ratio, what}` with a baseline measured in the
//! same run. The start-up time of the tools is measured here, against `/bin/true`.

use std::fs;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use testkit::bench::{Row, table};

/// Where `make bench` has built them.
const BUILT: &str = "target/release";
const CRATES: [&str; 8] = [
    "gpusim", "predict", "alloc", "overlap", "cluster", "learning", "jobs", "device",
];
const TOOLS: [&str; 11] = [
    "mt",
    "mt-profile",
    "mt-fit",
    "mt-solve",
    "mt-overlap",
    "mt-elastic",
    "mt-cluster",
    "mt-launch",
    "mt-worker",
    "mt-check",
    "mt-report",
];

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of its own, run by make"
)]
fn main() -> ExitCode {
    let mut rows = Vec::new();
    let mut failed = false;
    for name in CRATES {
        eprintln!("bench: {name}");
        match crate_rows(name) {
            Ok(more) => rows.extend(more),
            Err(error) => {
                eprintln!("bench: {name}: {error}");
                failed = true;
            }
        }
    }
    match start_up_rows() {
        Ok(more) => rows.extend(more),
        Err(error) => {
            eprintln!("bench: start-up: {error}");
            failed = true;
        }
    }
    println!("{}", table(&rows));
    let written = serde_json::to_string_pretty(&rows)
        .map_err(std::io::Error::from)
        .and_then(|text| fs::write("target/bench.json", text + "\n"));
    if let Err(error) = written {
        eprintln!("bench: target/bench.json: {error}");
        failed = true;
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn crate_rows(name: &str) -> Result<Vec<Row>, String> {
    let output = Command::new(format!("{BUILT}/examples/bench-{name}"))
        .arg("--json")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
}

fn start_up_rows() -> Result<Vec<Row>, String> {
    let baseline = start_up_ms("/bin/true")?;
    TOOLS
        .iter()
        .map(|tool| {
            let value = start_up_ms(&format!("{BUILT}/{tool}"))?;
            Ok(Row::new(
                format!("start_up_{tool}"),
                (value, "ms"),
                ("/bin/true", baseline),
                format!("start of {tool} --version to its end, median of 31"),
            ))
        })
        .collect()
}

fn start_up_ms(program: &str) -> Result<f64, String> {
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..31 {
        let start = Instant::now();
        let status = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .map_err(|e| format!("{program}: {e}"))?;
        if !status.success() {
            return Err(format!("{program}: {status}"));
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
