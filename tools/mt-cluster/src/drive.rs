//! `mt-cluster run`.

use ::drive::{Settings, Where};
use cli::{Console, Exit, Failure};
use doc::{DeviceKind, Schedule};

use crate::args::RunArgs;

/// Runs every schedule, one after another.
pub fn run(args: &RunArgs, console: &Console) -> Result<Exit, Failure> {
    let supervision = args.supervision.checked()?;
    let (input, mut output) = args.stream.open("schedules", console)?;
    let mut exit = Exit::Done;
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
