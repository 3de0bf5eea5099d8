//! Arguments turned into validated settings.

use cli::Failure;
use device::Window;
use doc::{DeviceKind, Workload};
use predict::design::Goal;
use units::{Seconds, Share};

use crate::args::{Args, Design, DesignArgs, Objective, WindowArgs};

/// Co-runs of a random design where no budget is given: as many as the paper profiled.
const DEFAULT_BUDGET: u64 = 125;
/// Co-runs of an adaptive design where no budget is given.
const DEFAULT_ADAPTIVE_BUDGET: u64 = 40;
const DEFAULT_STEP_PERCENT: f64 = 5.0;
const DEFAULT_GRID_STEP_PERCENT: f64 = 20.0;
const DEFAULT_WINDOW_S: f64 = 2.0;

/// Which configurations to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct DesignSettings {
    /// How they are chosen.
    pub design: Design,
    /// Co-runs beside the solo runs; `None`: all.
    pub budget: Option<u64>,
    /// Shares are multiples of this.
    pub step: Share,
    /// Least sum of the shares of all tasks.
    pub rv_min: Share,
    /// Largest sum of the shares.
    pub rv_max: Share,
    /// Part of co-runs with a task left out, 0 to 1.
    pub subsets: f64,
    /// Relative expected gain below which an adaptive design stops.
    pub tolerance: f64,
    /// What an adaptive design is to be best for.
    pub objective: Objective,
    /// Least throughput of every task relative to alone that its best is to keep, 0 to 1.
    pub floor: f64,
}

fn usage(option: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Usage(format!("{option}: {error}"))
}

fn total_share(option: &str, percent: Option<f64>, absent: Share) -> Result<Share, Failure> {
    let Some(percent) = percent else {
        return Ok(absent);
    };
    let hundredths = (percent * 100.0).round();
    if (1.0..=f64::from(u32::MAX)).contains(&hundredths) {
        return Ok(Share::from_hundredths(hundredths as u32));
    }
    let expected = "a percentage above 0; it may exceed 100";
    Err(usage(option, format_args!("{percent} is not {expected}")))
}

fn within(option: &str, value: f64, low: f64, high: f64) -> Result<f64, Failure> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    let text = format_args!("{value} is not a number from {low} to {high}");
    Err(usage(option, text))
}

impl DesignSettings {
    /// Checks the arguments.
    pub fn new(args: &DesignArgs) -> Result<Self, Failure> {
        let (budget, step) = match args.design {
            Design::Grid => (args.budget, DEFAULT_GRID_STEP_PERCENT),
            Design::Random => (
                Some(args.budget.unwrap_or(DEFAULT_BUDGET)),
                DEFAULT_STEP_PERCENT,
            ),
            Design::Adaptive => (
                Some(args.budget.unwrap_or(DEFAULT_ADAPTIVE_BUDGET)),
                DEFAULT_STEP_PERCENT,
            ),
        };
        let step = Share::from_percent(args.share_step.unwrap_or(step));
        let rv_min = total_share("--rv-min", args.rv_min, Share::ZERO)?;
        let unlimited = Share::from_hundredths(u32::MAX);
        let rv_max = total_share("--rv-max", args.rv_max, unlimited)?;
        if rv_min > rv_max {
            return Err(Failure::Usage(format!(
                "--rv-min {} is above --rv-max {}",
                rv_min.percent(),
                rv_max.percent()
            )));
        }
        Ok(Self {
            design: args.design,
            budget,
            step: step.map_err(|error| usage("--share-step", error))?,
            rv_min,
            rv_max,
            subsets: within("--subsets", args.subsets, 0.0, 100.0)? / 100.0,
            tolerance: within("--tolerance", args.tolerance, 0.0, 100.0)? / 100.0,
            objective: args.objective,
            floor: within("--floor", args.floor, 0.0, 1.0)?,
        })
    }
}

/// Checks the noise, in percent.
pub fn noise(args: &Args) -> Result<f64, Failure> {
    within("--noise", args.noise, 0.0, 50.0)
}

/// The window to measure on a device of the given kind.
pub fn window(args: &WindowArgs, kind: DeviceKind) -> Result<Window, Failure> {
    let seconds = |option: &str, value: f64| {
        Seconds::new(within(option, value, 0.0, 86_400.0)?).map_err(|error| usage(option, error))
    };
    let default = if kind == DeviceKind::Sim {
        0.0
    } else {
        DEFAULT_WINDOW_S
    };
    let least = seconds("--window", args.window.unwrap_or(default))?;
    let most = seconds("--max-window", args.max_window)?;
    if args.repeats == 0 {
        return Err(usage(
            "--repeats",
            "0 windows measure nothing; give 1 or more",
        ));
    }
    Ok(Window {
        least,
        most: if most < least { least } else { most },
        precision: within("--precision", args.precision, 0.01, 100.0)? / 100.0,
        repeats: args.repeats,
    })
}

/// The objective of an adaptive design on a workload.
pub fn goal(objective: Objective, workload: &Workload) -> Result<Goal, Failure> {
    Ok(match objective {
        Objective::Raw => Goal::Raw,
        Objective::Fairness => Goal::Fairness,
        Objective::MaxMin => Goal::MaxMin,
        Objective::Weighted => {
            let tasks = workload.tasks.iter();
            Goal::Weighted(tasks.map(|t| t.weight.map_or(1.0, |w| w.get())).collect())
        }
        Objective::Round => {
            let samples: Result<Vec<f64>, Failure> = workload
                .tasks
                .iter()
                .map(|task| {
                    task.samples.map(|s| s.as_f64()).ok_or_else(|| {
                        Failure::Input(format!(
                            "--objective round: task {} has no `samples`; give how many it trains \
                             on in a round",
                            task.id
                        ))
                    })
                })
                .collect();
            Goal::Round(samples?)
        }
    })
}
