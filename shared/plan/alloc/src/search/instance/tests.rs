use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use units::{Samples, Weight};

use super::*;
use crate::law::{InterferenceLaw, TaskLaw};
use crate::{Limits, Task, TaskProgress};

fn problem(tasks: usize, objective: ObjectiveKind) -> Problem {
    let batches = [16, 64].map(|b| Batch::new(b).unwrap());
    let task = Task {
        id: units::TaskId::new("a").unwrap(),
        batches: batches.to_vec(),
        samples: Samples::new(1_000).ok(),
        weight: Weight::new(1.0).unwrap(),
        memory: None,
        work_per_sample: None,
        progress: TaskProgress::default(),
    };
    Problem {
        tasks: vec![task; tasks],
        objective,
        limits: Limits::default(),
        round: None,
    }
}

/// Whatever the order of trial, a task is below the cutoff exactly if the minimum is; for a sum, no
/// single task decides.
#[test]
fn one_task_falls_short_where_the_minimum_does() {
    let mut rng = SmallRng::seed_from_u64(3);
    let n = 5;
    let law = InterferenceLaw {
        tasks: (0..n)
            .map(|_| TaskLaw {
                step_s: rng.random_range(0.0..0.02),
                sample_s: rng.random_range(1e-5..1e-3),
                exponent: rng.random_range(0.2..1.0),
            })
            .collect(),
        coupling: (0..n * n).map(|_| rng.random_range(0.0..1.0)).collect(),
        busy: false,
    };
    for (objective, minimum) in [
        (ObjectiveKind::MaxMin, true),
        (ObjectiveKind::Fairness, false),
    ] {
        let problem = problem(n, objective);
        let inst = Instance::new(&law, &problem).unwrap();
        let mut point = || Point {
            batch: (0..n).map(|_| rng.random_range(0..2)).collect(),
            level: (0..n).map(|_| rng.random_range(1..=inst.levels)).collect(),
        };
        let mut order: Vec<usize> = (0..n).collect();
        let mut refused = 0;
        for _ in 0..200 {
            let (here, other) = (point(), point());
            let (value, cutoff) = (inst.look(&here).1.value, inst.look(&other).1.value);
            let short = inst.one_falls_short(&here, cutoff, &mut order);
            assert_eq!(short, minimum && value < cutoff);
            assert!(!inst.one_falls_short(&here, value, &mut order));
            refused += usize::from(short);
            let mut all = order.clone();
            all.sort_unstable();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
        assert_eq!(refused > 50, minimum);
    }
}
