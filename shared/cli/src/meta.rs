use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Parser};
use clap_complete::Shell;
use doc::Provenance;

use crate::{Console, Exit, Failure};

/// Runs a tool: parses its arguments, calls `run`, prints what failed, and maps the end to an
/// exit code. Adds `--completions SHELL` and `--man` to the arguments of `A`.
///
/// Bad usage exits with 2; `--help` and `--version` with 0.
pub fn run<A: Parser>(
    tool: &'static str,
    run: impl FnOnce(A, &Console) -> Result<Exit, Failure>,
) -> ExitCode {
    let console = Console::new(tool);
    let result = parse::<A>(tool).and_then(|arguments| match arguments {
        None => Ok(Exit::Done),
        Some(arguments) => run(arguments, &console),
    });
    let exit = result.unwrap_or_else(|failure| {
        if !matches!(failure, Failure::ClosedPipe) {
            console.error(&failure.to_string());
        }
        failure.exit()
    });
    exit.into()
}

/// The provenance entry of a tool.
#[must_use]
pub fn provenance(
    tool: &str,
    version: &str,
    seed: Option<u64>,
    device: Option<String>,
) -> Provenance {
    Provenance {
        tool: tool.to_owned(),
        version: version.to_owned(),
        seed,
        device,
    }
}

fn parse<A: Parser>(tool: &'static str) -> Result<Option<A>, Failure> {
    let mut command = with_meta_arguments(A::command().name(tool).bin_name(tool));
    let matches = match command.try_get_matches_from_mut(std::env::args_os()) {
        Ok(matches) => matches,
        Err(error) => return usage(tool, &error),
    };
    if let Some(text) = meta_text(&mut command, tool, &matches) {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&text).and_then(|()| stdout.flush());
        return written
            .map(|()| None)
            .map_err(|error| Failure::write(&error));
    }
    match A::from_arg_matches(&matches) {
        Ok(arguments) => Ok(Some(arguments)),
        Err(error) => usage(tool, &error),
    }
}

fn with_meta_arguments(command: Command) -> Command {
    command
        .arg(
            Arg::new("completions")
                .long("completions")
                .value_name("SHELL")
                .value_parser(clap::value_parser!(Shell))
                .exclusive(true)
                .help("Print the completion script of a shell"),
        )
        .arg(
            Arg::new("man")
                .long("man")
                .action(ArgAction::SetTrue)
                .exclusive(true)
                .help("Print the manual page"),
        )
}

fn meta_text(command: &mut Command, tool: &str, matches: &ArgMatches) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(shell) = matches.get_one::<Shell>("completions") {
        clap_complete::generate(*shell, command, tool, &mut text);
        return Some(text);
    }
    if matches.get_flag("man") {
        // Writing to memory cannot fail.
        clap_mangen::Man::new(command.clone())
            .render(&mut text)
            .ok()?;
        return Some(text);
    }
    None
}

fn usage<A>(tool: &str, error: &clap::Error) -> Result<Option<A>, Failure> {
    let help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if help {
        return match error.print() {
            Ok(()) => Ok(None),
            Err(error) => Err(Failure::write(&error)),
        };
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    Err(Failure::Usage(format!("{text}\n{tool} --help says more")))
}
