//! `mt numbers`: what was learnt about a command template, as configuration for another system.

mod amount;
pub mod forms;
pub mod found;
mod kubernetes;
mod write;

use cli::{Console, Exit, Failure};

use super::args::QueueArg;
use super::speak::{failure, open, say, say_json};
use queue::store;

use forms::Form;
use found::Found;

/// Arguments of `numbers`.
#[derive(Debug, Clone, clap::Args)]
pub struct NumbersArgs {
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueArg,
    /// Form to print; default: a table
    #[arg(
        long = "for",
        value_enum,
        value_name = "SYSTEM",
        conflicts_with = "json"
    )]
    pub form: Option<Form>,
    /// Template, or a part of it; default: all
    #[arg(value_name = "TEMPLATE")]
    pub template: Option<String>,
}

/// Prints what was learnt.
///
/// # Errors
/// [`Failure::Usage`] if no template contains this text, or the form can express nothing of what was learnt.
pub fn print(args: &NumbersArgs, console: &Console) -> Result<Exit, Failure> {
    let queue = open(&args.queue.dir)?;
    let jobs = queue.everything().map_err(failure)?.jobs;
    let mut all = found::of(store::all(queue.folder()), &jobs);
    if let Some(part) = &args.template {
        let known: Vec<String> = all.iter().map(|found| found.template.clone()).collect();
        // A complete template takes precedence: it may also be a prefix of another.
        let whole = known.contains(part);
        all.retain(|found| match whole {
            true => found.template == *part,
            false => found.template.contains(part.as_str()),
        });
        if all.is_empty() {
            return Err(unknown(part, known));
        }
    }
    match args.form {
        Some(form) => return print_form(form, &all, console),
        None if args.queue.json => say_json(&all)?,
        None if all.is_empty() => {
            say("nothing was learnt yet: run jobs with mt sweep or mt add\n")?
        }
        None => say(&write::table(&all))?,
    }
    Ok(Exit::Done)
}

fn unknown(part: &str, mut known: Vec<String>) -> Failure {
    known.dedup();
    Failure::Usage(match known.is_empty() {
        true => format!("nothing was learnt of {part:?}, nor of any other template, in this queue"),
        false => format!(
            "nothing was learnt of {part:?}; templates are: {}",
            known.join("; ")
        ),
    })
}

/// Prints a block for each template and device, and reports those without a block, with the reason.
fn print_form(form: Form, all: &[Found], console: &Console) -> Result<Exit, Failure> {
    let mut blocks = Vec::new();
    let mut refused = Vec::new();
    for found in all {
        match forms::block(form, found) {
            Ok(block) => blocks.push(block),
            Err(why) => refused.push(format!("{}: {why}", cli::one_line(&found.template))),
        }
    }
    if blocks.is_empty() {
        return Err(Failure::Usage(match refused.is_empty() {
            true => "nothing was learnt yet: run jobs with mt sweep or mt add".to_owned(),
            false => refused.join("\n"),
        }));
    }
    for why in refused {
        console.warn(&why);
    }
    say(&forms::join(form, &blocks))?;
    Ok(Exit::Done)
}
