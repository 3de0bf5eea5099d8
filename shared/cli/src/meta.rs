use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Parser};
use clap_complete::Shell;

use crate::{Console, Exit, Failure, Output, manual};

/// Runs a tool: parses its arguments, calls `run`, prints errors, and returns the exit code. Adds `--completions
/// SHELL` and `--man` to the arguments of `A`.
///
/// Bad usage exits with 2; `--help` and `--version` with 0.
pub fn run<A: Parser>(
    tool: &'static str,
    run: impl FnOnce(A, &Console) -> Result<Exit, Failure>,
) -> ExitCode {
    let console = Console::new(tool);
    survive_size_limits();
    let result = match matched(tool, A::command()) {
        Err(failure) => Err(failure),
        Ok(Err(ended)) => Ok(ended),
        Ok(Ok(matches)) => match A::from_arg_matches(&matches) {
            Ok(arguments) => run(arguments, &console),
            Err(error) => usage(tool, &error),
        },
    };
    ended(result, &console)
}

/// Prints the error and all queued text, and returns the exit code.
fn ended(result: Result<Exit, Failure>, console: &Console) -> ExitCode {
    let exit = result.unwrap_or_else(|failure| {
        if !matches!(failure, Failure::ClosedPipe) {
            console.error(&failure.to_string());
        }
        failure.exit()
    });
    console.finish();
    exit.into()
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail like one on a full disk. By default SIGXFSZ ends the
/// process with a core dump, and temporary files remain. It uses a handler instead of SIG_IGN, because started jobs
/// would inherit the latter.
fn survive_size_limits() {
    let noted = Arc::new(AtomicBool::new(false));
    // If the handler cannot be installed, the default remains.
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noted).ok();
}

/// The arguments of a tool, or its exit if they only request text, such as `--help`. Not generic, so it is compiled
/// once.
fn matched(tool: &'static str, command: Command) -> Result<Result<ArgMatches, Exit>, Failure> {
    // `--seconds -1` gets the message of the range, not that of an unknown option.
    let command = filled(command)
        .allow_negative_numbers(true)
        .mut_subcommands(|verb| filled(verb).allow_negative_numbers(true));
    let mut command = with_meta_arguments(command.name(tool).bin_name(tool));
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(verb) = misspelt_verb(&command, &words) {
        let word = words[1].to_string_lossy();
        return Err(Failure::Usage(format!(
            "there is no file and no command {word}; did you mean {tool} {verb}?"
        )));
    }
    if let Some(text) = page_of_verb(&command, tool, &words) {
        return printed(&text).map(Err);
    }
    let matches = match command.try_get_matches_from_mut(&words) {
        Ok(matches) => matches,
        Err(error) => return usage(&asked_for(&command, tool, &words), &error).map(Err),
    };
    match meta_text(&mut command, tool, &matches) {
        Some(text) => printed(&text).map(Err),
        None => Ok(Ok(matches)),
    }
}

fn printed(text: &[u8]) -> Result<Exit, Failure> {
    let mut output = Output::open(None, false)?;
    output.text(&String::from_utf8_lossy(text))?;
    output.finish().map(|()| Exit::Done)
}

/// For `mt try --man`: the page of a command, named `mt-try`. `--man` is not an argument of each command, because some
/// commands take all following words as a program with its arguments.
fn page_of_verb(command: &Command, tool: &str, words: &[OsString]) -> Option<Vec<u8>> {
    let [_, verb, man] = words else { return None };
    let verb = command.find_subcommand(verb).filter(|_| man == "--man")?;
    let asked = asked_for(command, tool, words);
    // clap needs a `'static` name. Leaking it is harmless, since the process ends after this page.
    let page: &'static str = asked.replace(' ', "-").leak();
    let verb = verb.clone().name(page).bin_name(asked);
    // Writing to memory cannot fail.
    let verb = verb
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(true);
    manual::page(verb, page).ok()
}

