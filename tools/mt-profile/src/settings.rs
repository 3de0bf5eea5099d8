//! Arguments turned into validated settings.

use cli::Failure;
use device::Window;
use doc::DeviceKind;
use units::{Seconds, Share};

use crate::args::{Args, Design, DesignArgs, WindowArgs};

/// Co-runs of a random design where no budget is given: as many as the paper profiled.
const DEFAULT_BUDGET: u64 = 125;
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
    /// Part of random co-runs with a task left out, 0 to 1.
    pub subsets: f64,
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
        let design = args.design.unwrap_or(Design::Random);
        let (budget, step) = match design {
            Design::Grid => (args.budget, DEFAULT_GRID_STEP_PERCENT),
            Design::Random => (
                Some(args.budget.unwrap_or(DEFAULT_BUDGET)),
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
            design,
            budget,
            step: step.map_err(|error| usage("--share-step", error))?,
            rv_min,
            rv_max,
            subsets: within("--subsets", args.subsets, 0.0, 100.0)? / 100.0,
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
