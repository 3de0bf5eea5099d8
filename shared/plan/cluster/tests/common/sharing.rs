//! Two tasks on one GPU: feasible everywhere, never worse than without, and against every decision there is.

use cluster::{
    ClusterState, CoRates, OnlineSettings, PlanOptions, Player, Priorities, Problem, Schedule,
    plan, play, smith,
};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::common::{Size, random};

/// A random problem of which about four pairs in five share the GPUs of a class, at random rates.
fn random_sharing(seed: u64, size: &Size, rates: std::ops::Range<f64>) -> Problem {
    let problem = random(seed, size);
    let mut rng = SmallRng::seed_from_u64(!seed);
    let count = problem.jobs.len();
    let mut pairs = Vec::new();
    for class in 0..problem.classes.len() {
        for a in 0..count {
            for b in a + 1..count {
                if rng.random_range(0..5) > 0 {
                    let each = [(); 2].map(|()| rng.random_range(rates.clone()));
                    pairs.push((class, [a, b], each));
                }
            }
        }
    }
    problem.sharing(CoRates::new(count, pairs))
}

fn quick() -> PlanOptions {
    PlanOptions {
        starts: 20_000,
        ..PlanOptions::default()
    }
}

/// Everything that can be decided at every moment at which something happens. To start a task between two such
/// moments is no better: while nobody comes or goes every end is linear in the moment of the start.
#[derive(Clone)]
struct Brute {
    now: f64,
    /// Tasks on each GPU: job, seconds left alone.
    gpus: Vec<Vec<(usize, f64)>>,
    /// Round, tasks started, tasks that train, when the round is ready, latest synchronisation.
    jobs: Vec<(usize, usize, usize, f64, f64)>,
}

impl Brute {
    fn least(problem: &Problem) -> f64 {
        let jobs = problem.jobs.iter().map(|j| (0, 0, 0, j.arrival, 0.0));
        let state = Self {
            now: 0.0,
            gpus: vec![Vec::new(); problem.gpus.len()],
            jobs: jobs.collect(),
        };
        let mut best = f64::INFINITY;
        state.decide(problem, (0, 0), &mut best);
        best
    }

    fn rates(&self, problem: &Problem, gpu: usize) -> Vec<f64> {
        match self.gpus[gpu][..] {
            [(a, _), (b, _)] => {
                let both = problem.beside(problem.gpus[gpu], a, b);
                let (a, b) = both.expect("only those that share are put together");
                vec![a, b]
            }
            _ => vec![1.0; self.gpus[gpu].len()],
        }
    }

    /// Starts any one more task at this moment, from `first` (job, GPU) on, or lets time pass.
    fn decide(&self, problem: &Problem, first: (usize, usize), best: &mut f64) {
        let bound: f64 = problem
            .jobs
            .iter()
            .zip(&self.jobs)
            .map(|(j, s)| j.weight * s.3.max(s.4))
            .sum();
        if bound >= *best {
            return;
        }
        for n in first.0..problem.jobs.len() {
            let (round, started, _, ready, _) = self.jobs[n];
            let job = &problem.jobs[n];
            if round >= job.rounds || started >= job.tasks || ready > self.now {
                continue;
            }
            for gpu in 0..self.gpus.len() {
                if (n, gpu) < first {
                    continue;
                }
                let open = match self.gpus[gpu][..] {
                    [] => true,
                    [(other, _)] => problem.beside(problem.gpus[gpu], n, other).is_some(),
                    _ => false,
                };
                if open {
                    let mut next = self.clone();
                    next.gpus[gpu].push((n, job.train[problem.gpus[gpu]]));
                    next.jobs[n].1 += 1;
                    next.jobs[n].2 += 1;
                    next.decide(problem, (n, gpu), best);
                }
            }
        }
        self.pass(problem, best);
    }

