use cli::{Console, Existing, Exit, Failure, Input, Output};
use doc::{Any, DeviceKind};
use launch::{Elastic, Launch, Settings};

use crate::args::Args;

/// Launches every plan or timeline, one after another.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    if let Some(verb) = args.verb {
        return verb.run(console);
    }
    if let Some(run) = &args.guard {
        return cli::guard(|| jobs::guard::clean_up(run).map(drop));
    }
    let settings = args.care.settings()?;
    let input = Input::open(&args.files, "plans or timelines", console)?;
    let existing = Existing {
        replace: args.force,
        continues: None,
    };
    let mut output = Output::progressive(args.output.as_deref(), existing)?;
    let mut exit = Exit::Done;
    for document in input.any() {
        if !args.controller.is_empty() {
            let one = moved(document?, &args, &settings, &mut output, console)?;
            exit = exit.worst(one);
            if matches!(one, Exit::Signal(_)) {
                break;
            }
            continue;
        }
        let planned = Launch::new(document?, args.device.map(DeviceKind::from))?;
        if args.dry_run {
            output.text(&launch::shell_lines(&planned, args.rounds))?;
        } else {
            let how = (args.rounds, args.seed.seed);
            let one = launch::run(&planned, &settings, how, &mut output, console)?;
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

/// Runs the tasks of a document under a controller.
fn moved(
    document: Any,
    args: &Args,
    settings: &Settings,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    let mut workload = launch::workload_of(document)?;
    if let Some(kind) = args.device {
        workload.device.kind = kind.into();
    }
    let elastic = Elastic {
        controller: args.controller.clone(),
        arrivals: args.arrivals.clone(),
    };
    launch::run_elastic(&workload, settings, &elastic, output, console)
}
