//! Rates of all tasks while a given set of them computes.

use std::collections::HashMap;

use device::{Device, Options, STEADY_REPEATS, STEADY_WINDOW_S, Sim, Window};
use doc::{DeviceKind, Model, Plan, RatesKind, Timeline};
use predict::Predictor;
use units::corun::Setting;
use units::{Batch, Seconds, Share};

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
        settings: Vec<Setting>,
        gpus: Vec<u32>,
        /// Whether the tasks that compute also get the shares of the idle tasks.
        divides: bool,
    },
    Table(HashMap<Set, Vec<f64>>),
    Fixed(Vec<f64>),
    Simulated {
        sim: Box<Sim>,
        settings: Vec<Setting>,
        gpus: Vec<u32>,
    },
}

/// Rates of every set of tasks of a plan, in samples per second.
pub struct Rates {
    source: Source,
    tasks: usize,
    known: HashMap<Set, Vec<f64>>,
}

impl Rates {
    /// The rates that a timeline uses, or a message why they are unavailable.
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

    /// Rates predicted by the model of the timeline's plan, at the timeline's batch sizes.
    pub fn predicted(timeline: &Timeline, model: &Model) -> Result<Self, String> {
        Ok(Self {
            source: of_model(timeline, model)?,
            tasks: timeline.plan.tasks.len(),
            known: HashMap::new(),
        })
    }

    /// Rates that the simulator measures at the timeline's batch sizes and shares.
    pub fn simulated(timeline: &Timeline, seed: u64) -> Result<Self, String> {
        let plan = &timeline.plan;
        let workload = plan.workload().ok_or("the plan carries no workload")?;
        let options = Options {
            seed,
            ..Options::default()
        };
        let sim = Sim::open(workload, &options).map_err(|error| error.to_string())?;
        Ok(Self {
            source: Source::Simulated {
                sim: Box::new(sim),
                settings: settings(plan, &timeline.batches)?,
                gpus: plan.tasks.iter().map(|t| t.gpu.unwrap_or(0)).collect(),
            },
            tasks: plan.tasks.len(),
            known: HashMap::new(),
        })
    }

    /// Rates while the set `active` computes, one entry per task of the plan; the entries of idle tasks are
    /// meaningless.
    pub fn row(&mut self, active: Set) -> Result<Vec<f64>, String> {
        if let Some(row) = self.known.get(&active) {
            return Ok(row.clone());
        }
        let row = match &mut self.source {
            Source::Fixed(rates) => rates.clone(),
            Source::Table(rows) => rows
                .get(&active)
                .cloned()
                .ok_or_else(|| "the table has no row for a set of tasks that compute".to_owned())?,
            Source::Model {
                predictor,
                settings,
                gpus,
                divides,
            } => by_gpu(gpus, active, |here| {
                let mut running: Vec<Setting> = here.iter().map(|&i| settings[i]).collect();
                if *divides {
                    divide(settings, &mut running);
                }
                let mut means = vec![0.0; running.len()];
                predictor.means(&running, &mut means);
                Ok(means)
            })?,
            Source::Simulated {
                sim,
                settings,
                gpus,
            } => by_gpu(gpus, active, |here| {
                let running: Vec<Setting> = here.iter().map(|&i| settings[i]).collect();
                simulate(sim, &running)
            })?,
        };
        if let Some(i) = members(active).find(|&i| !(row[i].is_finite() && row[i] > 0.0)) {
            return Err(format!("the rate of task {i} is {}", row[i]));
        }
        self.known.insert(active, row.clone());
        Ok(row)
    }
}

/// Divides the shares of all tasks among the running ones, in proportion to their own shares, but at most the whole
/// device each.
pub fn divide(settings: &[Setting], running: &mut [Setting]) {
    let hundredths = |task: &Setting| u64::from(task.share.hundredths());
    let full = u64::from(Share::FULL.hundredths());
    let mut left: u64 = settings.iter().map(hundredths).sum();
    let mut own: u64 = running.iter().map(hundredths).sum();
    let mut largest_first: Vec<&mut Setting> = running.iter_mut().collect();
    largest_first.sort_by_key(|task| std::cmp::Reverse(task.share));
    for task in largest_first {
        let planned = hundredths(task);
        let share = planned * left / own;
        if share >= full {
            task.share = Share::FULL;
            left -= full;
            own -= planned;
        } else {
            task.share = Share::from_hundredths(share as u32);
        }
    }
}

