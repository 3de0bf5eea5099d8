//! Speed and exactness of the simulator over the rows of Tables IV and V of the FedMT paper.
//!
//! `--json`: in the form of [`testkit::bench`]. Times are processor time of one core.

#[path = "../calibrate/rows.rs"]
#[expect(
    dead_code,
    reason = "only the mixes matter here, not what was reported of them"
)]
mod rows;

use std::error::Error;
use std::process::ExitCode;

use gpusim::{Gpu, Network, Program, SimOptions, SimTask, Simulator, Tuning};
use nix::time::{ClockId, clock_gettime};
use testkit::bench::Row;
use units::{Batch, Share};

/// Shares tried on every row: full, even, and a spread between.
const PATTERNS: u32 = 12;
/// A long window is this many short ones.
const LONG: u32 = 20;

fn main() -> ExitCode {
    testkit::bench::run(measure)
}

fn measure() -> Result<Vec<Row>, Box<dyn Error>> {
    let mut fast = Vec::new();
    let mut slow = Vec::new();
    let mut short_errors = Vec::new();
    let mut seed_errors = Vec::new();
    for row in rows::read()? {
        let merged = Mix::new(&row.gpu, &row.models, Tuning::default())?;
        let single = Tuning {
            merge_us: 0.0,
            ..Tuning::default()
        };
        fast.push(merged.speed()?);
        slow.push(Mix::new(&row.gpu, &row.models, single)?.speed()?);
        for pattern in 0..PATTERNS {
            let options = SimOptions::default();
            let short = merged.total(pattern, &options);
            let reference = merged.total(pattern, &long(1));
            let other = merged.total(pattern, &long(2));
            short_errors.push((short / reference - 1.0).abs());
            seed_errors.push((other / reference - 1.0).abs());
        }
    }
    Ok(vec![
        Row::new(
            "sim_configurations_per_s",
            (median(&mut fast), "1/s"),
            ("every kernel on its own", median(&mut slow)),
            "configurations simulated per second and core, median over 17 mixes of the paper",
        ),
        Row::new(
            "sim_short_window_error",
            (100.0 * median(&mut short_errors), "%"),
            (
                "another seed, long window",
                100.0 * median(&mut seed_errors),
            ),
            "total throughput of the short window against one 20 times as long, median",
        ),
    ])
}

fn long(seed: u64) -> SimOptions {
    SimOptions {
        seed,
        min_steps: LONG * SimOptions::default().min_steps,
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Mix {
    simulator: Simulator,
    programs: Vec<Program>,
}

impl Mix {
    fn new(gpu: &str, models: &[&str], tuning: Tuning) -> Result<Self, Box<dyn Error>> {
        let simulator = Simulator::with_tuning(Gpu::built_in(gpu)?, tuning);
        let mut programs = Vec::new();
        for model in models {
            let network = Network::by_name(model)?;
            programs.push(simulator.program(&network, Batch::new(128)?, None)?);
        }
        Ok(Self {
            simulator,
            programs,
        })
    }

    fn total(&self, pattern: u32, options: &SimOptions) -> f64 {
        let n = self.programs.len() as u32;
        let tasks: Vec<SimTask<'_>> = self
            .programs
            .iter()
            .zip(0..)
            .map(|(program, i)| {
                let share = match pattern {
                    0 => Share::FULL,
                    1 => Share::from_hundredths(10_000 / n),
                    _ => Share::from_hundredths(3_000 + 1_000 * ((5 * pattern + 3 * i) % 8)),
                };
                SimTask { program, share }
            })
            .collect();
        self.simulator.run(&tasks, options).total()
    }

    /// Configurations per second of processor time: the best of several passes, since other
    /// load on the machine can only slow one down.
    fn speed(&self) -> Result<f64, Box<dyn Error>> {
        let options = SimOptions::default();
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = processor_time()?;
            let sum: f64 = (0..PATTERNS).map(|p| self.total(p, &options)).sum();
            let spent = processor_time()? - start;
            if sum <= 0.0 {
                return Err("nothing ran".into());
            }
            best = best.min(spent);
        }
        Ok(f64::from(PATTERNS) / best)
    }
}

fn processor_time() -> Result<f64, Box<dyn Error>> {
    let t = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(t.tv_sec() as f64 + t.tv_nsec() as f64 * 1e-9)
}
