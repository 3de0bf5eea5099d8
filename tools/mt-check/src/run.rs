use cli::{Console, Exit, Failure, Input, Output};
use doc::{Any, Model};

use crate::args::Args;
use crate::judge::Judge;
use crate::model::Refit;
use crate::verdict::Verdict;
use crate::{explain, model, plan, profile, run_log, timeline, workload};

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
    // A model can be fitted again if its profile stands before it.
    let mut refits: Vec<Refit> = Vec::new();
    for document in input.any() {
        let document = document?;
        let verdict = judge(&document, &refits);
        if let Any::Profile(last) = document {
            refits.push(Refit::new(last));
        }
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

/// Judges one document; `refits` are the profiles before it.
fn judge(document: &Any, refits: &[Refit]) -> Verdict {
    let mut judge = Judge::new();
    let j = &mut judge;
    let (kind, id) = match document {
        Any::Workload(w) => {
            workload::judge(w, j);
            ("workload", w.id.clone())
        }
        Any::Profile(p) => {
            profile::judge(p, j);
            ("profile", p.header.workload.id.clone())
        }
        Any::Model(m) => {
            model::judge(m, j);
            fitted_again(m, refits, j);
            ("model", m.workload.id.clone())
        }
        Any::Plan(p) => {
            plan::judge(p, j);
            ("plan", p.id.clone())
        }
        Any::Timeline(t) => {
            timeline::judge(t, j);
            ("timeline", t.id.clone())
        }
        Any::Run(events) => {
            let id = run_log::judge(events, j);
            ("run", id)
        }
    };
    Verdict::new(kind, id, judge)
}

/// Judges a model by its profile, if that stands before it.
fn fitted_again(model: &Model, refits: &[Refit], j: &mut Judge) {
    match (refits.iter().rev().find(|r| r.concerns(model)), refits) {
        (Some(refit), _) => refit.judge(model, j),
        (None, [only]) if only.resembles(model) => {
            j.lie(
                "workload",
                "this workload and device",
                "those of the profile before it",
            );
        }
        _ => j.unjudged("predictor", "give its profile before it to fit it again"),
    }
}
