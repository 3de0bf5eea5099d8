//! Random problems, small enough for the slow twin.
#![expect(clippy::unwrap_used, reason = "test data is valid or the test fails")]

use crate::law::{InterferenceLaw, TaskLaw};
use allocation::{Limits, Problem, Task, TaskProgress};
use doc::{Balance, BatchPolicy, Memory, ObjectiveKind, SoloRate};
use efficiency::Law;
use proptest::prelude::*;
use units::corun::{Setting, Throughput};
use units::{Batch, Bytes, Samples, Share, TotalShare, Weight};

/// The same rates without the knowledge that they are additive.
pub(crate) struct Opaque<'a>(pub(crate) &'a InterferenceLaw);

impl Throughput for Opaque<'_> {
    fn task_count(&self) -> usize {
        self.0.task_count()
    }
    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.0.solo(task, batch)
    }
    fn covers(&self, setting: Setting, running: usize) -> bool {
        self.0.covers(setting, running)
    }
    fn means(&self, active: &[Setting], out: &mut [f64]) {
        self.0.means(active, out);
    }
}

pub(crate) fn law(n: usize) -> impl Strategy<Value = InterferenceLaw> {
    let task =
        (0.0..0.02, 1e-5..1e-3, 0.2..1.0_f64).prop_map(|(step_s, sample_s, exponent)| TaskLaw {
            step_s,
            sample_s,
            exponent,
        });
    let coupling = prop::collection::vec(0.0..1.5_f64, n * n);
    (prop::collection::vec(task, n), coupling, any::<bool>()).prop_map(
        move |(tasks, mut coupling, busy)| {
            for i in 0..n {
                coupling[i * n + i] = 0.0;
            }
            InterferenceLaw {
                tasks,
                coupling,
                busy,
            }
        },
    )
}

pub(crate) fn task() -> impl Strategy<Value = Task> {
    let batches = prop::sample::subsequence(vec![8_u64, 16, 32, 64, 128], 1..=3);
    let needs = (0_u64..50, 1e8..1e10_f64);
    (batches, 1_u64..100, 0.5..4.0_f64, needs, progress()).prop_map(
        |(batches, samples, weight, (memory, work), progress)| Task {
            id: units::TaskId::new("a").unwrap(),
            batches: batches
                .into_iter()
                .map(|b| Batch::new(b).unwrap())
                .collect(),
            samples: Samples::new(samples * 100).ok(),
            weight: Weight::new(weight).unwrap(),
            memory: Some(Memory {
                fixed: Bytes::new(1000).unwrap(),
                per_sample: Bytes::new(memory).unwrap(),
            }),
            work_per_sample: Some(work),
            progress,
        },
    )
}

/// A noise scale, rounds to the target, and a weight in the mean.
fn progress() -> impl Strategy<Value = TaskProgress> {
    (1.0..500.0_f64, 1.0..50.0_f64, 0.1..1.0_f64).prop_map(|(scale, rounds, part)| TaskProgress {
        law: Some(Law::of_noise_scale(scale, Batch::new(16).unwrap())),
        rounds,
        part,
        reference: None,
    })
}

pub(crate) fn limits(n: usize) -> impl Strategy<Value = Limits> {
    let rv = prop::option::of(1..=4 * n as u32)
        .prop_map(|v| v.map(|v| TotalShare::from_hundredths(v * 2500)));
    let floor = prop_oneof![Just(0.0), 0.0..0.6_f64];
    let memory = prop::option::of(4000_u64..12_000).prop_map(|m| m.map(|m| Bytes::new(m).unwrap()));
    let policy = prop::sample::select(vec![
        BatchPolicy::Free,
        BatchPolicy::Fixed,
        BatchPolicy::Same,
        BatchPolicy::Reference,
    ]);
    let balance = prop::sample::select(vec![Balance::Batch, Balance::Workload, Balance::Time]);
    let mismatch = prop::option::of(0.0..60.0_f64);
    let solo = prop::sample::select(vec![SoloRate::Best, SoloRate::SameBatch]);
    (rv, floor, memory, policy, balance, mismatch, solo).prop_map(
        |(rv, floor, memory, policy, balance, mismatch, solo)| Limits {
            step: Share::from_hundredths(2500),
            rv,
            floor,
            memory,
            policy,
            mismatch,
            balance,
            solo,
            alone: None,
        },
    )
}

pub(crate) fn objective() -> impl Strategy<Value = ObjectiveKind> {
    prop::sample::select(vec![
        ObjectiveKind::Raw,
        ObjectiveKind::Fairness,
        ObjectiveKind::Weighted,
        ObjectiveKind::MaxMin,
        ObjectiveKind::Round,
        ObjectiveKind::Progress,
        ObjectiveKind::ProgressLast,
    ])
}

pub(crate) fn case() -> impl Strategy<Value = (InterferenceLaw, Problem)> {
    (1_usize..=3).prop_flat_map(|n| {
        let tasks = prop::collection::vec(task(), n);
        (law(n), tasks, objective(), limits(n)).prop_map(|(law, tasks, objective, limits)| {
            let problem = Problem {
                tasks,
                objective,
                limits,
                round: None,
            };
            (law, problem)
        })
    })
}

/// Progress per second, for tasks without volumes.
pub(crate) fn progress_by_rate() -> impl Strategy<Value = (InterferenceLaw, Problem)> {
    let last = any::<bool>();
    (case(), last).prop_map(|((law, mut problem), last)| {
        problem.objective = match last {
            true => ObjectiveKind::ProgressLast,
            false => ObjectiveKind::Progress,
        };
        problem.limits.mismatch = None;
        for task in &mut problem.tasks {
            task.samples = None;
        }
        (law, problem)
    })
}

pub(crate) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}
