//! Schedules are feasible, bounds hold, and searches find what brute force finds.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "common/filling.rs"]
mod filling;
#[path = "common/gangs.rs"]
mod gangs;
#[path = "common/queue.rs"]
mod queue;
#[path = "common/sharing.rs"]
mod sharing;

use cluster::bounds::{self, Effort};
use cluster::generate::{Recipe, generate};
use cluster::switching::{self, Footprint, Mode};
use cluster::{
    Class, ClusterState, Decoder, OnlineSettings, PlanOptions, Player, Policy, Priorities, Problem,
    TrainingJob, decode, document, exact, migrating, plan, play, smith,
};
use common::plain::{self, Placed};
use common::{Size, brute_force, random};
use proptest::prelude::*;

fn tiny(seed: u64) -> Problem {
    let size = Size {
        gpus: vec![1, 1],
        jobs: 3,
        rounds: 2,
        tasks: 2,
        spacing: 2.0,
    };
    random(seed, &size)
}

fn quick() -> PlanOptions {
    PlanOptions {
        starts: 100_000,
        ..PlanOptions::default()
    }
}

#[test]
fn branch_and_bound_is_brute_force() {
    let mut compared = 0;
    for seed in 0..60 {
        let problem = tiny(seed);
        if problem.volume() > 7 {
            continue;
        }
        compared += 1;
        let found = exact(&problem, f64::INFINITY, u64::MAX, None);
        let schedule = found.schedule.expect("there is always a schedule");
        schedule.verify(&problem).unwrap();
        let cost = schedule.cost(&problem);
        let least = brute_force(&problem);
        assert!(
            (cost - least).abs() < 1e-9 * least,
            "seed {seed}: {cost} against {least}"
        );
    }
    assert!(compared > 20);
}

