//! The shortest round, and the shortest time to target, compared with their slow twin: every choice, every order of
//! transfers, and every hold of compute, each played by a plain simulation.

#![expect(clippy::unwrap_used, reason = "test data is valid or the test fails")]

use crate::law::InterferenceLaw;
use allocation::{AllocError, Effort, Limits, Problem, Round, SearchOptions, solve};
use std::collections::HashMap;

use doc::{DeviceKind, Documents, Frames, ObjectiveKind, Proof, Workload};
use overlap::{Instance, ModelRates, workload_instance};
use proptest::prelude::*;
use units::Share;
use units::corun::Setting;

use crate::brute::every_feasible;
use crate::cases::{Opaque, close, law, task};

#[path = "../../../overlap/tests/suite/brute.rs"]
#[expect(dead_code, reason = "shared with the tests of the order of transfers")]
mod orders;

/// What makes a round: samples, and megabytes down and up of each task.
type Volumes = Vec<(u64, u64, u64)>;

fn workload(device: &str, tasks: &[allocation::Task], volumes: &Volumes) -> Workload {
    let task = |(i, (t, (samples, down, up))): (usize, (&allocation::Task, &(u64, u64, u64)))| {
        let sizes: Vec<String> = t.batches.iter().map(ToString::to_string).collect();
        format!(
            r#"{{"id":"t{i}","model":"vgg16","job":{{"argv":["x"]}},"batch_sizes":[{}],"samples":{samples},
                "update_bytes":{{"down":{},"up":{}}}}}"#,
            sizes.join(","),
            down * 1_000_000,
            up * 1_000_000
        )
    };
    let tasks: Vec<String> = tasks.iter().zip(volumes).enumerate().map(task).collect();
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"{device}"}},
            "link":{{"down_bps":1e8,"up_bps":1e8}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    let frames = Frames::new(text.as_bytes(), "test");
    Documents::new(frames).next().unwrap().unwrap()
}

