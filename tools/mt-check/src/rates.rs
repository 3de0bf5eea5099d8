//! How fast every task computes while a set of them does.

use std::collections::HashMap;

use doc::{Plan, RatesKind, Timeline};
use predict::{Active, Predictor};
use units::{Batch, Share};

/// A set of tasks: bit `i` is task `i` of the plan.
pub type Set = u64;

/// Indices of the tasks of a set, ascending.
pub fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..64).filter(move |i| set >> i & 1 == 1)
}

/// The set of the first `n` tasks.
pub fn everyone(n: usize) -> Set {
    (0..n).fold(0, |set, i| set | 1 << i)
}

enum Source {
    Model {
        predictor: Box<Predictor>,
        settings: Vec<Active>,
        gpus: Vec<u32>,
    },
    Table(HashMap<Set, Vec<f64>>),
    Fixed(Vec<f64>),
}

/// Rates of every set of tasks of a plan, in samples per second.
pub struct Rates {
    source: Source,
    tasks: usize,
    known: HashMap<Set, Vec<f64>>,
}

impl Rates {
    /// The rates that a timeline assumes, or why they cannot be had.
    pub fn of_timeline(timeline: &Timeline) -> Result<Self, String> {
        let plan = &timeline.plan;
        let mut rates = Self {
            source: source(timeline)?,
            tasks: plan.tasks.len(),
            known: HashMap::new(),
        };
        if timeline.rates == RatesKind::Fixed {
            let together = rates.row(everyone(rates.tasks))?;
            rates.source = Source::Fixed(together);
            rates.known.clear();
        }
        Ok(rates)
    }

    /// Rates with one place per task of the plan; those of idle tasks mean nothing.
    pub fn row(&mut self, active: Set) -> Result<Vec<f64>, String> {
        if let Some(row) = self.known.get(&active) {
            return Ok(row.clone());
        }
        let row = match &self.source {
            Source::Fixed(rates) => rates.clone(),
            Source::Table(rows) => rows
                .get(&active)
                .cloned()
                .ok_or_else(|| "the table has no row for a set of tasks that compute".to_owned())?,
            Source::Model {
                predictor,
                settings,
                gpus,
            } => predicted(predictor, settings, gpus, active),
        };
        if let Some(i) = members(active).find(|&i| !(row[i].is_finite() && row[i] > 0.0)) {
            return Err(format!("the rate of task {i} is {}", row[i]));
        }
        self.known.insert(active, row.clone());
        Ok(row)
    }
}

/// Tasks act on each other only if they compute on the same GPU.
fn predicted(predictor: &Predictor, settings: &[Active], gpus: &[u32], active: Set) -> Vec<f64> {
    let mut row = vec![0.0; settings.len()];
    let mut left = active;
    while left != 0 {
        let gpu = gpus[left.trailing_zeros() as usize];
        let here: Vec<usize> = members(left).filter(|&i| gpus[i] == gpu).collect();
        let running: Vec<Active> = here.iter().map(|&i| settings[i]).collect();
        let mut means = vec![0.0; running.len()];
        predictor.means(&running, &mut means);
        for (i, mean) in here.into_iter().zip(means) {
            row[i] = mean;
            left &= !(1 << i);
        }
    }
    row
}

fn source(timeline: &Timeline) -> Result<Source, String> {
    let plan = &timeline.plan;
    let planned = |t: &doc::PlanTask| t.throughput.map(|e| e.mean.get());
    let planned: Option<Vec<f64>> = plan.tasks.iter().map(planned).collect();
    match (&plan.model, planned) {
        (_, Some(rates)) if timeline.rates == RatesKind::Fixed => Ok(Source::Fixed(rates)),
        (Some(model), _) => Ok(Source::Model {
            predictor: Box::new(Predictor::from_model(model).map_err(|error| error.to_string())?),
            settings: settings(plan, &timeline.batches)?,
            gpus: plan.tasks.iter().map(|t| t.gpu.unwrap_or(0)).collect(),
        }),
        (None, _) if !plan.rates.is_empty() => Ok(Source::Table(table(plan))),
        _ => Err("the plan has neither a model nor a table of rates".to_owned()),
    }
}

/// The rows of a plan's table by set of tasks.
pub fn table(plan: &Plan) -> HashMap<Set, Vec<f64>> {
    let mut rows = HashMap::new();
    for row in &plan.rates {
        let mut rates = vec![0.0; plan.tasks.len()];
        let mut set = 0;
        for (&i, rate) in row.active.iter().zip(&row.rates) {
            rates[i] = rate.get();
            set |= 1 << i;
        }
        rows.insert(set, rates);
    }
    rows
}

/// Workload task, batch size and share of every task of a plan; `batches` goes before the plan's.
pub fn settings(plan: &Plan, batches: &[Option<Batch>]) -> Result<Vec<Active>, String> {
    let workload = plan.workload().ok_or("the plan carries no workload")?;
    let setting = |(i, task): (usize, &doc::PlanTask)| {
        let batch = batches.get(i).copied().flatten().or(task.batch);
        Some(Active {
            task: workload.task_index(&task.id)?,
            batch: batch?,
            share: task.share.filter(|s| *s > Share::ZERO)?,
        })
    };
    let all: Option<Vec<Active>> = plan.tasks.iter().enumerate().map(setting).collect();
    all.ok_or_else(|| "a task of the plan has no batch size or share".to_owned())
}
