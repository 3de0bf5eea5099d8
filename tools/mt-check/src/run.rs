use check::{Inspector, Verdict};
use cli::{Console, Exit, Failure, Input, Output};

use crate::args::Args;
use crate::explain;

/// Checks every document of the inputs, in order.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let mut output = Output::open(args.output.as_deref(), false)?;
    if let Some(code) = &args.explain {
        output.text(&explain::page(code)?)?;
        output.finish()?;
        return Ok(Exit::Done);
    }
    let input = Input::open(&args.files, "documents to judge", console)?;
    let mut exit = Exit::Done;
    let mut reader_is_there = true;
    let mut inspector = Inspector::default();
    for document in input.any() {
        let verdict = inspector.judge(document?);
        if !verdict.ok {
            exit = Exit::Negative;
        }
        if reader_is_there {
            match output.text(&text(&verdict, &args)?) {
                // The reader has gone, but the exit code covers all documents: go on checking.
                Err(Failure::ClosedPipe) => reader_is_there = false,
                written => written?,
            }
        }
    }
    if reader_is_there {
        output.finish()?;
    }
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
