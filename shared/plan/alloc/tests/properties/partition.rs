//! Several GPUs against every assignment.

use crate::law::InterferenceLaw;
use allocation::{Effort, Limits, Problem, SearchOptions, Subset, solve, solve_partition};
use doc::ObjectiveKind;
use proptest::prelude::*;
use units::Share;
use units::corun::Throughput;

use crate::brute::brute_force;
use crate::cases::{close, law, objective, task};

fn case() -> impl Strategy<Value = (InterferenceLaw, Problem, usize)> {
    (2_usize..=4).prop_flat_map(|n| {
        let tasks = prop::collection::vec(task(), n);
        (law(n), tasks, objective(), 1_usize..=3, 0.0..0.5_f64).prop_map(
            |(law, tasks, objective, gpus, floor)| {
                let limits = Limits {
                    step: Share::from_hundredths(5000),
                    floor,
                    ..Limits::default()
                };
                let problem = Problem {
                    tasks,
                    objective,
                    limits,
                    round: None,
                };
                (law, problem, gpus)
            },
        )
    })
}

/// Best objective over every assignment of tasks to GPUs, each solved by brute force.
fn best_assignment(law: &InterferenceLaw, problem: &Problem, gpus: usize) -> Option<f64> {
    use doc::ObjectiveKind::{MaxMin, ProgressLast, Round};
    let n = problem.tasks.len();
    let bottleneck = matches!(problem.objective, MaxMin | Round | ProgressLast);
    let mut best: Option<f64> = None;
    for code in 0..gpus.pow(n as u32) {
        let gpu_of = |i: usize| code / gpus.pow(i as u32) % gpus;
        let mut total = Some(if bottleneck { f64::INFINITY } else { 0.0 });
        for gpu in 0..gpus {
            let members: Vec<usize> = (0..n).filter(|&i| gpu_of(i) == gpu).collect();
            if members.is_empty() {
                continue;
            }
            let part = brute_force(&Subset::new(law, &members), &problem.restricted(&members));
            total = total
                .zip(part)
                .map(|(t, (v, _))| if bottleneck { t.min(v) } else { t + v });
        }
        if let Some(t) = total {
            best = Some(best.map_or(t, |b: f64| b.max(t)));
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_best_assignment_is_found((law, problem, gpus) in case()) {
        let expected = best_assignment(&law, &problem, gpus);
        let found = solve_partition(&law, &problem, gpus, &SearchOptions::default()).unwrap();
        match expected {
            None => prop_assert!(found.groups.is_empty() && !found.infeasible.is_empty()),
            Some(value) => {
                prop_assert!(close(found.objective, value), "{} {}", found.objective, value);
                let mut all: Vec<usize> = found.groups.iter().flatten().copied().collect();
                all.sort_unstable();
                prop_assert_eq!(all, (0..problem.tasks.len()).collect::<Vec<_>>());
                prop_assert_eq!(found.groups.len(), gpus);
            }
        }
    }

    #[test]
    fn local_assignment_is_valid_and_not_above((law, problem, gpus) in case()) {
        let expected = best_assignment(&law, &problem, gpus);
        let options = SearchOptions { effort: Effort::Local, ..SearchOptions::default() };
        let found = solve_partition(&law, &problem, gpus, &options).unwrap();
        if !found.groups.is_empty() {
            let value = expected.unwrap();
            prop_assert!(found.objective <= value + 1e-9 * value.abs());
        }
    }

    #[test]
    fn another_gpu_never_hurts((law, problem, gpus) in case()) {
        let options = SearchOptions::default();
        let few = solve_partition(&law, &problem, gpus, &options).unwrap();
        let more = solve_partition(&law, &problem, gpus + 1, &options).unwrap();
        if !few.groups.is_empty() {
            prop_assert!(more.objective >= few.objective * (1.0 - 1e-9 * few.objective.signum()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Every second task on every second GPU, and the longest first: rules that need no search.
    #[test]
    fn a_division_is_never_behind_two_simple_rules(
        law in law(6),
        tasks in prop::collection::vec(task(), 6),
        objective in objective(),
    ) {
        let limits = Limits { step: Share::from_hundredths(1000), ..Limits::default() };
        let problem = Problem { tasks, objective, limits, round: None };
        let rates = crate::cases::Opaque(&law);
        let options = SearchOptions::default();
        let found = solve_partition(&rates, &problem, 2, &options).unwrap();
        let longest = longest_first(&law, &problem);
        for groups in [[vec![0, 2, 4], vec![1, 3, 5]], longest] {
            let each = groups.map(|members| {
                let solved = solve(&Subset::new(&rates, &members), &problem.restricted(&members), &options).unwrap();
                solved.solutions[0].objective
            });
            let joined = match objective {
                ObjectiveKind::MaxMin | ObjectiveKind::Round | ObjectiveKind::ProgressLast => each[0].min(each[1]),
                _ => each[0] + each[1],
            };
            prop_assert!(found.objective >= joined - 1e-9 * joined.abs(), "{} {}", found.objective, joined);
        }
    }
}

/// Six tasks on two GPUs, that which takes longest alone first, each to the GPU with less to do.
fn longest_first(law: &InterferenceLaw, problem: &Problem) -> [Vec<usize>; 2] {
    let alone = |i: usize| {
        let task = &problem.tasks[i];
        let rates = task.batches.iter().map(|&b| law.solo(i, b));
        task.samples.map_or(1.0, |s| s.as_f64()) / rates.fold(0.0, f64::max)
    };
    let mut order: Vec<usize> = (0..problem.tasks.len()).collect();
    order.sort_by(|&a, &b| alone(b).total_cmp(&alone(a)));
    let (mut groups, mut loads) = ([Vec::new(), Vec::new()], [0.0_f64, 0.0]);
    for i in order {
        let gpu = usize::from(loads[1] < loads[0]);
        groups[gpu].push(i);
        loads[gpu] += alone(i);
    }
    groups.map(|mut members| {
        members.sort_unstable();
        members
    })
}
