use cli::{Console, Exit, Failure, Input, Output};
use report::{RenderError, Report, Reporter};

use crate::args::{Args, Format};

/// Shows every document of the inputs, in order.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let input = Input::open(&args.files, "documents to show", console)?;
    let mut output = Output::open(args.output.as_deref(), false)?;
    let mut reporter = Reporter::default();
    let mut known = Names::default();
    // Pictures, pages and traces are one file for all documents; text can be written document by
    // document.
    let whole = matches!(args.format, Format::Svg | Format::Html | Format::Perfetto);
    let mut kept = Vec::new();
    let mut first = true;
    // Names of tables and pictures are checked only at the end, so nothing is written before.
    let named = !(args.tables.is_empty() && args.pictures.is_empty());
    let mut held = String::new();
    let mut documents = input.any();
    loop {
        let document = documents.next().transpose()?;
        let report = match &document {
            Some(document) => Some(reporter.report(document)),
            None => reporter.finish(),
        };
        let Some(mut report) = report else { break };
        known.add(&report);
        select(&mut report, &args);
        if whole {
            kept.push(report);
        } else {
            let text = rendered(&report, args.format, output.width())?;
            if !text.is_empty() {
                held.push_str(if first { "" } else { "\n" });
                held.push_str(&text);
                first = false;
            }
        }
        if !named {
            output.text(&std::mem::take(&mut held))?;
        }
        if document.is_none() {
            break;
        }
    }
    known.check(&args)?;
    output.text(&held)?;
    if whole {
        output.text(&one_file(args.format, &kept)?)?;
    }
    output.finish()?;
    Ok(Exit::Done)
}

fn rendered(report: &Report, format: Format, width: Option<u16>) -> Result<String, Failure> {
    Ok(match format {
        Format::Csv => report::csv(report).map_err(failure)?,
        Format::Md => report::markdown(report),
        _ => report::terminal(report, width),
    })
}

fn one_file(format: Format, reports: &[Report]) -> Result<String, Failure> {
    match format {
        Format::Html => Ok(report::html(reports)),
        Format::Perfetto => report::perfetto(reports).map_err(failure),
        _ => report::svg(reports).map_err(failure),
    }
}

fn failure(error: RenderError) -> Failure {
    match error {
        RenderError::NothingOverTime | RenderError::NothingToDraw => {
            Failure::Input(error.to_string())
        }
        RenderError::Csv(_) | RenderError::Trace(_) => Failure::Environment(error.to_string()),
    }
}

/// Keeps only what was requested. Facts and notes are dropped if only tables or pictures are wanted.
fn select(report: &mut Report, args: &Args) {
    let wanted = |names: &[String], key: &str| names.iter().any(|n| n == key);
    if !args.pictures.is_empty() || !args.tables.is_empty() {
        report.pictures.retain(|p| wanted(&args.pictures, p.key));
        report.tables.retain(|t| wanted(&args.tables, t.key));
        report.facts.clear();
        report.notes.clear();
        report.headline.clear();
        report.legend.clear();
        if report.tables.is_empty() && report.pictures.is_empty() {
            report.title.clear();
        }
    } else if args.format == Format::Csv {
        // A long table has the raw data of the report's other tables.
        let long = report.tables.iter().any(|t| t.long);
        report.tables.retain(|t| t.long || !long);
    } else {
        report.tables.retain(|t| !t.long);
    }
}

/// Names of the tables and pictures of the input.
#[derive(Default)]
struct Names {
    tables: Vec<&'static str>,
    pictures: Vec<&'static str>,
}

impl Names {
    fn add(&mut self, report: &Report) {
        self.tables.extend(report.tables.iter().map(|t| t.key));
        self.pictures.extend(report.pictures.iter().map(|p| p.key));
    }

    /// Reports a requested name that does not exist: a typing error.
    fn check(mut self, args: &Args) -> Result<(), Failure> {
        one_of("--table", &args.tables, &mut self.tables)?;
        one_of("--picture", &args.pictures, &mut self.pictures)
    }
}

fn one_of(option: &str, wanted: &[String], known: &mut Vec<&'static str>) -> Result<(), Failure> {
    known.sort_unstable();
    known.dedup();
    match wanted.iter().find(|w| !known.contains(&w.as_str())) {
        None => Ok(()),
        Some(name) => Err(Failure::Usage(format!(
            "{option} {name}: the input has none of this name; it has {}",
            if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            }
        ))),
    }
}
