//! `mt-cluster run`.

use std::path::Path;

use ::drive::{KeptIn, Settings, Where};
use cli::{Console, Exit, Failure};
use doc::{DeviceKind, Schedule};

use crate::args::RunArgs;

/// Runs every schedule, one after another.
pub fn run(args: &RunArgs, console: &Console) -> Result<Exit, Failure> {
    let supervision = args.supervision.checked()?;
    let (input, mut output) = args.stream.open("schedules", console)?;
    let mut exit = Exit::Done;
    let mut before = 0;
    let reads_schedules =
        args.stream.files.is_empty() || args.stream.files.iter().any(|f| f == Path::new("-"));
    if args.events.as_deref() == Some(Path::new("-")) && reads_schedules {
        let text = "--events -: standard input has the schedule; give one of the two as FILE";
        return Err(Failure::Usage(text.to_owned()));
    }
    let mut schedules = input.documents::<Schedule>().peekable();
    while let Some(schedule) = schedules.next() {
        let schedule = schedule?;
        if args.journal.is_some() && schedules.peek().is_some() {
            let text = "--journal: a journal is of one schedule, and there are several";
            return Err(Failure::Usage(text.to_owned()));
        }
        let device = args.device.map(DeviceKind::from);
        let settings = Settings {
            place: Where::asked(args.via.as_deref(), device, &schedule.cluster)
                .map_err(Failure::Usage)?,
            supervision: supervision.clone(),
            seed: args.seed.seed,
            journal: match &args.journal {
                Some(path) => KeptIn::File(path.clone()),
                None => {
                    let output = args.stream.output.as_deref();
                    KeptIn::unnamed(output, &supervision.runs, &schedule, before)
                }
            },
            resume: args.resume,
            events: args.events.clone(),
            status: args.status.clone(),
        };
        before += 1;
        let one = ::drive::run(&schedule, &settings, &mut output, console)?;
        exit = exit.worst(one);
        if matches!(one, Exit::Signal(_)) {
            break;
        }
    }
    output.finish_events()?;
    Ok(exit)
}
