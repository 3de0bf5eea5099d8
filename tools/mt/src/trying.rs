//! `mt try`: plain commands in, an answer out.

use std::time::{Duration, Instant};

use cli::{Console, Exit, Failure, Output};
use doc::DeviceKind;
use jobs::Signals;
use trial::{Command, Told, Trial, TrialError, TrialSettings};

use crate::args::TryArgs;

/// Default total seconds of progress over all stages: with start-up and the check at the end, the answer comes within
/// a minute.
const SHARED: f64 = 45.0;
/// Minimum seconds of a stage: ten steps of a script that takes half a second for each.
const SHORTEST: f64 = 5.0;
/// Maximum seconds of a stage: beyond this, the error of a rate is due to the machine's drift.
const LONGEST: f64 = 20.0;
/// How often progress of a stage is reported.
const REDRAW: Duration = Duration::from_millis(500);

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
    trial::check(&commands).map_err(failure)?;
    if std::fs::symlink_metadata(&settings.folder).is_ok() {
        let folder = settings.folder.display();
        let text = format!("the folder {folder} exists already; give another with -o DIR");
        return Err(Failure::Usage(text));
    }
    cli::make_folder(&settings.folder)?;
    console.say(&trial::cost(&commands, distinct, &settings));
    let signals = Signals::install(&cli::ending_signals())
        .map_err(|error| Failure::Environment(error.to_string()))?;
    let mut drawn = Instant::now();
    let found = trial::run(&commands, &settings, signals, &mut |told| match told {
        Told::Now(..) if !console.can_redraw() || drawn.elapsed() < REDRAW => {}
        Told::Now(..) => {
            drawn = Instant::now();
            console.redraw(&console.cut(&trial::told(&told)));
        }
        Told::Happened(text) => console.warn(&text),
        told => console.say(&trial::told(&told)),
    });
    answer(&found.map_err(failure)?, args, &settings, console)
}

/// Writes the workload and prints the answer.
fn answer(
    found: &Trial,
    args: &TryArgs,
    settings: &TrialSettings,
    console: &Console,
) -> Result<Exit, Failure> {
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
    let file = file.display();
    console.say(&format!(
        "next: mt run {file}   measures shares and launches the best way; after Ctrl-C, mt run {file} --resume\n\
         longer looks: mt try --seconds {:.0} ...; what the commands printed is in {}",
        3.0 * args.seconds.unwrap_or(LONGEST),
        settings.folder.display()
    ));
    Ok(Exit::Done)
}

fn commands(args: &TryArgs) -> Result<Vec<Command>, Failure> {
    let bare = |text: &String| !text.contains(char::is_whitespace);
    if args.commands.len() > 1 && args.commands.iter().all(bare) {
        let words = args.commands.join(" ");
        return Err(Failure::Usage(format!(
            "each command is one argument in quotes; did you mean mt try '{words}' --copies 2?"
        )));
    }
    let parsed = args.commands.iter().map(|text| Command::parse(text));
    let mut commands = parsed
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::Usage(error.to_string()))?;
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
