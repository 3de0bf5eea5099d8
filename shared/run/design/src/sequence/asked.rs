//! The plan that the measurements serve, as the solver would choose it from the data so far.

use allocation::{
    Effort, Limits, MeasuredConfig, Partition, Problem, SearchOptions, Solution, Standing,
    TaskProgress, partition_by_model, solve_by_model, standings_by_model,
};
use doc::{ObjectiveKind, Workload};
use predict::Predictor;
use units::corun::Setting;

use super::space::Configuration;

/// Maximum number of choices that a search between two measurements evaluates. Not tuned: few enough that the fit
/// takes longer.
const POINTS: u64 = 4_000;
/// The same for a round, where evaluating a choice includes ordering it; not tuned either.
const ROUND_POINTS: u64 = 500;
/// The same for each set of tasks that may run on one of several GPUs; there are hundreds of such sets.
const PART_POINTS: u64 = 200;
/// Number of best choices by the model that are compared with measured ones.
const RIVALS: usize = 8;

/// Request for a plan of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Tasks, volumes, link and memory.
    pub workload: Workload,
    /// Objective of the plan.
    pub objective: ObjectiveKind,
    /// Its constraints.
    pub limits: Limits,
}

impl Asked {
    /// Rounds to the targets at given batch sizes for some of the tasks: their weighted mean, or the last. 1 if the
    /// objective does not count rounds.
    ///
    /// A round lasts until all tasks have trained on their samples. Here, a time to target is the number of rounds
    /// times the length of this round, as if no task reached its target earlier. The plan itself, which is measured in
    /// turn, accounts for tasks that leave.
    pub fn rounds(&self, active: &[Setting]) -> f64 {
        let tasks = &self.workload.tasks;
        if !self.counts_rounds() {
            return 1.0;
        }
        let each = active.iter().map(|setting| {
            let task = &tasks[setting.task];
            let weight = task.weight.map_or(1.0, units::Weight::get);
            (weight, TaskProgress::of_task(task).rounds_at(setting.batch))
        });
        match self.objective {
            ObjectiveKind::ProgressLast => each.map(|(_, n)| n).fold(0.0, f64::max),
            _ => {
                let (weights, sum) = each.fold((0.0, 0.0), |a, (w, n)| (a.0 + w, a.1 + w * n));
                sum / weights
            }
        }
    }

    /// Whether the objective is progress, for which larger batches need more rounds.
    pub fn counts_rounds(&self) -> bool {
        self.objective.is_progress()
    }

    /// Whether the objective is a time, which depends on the co-runs that remain as tasks leave.
    pub fn is_timed(&self) -> bool {
        let volumes = || self.workload.tasks.iter().all(|t| t.samples.is_some());
        self.objective == ObjectiveKind::Round || (self.counts_rounds() && volumes())
    }

    /// The best few plans by a model, together with measured ones and the given choices, best first.
    pub fn standings(
        &self,
        model: &Predictor,
        known: &[MeasuredConfig],
        mut others: Vec<Configuration>,
        seed: u64,
    ) -> Vec<Standing> {
        let limits = self.limits.clone();
        let problem = Problem::of_workload(model, &self.workload, self.objective, limits);
        let options = self.search(seed, RIVALS);
        let found = solve_by_model(model, &problem, &options).map(|found| found.solutions);
        others.extend(found.into_iter().flatten().map(|s| s.settings));
        standings_by_model(model, &problem, known, &others)
    }

    /// The best plan by a model, also outside the measured domain: the co-run of each GPU or, for a round on one GPU,
    /// the sets of tasks that run together, longest first. Empty if nothing is feasible.
    pub fn by_model(&self, model: &Predictor, seed: u64) -> Vec<Configuration> {
        let limits = self.limits.clone();
        let problem = Problem::of_workload(model, &self.workload, self.objective, limits);
        let gpus = self.workload.device.gpus as usize;
        let options = self.search(seed, 1);
        if gpus > 1 {
            let found = partition_by_model(model, &problem, gpus, &options);
            return found.map_or_else(|_| Vec::new(), |found| parts(&found));
        }
        let found = solve_by_model(model, &problem, &options).map(|found| found.solutions);
        let best = found.into_iter().flatten().next();
        best.map_or_else(Vec::new, |best| problem.met(model, &best.settings))
    }

    /// Options of a search for the `top` best choices between two measurements.
    fn search(&self, seed: u64, top: usize) -> SearchOptions {
        let max_points = match self.objective {
            _ if self.workload.device.gpus > 1 => PART_POINTS,
            ObjectiveKind::Round | ObjectiveKind::Progress | ObjectiveKind::ProgressLast => {
                ROUND_POINTS
            }
            _ => POINTS,
        };
        SearchOptions {
            effort: Effort::Local,
            max_points,
            starts: 4,
            top,
            seed,
            reasons: false,
        }
    }
}

/// The co-run on each GPU, by index in the workload.
fn parts(found: &Partition) -> Vec<Configuration> {
    let chosen = found.groups.iter().zip(&found.solutions);
    let part = |(tasks, chosen): (&Vec<usize>, &Option<Solution>)| {
        let settings = chosen.as_ref()?.settings.iter();
        let named = settings.map(|s| Setting {
            task: tasks[s.task],
            ..*s
        });
        Some(named.collect())
    };
    chosen.filter_map(part).collect()
}
