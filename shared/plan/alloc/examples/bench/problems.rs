//! The problems that the benchmarks and other solvers solve.

use std::fmt::Write as _;

use crate::law::{InterferenceLaw, TaskLaw};
use allocation::{Limits, Problem, Task};
use doc::ObjectiveKind;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use units::{Batch, Samples, Share, TotalShare, UnitError, Weight};

/// A co-run law and what to optimise under it.
pub struct Case {
    pub name: &'static str,
    pub law: InterferenceLaw,
    pub problem: Problem,
}

/// Results of the searches of this crate.
pub struct Answer {
    pub value: f64,
    pub proven: bool,
    pub points: u64,
    pub proven_ms: f64,
    pub local_value: f64,
    pub local_ms: f64,
}

/// Parameters of a case.
#[derive(Clone, Copy)]
pub struct Recipe {
    pub name: &'static str,
    pub tasks: usize,
    /// Batch sizes `first`, twice, four times …, or evenly spaced if there are more than 8.
    pub batches: u32,
    pub step_percent: u32,
    pub rv_percent: Option<u32>,
    pub floor: f64,
    pub mismatch: Option<f64>,
    pub objective: ObjectiveKind,
    /// Tasks affect others only while they compute, as in the fitted law.
    pub busy: bool,
}

/// Parameters without constraints except on the sum of the shares.
pub const fn plain(name: &'static str, tasks: usize, rv_percent: u32) -> Recipe {
    Recipe {
        name,
        tasks,
        batches: 5,
        step_percent: 10,
        rv_percent: Some(rv_percent),
        floor: 0.0,
        mismatch: None,
        objective: ObjectiveKind::Raw,
        busy: true,
    }
}

/// The problems that other solvers also get. The floors are four fifths of the highest possible minimum of the
/// relative throughputs, and the bounds on the mismatch half of the mismatch of the best allocation without
/// constraints: both exclude that allocation.
pub const RECIPES: [Recipe; 6] = [
    plain("n3", 3, 200),
    plain("n5", 5, 250),
    plain("n8", 8, 400),
    Recipe {
        floor: 0.79,
        mismatch: Some(2.5),
        ..plain("n3_floor_mismatch", 3, 200)
    },
    Recipe {
        floor: 0.71,
        mismatch: Some(41.0),
        ..plain("n5_floor_mismatch", 5, 250)
    },
    Recipe {
        floor: 0.68,
        mismatch: Some(117.0),
        ..plain("n8_floor_mismatch", 8, 400)
    },
];

/// The front of mismatch against throughput over 12 batch sizes.
pub const FRONT: Recipe = Recipe {
    batches: 12,
    ..plain("front", 3, 200)
};

/// The tasks of a recipe that are always the same.
pub fn case(recipe: Recipe) -> Result<Case, UnitError> {
    drawn(recipe, 20_220 + recipe.tasks as u64)
}

/// Tasks whose weights differ tenfold, like the models of the paper.
pub fn drawn(recipe: Recipe, seed: u64) -> Result<Case, UnitError> {
    let mut rng = StdRng::seed_from_u64(seed);
    let n = recipe.tasks;
    let laws = (0..n)
        .map(|_| TaskLaw {
            step_s: rng.random_range(0.004..0.02),
            sample_s: 10_f64.powf(rng.random_range(-4.7..-3.5)),
            exponent: rng.random_range(0.4..0.95),
        })
        .collect();
    let mut coupling: Vec<f64> = (0..n * n).map(|_| rng.random_range(0.1..0.9)).collect();
    for i in 0..n {
        coupling[i * n + i] = 0.0;
    }
    let batch = |k: u32| {
        Batch::new(u64::from(if recipe.batches > 8 {
            16 * (k + 1)
        } else {
            16 << k
        }))
    };
    let tasks: Result<Vec<Task>, UnitError> = (0..n)
        .map(|i| {
            Ok(Task {
                id: units::TaskId::new("a")?,
                batches: (0..recipe.batches).map(batch).collect::<Result<_, _>>()?,
                samples: Some(Samples::new(5_000 * (1 + i as u64 % 4))?),
                weight: Weight::new(1.0)?,
                memory: None,
                work_per_sample: None,
                progress: allocation::TaskProgress::default(),
            })
        })
        .collect();
    Ok(Case {
        name: recipe.name,
        law: InterferenceLaw {
            tasks: laws,
            coupling,
            busy: recipe.busy,
        },
        problem: Problem {
            tasks: tasks?,
            objective: recipe.objective,
            limits: Limits {
                step: Share::from_hundredths(recipe.step_percent * 100),
                rv: recipe
                    .rv_percent
                    .map(|p| TotalShare::from_hundredths(p * 100)),
                floor: recipe.floor,
                mismatch: recipe.mismatch,
                // Results for comparison with other solvers on these cases.
                solo: doc::SoloRate::SameBatch,
                ..Limits::default()
            },
            round: None,
        },
    })
}

/// A case as JSON for solvers in other languages, with our result; floats as printed by Rust, which is exact. `front`
/// are the milliseconds and points of its front, if requested.
pub fn json(case: &Case, ours: &Answer, front: Option<(f64, usize)>) -> String {
    let list = |values: Vec<String>| format!("[{}]", values.join(","));
    let laws = &case.law.tasks;
    let floats =
        |f: &dyn Fn(&TaskLaw) -> f64| list(laws.iter().map(|t| f(t).to_string()).collect());
    let tasks = &case.problem.tasks;
    let l = &case.problem.limits;
    let mut text = String::new();
    // Writing to a string cannot fail.
    write!(
        text,
        "{{\"name\":\"{}\",\"step_s\":{},\"sample_s\":{},\"exponent\":{},\"coupling\":{},\
         \"batches\":{},\"samples\":{},\"step_percent\":{},\"rv_percent\":{},\"floor\":{},\
         \"mismatch\":{},\"busy\":{},\"ours\":{{\"value\":{},\"proven\":{},\"proven_ms\":{},\"local_value\":{},\
         \"local_ms\":{}}},\"front\":{}}}",
        case.name,
        floats(&|t| t.step_s),
        floats(&|t| t.sample_s),
        floats(&|t| t.exponent),
        list(case.law.coupling.iter().map(f64::to_string).collect()),
        list(
            tasks
                .iter()
                .map(|t| list(t.batches.iter().map(ToString::to_string).collect()))
                .collect()
        ),
        list(
            tasks
                .iter()
                .map(|t| t.samples.map_or(1, Samples::get).to_string())
                .collect()
        ),
        l.step.percent(),
        l.rv.map_or("null".to_owned(), |r| r.percent().to_string()),
        l.floor,
        l.mismatch.map_or("null".to_owned(), |m| m.to_string()),
        case.law.busy,
        ours.value,
        ours.proven,
        ours.proven_ms,
        ours.local_value,
        ours.local_ms,
        front.map_or("null".to_owned(), |(ms, points)| format!(
            "{{\"ms\":{ms},\"points\":{points}}}"
        )),
    )
    .ok();
    text
}
