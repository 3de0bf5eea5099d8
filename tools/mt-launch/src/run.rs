use cli::{Console, Exit, Failure, Input, Output};
use doc::DeviceKind;

use crate::args::Args;
use crate::launch::Launch;
use crate::settings::Settings;
use crate::{guard, live, script, simulate};

/// Launches every plan or timeline, one after another.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    if let Some(run) = &args.guard {
        return guard::watch(run, console);
    }
    let settings = Settings::new(&args.care)?;
    let input = Input::open(&args.files, "plans or timelines", console)?;
    let mut output = Output::progressive(args.output.as_deref())?;
    let mut exit = Exit::Done;
    for document in input.any() {
        let launch = Launch::new(document?, args.device.map(DeviceKind::from))?;
        if args.dry_run {
            output.text(&script::shell_lines(&launch, args.rounds))?;
        } else {
            exit = exit.worst(one(&launch, &args, &settings, &mut output, console)?);
        }
    }
    output.finish()?;
    Ok(exit)
}

fn one(
    launch: &Launch,
    args: &Args,
    settings: &Settings,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    match launch.workload.device.kind {
        DeviceKind::Auto | DeviceKind::Sim => simulate::run(launch, args, output, console),
        _ => live::run(launch, settings, args.rounds, output, console),
    }
}
