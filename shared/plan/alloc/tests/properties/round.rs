//! The shortest round against its slow twin: every choice, every order of transfers, every way to
//! hold compute back, each played by a plain simulation.

#![expect(clippy::unwrap_used, reason = "test data is valid or the test fails")]

use allocation::{
    AllocError, Effort, InterferenceLaw, Limits, Problem, Round, SearchOptions, solve,
};
use doc::{Documents, Frames, ObjectiveKind, Proof, Workload};
use overlap::{ModelRates, workload_instance};
use proptest::prelude::*;
use units::Share;

use crate::brute::every_feasible;
use crate::cases::{Opaque, close, law, task};

#[path = "../../../overlap/tests/suite/brute.rs"]
#[expect(dead_code, reason = "shared with the tests of the order of transfers")]
mod orders;

/// What makes a round: samples, and megabytes down and up of each task.
type Volumes = Vec<(u64, u64, u64)>;

fn workload(tasks: &[allocation::Task], volumes: &Volumes) -> Workload {
    let task = |(i, (t, (samples, down, up))): (usize, (&allocation::Task, &(u64, u64, u64)))| {
        let sizes: Vec<String> = t.batches.iter().map(ToString::to_string).collect();
        format!(
            r#"{{"id":"t{i}","model":"vgg16","batch_sizes":[{}],"samples":{samples},
                "update_bytes":{{"down":{},"up":{}}}}}"#,
            sizes.join(","),
            down * 1_000_000,
            up * 1_000_000
        )
    };
    let tasks: Vec<String> = tasks.iter().zip(volumes).enumerate().map(task).collect();
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim"}},
            "link":{{"down_bps":1e8,"up_bps":1e8}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    let frames = Frames::new(text.as_bytes(), "test");
    Documents::new(frames).next().unwrap().unwrap()
}

/// A round of `n` tasks with shares of 50 and 100 %.
fn round(n: usize) -> impl Strategy<Value = (InterferenceLaw, Problem, Workload)> {
    let volumes = prop::collection::vec((100_u64..40_000, 0_u64..60, 0_u64..60), n);
    let floor = prop_oneof![Just(0.0), 0.0..0.3_f64];
    (law(n), prop::collection::vec(task(), n), volumes, floor).prop_map(
        |(law, mut tasks, volumes, floor)| {
            let workload = workload(&tasks, &volumes);
            for (task, known) in tasks.iter_mut().zip(&workload.tasks) {
                task.samples = known.samples;
            }
            let problem = Problem {
                tasks,
                objective: ObjectiveKind::Round,
                limits: Limits {
                    step: Share::from_hundredths(5_000),
                    floor,
                    ..Limits::default()
                },
                round: Round::of_workload(&workload).ok(),
            };
            (law, problem, workload)
        },
    )
}

/// Seconds of the shortest round.
fn shortest(law: &InterferenceLaw, problem: &Problem, workload: &Workload) -> Option<f64> {
    let instance = workload_instance(workload).unwrap();
    let any = Problem {
        objective: ObjectiveKind::Raw,
        ..problem.clone()
    };
    let mut best: Option<f64> = None;
    every_feasible(law, &any, &mut |choice| {
        let tasks = choice.settings.iter().map(|s| s.task).collect();
        let shares = choice.settings.iter().map(|s| s.share).collect();
        let batches: Vec<_> = choice.settings.iter().map(|s| s.batch).collect();
        let rates = ModelRates::new(law, tasks, shares, &vec![0; batches.len()]);
        let seconds = orders::brute_force_waiting(&instance, &rates, &batches).unwrap();
        best = Some(best.map_or(seconds, |b| b.min(seconds)));
    });
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn up_to_three_tasks_the_shortest_round_is_found((law, problem, workload) in (1_usize..=3).prop_flat_map(round)) {
        let truth = shortest(&law, &problem, &workload);
        for known in [true, false] {
            let found = match known {
                true => solve(&law, &problem, &SearchOptions::default()),
                false => solve(&Opaque(&law), &problem, &SearchOptions::default()),
            };
            let found = found.unwrap();
            prop_assert_eq!(found.report.proof, Proof::Enumerated);
            match (truth, found.solutions.first()) {
                (Some(truth), Some(best)) => {
                    prop_assert!(close(truth, -best.objective), "{} not {}", -best.objective, truth);
                    // The value of the plan is what its settings are worth.
                    prop_assert!(close(problem.worth(&law, &best.settings), best.objective));
                }
                (None, None) => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

/// What cannot be had is refused, and not answered by a local search.
#[test]
fn an_exact_search_of_a_round_of_four_tasks_is_refused() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let exact = SearchOptions {
        effort: Effort::Exact,
        ..SearchOptions::default()
    };
    let (law, problem, _) = round(4).new_tree(&mut runner).unwrap().current();
    let refused = solve(&law, &problem, &exact).unwrap_err();
    assert_eq!(refused, AllocError::NoExactRound { tasks: 4, most: 3 });
    let (law, problem, _) = round(3).new_tree(&mut runner).unwrap().current();
    let found = solve(&law, &problem, &exact).unwrap();
    assert_eq!(found.report.proof, Proof::Enumerated);
}

/// Beyond three tasks choices are ranked by heuristic orders; the answer is a round that can be
/// played, never shorter than the shortest, and seldom much longer.
#[test]
fn four_tasks_come_near_the_shortest_round() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut excess = Vec::new();
    while excess.len() < 5 {
        let (law, mut problem, workload) = round(4).new_tree(&mut runner).unwrap().current();
        for task in &mut problem.tasks {
            // The twin tries 576 rounds of each choice.
            task.batches.truncate(1);
        }
        let Some(truth) = shortest(&law, &problem, &workload) else {
            continue;
        };
        let found = solve(&law, &problem, &SearchOptions::default()).unwrap();
        let seconds = -found.solutions[0].objective;
        if found.report.proof != Proof::NotProven {
            // It is as long as its lower bound.
            assert!(close(seconds, truth), "{seconds} not {truth}");
        }
        assert!(seconds >= truth * (1.0 - 1e-9), "{seconds} below {truth}");
        let bound = -found.report.bound.unwrap();
        assert!(bound <= truth * (1.0 + 1e-9), "{bound} above {truth}");
        excess.push(seconds / truth - 1.0);
    }
    let worst = excess.iter().copied().fold(0.0, f64::max);
    assert!(worst < 0.02, "{excess:?}");
}
