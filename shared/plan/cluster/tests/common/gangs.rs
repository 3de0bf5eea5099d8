//! Gangs: feasible everywhere, and proven against every order that there is.

use cluster::bounds::{self, Effort};
use cluster::switching::{self, Footprint, Mode};
use cluster::{
    Class, ClusterState, OnlineSettings, PlanOptions, Player, Policy, Priorities, Problem,
    TrainingJob, exact, plan, play, smith,
};
use doc::Gang;
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::common::{Size, brute_force, random};

/// A random problem of which about two jobs in three are gangs, half of those on one node of two GPUs.
pub fn random_gangs(seed: u64, size: &Size) -> Problem {
    let plain = random(seed, size);
    let mut rng = SmallRng::seed_from_u64(!seed);
    let mut jobs = plain.jobs.clone();
    let nodes: Vec<usize> = (0..plain.gpus.len()).map(|m| m / 2).collect();
    for job in &mut jobs {
        job.gang = match rng.random_range(0..3) {
            0 => None,
            1 => Some(Gang::Anywhere),
            _ => Some(Gang::SameNode),
        };
        let most = match job.gang {
            Some(Gang::SameNode) => 2,
            _ => plain.gpus.len(),
        };
        job.tasks = job.tasks.min(most);
        // A slow synchronisation, now and then, that may be worth a wait for another GPU.
        for sync in job.sync.iter_mut().filter(|_| rng.random_range(0..4) == 0) {
            *sync *= 20.0;
        }
    }
    Problem::on_nodes(plain.classes, plain.gpus, nodes, jobs)
}

fn quick() -> PlanOptions {
    PlanOptions {
        starts: 50_000,
        ..PlanOptions::default()
    }
}

fn tiny(seed: u64) -> Problem {
    let size = Size {
        gpus: vec![2, 1],
        jobs: 3,
        rounds: 2,
        tasks: 3,
        spacing: 2.0,
    };
    random_gangs(seed, &size)
}

/// Branch and bound against every order of every round on every set of GPUs; no bound is above.
#[test]
fn small_problems_are_proven_against_every_order() {
    let (mut compared, mut chosen) = (0, 0);
    for seed in 0..120 {
        let problem = tiny(seed);
        let singles = problem.jobs.iter().filter(|j| j.gang.is_none());
        let orders: usize = singles.map(|j| j.volume()).sum();
        if orders > 3 || problem.jobs.iter().map(|j| j.rounds).sum::<usize>() > 5 {
            continue;
        }
        compared += 1;
        let found = exact(&problem, f64::INFINITY, u64::MAX, None);
        let schedule = found.schedule.expect("there is always a schedule");
        schedule.verify(&problem).unwrap();
        let (cost, least) = (schedule.cost(&problem), brute_force(&problem));
        assert!(
            (cost - least).abs() < 1e-9 * least,
            "seed {seed}: {cost} against {least}"
        );
        let planned = plan(&problem, &quick());
        planned.schedule.verify(&problem).unwrap();
        assert!(
            planned.proven && (planned.cost - least).abs() < 1e-9 * least,
            "seed {seed}"
        );
        chosen += usize::from(problem.has_gangs());
        let mut all = vec![
            ("chain", problem.chain_bound()),
            (
                "prices",
                bounds::prices(&problem, &schedule, Effort::for_problem(&problem)),
            ),
        ];
        all.extend(bounds::unrelated(&problem).map(|r| ("U", r.bound)));
        for (name, bound) in all {
            assert!(
                bound <= least * (1.0 + 1e-7),
                "seed {seed}: {name} {bound} above {least}"
            );
        }
    }
    println!("{compared} compared, {chosen} with gangs");
    assert!(compared > 50 && chosen > 50, "{compared}, {chosen}");
}

/// A task that would be synchronised late in the gap before another, and early behind it on another GPU:
/// the gap is not a reason to put it there.
#[test]
fn a_gap_that_synchronises_late_is_left_open() {
    let class = Class {
        count: 1,
        memory: f64::INFINITY,
        bus: f64::INFINITY,
    };
    let job = |arrival, train: [f64; 2], sync: [f64; 2]| TrainingJob {
        weight: 1.0,
        arrival,
        rounds: 1,
        tasks: 1,
        gang: None,
        train: train.to_vec(),
        sync: sync.to_vec(),
        shortest_round: 0.0,
        deadline: f64::INFINITY,
    };
    let never = f64::INFINITY;
    let jobs = vec![
        job(0.0, [never, 10.0], [0.0, 0.0]),
        job(0.0, [1.0, 1.0], [100.0, 0.0]),
        job(5.0, [3.0, never], [0.0, 0.0]),
    ];
    let mut problem = Problem::new(vec![class; 2], vec![0, 1], jobs);
    // So heavy that it is first on the second GPU.
    problem.jobs[0].weight = 100.0;
    let found = exact(&problem, f64::INFINITY, u64::MAX, None)
        .schedule
        .unwrap();
    let least = brute_force(&problem);
    assert!(
        (found.cost(&problem) - least).abs() < 1e-9,
        "{} against {least}",
        found.cost(&problem)
    );
}

fn larger(seed: u64, jobs: usize) -> Problem {
    let size = Size {
        gpus: vec![4, 3, 1],
        jobs,
        rounds: 5,
        tasks: 6,
        spacing: 4.0,
    };
    random_gangs(seed, &size)
}

