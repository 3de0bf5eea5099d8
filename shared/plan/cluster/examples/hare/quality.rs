//! Distance of answers from the best known ones.

use std::time::{Duration, Instant};

use cluster::{OnlineSettings, PlanOptions, Problem, exact, plan, play};

use crate::Outcome;
use crate::compare::{cpu_seconds, reached};
use crate::poster::{instance, testbed};

#[path = "../../tests/common/mod.rs"]
#[expect(
    dead_code,
    reason = "shared with the tests, which also use its brute force"
)]
mod random;

/// Branch and bound, and search without it, on small random problems.
#[derive(Debug, Clone, Default)]
pub struct Small {
    /// CPU seconds until the optimum of up to 14 tasks on 3 GPUs is proven.
    pub proofs_s: Vec<f64>,
    /// Of those, how many were proven.
    pub proven: usize,
    /// Cost of a plan within [`LIMIT`] over the optimum, on 15 to 22 tasks.
    pub over_optimum: Vec<f64>,
    /// CPU seconds of each such plan.
    pub searches_s: Vec<f64>,
}

/// Playing as time passes against planning with everything known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Online {
    /// Weighted flow time over that of the plan.
    pub over_clairvoyant: f64,
    /// The same for `sum w C`.
    pub cost_over_clairvoyant: f64,
    /// Slowest answer to an event, milliseconds on the wall.
    pub slowest_ms: f64,
}

fn problem(seed: u64, jobs: usize) -> Problem {
    let size = random::Size {
        gpus: vec![1, 1, 1],
        jobs,
        rounds: 2,
        tasks: 3,
        spacing: 3.0,
    };
    random::random(seed, &size)
}

/// How long the plan of a middling problem may take.
const LIMIT: Duration = Duration::from_millis(300);

/// Solves the first `count` random problems of each size.
pub fn small(count: usize) -> Outcome<Small> {
    let mut out = Small::default();
    let of_volume = |jobs, least, most| {
        (0..)
            .map(move |seed| problem(seed, jobs))
            .filter(move |p| (least..=most).contains(&p.volume()))
            .take(count)
    };
    for problem in of_volume(4, 11, 14) {
        let before = cpu_seconds()?;
        let planned = plan(&problem, &PlanOptions::default());
        out.proofs_s.push(cpu_seconds()? - before);
        out.proven += usize::from(planned.proven);
    }
    for problem in of_volume(6, 15, 22) {
        let before = cpu_seconds()?;
        let searched = plan(
            &problem,
            &PlanOptions {
                deadline: Some(Instant::now() + LIMIT),
                ..PlanOptions::default()
            },
        );
        let took = cpu_seconds()? - before;
        let optimum = exact(&problem, searched.cost * (1.0 + 1e-9), 600_000, None);
        let best = optimum.schedule.map_or(searched.cost, |s| s.cost(&problem));
        // Without a proof there is nothing to compare with.
        if optimum.proven {
            out.over_optimum.push(searched.cost / best);
            out.searches_s.push(took);
        }
    }
    Ok(out)
}

/// Online on the poster's testbed.
pub fn online(seeds: u64, starts: u64, noise: f64) -> Outcome<Online> {
    let mut out = Online::default();
    for seed in 0..seeds {
        let problem = instance(&testbed(), seed)?;
        let options = PlanOptions {
            starts,
            ..PlanOptions::default()
        };
        let known = plan(&problem, &options).schedule;
        let played = play(&problem, noise, OnlineSettings::default());
        if noise == 0.0 {
            reached(&problem, &played.schedule)?;
        }
        let part = 1.0 / seeds as f64;
        out.over_clairvoyant +=
            part * played.schedule.flow_cost(&problem) / known.flow_cost(&problem);
        out.cost_over_clairvoyant += part * played.schedule.cost(&problem) / known.cost(&problem);
        out.slowest_ms = out.slowest_ms.max(1e3 * played.slowest.as_secs_f64());
    }
    Ok(out)
}

/// The value at rank `ceil(part n)`.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Arithmetic mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
