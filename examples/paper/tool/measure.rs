//! What to measure in a setting in addition to the design's choices.

use std::path::Path;

use doc::Plan;

use crate::Outcome;
use crate::settings::{VOLUMES, read, tasks_of, volumes_name};
use crate::table::{Cell, CoRun, Table};

/// Shares in percent as a co-run to measure.
pub fn co_run(tasks: &[(String, u64)], share: impl Fn(usize) -> f64) -> CoRun {
    let cells = tasks.iter().enumerate().map(|(i, (task, batch))| Cell {
        task: task.clone(),
        batch: *batch,
        share: share(i),
        rate: 0.0,
    });
    CoRun::new(cells.collect())
}

fn even(percent: f64, tasks: usize) -> f64 {
    (percent / tasks as f64 * 100.0).floor() / 100.0
}

/// Isolated, sharing, 200/n, moderate and aggressive shares.
pub fn schemes(tasks: &[(String, u64)]) -> [CoRun; 5] {
    let n = tasks.len();
    let advice = even(200.0, n).min(100.0);
    [even(100.0, n), 100.0, advice, 60.0, 80.0].map(|share| co_run(tasks, |_| share))
}

/// The same share for every task, in steps of `step` percent.
pub fn uniform(tasks: &[(String, u64)], step: u32) -> Vec<CoRun> {
    let shares = (1..=100 / step).map(|k| f64::from(k * step));
    shares.map(|share| co_run(tasks, |_| share)).collect()
}

/// Step of the exhaustive search in percent.
pub fn grid_step(tasks: usize) -> u32 {
    match tasks {
        0..=2 => 5,
        3 | 4 => 10,
        _ => 20,
    }
}

/// Effort for a setting.
pub struct Effort {
    /// Number of co-runs of the exhaustive search that are measured again with long windows.
    pub again: usize,
    /// Step of the scan of equal shares, percent.
    pub step: u32,
}

/// What to measure with long windows: the simple schemes, equal shares, the best of our samples, the choice by
/// prediction alone, and the best of the exhaustive search.
pub fn check(out: &Path, name: &str, effort: &Effort) -> Outcome<Table> {
    let tasks = tasks_of(&out.join(format!("{name}.workload.json")))?;
    let n = tasks.len();
    let mut all = schemes(&tasks).to_vec();
    all.extend(uniform(&tasks, effort.step));
    let samples = Table::read_file(&out.join(format!("{name}.samples.csv")))?;
    all.extend(samples.best(n).cloned());
    all.push(planned(&out.join(format!("{name}.predicted.json")))?);
    let grid = Table::read_file(&out.join(format!("{name}.grid.csv")))?;
    let mut best: Vec<&CoRun> = grid.full(n).collect();
    best.sort_by(|a, b| b.total().total_cmp(&a.total()));
    all.extend(best.into_iter().take(effort.again).cloned());
    Ok(to_measure(all))
}

/// Each co-run once and without a rate.
fn to_measure(all: Vec<CoRun>) -> Table {
    let mut once: Vec<CoRun> = Vec::new();
    for mut run in all {
        for cell in &mut run.0 {
            cell.rate = 0.0;
        }
        if !once.iter().any(|seen| seen.same_shares(&run)) {
            once.push(run);
        }
    }
    Table(once)
}

/// Parts of a round of Fig. 10: every set of tasks that may be active at once.
pub fn subsets(run: &CoRun) -> Vec<CoRun> {
    let n = run.0.len();
    let members = |set: usize| (0..n).filter(move |i| set >> i & 1 == 1);
    (1..1usize << n)
        .map(|set| CoRun(members(set).map(|i| run.0[i].clone()).collect()))
        .collect()
}

/// The co-run that a plan chose.
pub fn planned(path: &Path) -> Outcome<CoRun> {
    let plan: Plan = read(path)?;
    let mut cells = Vec::new();
    for (i, task) in plan.tasks.iter().enumerate() {
        let given = plan.given(i);
        let missing = || format!("{}: a task without batch or share", path.display());
        cells.push(Cell {
            task: task.id.to_string(),
            batch: u64::from(given.batch.ok_or_else(missing)?.get()),
            share: given.share.ok_or_else(missing)?.percent(),
            rate: 0.0,
        });
    }
    Ok(CoRun::new(cells))
}

/// The rounds of a mix of Fig. 10 that were planned, by name.
pub fn rounds(out: &Path, name: &str) -> Vec<String> {
    let all = VOLUMES
        .iter()
        .map(|v| format!("{name}.{}", volumes_name(v)));
    all.filter(|round| out.join(format!("{round}.plan.json")).exists())
        .collect()
}

/// What to measure for a mix of Fig. 10: isolated and sharing with every set of active tasks, and the co-runs planned
/// for the steady state. The planned rounds are launched.
pub fn cycle(out: &Path, name: &str) -> Outcome<Table> {
    let tasks = tasks_of(&out.join(format!("{name}.workload.json")))?;
    let [isolated, sharing, ..] = schemes(&tasks);
    let mut all = subsets(&isolated);
    all.extend(subsets(&sharing));
    for round in rounds(out, name) {
        all.push(planned(&out.join(format!("{round}.steady.json")))?);
    }
    Ok(to_measure(all))
}

/// The co-run of one scheme alone, for tracing.
pub fn scheme(out: &Path, name: &str, scheme: &str) -> Outcome<Table> {
    let tasks = tasks_of(&out.join(format!("{name}.workload.json")))?;
    let run = match scheme {
        "temporal" => co_run(&tasks[..1], |_| 100.0),
        "isolated" => schemes(&tasks)[0].clone(),
        "sharing" => schemes(&tasks)[1].clone(),
        "ours" => {
            let samples = Table::read_file(&out.join(format!("{name}.samples.csv")))?;
            let best = samples.best(tasks.len()).ok_or("no co-run was sampled")?;
            co_run(&tasks, |i| best.share(&tasks[i].0).unwrap_or(100.0))
        }
        _ => return Err(format!("no scheme is called {scheme}").into()),
    };
    Ok(Table(vec![run]))
}
