//! Plans in which many rounds are one entry.

use cluster::{
    Decoder, PlanOptions, Priorities, Problem, Schedule, decode, document, generate, plan, smith,
};
use proptest::prelude::*;

use crate::common::{Size, random};
use crate::gangs::random_gangs;

/// As random problems, with so many rounds that there are too many tasks to simulate each while searching.
fn long(seed: u64) -> Problem {
    let size = Size {
        gpus: vec![2, 3],
        jobs: 4,
        rounds: 3,
        tasks: 5,
        spacing: 20_000.0,
    };
    let mut problem = match seed % 2 {
        0 => random(seed, &size),
        _ => random_gangs(seed, &size),
    };
    for n in 0..problem.jobs.len() {
        let mut job = problem.jobs[n].clone();
        job.rounds *= 4_001;
        problem.replace(n, job);
    }
    problem
}

fn in_blocks(problem: &Problem) -> Schedule {
    decode(problem, &Priorities::new(smith(problem)), Decoder::Blocks)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn merged_rounds_are_the_same_schedule_as_each_for_itself(seed in 0..1_000_u64) {
        let problem = long(seed);
        let merged = in_blocks(&problem);
        prop_assume!(problem.volume() > 10_000);
        prop_assert!(merged.assignments.len() <= 4_000);
        let each = merged.expanded();
        each.verify(&problem).expect("feasible");
        let (a, b) = (merged.cost(&problem), each.cost(&problem));
        prop_assert!((a / b - 1.0).abs() < 1e-12, "{} {}", a, b);
        let (a, b) = (merged.utilisation(&problem), each.utilisation(&problem));
        prop_assert!((a / b - 1.0).abs() < 1e-9, "{} {}", a, b);
    }
}

/// Jobs of as many rounds as take a cluster of 15 GPUs months.
#[test]
fn a_plan_of_twelve_million_tasks() {
    let kinds = ["v100", "t4", "k80", "m60"].map(str::to_owned);
    let recipe = generate::Recipe {
        gpus: kinds.into_iter().zip([8, 4, 1, 2]).collect(),
        jobs: 300,
        load: 2.0,
        network_bps: 25e9,
        most_tasks: 4,
        seed: 1,
    };
    let mut cluster = generate::generate(&recipe).expect("valid");
    for job in &mut cluster.jobs {
        (job.rounds, job.tasks) = (10_000, 4);
    }
    let problem = document::problem(&cluster);
    assert_eq!(problem.volume(), 12_000_000);
    let options = PlanOptions {
        starts: 100_000,
        ..PlanOptions::default()
    };
    let planned = plan(&problem, &options);
    assert!(planned.cost <= in_blocks(&problem).cost(&problem));
    assert!(planned.lower_bound < planned.cost);
    // The jobs arrive within a fraction of what they take, so nothing but waiting for each other idles the GPUs.
    assert!(planned.schedule.utilisation(&problem) > 0.9);
    let all = &planned.schedule.assignments;
    assert!(all.len() < 20_000, "{}", all.len());
    assert_eq!(all.iter().map(|a| a.rounds).sum::<usize>(), 12_000_000);
}

/// What it costs that a job keeps its GPUs between its rounds, where single tasks fill the gaps: much for four jobs on
/// five GPUs, 1.17 times the flow time here; 1.07 times with 300 jobs on 15 GPUs.
#[test]
fn merged_rounds_cost_little() {
    let mut lost = Vec::new();
    for seed in (0..20).step_by(2) {
        let problem = long(seed);
        let single = decode(&problem, &Priorities::new(smith(&problem)), Decoder::Events);
        lost.push(in_blocks(&problem).flow_cost(&problem) / single.flow_cost(&problem));
    }
    let mean = lost.iter().sum::<f64>() / lost.len() as f64;
    assert!(mean < 1.2, "{mean}: {lost:?}");
}