/// Evaluates each GPU separately: tasks affect each other only if they compute on the same GPU.
fn by_gpu(
    gpus: &[u32],
    active: Set,
    mut ask: impl FnMut(&[usize]) -> Result<Vec<f64>, String>,
) -> Result<Vec<f64>, String> {
    let mut row = vec![0.0; gpus.len()];
    let mut left = active;
    while left != 0 {
        let gpu = gpus[left.trailing_zeros() as usize];
        let here: Vec<usize> = members(left).filter(|&i| gpus[i] == gpu).collect();
        for (&i, rate) in here.iter().zip(ask(&here)?) {
            row[i] = rate;
            left &= !(1 << i);
        }
    }
    Ok(row)
}

/// Rates of tasks that run together, in their order, measured as in a simulated launch.
fn simulate(sim: &mut Sim, running: &[Setting]) -> Result<Vec<f64>, String> {
    let mut runs: Vec<(usize, Setting)> = running
        .iter()
        .map(|a| Setting {
            task: a.task,
            batch: a.batch,
            share: a.share,
        })
        .enumerate()
        .collect();
    runs.sort_by_key(|(_, run)| run.task);
    let sorted: Vec<Setting> = runs.iter().map(|(_, run)| *run).collect();
    let steady = Seconds::new(STEADY_WINDOW_S).map_err(|error| error.to_string())?;
    let window = Window {
        least: steady,
        most: steady,
        precision: 1.0,
        repeats: STEADY_REPEATS,
    };
    let measured = sim
        .measure(&sorted, &window)
        .map_err(|error| error.to_string())?;
    let mut rates = vec![0.0; running.len()];
    for ((place, _), rate) in runs.iter().zip(&measured.rates) {
        rates[*place] = rate.throughput.get();
    }
    Ok(rates)
}

fn source(timeline: &Timeline) -> Result<Source, String> {
    let plan = &timeline.plan;
    let rate = |i| plan.given(i).throughput.map(|e| e.mean.get());
    let planned: Option<Vec<f64>> = (0..plan.tasks.len()).map(rate).collect();
    match (&plan.model, planned) {
        (_, Some(rates)) if timeline.rates == RatesKind::Fixed && !other_batches(timeline) => {
            Ok(Source::Fixed(rates))
        }
        (Some(model), _) => of_model(timeline, model),
        (None, _) if !plan.rates.is_empty() => Ok(Source::Table(table(plan))),
        _ => Err("the plan has neither a model nor a table of rates".to_owned()),
    }
}

/// Whether a task of a timeline has another batch size than the plan gives it.
fn other_batches(timeline: &Timeline) -> bool {
    let mut batches = timeline.batches.iter().enumerate();
    batches.any(|(i, batch)| batch.is_some() && *batch != timeline.plan.given(i).batch)
}

fn of_model(timeline: &Timeline, model: &Model) -> Result<Source, String> {
    let plan = &timeline.plan;
    Ok(Source::Model {
        predictor: Box::new(Predictor::from_model(model).map_err(|error| error.to_string())?),
        settings: settings(plan, &timeline.batches)?,
        gpus: plan.tasks.iter().map(|t| t.gpu.unwrap_or(0)).collect(),
        divides: model.workload.device.kind == DeviceKind::Cpu,
    })
}

/// The rows of a plan's table, keyed by set of tasks.
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

/// Workload task, batch size and share of every task of a plan; a size in `batches` overrides the plan's.
pub fn settings(plan: &Plan, batches: &[Option<Batch>]) -> Result<Vec<Setting>, String> {
    let workload = plan.workload().ok_or("the plan carries no workload")?;
    let setting = |(i, task): (usize, &doc::PlanTask)| {
        let given = plan.given(i);
        let batch = batches.get(i).copied().flatten().or(given.batch);
        Some(Setting {
            task: workload.task_index(&task.id)?,
            batch: batch?,
            share: given.share.filter(|s| *s > Share::ZERO)?,
        })
    };
    let all: Option<Vec<Setting>> = plan.tasks.iter().enumerate().map(setting).collect();
    all.ok_or_else(|| "a task of the plan has no batch size or share".to_owned())
}
