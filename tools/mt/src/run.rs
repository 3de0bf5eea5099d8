use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use cli::{Console, Exit, Failure, Output};
use doc::DeviceKind;
use jobs::process::again;

use crate::args::{Args, Verb};
use crate::{start, top, trying, verbs};

/// Runs the command.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    if let Some(run) = &args.guard {
        return cli::guard(|| jobs::guard::clean_up(run).map(drop));
    }
    if let Some(folder) = &args.serve {
        return verbs::serve(folder);
    }
    let Some(verb) = args.verb else {
        return help(None);
    };
    match verb {
        Verb::Try(args) => trying::run(&args, console),
        Verb::Init(args) => init(&args, console),
        Verb::Run(args) => match args.commands().map_err(Failure::Usage)? {
            Some(commands) => trying::work(&commands, args.output.as_ref(), console),
            None => start::run(&args, console),
        },
        Verb::Sweep(args) => verbs::sweep(&args, console),
        Verb::Queue(args) => verbs::queue(&args, console),
        Verb::Add(args) => verbs::add(&args, console),
        Verb::Status(args) => verbs::status(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Logs(args) => verbs::logs(&args, console),
        Verb::Results(args) => verbs::results(&args),
        Verb::Numbers(args) => verbs::numbers::print(&args, console),
        Verb::Retry(args) => verbs::retry(&args, console),
        Verb::Cancel(args) => verbs::cancel(&args, console),
        Verb::Pause(args) => verbs::pause(&args, console),
        Verb::Wait(args) => verbs::wait(&args, console),
        Verb::Exec(args) => verbs::exec(&args, console),
        Verb::Tool(tool) => {
            let (name, words) = tool.split();
            let error = start::tool(name).args(words).exec();
            Err(start::unstarted(name, &error))
        }
        Verb::Help { command } => help(command),
    }
}

/// Replaces this process by `mt COMMAND --help`, so that the tool itself prints its help.
fn help(command: Option<OsString>) -> Result<Exit, Failure> {
    let error = again().args(command).arg("--help").exec();
    Err(Failure::Environment(format!("cannot run mt: {error}")))
}

fn init(args: &start::InitArgs, console: &Console) -> Result<Exit, Failure> {
    let (workload, why) = start::workload(&start::Start {
        device: args.device.map(DeviceKind::from),
        gpu: args.gpu.clone(),
        tasks: args.tasks,
        script: args.script.clone(),
        batch_sizes: args.batch_sizes.clone(),
        samples: args.samples,
    })
    .map_err(Failure::Usage)?;
    let mut text = Vec::new();
    doc::write_pretty(&mut text, &workload).map_err(|e| Failure::write(&e))?;
    let there = fs::metadata(&args.output).is_ok_and(|found| found.is_file());
    if there && !args.force {
        return Err(Failure::Usage(format!(
            "{} exists already; give another name with -o, or --force",
            args.output.display()
        )));
    }
    let mut output = Output::open(Some(&args.output), false)?;
    output.text(&String::from_utf8_lossy(&text))?;
    output.finish()?;
    console.note(&why);
    if let Some(script) = args.script.as_ref().filter(|s| !Path::new(s).exists()) {
        console.warn(&format!(
            "{script} is not there; jobs are started in the folder in which mt run is, unless `cwd` of \
             their job names another"
        ));
    }
    let file = args.output.display().to_string();
    console.say(&start::comments(&workload, &file));
    Ok(Exit::Done)
}