/// A round of `n` tasks with shares of 50 and 100 %, on a device where tasks keep their shares, or where computing
/// tasks get the shares of idle ones.
fn round(n: usize) -> impl Strategy<Value = (InterferenceLaw, Problem, Workload)> {
    let volumes = prop::collection::vec((100_u64..40_000, 0_u64..60, 0_u64..60), n);
    let floor = prop_oneof![Just(0.0), 0.0..0.3_f64];
    let device = prop_oneof![Just("sim"), Just("cpu")];
    let objective = prop_oneof![
        2 => Just(ObjectiveKind::Round),
        1 => Just(ObjectiveKind::Progress),
        1 => Just(ObjectiveKind::ProgressLast),
    ];
    let how = (floor, device, objective);
    (law(n), prop::collection::vec(task(), n), volumes, how).prop_map(
        |(law, mut tasks, volumes, (floor, device, objective))| {
            let workload = workload(device, &tasks, &volumes);
            for (task, known) in tasks.iter_mut().zip(&workload.tasks) {
                task.samples = known.samples;
            }
            let problem = Problem {
                tasks,
                objective,
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

/// The slow twin of one problem.
struct Twin<'a> {
    law: &'a InterferenceLaw,
    problem: &'a Problem,
    instance: Instance,
    divides: bool,
    lengths: HashMap<Vec<Setting>, f64>,
}

impl Twin<'_> {
    /// Seconds of the best round of the tasks with these settings.
    fn length(&mut self, settings: &[Setting]) -> f64 {
        if let Some(known) = self.lengths.get(settings) {
            return *known;
        }
        let jobs = settings.iter().map(|s| self.instance.jobs()[s.task]);
        let instance = Instance::new(jobs.collect(), self.instance.link()).unwrap();
        let tasks = settings.iter().map(|s| s.task).collect();
        let shares = settings.iter().map(|s| s.share).collect();
        let batches: Vec<_> = settings.iter().map(|s| s.batch).collect();
        let mut rates = ModelRates::new(self.law, tasks, shares, &vec![0; batches.len()]);
        if self.divides {
            rates = rates.that_divide();
        }
        let seconds = orders::brute_force_waiting(&instance, &rates, &batches).unwrap();
        self.lengths.insert(settings.to_vec(), seconds);
        seconds
    }

    /// The objective of a choice in seconds: rounds follow one another, and a task leaves when it has had all that it
    /// needs.
    fn seconds(&mut self, settings: &[Setting]) -> f64 {
        if self.problem.objective == ObjectiveKind::Round {
            return self.length(settings);
        }
        let tasks = &self.problem.tasks;
        let rounds = |s: &Setting| tasks[s.task].progress.rounds_at(s.batch);
        let mut left = settings.to_vec();
        left.sort_by(|a, b| rounds(a).total_cmp(&rounds(b)));
        let (mut mean, mut now, mut before) = (0.0, 0.0, 0.0);
        while let Some(first) = left.first().copied() {
            let mut active = left.clone();
            active.sort_by_key(|s| s.task);
            now += (rounds(&first) - before) * self.length(&active);
            before = rounds(&first);
            mean += tasks[first.task].progress.part * now;
            left.remove(0);
        }
        match self.problem.objective {
            ObjectiveKind::Progress => mean,
            _ => now,
        }
    }
}

/// Seconds of the shortest round, or until the targets are reached.
fn shortest(law: &InterferenceLaw, problem: &Problem, workload: &Workload) -> Option<f64> {
    let mut twin = Twin {
        law,
        problem,
        instance: workload_instance(workload).unwrap(),
        divides: workload.device.kind == DeviceKind::Cpu,
        lengths: HashMap::new(),
    };
    let any = Problem {
        objective: ObjectiveKind::Raw,
        ..problem.clone()
    };
    let mut best: Option<f64> = None;
    every_feasible(law, &any, &mut |choice| {
        let seconds = twin.seconds(&choice.settings);
        best = Some(best.map_or(seconds, |b| b.min(seconds)));
    });
    best
}

/// The number that `PROPTEST_CASES` gives, or 40.
fn cases() -> ProptestConfig {
    let known = std::env::var_os("PROPTEST_CASES").is_some();
    match known {
        true => ProptestConfig::default(),
        false => ProptestConfig::with_cases(40),
    }
}

proptest! {
    #![proptest_config(cases())]

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
                    // The value of the plan equals the value of its settings.
                    prop_assert!(close(problem.worth(&law, &best.settings), best.objective));
                }
                (None, None) => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

/// An exact search that is not possible is refused, and not replaced by a local one.
#[test]
fn an_exact_search_of_a_round_of_five_tasks_is_refused() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let exact = SearchOptions {
        effort: Effort::Exact,
        ..SearchOptions::default()
    };
    let (law, problem, _) = round(5).new_tree(&mut runner).unwrap().current();
    let refused = solve(&law, &problem, &exact).unwrap_err();
    assert_eq!(refused, AllocError::NoExactRound { tasks: 5, most: 4 });
    let (law, problem, _) = round(3).new_tree(&mut runner).unwrap().current();
    let found = solve(&law, &problem, &exact).unwrap();
    assert_eq!(found.report.proof, Proof::Enumerated);
}

/// Choices of four tasks are ranked by heuristic orders, and the best one is then proven.
#[test]
fn the_shortest_round_of_four_tasks_is_proven() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (mut rounds, mut targets) = (0, 0);
    while rounds < 1 || targets < 1 {
        let (law, mut problem, workload) = round(4).new_tree(&mut runner).unwrap().current();
        for task in &mut problem.tasks {
            // The twin tries 576 rounds of each choice, with all holds.
            task.batches.truncate(1);
        }
        let Some(truth) = shortest(&law, &problem, &workload) else {
            continue;
        };
        let found = solve(&Opaque(&law), &problem, &SearchOptions::default()).unwrap();
        assert_eq!(found.report.proof, Proof::Enumerated, "{problem:?}");
        let seconds = -found.solutions[0].objective;
        assert!(close(seconds, truth), "{seconds} not {truth}: {problem:?}");
        match problem.objective {
            ObjectiveKind::Round => rounds += 1,
            _ => targets += 1,
        }
    }
}
