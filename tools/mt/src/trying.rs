//! `mt try` and `mt run CMD...`: take plain commands and answer whether sharing is worth it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cli::{Console, Exit, Failure, Output};
use doc::DeviceKind;
use jobs::Signals;
use trial::{Command, Told, Trial, TrialError, TrialSettings};

use crate::args::TryArgs;

/// Default total measuring time of all stages in seconds: with start-up and the check at the end, the answer comes
/// within a minute.
const SHARED: f64 = 45.0;
/// Minimum seconds of a stage: ten steps of a script that takes half a second for each.
const SHORTEST: f64 = 5.0;
/// Maximum seconds of a stage: beyond this, drift of the machine dominates the error of a rate.
const LONGEST: f64 = 20.0;
/// Time between two progress reports of a stage.
const REDRAW: Duration = Duration::from_millis(500);

/// How long to wait for data on a pipe at standard input, in milliseconds: the command before it in a pipeline starts
/// at the same time.
const PIPED: u16 = 200;

/// Tries the commands and reports whether running them together is worth it.
pub fn run(args: &TryArgs, console: &Console) -> Result<Exit, Failure> {
    let commands = commands(args)?;
    let distinct = if args.commands.len() == 1 {
        1
    } else {
        commands.len()
    };
    let given = |name: &str, value: f64| {
        let seconds = cli::seconds(name, value).map_err(Failure::Usage)?;
        if seconds.is_zero() {
            return Err(Failure::Usage(format!("--{name} 0: give seconds above 0")));
        }
        Ok(seconds.as_secs_f64())
    };
    let asked = args
        .seconds
        .map(|value| given("seconds", value))
        .transpose()?;
    let share = SHARED / (distinct + 1) as f64;
    let folder = args.output.clone();
    let settings = TrialSettings {
        window: asked.unwrap_or(share.clamp(SHORTEST, LONGEST)),
        limit: given("limit", args.limit)?,
        folder: folder.unwrap_or_else(|| trial::free_folder("mt-try")),
    };
    ready(&commands, &settings.folder)?;
    console.say(&trial::cost(&commands, distinct, &settings));
    let signals = Signals::install(&cli::ending_signals())
        .map_err(|error| Failure::Environment(error.to_string()))?;
    let found = trial::run(&commands, &settings, signals, &mut teller(console));
    answer(&found.map_err(failure)?, &settings, console)
}

/// Runs commands to their end, together if that is worth it.
pub fn work(
    lines: &[String],
    output: Option<&PathBuf>,
    console: &Console,
) -> Result<Exit, Failure> {
    quoted(lines, "run", "")?;
    let commands = trial::distinct(parsed(lines)?);
    let folder = output
        .cloned()
        .unwrap_or_else(|| trial::free_folder("mt-run"));
    ready(&commands, &folder)?;
    let signals = Signals::install(&cli::ending_signals())
        .map_err(|error| Failure::Environment(error.to_string()))?;
    let done = trial::work(&commands, &folder, signals, &mut teller(console)).map_err(failure)?;
    let mut stdout = Output::open(None, false)?;
    stdout.text(&format!("{}\n", trial::worked(&done)))?;
    stdout.finish()?;
    match done
        .ended
        .iter()
        .all(|ended| ended.exit == jobs::Exit::Code(0))
    {
        true => Ok(Exit::Done),
        false => Err(Failure::Negative("a command failed".to_owned())),
    }
}

/// Checks the commands and their input, and creates the output folder.
fn ready(commands: &[Command], folder: &Path) -> Result<(), Failure> {
    trial::check(commands).map_err(failure)?;
    if cli::stdin_has_data(PIPED) {
        return Err(Failure::Usage(
            "standard input has data, which several runs of commands cannot share; let each command read a file \
             ('sh -c \"python3 train.py < FILE\"'), and give mt < /dev/null"
                .to_owned(),
        ));
    }
    if std::fs::symlink_metadata(folder).is_ok() {
        let folder = folder.display();
        let text = format!("the folder {folder} exists already; give another with -o DIR");
        return Err(Failure::Usage(text));
    }
    cli::make_folder(folder)
}

/// Shows messages.
fn teller(console: &Console) -> impl FnMut(Told<'_>) {
    let mut drawn = Instant::now();
    move |told| match told {
        Told::Now(..) if !console.can_redraw() || drawn.elapsed() < REDRAW => {}
        Told::Now(..) => {
            drawn = Instant::now();
            console.redraw(&console.cut(&trial::told(&told)));
        }
        Told::Happened(text) => console.warn(&text),
        told => console.say(&trial::told(&told)),
    }
}

/// Writes the workload file and prints the answer.
fn answer(found: &Trial, settings: &TrialSettings, console: &Console) -> Result<Exit, Failure> {
    let file = settings.folder.join("workload.json");
    let kind = match host::discovery::shareable(&[], 1) {
        Ok(_) => DeviceKind::Cuda,
        Err(_) => DeviceKind::Cpu,
    };
    let mut text = Vec::new();
    doc::write_pretty(&mut text, &trial::workload(found, kind)).map_err(|e| Failure::write(&e))?;
    let mut output = Output::open(Some(&file), false)?;
    output.text(&String::from_utf8_lossy(&text))?;
    output.finish()?;
    let mut stdout = Output::open(None, false)?;
    stdout.text(&format!(
        "\n{}\n{}\n",
        trial::table(found),
        trial::verdict(found)
    ))?;
    stdout.finish()?;
    console.say(&trial::next(
        found,
        &file.display().to_string(),
        &settings.folder.display().to_string(),
    ));
    Ok(Exit::Done)
}

/// Refuses a command line that was passed as several unquoted words. Several paths of programs, as in `./a.sh ./b.sh`,
/// are commands, but `sh ./b.sh` and `nice ls` are one.
fn quoted(lines: &[String], verb: &str, more: &str) -> Result<(), Failure> {
    let bare = |text: &String| !text.contains(char::is_whitespace);
    let runs = |text: &String| Command::parse(text).is_ok_and(|command| command.check().is_ok());
    let script = |text: &String| text.contains('/') && runs(text);
    let several = lines.len() > 1 && lines.iter().all(bare);
    // If the first word is no program, the message about that says more.
    if several && runs(&lines[0]) && !lines.iter().all(script) {
        let words = lines.join(" ");
        return Err(Failure::Usage(format!(
            "each command is one argument in quotes; did you mean mt {verb} '{words}'{more}?"
        )));
    }
    Ok(())
}

fn parsed(lines: &[String]) -> Result<Vec<Command>, Failure> {
    let parsed = lines.iter().map(|text| Command::parse(text));
    parsed
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::Usage(error.to_string()))
}

fn commands(args: &TryArgs) -> Result<Vec<Command>, Failure> {
    quoted(&args.commands, "try", " --copies 2")?;
    let mut commands = parsed(&args.commands)?;
    if let [one] = commands.as_slice() {
        commands = vec![one.clone(); args.copies.unwrap_or(2) as usize];
    } else if args.copies.is_some() {
        return Err(Failure::Usage(
            "--copies is for a single command; name each command as often as it is to run"
                .to_owned(),
        ));
    }
    Ok(trial::distinct(commands))
}

fn failure(error: TrialError) -> Failure {
    match error {
        TrialError::Commands(_) => Failure::Input(error.to_string()),
        TrialError::Signal(signal) => Failure::Signal(u8::try_from(signal).unwrap_or(u8::MAX)),
        TrialError::Environment(text) => Failure::Environment(text),
        TrialError::Failed(_) | TrialError::Unknown { .. } => Failure::Negative(error.to_string()),
    }
}
