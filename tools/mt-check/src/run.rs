use check::{Inspector, Verdict};
use cli::{Console, Exit, Failure, Input, Output};

use crate::args::Args;
use crate::explain;

/// Judges every document of the inputs, in order.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let mut output = Output::open(args.output.as_deref(), false)?;
    if let Some(code) = &args.explain {
        output.text(&explain::page(code)?)?;
        output.finish()?;
        return Ok(Exit::Done);
    }
    let input = Input::open(&args.files, "documents to judge", console)?;
    let mut exit = Exit::Done;
    let mut inspector = Inspector::default();
    for document in input.any() {
        let verdict = inspector.judge(document?);
        if !verdict.ok {
            exit = Exit::Negative;
        }
        output.text(&text(&verdict, &args)?)?;
    }
    output.finish()?;
    Ok(exit)
}

fn text(verdict: &Verdict, args: &Args) -> Result<String, Failure> {
    if !args.json {
        return Ok(verdict.lines(args.verbose));
    }
    let mut line = serde_json::to_string(verdict)
        .map_err(|error| Failure::Environment(format!("cannot write the verdict: {error}")))?;
    line.push('\n');
    Ok(line)
}
