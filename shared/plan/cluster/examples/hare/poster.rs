//! The poster's experiments, on similar clusters.

use cluster::generate::{Recipe, generate};
use cluster::switching::retimed;
use cluster::{Policy, Problem, Schedule, TrainingJob, baselines, document};

use crate::Outcome;
use crate::compare::{Means, compare, reached};

/// The poster's GPUs.
pub const FLEET: [(&str, u32); 4] = [("v100", 8), ("t4", 4), ("k80", 1), ("m60", 2)];
/// The baselines of the poster.
pub const RIVALS: [Policy; 4] = [Policy::Fifo, Policy::Srtf, Policy::Homo, Policy::Allox];

/// How hard to search and over how many instances to average.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Instances of the main comparison, and of each point of a sweep.
    pub seeds: u64,
    pub sweep_seeds: u64,
    /// Starts of tasks to simulate in a plan.
    pub starts: u64,
    /// Jobs on 160 GPUs.
    pub large: &'static [usize],
}

/// A kind of instance and its results.
#[derive(Debug, Clone)]
pub struct Point {
    pub name: String,
    pub means: Means,
}

impl Point {
    /// Our schedule of the first instance of the testbed.
    pub fn first(&self) -> Outcome<(Problem, Schedule)> {
        let first = self.means.first().ok_or("no instance")?;
        Ok((instance(&testbed(), 0)?, first.schedule.clone()))
    }
}

/// The poster's testbed with 40 jobs.
pub fn testbed() -> Recipe {
    Recipe {
        gpus: fleet(&FLEET),
        jobs: 40,
        load: 2.0,
        network_bps: 25e9,
        most_tasks: 4,
        seed: 0,
    }
}

fn fleet(gpus: &[(&str, u32)]) -> Vec<(String, u32)> {
    gpus.iter().map(|&(k, n)| (k.to_owned(), n)).collect()
}

/// The poster's mix of types, `count` GPUs in all; the largest type takes what rounding leaves.
pub fn scaled_fleet(count: u32) -> Vec<(String, u32)> {
    let mut gpus = fleet(&FLEET);
    for (_, n) in &mut gpus {
        *n = (*n * count / 15).max(1);
    }
    let rest: u32 = gpus.iter().skip(1).map(|g| g.1).sum();
    gpus[0].1 = count - rest;
    gpus
}

/// The problem of a recipe.
pub fn instance(recipe: &Recipe, seed: u64) -> Outcome<Problem> {
    let recipe = Recipe {
        seed,
        ..recipe.clone()
    };
    Ok(document::problem(&generate(&recipe)?))
}

/// Means over `seeds` instances of a recipe.
pub fn point(name: impl Into<String>, recipe: &Recipe, seeds: u64, starts: u64) -> Outcome<Point> {
    let all = (0..seeds).map(|seed| compare(&instance(recipe, seed)?, starts));
    Ok(Point {
        name: name.into(),
        means: Means::of(all.collect::<Outcome<_>>()?),
    })
}

/// 160 GPUs, one instance each.
pub fn large(effort: &Effort) -> Outcome<Vec<Point>> {
    let at = |&jobs: &usize| {
        let recipe = Recipe {
            gpus: scaled_fleet(160),
            jobs,
            ..testbed()
        };
        point(format!("{jobs} jobs"), &recipe, 1, effort.starts)
    };
    effort.large.iter().map(at).collect()
}

/// A sweep: recipes by name.
pub fn sweep(recipes: Vec<(String, Recipe)>, effort: &Effort) -> Outcome<Vec<Point>> {
    // A quarter of the effort: differences between points are much larger than what it gives away.
    let each = recipes.into_iter();
    each.map(|(name, r)| point(name, &r, effort.sweep_seeds, effort.starts / 4))
        .collect()
}

