use cli::{Console, Exit, Failure, Input, Output};

use crate::args::{Args, Format};
use crate::content::Reporter;
use crate::render;
use crate::report::Report;

/// Shows every document of the inputs, in order.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let input = Input::open(&args.files, "documents to show", console)?;
    let mut output = Output::open(args.output.as_deref(), false)?;
    let mut reporter = Reporter::default();
    let mut known: Vec<&str> = Vec::new();
    let mut shown = 0;
    for document in input.any() {
        let mut report = reporter.report(&document?);
        if !args.tables.is_empty() {
            known.extend(report.tables.iter().map(|t| t.key));
            only(&mut report, &args.tables);
        } else if args.format == Format::Csv {
            // A long table holds what the others of the same report are made of.
            let long = report.tables.iter().any(|t| t.long);
            report.tables.retain(|t| t.long || !long);
        } else {
            report.tables.retain(|t| !t.long);
        }
        shown += report.tables.len();
        let first = shown == report.tables.len();
        let text = match args.format {
            Format::Table => render::terminal(&report),
            Format::Csv => render::csv(&report)?,
            Format::Md => render::markdown(&report),
        };
        if !text.is_empty() {
            output.text(if first { "" } else { "\n" })?;
            output.text(&text)?;
        }
    }
    if shown == 0 && !args.tables.is_empty() {
        known.sort_unstable();
        known.dedup();
        return Err(Failure::Usage(format!(
            "--table {}: there is no such table; the input has {}",
            args.tables.join(", "),
            known.join(", ")
        )));
    }
    output.finish()?;
    Ok(Exit::Done)
}

/// Leaves only the tables asked for, without the facts above them.
fn only(report: &mut Report, names: &[String]) {
    report.tables.retain(|t| names.iter().any(|n| n == t.key));
    report.facts.clear();
    report.notes.clear();
    if report.tables.is_empty() {
        report.title.clear();
    }
}
