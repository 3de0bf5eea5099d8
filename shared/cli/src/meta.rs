use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Parser};
use clap_complete::Shell;

use crate::{Console, Exit, Failure, Output, manual};

/// Runs a tool: parses its arguments, calls `run`, prints what failed, and maps the end to an
/// exit code. Adds `--completions SHELL` and `--man` to the arguments of `A`.
///
/// Bad usage exits with 2; `--help` and `--version` with 0.
pub fn run<A: Parser>(
    tool: &'static str,
    run: impl FnOnce(A, &Console) -> Result<Exit, Failure>,
) -> ExitCode {
    let console = Console::new(tool);
    survive_size_limits();
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
    console.finish();
    exit.into()
}

/// Makes a write beyond the limit on file sizes (`ulimit -f`) fail like one on a full disk. By
/// default SIGXFSZ ends the process with a core dump, and temporary files stay. A handler, and not
/// SIG_IGN: that would be inherited by the jobs that are started.
fn survive_size_limits() {
    let noted = Arc::new(AtomicBool::new(false));
    // Where it cannot be had, the default is what is left.
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noted).ok();
}

fn parse<A: Parser>(tool: &'static str) -> Result<Option<A>, Failure> {
    let mut command = with_meta_arguments(A::command().name(tool).bin_name(tool));
    let matches = match command.try_get_matches_from_mut(std::env::args_os()) {
        Ok(matches) => matches,
        Err(error) => return usage(tool, &error),
    };
    if let Some(text) = meta_text(&mut command, tool, &matches) {
        let mut output = Output::open(None, false)?;
        output.text(&String::from_utf8_lossy(&text))?;
        return output.finish().map(|()| None);
    }
    match A::from_arg_matches(&matches) {
        Ok(arguments) => Ok(Some(arguments)),
        Err(error) => usage(tool, &error),
    }
}

fn with_meta_arguments(command: Command) -> Command {
    command
        // Required of what is no meta argument: the derived parser asks for it again.
        .subcommand_required(false)
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
        return manual::page(command.clone(), tool).ok();
    }
    None
}

fn usage<A>(tool: &str, error: &clap::Error) -> Result<Option<A>, Failure> {
    let help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if help {
        // Opened to see that there is one; clap prints with the colours of a terminal.
        Output::open(None, false)?;
        return match error.print() {
            Ok(()) => Ok(None),
            Err(error) => Err(Failure::write(&error)),
        };
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    Err(Failure::Usage(format!("{text}\n{tool} --help says more")))
}