/// The same jobs on more or fewer GPUs: arrivals are those of 15.
pub fn gpus(effort: &Effort) -> Outcome<Vec<Point>> {
    let counts = [10, 15, 20, 30];
    let at = |&count: &u32| {
        let recipe = Recipe {
            gpus: scaled_fleet(count),
            load: 2.0 * 15.0 / f64::from(count),
            ..testbed()
        };
        (format!("{count} GPUs"), recipe)
    };
    sweep(counts.iter().map(at).collect(), effort)
}

/// GPU types alone: every round is one task.
pub fn heterogeneity(effort: &Effort) -> Outcome<Vec<Point>> {
    let fleets: [&[(&str, u32)]; 3] = [&[("v100", 15)], &[("v100", 8), ("t4", 7)], &FLEET];
    let at = |gpus: &&[(&str, u32)]| {
        let names: Vec<String> = gpus.iter().map(|(k, n)| format!("{n} {k}")).collect();
        let recipe = Recipe {
            gpus: fleet(gpus),
            most_tasks: 1,
            ..testbed()
        };
        (names.join(", "), recipe)
    };
    sweep(fleets.iter().map(at).collect(), effort)
}

/// Parallel tasks alone: every GPU is a V100.
pub fn parallelism(effort: &Effort) -> Outcome<Vec<Point>> {
    let at = |most_tasks| {
        let recipe = Recipe {
            gpus: fleet(&[("v100", 15)]),
            most_tasks,
            ..testbed()
        };
        (format!("1 to {most_tasks} tasks a round"), recipe)
    };
    sweep([1, 2, 4, 8].map(at).to_vec(), effort)
}

/// The network that synchronises.
pub fn bandwidth(effort: &Effort) -> Outcome<Vec<Point>> {
    let at = |gbps: f64| {
        let recipe = Recipe {
            network_bps: gbps * 1e9,
            ..testbed()
        };
        (format!("{gbps} Gbit/s"), recipe)
    };
    sweep([10.0, 15.0, 20.0, 25.0].map(at).to_vec(), effort)
}

/// How fast jobs arrive, which the poster does not say.
pub fn load(effort: &Effort) -> Outcome<Vec<Point>> {
    let at = |load: f64| {
        let name = if load.is_finite() {
            format!("load {load}")
        } else {
            "all at once".to_owned()
        };
        (name, Recipe { load, ..testbed() })
    };
    sweep([0.5, 1.0, 4.0, f64::INFINITY].map(at).to_vec(), effort)
}

/// A scheduler that takes all GPUs for equal, plans ahead with mean times, and keeps to its plan.
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// By how many percent our weighted flow time is below its, on the testbed.
    pub reduction: f64,
}

/// Measures [`Ahead`].
pub fn ahead(effort: &Effort) -> Outcome<Ahead> {
    let mut reduction = 0.0;
    for seed in 0..effort.sweep_seeds {
        let problem = instance(&testbed(), seed)?;
        let blind = Problem::new(
            problem.classes.clone(),
            problem.gpus.clone(),
            problem
                .jobs
                .iter()
                .map(|j| mean_times(&problem, j))
                .collect(),
        );
        let kept = retimed(&problem, &baselines::homo(&blind), |_| 0.0);
        let theirs = reached(&problem, &kept)?.flow;
        let ours = compare(&problem, effort.starts / 4)?.ours.flow;
        reduction += 100.0 * (1.0 - ours / theirs) / effort.sweep_seeds as f64;
    }
    Ok(Ahead { reduction })
}

/// The job with the mean of its times over all GPUs on each of them.
fn mean_times(problem: &Problem, job: &TrainingJob) -> TrainingJob {
    let mean = |times: &[f64]| {
        problem.gpus.iter().map(|&g| times[g]).sum::<f64>() / problem.gpus.len() as f64
    };
    TrainingJob {
        train: vec![mean(&job.train); job.train.len()],
        sync: vec![mean(&job.sync); job.sync.len()],
        ..job.clone()
    }
}