#[test]
fn every_bound_is_below_the_optimum() {
    let mut ratios: Vec<f64> = Vec::new();
    // Every other problem has more slow GPUs than fast ones, and chains long enough to be worth delaying.
    for seed in 0..50 {
        let (gpus, rounds, tasks) = match seed % 2 {
            0 => (vec![1, 1, 1], 2, 3),
            _ => (vec![1, 2], 4, 2),
        };
        let size = Size {
            gpus,
            jobs: 4,
            rounds,
            tasks,
            spacing: 3.0,
        };
        let problem = random(seed / 2, &size);
        let found = exact(&problem, f64::INFINITY, 300_000, None);
        if !found.proven {
            continue;
        }
        let schedule = found.schedule.unwrap();
        let cost = schedule.cost(&problem);
        let chain = problem.chain_bound();
        let u = bounds::unrelated(&problem).unwrap().bound;
        let p = bounds::prices(&problem, &schedule, Effort::for_problem(&problem));
        for (name, bound) in [("chain", chain), ("U", u), ("prices", p)] {
            assert!(
                bound <= cost * (1.0 + 1e-7),
                "seed {seed}: {name} {bound} above {cost}"
            );
            assert!(
                bound >= chain * (1.0 - 1e-7),
                "seed {seed}: {name} {bound} below {chain}"
            );
        }
        ratios.push(cost / p);
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    assert!(mean < 1.2, "optimum over bound: {mean}");
}

/// Twice as much work arrives as 15 GPUs of four types can do. Flow over the bound was 1.42 before jobs left GPUs to those
/// that gain more by them and 1.35 since; on this draw nothing was chosen.
#[test]
fn a_backlog_is_near_its_bound() {
    let kinds = [("v100", 8), ("t4", 4), ("k80", 1), ("m60", 2)];
    let recipe = Recipe {
        gpus: kinds.map(|(kind, count)| (kind.to_owned(), count)).into(),
        jobs: 100,
        load: 2.0,
        network_bps: 25e9,
        most_tasks: 4,
        seed: 200,
    };
    let problem = document::problem(&generate(&recipe).unwrap());
    let planned = plan(&problem, &quick());
    planned.schedule.verify(&problem).unwrap();
    let arrivals = problem.weighted_arrivals();
    let ratio = (planned.cost - arrivals) / (planned.lower_bound - arrivals);
    assert!(ratio < 1.4, "{ratio}");
    // Smith's order alone, where every job may use every class.
    let smith = Priorities::new(smith(&problem));
    let alone = decode(&problem, &smith, Decoder::Events).cost(&problem);
    assert!(planned.cost - arrivals < 0.93 * (alone - arrivals));
}

#[test]
fn small_problems_are_solved_and_proven() {
    for seed in 0..10 {
        let size = Size {
            gpus: vec![1, 1, 1],
            jobs: 4,
            rounds: 2,
            tasks: 2,
            spacing: 3.0,
        };
        let problem = random(seed, &size);
        let planned = plan(&problem, &quick());
        planned.schedule.verify(&problem).unwrap();
        let found = exact(&problem, f64::INFINITY, u64::MAX, None)
            .schedule
            .unwrap();
        assert!(planned.proven, "seed {seed}: {} nodes", planned.nodes);
        assert!((planned.cost - found.cost(&problem)).abs() < 1e-9 * planned.cost);
    }
}

#[test]
fn every_policy_is_feasible_and_above_the_bound() {
    for seed in 0..6 {
        let size = Size {
            gpus: vec![2, 1, 1],
            jobs: 8,
            rounds: 5,
            tasks: 6,
            spacing: 5.0,
        };
        let problem = random(seed, &size);
        let planned = plan(&problem, &quick());
        planned.schedule.verify(&problem).unwrap();
        migrating(&problem).verify(&problem).unwrap();
        assert!(planned.lower_bound <= planned.cost);
        for policy in Policy::BASELINES {
            let schedule = policy.baseline(&problem).unwrap();
            schedule
                .verify(&problem)
                .unwrap_or_else(|e| panic!("{policy:?}: {e}"));
            assert!(
                schedule.cost(&problem) >= planned.lower_bound * (1.0 - 1e-9),
                "{policy:?}"
            );
        }
    }
}

fn one_gpu(jobs: &[(f64, f64)]) -> Problem {
    let class = Class {
        count: 1,
        memory: f64::INFINITY,
        bus: f64::INFINITY,
    };
    let jobs = jobs.iter().map(|&(train, weight)| TrainingJob {
        weight,
        arrival: 0.0,
        rounds: 1,
        tasks: 1,
        train: vec![train],
        sync: vec![0.0],
        shortest_round: 0.0,
        deadline: f64::INFINITY,
        gang: None,
    });
    Problem::new(vec![class], vec![0], jobs.collect())
}

/// The printed algorithm claims at most `alpha (2 + alpha)` times the optimum: 3 on one GPU. Its
/// relaxation pushes all missing volume onto the cheapest job, so that the others keep midpoints
/// by length alone, whatever they weigh.
#[test]
fn counter_example() {
    for n in [8, 16, 32] {
        let mut jobs = vec![(1.01, 1.0), (1.0, 5e-5)];
        jobs.extend(vec![(1.0, 1e-4); n - 2]);
        let problem = one_gpu(&jobs);
        let printed = Policy::HareLiteral
            .baseline(&problem)
            .unwrap()
            .cost(&problem);
        // On one GPU Smith's rule is optimal.
        let order = cluster::smith(&problem);
        let mut end = 0.0;
        let mut least = 0.0;
        for n in order {
            end += problem.jobs[n].train[0];
            least += problem.jobs[n].weight * end;
        }
        assert!(printed > 3.0 * least, "{n} jobs: {}", printed / least);
        assert!(plan(&problem, &quick()).cost < 1.0001 * least);
    }
}

/// With all times twice as long, everything takes twice as long.
#[test]
fn time_scales() {
    let size = Size {
        gpus: vec![2, 2],
        jobs: 10,
        rounds: 4,
        tasks: 3,
        spacing: 4.0,
    };
    let problem = random(7, &size);
    let mut twice = problem.clone();
    for job in &mut twice.jobs {
        job.arrival *= 2.0;
        job.train
            .iter_mut()
            .chain(&mut job.sync)
            .for_each(|t| *t *= 2.0);
    }
    let twice = Problem::new(twice.classes, twice.gpus, twice.jobs);
    let (one, two) = (plan(&problem, &quick()), plan(&twice, &quick()));
    assert!((two.cost - 2.0 * one.cost).abs() < 1e-9 * two.cost);
    assert!((two.lower_bound - 2.0 * one.lower_bound).abs() < 1e-6 * two.lower_bound);
}

/// A long job, and short ones that arrive faster than they can be done.
fn stream(shorts: usize) -> Problem {
    let mut problem = one_gpu(&[(20.0, 1.0)]);
    for n in 0..shorts {
        let mut job = problem.jobs[0].clone();
        job.train[0] = 1.0;
        job.arrival = 0.5 + 0.8 * n as f64;
        problem.jobs.push(job);
    }
    problem.jobs[0].arrival = 0.6;
    Problem::new(problem.classes, problem.gpus, problem.jobs)
}

#[test]
fn no_job_waits_for_ever() {
    let problem = stream(900);
    let run = |aging| {
        let settings = OnlineSettings {
            effort: Some(0),
            aging,
            seed: 1,
        };
        play(&problem, 0.0, settings).schedule.completions[0]
    };
    // 10 times its 20 s, the task that runs then, and its own.
    assert!(run(10.0) < 225.0, "{}", run(10.0));
    assert!(run(f64::INFINITY) > 800.0, "{}", run(f64::INFINITY));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever stream of shorter and more urgent jobs keeps the GPUs busy: once a job has waited its
    /// multiple, it is behind nothing but what runs.
    #[test]
    fn no_stream_starves_a_job(
        gpus in 1..3_usize,
        rounds in 1..4_usize,
        own in 3.0..6.0_f64,
        shorts in prop::collection::vec((0.2..2.0_f64, 1.0..9.0_f64, 0.1..1.0_f64), 20..40),
        aging in 2.0..6.0_f64,
    ) {
        let mut problem = one_gpu(&[(own, 1.0)]);
        problem.gpus = vec![0; gpus];
        problem.jobs[0].rounds = rounds;
        problem.jobs[0].arrival = 0.5;
        let deadline = 0.5 + (aging + 1.0) * own * rounds as f64 + 2.0 * (rounds + 1) as f64;
        let mut at = 0.0;
        // The same stream again and again, so dense that all GPUs are always wanted.
        for (train, weight, gap) in shorts.iter().cycle() {
            let mut job = problem.jobs[0].clone();
            (job.train[0], job.weight, job.arrival, job.rounds) = (*train, *weight, at, 1);
            problem.jobs.push(job);
            at += (gap * train / gpus as f64).max(0.05);
            if at > deadline {
                break;
            }
        }
        let problem = Problem::new(problem.classes, problem.gpus, problem.jobs);
        let settings = OnlineSettings { effort: Some(0), aging, seed: 1 };
        let end = play(&problem, 0.0, settings).schedule.completions[0];
        prop_assert!(end <= deadline, "{end} after {deadline}");
    }
}

#[test]
fn a_job_moves_to_a_gpu_that_comes_to_its_end() {
    // Two types of one GPU each. The second job waits for the fast one, or is slow on the other from
    // its beginning to its end; moving, it is slow only until the first job has gone.
    let job = |rounds, train: [f64; 2]| TrainingJob {
        weight: 1.0,
        arrival: 0.0,
        rounds,
        tasks: 1,
        train: train.to_vec(),
        sync: vec![0.0; 2],
        shortest_round: 0.0,
        deadline: f64::INFINITY,
        gang: None,
    };
    let class = Class {
        count: 1,
        memory: f64::INFINITY,
        bus: f64::INFINITY,
    };
    let jobs = vec![job(8, [1.0, 4.0]), job(10, [1.0, 3.0])];
    let problem = Problem::new(vec![class; 2], vec![0, 1], jobs);
    let moved = migrating(&problem);
    moved.verify(&problem).unwrap();
    let stays = Policy::Allox.baseline(&problem).unwrap();
    // 8 s, and 10 more behind it. Three rounds on the slow GPU, until 9 s, leave 7 of them.
    assert_eq!(stays.completions, [8.0, 18.0]);
    assert_eq!(moved.completions, [8.0, 16.0]);
}

#[test]
fn online_is_feasible_and_near_the_clairvoyant() {
    let size = Size {
        gpus: vec![3, 2],
        jobs: 12,
        rounds: 6,
        tasks: 3,
        spacing: 15.0,
    };
    for seed in 0..4 {
        let problem = random(seed, &size);
        let known = plan(&problem, &quick());
        let played = play(
            &problem,
            0.0,
            OnlineSettings {
                effort: Some(5_000),
                ..OnlineSettings::default()
            },
        );
        played.schedule.verify(&problem).unwrap();
        let ratio = played.schedule.cost(&problem) / known.cost;
        assert!(ratio < 1.15, "seed {seed}: {ratio}");
        let noisy = play(
            &problem,
            0.3,
            OnlineSettings {
                effort: Some(5_000),
                ..OnlineSettings::default()
            },
        );
        assert_eq!(noisy.schedule.assignments.len(), problem.volume());
    }
}

#[test]
fn pipelining_hides_copies_behind_compute() {
    let layers = vec![(1e9, 0.1), (1e9, 0.1), (1e9, 0.1)];
    let footprint = Footprint {
        layers,
        memory: 3e9,
    };
    let o = switching::COPY_OVERHEAD_S;
    // The bus is slower: all copies but the last are waited for, and the last group is computed.
    let slow = footprint.pipelined(5e9, 0.0);
    assert!((slow - (0.6 + 3.0 * o + 0.1 - 0.3)).abs() < 1e-12);
    // Compute is slower: only the first copy is waited for.
    let fast = footprint.pipelined(100e9, 0.0);
    assert!((fast - (0.01 + o)).abs() < 1e-12);
    assert_eq!(footprint.pipelined(5e9, 3e9), 0.0);
    // A backward pass of 0.6 s frees all 3 GB while the bus carries as much.
    assert_eq!(footprint.freed(5e9), 3e9);
}

#[test]
fn switching_keeps_a_schedule_feasible() {
    let size = Size {
        gpus: vec![2, 1],
        jobs: 6,
        rounds: 4,
        tasks: 3,
        spacing: 2.0,
    };
    let mut problem = random(3, &size);
    for class in &mut problem.classes {
        (class.memory, class.bus) = (10e9, 10e9);
    }
    let footprint = Footprint {
        layers: vec![(2e9, 0.05); 2],
        memory: 4e9,
    };
    let footprints = vec![footprint; problem.jobs.len()];
    let schedule = plan(&problem, &quick()).schedule;
    let with = |mode| switching::charge(&problem, &footprints, &schedule, mode);
    let (restart, pipelined, hare) = (with(Mode::Restart), with(Mode::Pipelined), with(Mode::Hare));
    for switched in [&restart, &pipelined, &hare] {
        switched.schedule.verify(&problem).unwrap();
        assert!(switched.hits_belady >= switched.hits_newest);
    }
    assert!(restart.total > pipelined.total && pipelined.total > hare.total);
    assert_eq!((restart.hits, hare.hits), (0, hare.hits_belady));
}

/// What the fast placement does, in the order of the slow one.
fn placed(
    problem: &Problem,
    state: &ClusterState,
    now: f64,
    priorities: &Priorities,
) -> Vec<Placed> {
    let mut out = Vec::new();
    Player::new(problem).record(state, now, priorities, &mut out);
    let row = |a: cluster::Assignment| (a.job, a.round, a.task, problem.gpus[a.gpu], a.start);
    out.into_iter().map(row).collect()
}

/// The next multiple of 1/64.
fn on_grid(seconds: f64) -> f64 {
    (64.0 * seconds).ceil() / 64.0
}

/// All times on a grid on which sums are exact: two orders of the same tasks end at the same moment
/// and not 1e-15 apart, which the twins, who add in other orders, would see from different sides.
fn dyadic(problem: &Problem) -> Problem {
    let mut out = problem.clone();
    for (n, job) in problem.jobs.iter().enumerate() {
        let mut job = job.clone();
        job.arrival = on_grid(job.arrival);
        for seconds in job.train.iter_mut().chain(&mut job.sync) {
            *seconds = on_grid(*seconds);
        }
        out.replace(n, job);
    }
    out
}

/// In one order, without the numbers of tasks: those of a round are alike, and which of two that
/// start at one moment comes first is nobody's concern.
fn sorted(mut rows: Vec<Placed>) -> Vec<Placed> {
    for row in &mut rows {
        row.2 = 0;
    }
    rows.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    /// Whatever is busy, lost, under way or not allowed, reservations that are kept from moment to
    /// moment start what a look at everything would start.
    #[test]
    fn the_placement_is_its_slow_twin(
        seed in 0_u64..1_000_000,
        jobs in 1_usize..14,
        spacing in 0.0..8.0_f64,
        masks in prop::collection::vec(prop_oneof![3 => Just(u64::MAX), 1 => 0_u64..8], 14),
        busy in prop::collection::vec(prop_oneof![4 => Just(0.0), 2 => 0.0..9.0_f64, 1 => Just(f64::INFINITY)], 6),
        started in prop::collection::vec(0_usize..3, 14),
        rotation in 0_usize..14,
    ) {
        let size = Size { gpus: vec![2, 3, 1], jobs, rounds: 5, tasks: 5, spacing };
        let problem = dyadic(&random(seed, &size));
        let mut order: Vec<usize> = (0..jobs).collect();
        order.rotate_left(rotation % jobs);
        let priorities = Priorities { allowed: masks[..jobs].to_vec(), ..Priorities::new(order) };
        let mut state = ClusterState::new(&problem);
        state.free = busy.iter().map(|&t| on_grid(t)).collect();
        // One GPU stays that can run everything, so that everything ends.
        state.free[0] = 0.0;
        for (n, p) in state.jobs.iter_mut().enumerate() {
            p.started = started[n].min(problem.jobs[n].tasks - 1);
            p.synced = p.ready + started[n] as f64;
        }
        let fast = sorted(placed(&problem, &state, 0.0, &priorities));
        let slow = sorted(plain::play(&problem, &state, 0.0, &priorities));
        prop_assert_eq!(fast, slow);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn prices_are_valid_on_any_problem(seed in 0_u64..1_000_000, jobs in 1_usize..12, spacing in 0.0..30.0_f64) {
        let size = Size { gpus: vec![2, 1, 2], jobs, rounds: 12, tasks: 5, spacing };
        let problem = random(seed, &size);
        let mut least = f64::INFINITY;
        let mut bound = 0.0_f64;
        for policy in Policy::BASELINES {
            let schedule = policy.baseline(&problem).unwrap();
            let effort = Effort { intervals: 40, cells: 2, blocks: 6, patience: 8, steps: 150, work: 1_000_000_000 };
            least = least.min(schedule.cost(&problem));
            bound = bound.max(bounds::prices(&problem, &schedule, effort));
        }
        let planned = plan(&problem, &quick());
        least = least.min(planned.cost);
        let effort = Effort::for_problem(&problem);
        bound = bound.max(bounds::prices(&problem, &planned.schedule, effort));
        prop_assert!(bound <= least * (1.0 + 1e-9));
    }
}