    /// Lets time pass until something happens.
    fn pass(&self, problem: &Problem, best: &mut f64) {
        let mut next = self.clone();
        let mut step = f64::INFINITY;
        for gpu in 0..self.gpus.len() {
            for (task, rate) in self.gpus[gpu].iter().zip(self.rates(problem, gpu)) {
                step = step.min(task.1 / rate);
            }
        }
        let open = |(n, s): &(usize, &(usize, usize, usize, f64, f64))| {
            s.0 < problem.jobs[*n].rounds && s.3 > self.now
        };
        let arrivals = self.jobs.iter().enumerate().filter(open);
        step = arrivals.map(|(_, s)| s.3 - self.now).fold(step, f64::min);
        if step.is_infinite() {
            // Nothing runs and nobody arrives: all is done, or somebody was never started.
            let done = self
                .jobs
                .iter()
                .zip(&problem.jobs)
                .all(|(s, j)| s.0 == j.rounds);
            if done {
                let ends = problem.jobs.iter().zip(&self.jobs);
                *best = best.min(ends.map(|(j, s)| j.weight * s.3).sum());
            }
            return;
        }
        next.now += step;
        for gpu in 0..self.gpus.len() {
            let rates = self.rates(problem, gpu);
            let class = problem.gpus[gpu];
            for (task, rate) in next.gpus[gpu].iter_mut().zip(rates) {
                task.1 -= step * rate;
            }
            for &(n, left) in &next.gpus[gpu] {
                if left < 1e-9 {
                    let s = &mut next.jobs[n];
                    s.2 -= 1;
                    s.4 = s.4.max(next.now + problem.jobs[n].sync[class]);
                    if s.2 == 0 && s.1 == problem.jobs[n].tasks {
                        *s = (s.0 + 1, 0, 0, s.4, 0.0);
                    }
                }
            }
            next.gpus[gpu].retain(|t| t.1 >= 1e-9);
        }
        // What is ready by rounding is ready.
        for s in &mut next.jobs {
            if (s.3 - next.now).abs() < 1e-9 {
                s.3 = next.now;
            }
        }
        next.decide(problem, (0, 0), best);
    }
}

#[test]
fn small_plans_against_every_decision() {
    let (mut cases, mut equal, mut over, mut gain) = (0, 0, 0.0, 0);
    for seed in 0..400 {
        let size = Size {
            gpus: vec![1, 1],
            jobs: 3,
            rounds: 2,
            tasks: 2,
            spacing: 1.0,
        };
        let problem = random_sharing(seed, &size, 0.4..1.0);
        if problem.volume() > 5 || cases == 40 {
            continue;
        }
        cases += 1;
        let least = Brute::least(&problem);
        let planned = plan(&problem, &quick());
        planned.schedule.verify(&problem).unwrap();
        let slack = 1e-7 * least;
        assert!(
            planned.cost >= least - slack,
            "seed {seed}: {} below {least}",
            planned.cost
        );
        assert!(planned.lower_bound <= least + slack, "seed {seed}");
        assert!(
            !planned.proven || planned.cost <= least + slack,
            "seed {seed}"
        );
        let apart = plan(&problem.apart(), &quick()).cost;
        assert!(planned.cost <= apart, "seed {seed}");
        equal += usize::from(planned.cost <= least + slack);
        gain += usize::from(least < apart - slack);
        over += planned.cost / least - 1.0;
    }
    let mean = over / cases as f64;
    println!(
        "{cases} cases: {equal} optimal, mean {:.4} over, sharing pays in {gain}",
        mean
    );
    assert!(cases == 40 && gain > 15, "{cases}, {gain}");
    assert!(mean < 0.02, "{mean}");
}

fn larger(seed: u64, rates: std::ops::Range<f64>) -> Problem {
    let size = Size {
        gpus: vec![2, 1],
        jobs: 8,
        rounds: 4,
        tasks: 3,
        spacing: 2.0,
    };
    random_sharing(seed, &size, rates)
}

