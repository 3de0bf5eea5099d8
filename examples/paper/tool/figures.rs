//! Figures of one setting, from the files of its pipe.

use std::path::Path;

use crate::Outcome;
use crate::measure::{planned, schemes};
use crate::settings::tasks_of;
use crate::table::{CoRun, Table};

/// One setting, measured with long windows.
pub struct Setting {
    pub tasks: Vec<(String, u64)>,
    pub temporal: f64,
    /// Isolated, sharing, 200/n, 60, 80 and our plan: images per second.
    pub schemes: [f64; 5],
    pub ours: CoRun,
    /// The best by the model of some random co-runs, which is how the paper chooses.
    pub predicted: CoRun,
    /// The best co-run with the same share for every task.
    pub uniform: CoRun,
    /// Best of all measurements: the exhaustive search, the random schedules, or our own.
    pub optimum: CoRun,
    /// Random schedules, if there are any.
    pub random: Option<Table>,
    pub samples: usize,
    pub grid: Table,
    pub checked: Table,
}

impl Setting {
    pub fn read(out: &Path, name: &str) -> Outcome<Self> {
        let tasks = tasks_of(&out.join(format!("{name}.workload.json")))?;
        let n = tasks.len();
        let table = |kind: &str| Table::read_file(&out.join(format!("{name}.{kind}.csv")));
        let (samples, grid, checked) = (table("samples")?, table("grid")?, table("checked")?);
        let missing = |what: &str| format!("{name}: {what} was not measured");
        let mut per_image = 0.0;
        for (task, _) in &tasks {
            per_image += 1.0 / checked.solo(task).ok_or_else(|| missing(task))?;
        }
        let mut rates = [0.0; 5];
        for (rate, scheme) in rates.iter_mut().zip(schemes(&tasks)) {
            *rate = checked
                .at(&scheme)
                .ok_or_else(|| missing("a scheme"))?
                .total();
        }
        let best = samples.best(n).ok_or_else(|| missing("a co-run"))?;
        let ours = checked.at(best).ok_or_else(|| missing("our plan"))?.clone();
        let plan = planned(&out.join(format!("{name}.predicted.json")))?;
        let predicted = checked
            .at(&plan)
            .ok_or_else(|| missing("the predicted plan"))?;
        let predicted = predicted.clone();
        let uniform = checked
            .full(n)
            .filter(|run| run.has_equal_shares())
            .max_by(|a, b| a.total().total_cmp(&b.total()));
        let uniform = uniform.ok_or_else(|| missing("equal shares"))?.clone();
        let drawn = out.join(format!("{name}.random.csv"));
        let random = match drawn.exists() {
            true => Some(Table::read_file(&drawn)?),
            false => None,
        };
        let all = [Some(&checked), random.as_ref()];
        let best = all.into_iter().flatten().filter_map(|t| t.best(n));
        let optimum = best
            .max_by(|a, b| a.total().total_cmp(&b.total()))
            .ok_or_else(|| missing("the grid"))?
            .clone();
        Ok(Self {
            temporal: n as f64 / per_image,
            schemes: rates,
            ours,
            predicted,
            uniform,
            optimum,
            random,
            samples: samples.0.len(),
            grid,
            checked,
            tasks,
        })
    }

    /// Rank of a choice among it and the random schedules, in percent: with 125 schedules at best one in 126.
    pub fn rank(&self, choice: &CoRun) -> Option<f64> {
        let totals = || {
            Some(
                self.random
                    .as_ref()?
                    .full(self.tasks.len())
                    .map(CoRun::total),
            )
        };
        let count = totals()?.count() as f64;
        let better = totals()?.filter(|t| *t > choice.total()).count() as f64;
        Some(100.0 * (better + 1.0) / (count + 1.0))
    }

    /// Throughput of a choice relative to the best of all.
    pub fn completion(&self, choice: &CoRun) -> f64 {
        choice.total() / self.optimum.total()
    }

    /// Ours relative to isolated and to sharing.
    pub fn gains(&self) -> [f64; 2] {
        [self.schemes[0], self.schemes[1]].map(|rate| self.ours.total() / rate)
    }

    /// Ours relative to the best of the static schemes, which include isolated but not full sharing.
    pub fn over_best_static(&self) -> f64 {
        let [isolated, _, rest @ ..] = self.schemes;
        self.ours.total() / rest.iter().copied().fold(isolated, f64::max)
    }

    /// The best co-run relative to the best one with the same share for every task: the gain of different shares.
    pub fn over_uniform(&self) -> f64 {
        self.optimum.total() / self.uniform.total()
    }

    /// Isolated, sharing and ours relative to temporal.
    pub fn ratios(&self) -> [f64; 3] {
        [self.schemes[0], self.schemes[1], self.ours.total()].map(|rate| rate / self.temporal)
    }

    /// `sum P_i / S_i` of a co-run.
    pub fn fairness(&self, run: &CoRun) -> f64 {
        let cells = run.0.iter();
        cells
            .filter_map(|c| Some(c.rate / self.checked.solo(&c.task)?))
            .sum()
    }

    /// Shares in the order of the tasks, as text.
    pub fn shares(&self, run: &CoRun) -> String {
        let shares = self.tasks.iter().filter_map(|(task, _)| run.share(task));
        shares
            .map(|s| format!("{s}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// SMs held and SMs doing work, mean over the time of an occupancy table.
pub fn occupancy(path: &Path) -> Outcome<(f64, f64)> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for line in text.lines().skip(1) {
        rows.push(line.split(',').map(str::parse).collect::<Result<_, _>>()?);
    }
    let (mut held, mut active, mut time) = (0.0, 0.0, 0.0);
    for pair in rows.windows(2) {
        let span = pair[1][0] - pair[0][0];
        held += span * pair[0].iter().skip(1).step_by(2).sum::<f64>();
        active += span * pair[0].iter().skip(2).step_by(2).sum::<f64>();
        time += span;
    }
    if time > 0.0 {
        Ok((held / time, active / time))
    } else {
        Err(format!("{}: nothing ran", path.display()).into())
    }
}
