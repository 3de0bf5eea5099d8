//! `mt-cluster run`.

use std::time::Duration;

use ::drive::{Settings, Where};
use cli::{Console, Existing, Exit, Failure, Input, Output};
use doc::Schedule;
use jobs::{LogLimits, RunDir};

use crate::args::{Device, RunArgs};

/// Runs every schedule, one after another.
pub fn run(args: &RunArgs, console: &Console) -> Result<Exit, Failure> {
    let backoff = seconds("backoff", args.backoff)?;
    let grace = seconds("grace", args.grace)?;
    let via = args.via.as_deref().map(words).transpose()?;
    let input = Input::open(&args.files, "schedules", console)?;
    let existing = Existing {
        replace: args.force,
        continues: None,
    };
    let mut output = Output::progressive(args.output.as_deref(), existing)?;
    let mut exit = Exit::Done;
    for schedule in input.documents::<Schedule>() {
        let schedule = schedule?;
        let settings = Settings {
            place: via
                .clone()
                .map_or_else(|| place(args.device, &schedule), Where::Via),
            restarts: args.restarts,
            backoff,
            grace,
            logs: args.logs.clone(),
            log_limits: LogLimits::default(),
            follow: args.follow,
            runs: args.runs.clone().unwrap_or_else(RunDir::default_base),
            seed: args.seed.seed,
        };
        let one = ::drive::run(&schedule, &settings, &mut output, console)?;
        exit = exit.worst(one);
        if matches!(one, Exit::Signal(_)) {
            break;
        }
    }
    match output.finish() {
        // Whether the jobs could finish without a reader is known, and is the answer.
        Err(Failure::ClosedPipe) => {}
        finished => finished?,
    }
    Ok(exit)
}

fn place(device: Device, schedule: &Schedule) -> Where {
    match device {
        Device::Cpu => Where::Processors,
        Device::Cuda => Where::Cuda,
        Device::Auto => Where::of(&schedule.cluster),
    }
}

fn words(prefix: &str) -> Result<Vec<String>, Failure> {
    let words: Vec<String> = prefix.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(Failure::Usage(
            "--via: give at least the name of a program".to_owned(),
        ));
    }
    Ok(words)
}

fn seconds(name: &str, value: f64) -> Result<Duration, Failure> {
    if (0.0..=1e9).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(Failure::Usage(format!(
        "--{name} {value}: give seconds from 0 to 1e9"
    )))
}
