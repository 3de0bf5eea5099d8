//! Policies on random trainings of known length.

use learning::{Job, Objective, Policy, Problem, exact, plan};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Every policy, with its name.
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
        Job {
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

/// Sum of completion times over that of the optimal allocation of every phase: random cases of 2 to
/// 4 tasks on 4 to 8 GPUs, the same for every policy.
pub fn over_optimum(policy: Policy, cases: usize) -> Spread {
    let mut rng = StdRng::seed_from_u64(17);
    let ratios = (0..cases).filter_map(|_| {
        let (tasks, gpus) = (rng.random_range(2..=4), rng.random_range(4..=8));
        let problem = random_problem(&mut rng, tasks, gpus)?;
        Some(plan(&problem, policy).value / exact::optimum(&problem).0)
    });
    Spread::of(ratios.collect())
}

/// Mean of the sum of completion times over that of ours, for `tasks` on 8 GPUs; the paper's rule
/// is taken further as shares by rank.
pub fn over_ours(policy: Policy, tasks: usize, cases: usize) -> Spread {
    let mut rng = StdRng::seed_from_u64(29);
    let ratios = (0..cases).filter_map(|_| {
        let problem = random_problem(&mut rng, tasks, 8)?;
        Some(plan(&problem, policy).value / plan(&problem, Policy::Ours).value)
    });
    Spread::of(ratios.collect())
}