#[test]
fn pairs_that_get_less_done_together_are_left_apart() {
    for seed in 0..10 {
        let problem = larger(seed, 0.1..0.5);
        let planned = plan(&problem, &quick());
        let apart = plan(&problem.apart(), &quick());
        assert_eq!(planned.schedule, apart.schedule, "seed {seed}");
    }
}

/// With nothing lost by it two tasks on a GPU are as good as two GPUs.
#[test]
fn sharing_without_loss_is_worth_a_second_gpu() {
    let (mut shared, mut double) = (0.0, 0.0);
    for seed in 0..10 {
        let size = Size {
            gpus: vec![2, 1],
            jobs: 8,
            rounds: 4,
            tasks: 1,
            spacing: 0.5,
        };
        let problem = random(seed, &size);
        let all = (0..8).flat_map(|a| (a + 1..8).map(move |b| [a, b]));
        let pairs = all.flat_map(|pair| (0..2).map(move |class| (class, pair, [1.0; 2])));
        let problem = problem.sharing(CoRates::new(8, pairs));
        let planned = plan(&problem, &quick());
        planned.schedule.verify(&problem).unwrap();
        let twice = plan(&problem.relaxed(), &quick());
        assert!(planned.lower_bound <= twice.cost * (1.0 + 1e-9));
        shared += planned.schedule.flow_cost(&problem);
        double += twice.schedule.flow_cost(&problem);
    }
    println!("shared over doubled: {:.4}", shared / double);
    assert!((shared / double - 1.0).abs() < 0.03, "{}", shared / double);
}

#[test]
fn online_shares_as_well() {
    let (mut shared, mut apart) = (0.0, 0.0);
    for seed in 0..8 {
        let problem = larger(seed, 0.6..1.0);
        let settings = OnlineSettings {
            effort: Some(5_000),
            ..OnlineSettings::default()
        };
        let played = play(&problem, 0.0, settings);
        played.schedule.verify(&problem).unwrap();
        shared += played.schedule.flow_cost(&problem);
        let alone = play(&problem.apart(), 0.0, settings).schedule;
        apart += alone.flow_cost(&problem);
        let noisy = play(&problem, 0.3, settings).schedule;
        assert_eq!(noisy.assignments.len(), problem.volume());
    }
    println!(
        "online, flow with sharing over that without: {:.3}",
        shared / apart
    );
    assert!(shared < apart, "{shared} {apart}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is preferred: a play is feasible, costs what its schedule costs, and a cut-off never lets a
    /// cheaper one go.
    #[test]
    fn plays_with_sharing_are_feasible(
        seed in 0_u64..1_000_000,
        masks in prop::collection::vec(prop_oneof![3 => Just(u64::MAX), 1 => 1_u64..4], 8),
        alone in prop::collection::vec(prop_oneof![3 => Just(false), 1 => Just(true)], 8),
    ) {
        let problem = larger(seed, 0.3..1.0);
        let mut priorities = Priorities::new(smith(&problem));
        (priorities.allowed, priorities.alone) = (masks, alone);
        let state = ClusterState::new(&problem);
        let mut player = Player::new(&problem);
        let mut out = Vec::new();
        let cost = player.record(&state, 0.0, &priorities, &mut out);
        let schedule = Schedule::new(problem.jobs.len(), out);
        prop_assert_eq!(schedule.verify(&problem), Ok(()));
        prop_assert!((cost - schedule.cost(&problem)).abs() < 1e-6 * cost);
        let above = player.cost(&state, 0.0, &priorities, cost * (1.0 + 1e-6));
        prop_assert!((above - cost).abs() < 1e-6 * cost);
        for (n, alone) in priorities.alone.iter().enumerate().filter(|a| *a.1) {
            let own = schedule.assignments.iter().filter(|a| a.job == n);
            for a in own {
                let beside = schedule.assignments.iter().find(|b| {
                    b.job != n && b.gpu == a.gpu && b.start < a.trained - 1e-6
                        && a.start < b.trained - 1e-6
                });
                prop_assert!(beside.is_none(), "{n} {alone}: {a:?} beside {beside:?}");
            }
        }
    }
}
