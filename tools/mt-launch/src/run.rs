use cli::{Console, Existing, Exit, Failure, Input, Output};
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
    let existing = Existing {
        replace: args.force,
        continues: None,
    };
    let mut output = Output::progressive(args.output.as_deref(), existing)?;
    let mut exit = Exit::Done;
    for document in input.any() {
        let launch = Launch::new(document?, args.device.map(DeviceKind::from))?;
        if args.dry_run {
            output.text(&script::shell_lines(&launch, args.rounds))?;
        } else {
            let one = one(&launch, &args, &settings, &mut output, console)?;
            exit = exit.worst(one);
            // A signal is meant for the tool, not for the first of its launches.
            if matches!(one, Exit::Signal(_)) {
                break;
            }
        }
    }
    match output.finish() {
        // Whether the jobs could finish without a reader is known, and is the answer.
        Err(Failure::ClosedPipe) => {}
        finished => finished?,
    }
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
