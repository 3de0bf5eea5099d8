//! Turns arguments into validated settings.

use campaign::ProfileSettings;
use cli::Failure;
use design::{DesignSettings, Strategy, WindowSettings};
use device::MOST_REPEATS;
use doc::{BatchPolicy, DeviceKind, ObjectiveKind};
use units::{Seconds, Share, TotalShare};

use crate::args::{Args, Design, DesignArgs, Device, Sizes, WindowArgs};

/// Default number of co-runs of a random design: as many as in the paper.
const DEFAULT_BUDGET: u64 = 125;
/// Default number of co-runs of an adaptive design.
const DEFAULT_ADAPTIVE_BUDGET: u64 = 40;
const DEFAULT_STEP_PERCENT: f64 = 5.0;
const DEFAULT_GRID_STEP_PERCENT: f64 = 20.0;

/// Checks the arguments.
pub fn settings(args: Args) -> Result<ProfileSettings, Failure> {
    let mut faults = Vec::new();
    let passing = args.env.passing(&mut faults);
    if !faults.is_empty() {
        return Err(Failure::Usage(faults.join("\n")));
    }
    // Clap's `requires` misses this case, because the required option has conflicts of its own.
    for (option, given) in [("--baselines", args.baselines), ("--solos", args.solos)] {
        if given && args.configs.is_none() {
            let text = "it adds to the configurations of --configs FILE, which is not given";
            return Err(usage(option, text));
        }
    }
    Ok(ProfileSettings {
        design: design(&args.design)?,
        window: window(&args.window)?,
        noise_percent: within("--noise", args.noise, 0.0, 50.0)?,
        files: args.files,
        output: args.output,
        force: args.force,
        guarded: true,
        device: args.device.map(DeviceKind::from),
        gpu: args.gpu,
        replay: args.replay,
        rounds: args.design.rounds,
        warm_start: args.design.warm_start,
        configs: args.configs,
        baselines: args.baselines,
        solos: args.solos,
        import: args.import,
        resume: args.resume,
        cpus: args.cpus,
        attach_mps: args.attach_mps,
        passing,
        trace: args.trace,
        calibrate: args.calibrate,
        seed: args.seed.seed,
    })
}

fn usage(option: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Usage(format!("{option}: {error}"))
}

fn total_share(
    option: &str,
    percent: Option<f64>,
    absent: TotalShare,
) -> Result<TotalShare, Failure> {
    let Some(percent) = percent else {
        return Ok(absent);
    };
    let expected = "a percentage above 0; it may exceed 100";
    TotalShare::from_percent(percent)
        .map_err(|_| usage(option, format_args!("{percent} is not {expected}")))
}

fn within(option: &str, value: f64, low: f64, high: f64) -> Result<f64, Failure> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    let text = format_args!("{value} is not a number from {low} to {high}");
    Err(usage(option, text))
}

fn design(args: &DesignArgs) -> Result<DesignSettings, Failure> {
    if args.rounds.is_some() && args.design != Design::Adaptive {
        let problem = "only --design adaptive knows what another co-run gains";
        return Err(usage("--rounds", problem));
    }
    let (strategy, budget, step) = match args.design {
        Design::Grid => (Strategy::Grid, args.budget, DEFAULT_GRID_STEP_PERCENT),
        Design::Random => (
            Strategy::Random,
            Some(args.budget.unwrap_or(DEFAULT_BUDGET)),
            DEFAULT_STEP_PERCENT,
        ),
        Design::Adaptive => (
            Strategy::Adaptive,
            Some(args.budget.unwrap_or(DEFAULT_ADAPTIVE_BUDGET)),
            DEFAULT_STEP_PERCENT,
        ),
    };
    let step = Share::from_percent(args.share_step.unwrap_or(step));
    let rv_min = total_share("--rv-min", args.rv_min, TotalShare::ZERO)?;
    let unlimited = TotalShare::from_hundredths(u32::MAX);
    let rv_max = total_share("--rv-max", args.rv_max, unlimited)?;
    if rv_min > rv_max {
        return Err(Failure::Usage(format!(
            "--rv-min {} is above --rv-max {}",
            rv_min.percent(),
            rv_max.percent()
        )));
    }
    Ok(DesignSettings {
        strategy,
        budget,
        step: step.map_err(|error| usage("--share-step", error))?,
        rv_min,
        rv_max,
        subsets: within("--subsets", args.subsets, 0.0, 100.0)? / 100.0,
        tolerance: within("--tolerance", args.tolerance, 0.0, 100.0)? / 100.0,
        batch: args.batch.map(BatchPolicy::from),
        objective: args.objective.map(ObjectiveKind::from),
        floor: within("--floor", args.floor, 0.0, 1.0)?,
    })
}

fn window(args: &WindowArgs) -> Result<WindowSettings, Failure> {
    let seconds = |option: &str, value: f64| {
        Seconds::new(within(option, value, 0.0, 86_400.0)?).map_err(|error| usage(option, error))
    };
    if let Some(asked) = args.repeats.filter(|n| !(1..=MOST_REPEATS).contains(n)) {
        let most = MOST_REPEATS;
        let problem = format!("{asked} windows cannot be averaged; give 1 to {most}");
        return Err(usage("--repeats", problem));
    }
    Ok(WindowSettings {
        least: args.window.map(|s| seconds("--window", s)).transpose()?,
        most: seconds("--max-window", args.max_window)?,
        precision: within("--precision", args.precision, 0.01, 100.0)? / 100.0,
        repeats: args.repeats,
    })
}

impl From<Sizes> for BatchPolicy {
    fn from(sizes: Sizes) -> Self {
        match sizes {
            Sizes::Reference => BatchPolicy::Reference,
            Sizes::Free => BatchPolicy::Free,
        }
    }
}

impl From<Device> for DeviceKind {
    fn from(device: Device) -> Self {
        match device {
            Device::Auto => DeviceKind::Auto,
            Device::Sim => DeviceKind::Sim,
            Device::Cpu => DeviceKind::Cpu,
            Device::Cuda => DeviceKind::Cuda,
            Device::Replay => DeviceKind::Replay,
        }
    }
}
