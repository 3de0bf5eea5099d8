//! Policies on random trainings of known length.

use learning::{Objective, Policy, Problem, RemainingTraining, plan};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[path = "../../../shared/plan/learning/tests/suite/exact.rs"]
mod exact;

/// Every policy; ours is the first.
pub const POLICIES: [Policy; 6] = [
    Policy::Ours,
    Policy::Optimus,
    Policy::Equal,
    Policy::Hesrpt,
    Policy::Paper,
    Policy::Srpt,
];

/// Mean, 95 % quantile and largest of some ratios.
#[derive(Clone, Copy)]
pub struct Spread {
    pub mean: f64,
    pub p95: f64,
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
        Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            p95: at(0.95),
            max: at(1.0),
        }
    }
}

/// Lengths and speeds over the ranges of the paper's models and a factor of ten around them.
fn random_problem(rng: &mut StdRng, tasks: usize, gpus: u32) -> Option<Problem> {
    let mut log = |low: f64, high: f64| rng.random_range(low.ln()..high.ln()).exp();
    let jobs = (0..tasks).map(|_| {
        let (work, c0, c1, v) = (
            log(100.0, 5000.0),
            log(0.02, 0.7),
            log(0.1, 1.0),
            log(0.005, 0.3),
        );
        let rate = |g: u32| {
            let g = f64::from(g);
            1.0 / (c0 + c1 / g + 2.0 * v * (g - 1.0) / g)
        };
        RemainingTraining {
            work,
            weight: 1.0,
            rates: (0..=gpus)
                .map(|g| if g == 0 { 0.0 } else { rate(g) })
                .collect(),
            delta: 1.0 / work,
        }
    });
    Problem::new(gpus, Objective::Completion, jobs.collect())
}

/// Sum of completion times relative to the optimal allocation of every phase, for every policy: random cases of 2 to
/// 4 tasks on 4 to 8 GPUs.
pub fn over_optimum(cases: usize) -> [Spread; POLICIES.len()] {
    let mut rng = StdRng::seed_from_u64(17);
    let problems = (0..cases).filter_map(|_| {
        let (tasks, gpus) = (rng.random_range(2..=4), rng.random_range(4..=8));
        random_problem(&mut rng, tasks, gpus)
    });
    let ratios = problems.map(|problem| {
        let best = exact::optimum(&problem).0;
        POLICIES.map(|p| plan(&problem, p).value / best)
    });
    let ratios: Vec<[f64; POLICIES.len()]> = ratios.collect();
    std::array::from_fn(|at| Spread::of(ratios.iter().map(|r| r[at]).collect()))
}

/// Mean of the sum of completion times relative to ours, for every policy and `tasks` on 8 GPUs; the paper's rule is
/// extended by shares by rank.
pub fn over_ours(tasks: usize, cases: usize) -> [f64; POLICIES.len()] {
    let mut rng = StdRng::seed_from_u64(29);
    let problems = (0..cases).filter_map(|_| random_problem(&mut rng, tasks, 8));
    let values: Vec<[f64; POLICIES.len()]> = problems
        .map(|problem| POLICIES.map(|p| plan(&problem, p).value))
        .collect();
    std::array::from_fn(|at| {
        let ratios = values.iter().map(|v| v[at] / v[0]);
        ratios.sum::<f64>() / values.len() as f64
    })
}