/// The command with each paragraph after its options on one line. The source breaks lines for readability, and clap
/// would break the short lines again at the width of the terminal. Indented lines, which are examples, are kept.
fn filled(command: Command) -> Command {
    let Some(text) = command.get_after_help().map(ToString::to_string) else {
        return command;
    };
    debug_assert!(!text.contains("{n}"), "clap writes a new line for {{n}}");
    let mut lines: Vec<String> = Vec::new();
    for line in text.trim_end().lines() {
        let flows = |line: &str| !line.is_empty() && !line.starts_with(' ');
        let explains = |line: &str| line.starts_with(EXPLANATION) && !line[6..].starts_with(' ');
        match lines.last_mut() {
            Some(last) if flows(last) && flows(line) => *last += &format!(" {line}"),
            Some(last) if explains(last) && explains(line) => *last += &line[5..],
            _ => lines.push(line.to_owned()),
        }
    }
    command.after_help(lines.join("\n"))
}

/// Indentation of the explanation of an example.
const EXPLANATION: &str = "      ";

/// Similarity (Jaro-Winkler) from which a word without a dot or a slash counts as a misspelt command: `exce`, `envv`
/// and `exe` do, while `plan`, `run` and `events` do not.
const ALIKE: f64 = 0.85;

/// The command that a first word probably means, if it is neither a command nor a file. Without this check, tools that
/// read files and also have commands would take the word for a file, and complain about the options of the command
/// first.
fn misspelt_verb<'a>(command: &'a Command, words: &[OsString]) -> Option<&'a str> {
    let word = words.get(1)?.to_str()?;
    let verbs = command.get_subcommands().filter(|c| !c.is_hide_set());
    let files = command.get_positionals().next().is_some();
    let name = word.chars().all(|c| c.is_ascii_alphabetic());
    if !files || !name || command.find_subcommand(word).is_some() || Path::new(word).exists() {
        return None;
    }
    let likeness = |verb: &Command| strsim::jaro_winkler(verb.get_name(), word);
    let nearest = verbs.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(nearest) >= ALIKE).then(|| nearest.get_name())
}

/// The tool, or its command if the words name one: the name to use in "see `NAME --help`".
fn asked_for(command: &Command, tool: &str, words: &[OsString]) -> String {
    let verb = words.get(1).and_then(|word| command.find_subcommand(word));
    verb.map_or_else(
        || tool.to_owned(),
        |verb| format!("{tool} {}", verb.get_name()),
    )
}

fn with_meta_arguments(command: Command) -> Command {
    command
        // Not required with a meta argument; otherwise, the derived parser requires it again.
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

/// How the standard library explains a value that is no number, and what would be right.
const NUMBERS: [(&str, &str); 6] = [
    ("invalid digit found in string", "give a whole number"),
    (
        "cannot parse integer from empty string",
        "give a whole number",
    ),
    (
        "number too large to fit in target type",
        "give a smaller number",
    ),
    (
        "number too small to fit in target type",
        "give a larger number",
    ),
    ("invalid float literal", "give a number"),
    ("cannot parse float from empty string", "give a number"),
];

/// A message of clap in words for users.
fn in_words(text: &str) -> String {
    // Only where numbers have no sign is the sign of one an invalid digit.
    let negative = text.contains("invalid value '-");
    let replaced = |text: String, (said, better): &(&str, &str)| {
        let least = if negative { ", 0 or more" } else { "" };
        text.replace(&format!(": {said}"), &format!(": {better}{least}"))
    };
    NUMBERS.iter().fold(text.to_owned(), replaced)
}

/// Prints the requested help, or refuses with clap's message, without its empty lines and its own line about
/// `--help`, which does not name the command.
fn usage(asked: &str, error: &clap::Error) -> Result<Exit, Failure> {
    let exit = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Open standard output only to check that it exists; clap prints the text, with colours on a terminal.
            Output::open(None, false)?;
            Exit::Done
        }
        // Print the help to standard error unchanged, because it is a page and not a message.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Exit::BadInput,
        _ => {
            let rendered = error.render().to_string();
            let text = in_words(rendered.strip_prefix("error: ").unwrap_or(&rendered));
            let lines = text.lines().filter(|line| {
                let line = line.trim_end();
                !line.is_empty() && !line.starts_with("For more information, try")
            });
            let lines: Vec<&str> = lines.collect();
            let text = lines.join("\n");
            return Err(Failure::Usage(format!("{text}\n{asked} --help says more")));
        }
    };
    match error.print() {
        Ok(()) => Ok(exit),
        Err(error) => Err(Failure::write(&error)),
    }
}
