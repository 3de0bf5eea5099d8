//! `mt-cluster run`.

use ::drive::{Settings, Where};
use cli::{Console, Exit, Failure};
use doc::{DeviceKind, Schedule};

use crate::args::RunArgs;

/// Runs every schedule, one after another.
pub fn run(args: &RunArgs, console: &Console) -> Result<Exit, Failure> {
    let mut faults = Vec::new();
    let care = args.care.care(&mut faults);
    if !faults.is_empty() {
        return Err(Failure::Usage(faults.join("\n")));
    }
    let (input, mut output) = args.stream.open("schedules", console)?;
    let mut exit = Exit::Done;
    let mut schedules = input.documents::<Schedule>().peekable();
    while let Some(schedule) = schedules.next() {
        let schedule = schedule?;
        if args.journal.is_some() && schedules.peek().is_some() {
            let text = "--journal: a journal is of one schedule, and there are several";
            return Err(Failure::Usage(text.to_owned()));
        }
        let settings = Settings {
            place: place(args, &schedule)?,
            care: care.clone(),
            seed: args.seed.seed,
            journal: args.journal.clone(),
            resume: args.resume,
        };
        let one = ::drive::run(&schedule, &settings, &mut output, console)?;
        exit = exit.worst(one);
        if matches!(one, Exit::Signal(_)) {
            break;
        }
    }
    output.finish_events()?;
    Ok(exit)
}

fn place(args: &RunArgs, schedule: &Schedule) -> Result<Where, Failure> {
    let Some(prefix) = &args.via else {
        let device = args.device.map(DeviceKind::from);
        return Where::on(device, &schedule.cluster).map_err(|e| Failure::Usage(e.to_string()));
    };
    Where::via(prefix)
        .ok_or_else(|| Failure::Usage("--via: give at least the name of a program".to_owned()))
}
