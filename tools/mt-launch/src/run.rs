use cli::{Console, Exit, Failure, Output};
use doc::{Any, DeviceKind, Schedule};
use drive::Where;
use launch::learn::{self, Course};
use launch::{Elastic, Launch, LaunchSettings};

use crate::args::Args;

/// Launches every plan or timeline, one after another.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    if let Some(verb) = args.verb {
        return verb.run(console);
    }
    if let Some(run) = &args.guard {
        return cli::guard(|| jobs::guard::clean_up(run).map(drop));
    }
    args.check_controller()?;
    let settings = args.supervision.settings()?;
    let what = "plans, timelines or schedules";
    let (input, mut output) = args.stream.open(what, console)?;
    let mut exit = Exit::Done;
    for document in input.named() {
        let (source, document) = document?;
        let ended = one(source, document, &args, &settings, &mut output, console)?;
        exit = exit.worst(ended);
        // A signal ends the tool, not only the current launch.
        if matches!(ended, Exit::Signal(_)) {
            break;
        }
    }
    output.finish_events(exit, console)
}

fn one(
    source: String,
    document: Any,
    args: &Args,
    settings: &LaunchSettings,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    let device = args.device.map(DeviceKind::from);
    if !args.controller.is_empty() {
        let elastic = Elastic {
            controller: args.controller.clone(),
            arrivals: args.arrivals.clone(),
            parts: args.parts,
            others: args.others,
        };
        let workload = launch::workload_of(document, device).map_err(|f| f.of_source(&source))?;
        return launch::run_elastic(&workload, settings, &elastic, output, console);
    }
    if let Any::Schedule(schedule) = &document {
        return scheduled(schedule, args, settings, output, console);
    }
    let planned = if let (true, Any::Workload(_)) = (args.learn, &document) {
        let workload = launch::workload_of(document, device)?;
        let shares = learn::prior(workload.tasks.len());
        Launch::of_workload(workload, &shares).map_err(|f| f.of_source(&source))?
    } else {
        Launch::new(document, device).map_err(|f| f.of_source(&source))?
    };
    if !args.only.is_empty() && !planned.holds().is_empty() {
        console.note(
            "--only: the waits of the timeline assume all of its tasks; the launched tasks do not wait",
        );
    }
    let planned = planned.only(&args.only)?;
    let end = args.round.checked_add(args.rounds).ok_or_else(|| {
        let last = u32::MAX - args.rounds;
        Failure::Usage(format!(
            "--round {}: with --rounds {} give at most {last}",
            args.round, args.rounds
        ))
    })?;
    let rounds = args.round..end;
    if args.dry_run {
        output.text(&launch::shell_lines(&planned, rounds, settings))?;
        return Ok(Exit::Done);
    }
    let course = match args.learn {
        true => Some(course(&planned, args, console)?),
        false => None,
    };
    let seed = args.seed.seed;
    launch::run(&planned, settings, rounds, seed, course, output, console)
}

/// Prepares learning from the rounds of this launch and of earlier ones.
fn course(planned: &Launch, args: &Args, console: &Console) -> Result<Course, Failure> {
    if planned.timeline.is_some() {
        let text = "--learn: a timeline holds for its own shares; give the plan or the workload";
        return Err(Failure::Usage(text.to_owned()));
    }
    let tasks = planned.plan.tasks.iter().map(|t| t.id.clone());
    let shares = planned.assignments().map(|a| a.share);
    let mut course = Course::new(tasks.collect(), shares.collect(), args.rounds);
    let learnt = course.remember(&args.known, console)?;
    if !args.known.is_empty() {
        console.note(&format!("{learnt} earlier rounds are known"));
    }
    Ok(course)
}

/// Runs a schedule of many jobs on the GPUs of this machine.
fn scheduled(
    schedule: &Schedule,
    args: &Args,
    settings: &LaunchSettings,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    let place = Where::on(args.device.map(DeviceKind::from), &schedule.cluster)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    if args.dry_run || args.rounds > 1 || args.round > 0 || !args.only.is_empty() || args.learn {
        let which = "--dry-run, --rounds, --round, --only and --learn";
        let text = format!("{which} are for plans and timelines, not for schedules");
        return Err(Failure::Usage(text));
    }
    args.supervision.refuse_for_schedules()?;
    let settings = drive::Settings {
        place,
        supervision: settings.supervision.clone(),
        limits: args.supervision.limits.limits(None, &mut Vec::new()),
        metrics: settings.metrics.clone(),
        attach_mps: settings.attach_mps,
        seed: args.seed.seed,
        journal: {
            let runs = &settings.supervision.runs;
            drive::KeptIn::unnamed(args.stream.output.as_deref(), runs, schedule, 0)
        },
        resume: false,
        events: None,
        status: None,
    };
    drive::run(schedule, &settings, output, console)
}
