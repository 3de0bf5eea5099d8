use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli::{Console, Exit, Failure, Output};
use doc::DeviceKind;

use crate::args::{Args, InitArgs, Verb};
use crate::chain;

/// Does what is asked for.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    match args.verb {
        Verb::Init(args) => init(&args, console),
        Verb::Run(args) => chain::run(&args, console),
        Verb::Tool(words) => become_tool(&words),
    }
}

/// The tools that `mt` knows by their names, in the order of the pipe.
const TOOLS: [&str; 10] = [
    "profile", "fit", "solve", "overlap", "launch", "report", "check", "elastic", "cluster",
    "worker",
];

/// A tool beside this program, else on `PATH`.
pub fn tool(name: &str) -> PathBuf {
    let file = format!("mt-{name}");
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(&file)));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| file.into())
}

fn become_tool(words: &[OsString]) -> Result<Exit, Failure> {
    let (name, arguments) = words
        .split_first()
        .map_or((OsStr::new(""), words), |(name, rest)| {
            (name.as_os_str(), rest)
        });
    let Some(known) = TOOLS.iter().find(|tool| name == **tool) else {
        return Err(Failure::Usage(format!(
            "there is no mt {}; give init, run, or a tool: {}",
            name.to_string_lossy(),
            TOOLS.join(", ")
        )));
    };
    Err(missing(
        known,
        &Command::new(tool(known)).args(arguments).exec(),
    ))
}

/// A tool that cannot be started.
pub fn missing(name: &str, error: &std::io::Error) -> Failure {
    Failure::Environment(format!(
        "cannot run mt-{name}: {error}; install it beside mt, or in a folder of PATH"
    ))
}

fn init(args: &InitArgs, console: &Console) -> Result<Exit, Failure> {
    let (workload, why) = starter::workload(&starter::Start {
        device: args.device.map(DeviceKind::from),
        gpu: args.gpu.clone(),
        tasks: args.tasks,
        script: args.script.clone(),
    });
    let mut text = Vec::new();
    doc::write_pretty(&mut text, &workload).map_err(|e| Failure::write(&e))?;
    if args.output.as_os_str() == "-" {
        let mut output = Output::open(None, false)?;
        output.text(&String::from_utf8_lossy(&text))?;
        output.finish()?;
    } else {
        create(&args.output, args.force, &text)?;
    }
    console.note(&why);
    let file = args.output.display().to_string();
    console.say(&starter::comments(&workload, &file));
    Ok(Exit::Done)
}

/// Writes a file that must not be there yet, unless it may be replaced.
fn create(path: &Path, replace: bool, text: &[u8]) -> Result<(), Failure> {
    if replace {
        let mut output = Output::open(Some(path), false)?;
        output.text(&String::from_utf8_lossy(text))?;
        return output.finish();
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    match file {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Failure::Usage(format!(
                "{} is there already; give another name with -o, or --force",
                path.display()
            )))
        }
        file => file
            .and_then(|mut file| file.write_all(text))
            .map_err(|error| Failure::file(path, &error)),
    }
}
