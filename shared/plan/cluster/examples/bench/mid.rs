//! Clusters of 19 to 31 tasks on 3 and 4 GPUs of as many kinds, as JSON for solvers in other languages.

use std::error::Error;
use std::time::{Duration, Instant};

use cluster::{Class, PlanOptions, Problem, TrainingJob, plan};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

const CLUSTERS: u64 = 12;
/// No constant of the search was chosen on these.
const FIRST_SEED: u64 = 81_000;
const LIMIT: Duration = Duration::from_secs(10);

/// The clusters, each with our cost and whether it is proven.
pub fn export() -> Result<String, Box<dyn Error>> {
    let all: Vec<Value> = (FIRST_SEED..FIRST_SEED + CLUSTERS)
        .map(|seed| solved(&drawn(seed)))
        .collect();
    Ok(serde_json::to_string(&all)?)
}

fn solved(problem: &Problem) -> Value {
    // As `mt-cluster plan --time-limit`.
    let found = plan(
        problem,
        &PlanOptions {
            deadline: Some(Instant::now() + LIMIT),
            patient: true,
            ..PlanOptions::default()
        },
    );
    let on_each = |of: &[f64]| -> Vec<u64> {
        let each = problem.gpus.iter().map(|&class| of[class] as u64);
        each.collect()
    };
    let jobs: Vec<Value> = problem
        .jobs
        .iter()
        .map(|job| {
            json!({
                "weight": job.weight as u64, "arrival_s": job.arrival as u64, "rounds": job.rounds,
                "tasks": job.tasks, "train_s": on_each(&job.train), "sync_s": on_each(&job.sync),
            })
        })
        .collect();
    json!({"jobs": jobs, "cost": found.cost, "proven": found.proven, "limit_s": LIMIT.as_secs()})
}

/// A cluster with times in whole seconds, on which a kind of GPU may be several times as fast as another.
fn drawn(seed: u64) -> Problem {
    let rng = &mut SmallRng::seed_from_u64(seed);
    let gpus = rng.random_range(3..=4);
    let mut jobs = Vec::new();
    let wanted = rng.random_range(19..=29);
    let mut tasks = 0;
    while tasks < wanted {
        let job = job(rng, gpus);
        tasks += job.rounds * job.tasks;
        if tasks <= 31 {
            jobs.push(job);
        } else {
            tasks -= job.rounds * job.tasks;
        }
    }
    let class = Class {
        count: 1,
        memory: f64::INFINITY,
        bus: f64::INFINITY,
    };
    Problem::new(vec![class; gpus], (0..gpus).collect(), jobs)
}

fn job(rng: &mut SmallRng, gpus: usize) -> TrainingJob {
    let whole = |rng: &mut SmallRng, most: f64| rng.random_range(1.0..most).floor();
    let base = whole(rng, 20.0);
    let train: Vec<f64> = (0..gpus)
        .map(|_| (base * rng.random_range(1.0..4.0)).floor())
        .collect();
    let sync = train
        .iter()
        .map(|t| (t * rng.random_range(0.0..0.5)).floor())
        .collect();
    TrainingJob {
        weight: whole(rng, 6.0),
        arrival: whole(rng, 26.0) - 1.0,
        rounds: rng.random_range(1..=3),
        tasks: rng.random_range(1..=3),
        gang: None,
        train,
        sync,
        shortest_round: 0.0,
        deadline: f64::INFINITY,
    }
}