#[test]
fn every_policy_is_feasible_and_none_is_below_the_bound() {
    let (mut ours, mut fifo, mut srtf) = (0.0, 0.0, 0.0);
    for seed in 0..12 {
        let problem = larger(seed, 9);
        let planned = plan(&problem, &quick());
        planned.schedule.verify(&problem).unwrap();
        assert!(planned.lower_bound <= planned.cost);
        for policy in Policy::BASELINES {
            let schedule = policy.baseline(&problem);
            assert_eq!(
                schedule.is_none(),
                policy == Policy::Allox && problem.has_gangs()
            );
            let Some(schedule) = schedule else { continue };
            schedule
                .verify(&problem)
                .unwrap_or_else(|e| panic!("{policy:?}, seed {seed}: {e}"));
            let cost = schedule.cost(&problem);
            assert!(cost >= planned.lower_bound * (1.0 - 1e-9), "{policy:?}");
            assert!(
                cost >= planned.cost * (1.0 - 1e-9),
                "{policy:?}: {cost} below {}",
                planned.cost
            );
            let over = schedule.flow_cost(&problem) / planned.schedule.flow_cost(&problem);
            match policy {
                Policy::Fifo => fifo += over / 12.0,
                Policy::Srtf => srtf += over / 12.0,
                _ => {}
            }
        }
        ours += planned.cost / planned.lower_bound / 12.0;
    }
    println!("cost over bound {ours:.3}; flow of fifo {fifo:.2}, of srtf {srtf:.2} times ours");
}

#[test]
fn online_keeps_gangs_together_whatever_durations_do() {
    let (mut over, mut cases) = (0.0, 0.0);
    for seed in 0..6 {
        let problem = larger(seed, 9);
        let settings = OnlineSettings {
            effort: Some(5_000),
            ..OnlineSettings::default()
        };
        let played = play(&problem, 0.0, settings);
        played.schedule.verify(&problem).unwrap();
        over += played.schedule.cost(&problem) / plan(&problem, &quick()).cost;
        cases += 1.0;
        let noisy = play(&problem, 0.3, settings).schedule;
        assert_eq!(noisy.assignments.len(), problem.volume());
        let gang = |a: &cluster::Assignment| problem.jobs[a.job].gang.is_some();
        for a in noisy.assignments.iter().filter(|a| gang(a)) {
            let is_own = |b: &&cluster::Assignment| (b.job, b.round) == (a.job, a.round);
            let own = noisy.assignments.iter().filter(is_own);
            assert!(
                own.clone()
                    .all(|b| (b.start, b.trained) == (a.start, a.trained))
            );
            assert_eq!(own.filter(|b| b.gpu == a.gpu).count(), 1);
        }
    }
    println!("online over plan {:.3}", over / cases);
    assert!(over / cases < 1.2, "{}", over / cases);
}

#[test]
fn switching_keeps_gangs_together() {
    let mut problem = larger(3, 6);
    for class in &mut problem.classes {
        (class.memory, class.bus) = (10e9, 10e9);
    }
    let footprint = Footprint {
        layers: vec![(2e9, 0.05); 2],
        memory: 4e9,
    };
    let footprints = vec![footprint; problem.jobs.len()];
    let schedule = plan(&problem, &quick()).schedule;
    for mode in [Mode::Restart, Mode::Pipelined, Mode::Hare] {
        let switched = switching::charge(&problem, &footprints, &schedule, mode);
        switched.schedule.verify(&problem).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is busy, lost or not allowed: everything that can run runs once, gangs together, and
    /// nobody of lower rank delays the first in rank.
    #[test]
    fn placements_are_feasible_and_keep_the_first_in_rank(
        seed in 0_u64..1_000_000,
        jobs in 1_usize..10,
        masks in prop::collection::vec(prop_oneof![3 => Just(u64::MAX), 1 => 0_u64..8], 10),
    ) {
        let problem = larger(seed, jobs);
        let mut priorities = Priorities::new(smith(&problem));
        priorities.allowed = masks[..jobs].to_vec();
        let state = ClusterState::new(&problem);
        let record = |problem: &Problem, priorities: &Priorities| {
            let mut out = Vec::new();
            Player::new(problem).record(&ClusterState::new(problem), 0.0, priorities, &mut out);
            cluster::Schedule::new(problem.jobs.len(), out)
        };
        let schedule = record(&problem, &priorities);
        prop_assert_eq!(schedule.verify(&problem), Ok(()));
        prop_assert_eq!(state.jobs.len(), jobs);
        // Where all arrive at once, the first in rank starts no earlier if it is alone.
        let mut together = problem.clone();
        for n in 0..jobs {
            let mut job = together.jobs[n].clone();
            (job.arrival, job.rounds) = (0.0, 1);
            job.gang = job.gang.or(Some(Gang::Anywhere));
            job.tasks = job.tasks.min(8);
            together.replace(n, job);
        }
        let first = priorities.order[0];
        let beside = record(&together, &priorities).completions[first];
        let alone = Problem::on_nodes(
            together.classes.clone(),
            together.gpus.clone(),
            together.nodes.clone(),
            vec![together.jobs[first].clone()],
        );
        let mut own = Priorities::new(vec![0]);
        own.allowed[0] = priorities.allowed[first];
        let alone = record(&alone, &own).completions[0];
        prop_assert!((beside - alone).abs() < 1e-9, "{beside} against {alone}");
    }
}
