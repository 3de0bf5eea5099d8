//! How long a decision takes: 16 trainings on 64 GPUs, planned by phases.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use learning::{Objective, Policy, Problem, RemainingTraining, plan};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::bench::{Row, run};

const TASKS: usize = 16;
const GPUS: u32 = 64;
/// Number of problems for the median.
const PROBLEMS: usize = 31;

fn main() -> ExitCode {
    run(rows)
}

fn rows() -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rng = StdRng::seed_from_u64(5);
    let drawn: Option<Vec<Problem>> = (0..PROBLEMS).map(|_| problem(&mut rng)).collect();
    let problems = drawn.ok_or("a problem that cannot be")?;
    let ours = median_ms(&problems, Policy::Ours);
    let optimus = median_ms(&problems, Policy::Optimus);
    Ok(vec![Row::new(
        "elastic_decision_16_on_64".to_owned(),
        (ours, "ms"),
        ("Optimus' rule in every phase", optimus),
        "a plan of all phases for 16 trainings on 64 GPUs, median of 31 problems".to_owned(),
    )])
}

fn median_ms(problems: &[Problem], policy: Policy) -> f64 {
    let timed = |problem: &Problem| {
        let start = Instant::now();
        std::hint::black_box(plan(problem, policy).value);
        start.elapsed().as_secs_f64() * 1e3
    };
    let mut times: Vec<f64> = problems.iter().map(timed).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Lengths and speeds over a factor of fifty.
fn problem(rng: &mut StdRng) -> Option<Problem> {
    let mut log = |low: f64, high: f64| rng.random_range(low.ln()..high.ln()).exp();
    let jobs = (0..TASKS).map(|_| {
        let work = log(100.0, 5000.0);
        let (c0, c1, v) = (log(0.02, 0.7), log(0.1, 1.0), log(0.005, 0.3));
        let rate = |g: u32| {
            let g = f64::from(g);
            1.0 / (c0 + c1 / g + 2.0 * v * (g - 1.0) / g)
        };
        let rates = (0..=GPUS).map(|g| if g == 0 { 0.0 } else { rate(g) });
        RemainingTraining {
            work,
            weight: 1.0,
            rates: rates.collect(),
            delta: 1.0 / work,
        }
    });
    Problem::new(GPUS, Objective::Completion, jobs.collect())
}
