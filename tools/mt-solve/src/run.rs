use std::time::Instant;

use allocation::{OnlyError, Planner, notes, plan_only};
use cli::{Console, Exit, Failure, Input, Output};
use doc::{Answer, Model, Plan, Workload};

use crate::args::Args;
use crate::predict::predict;

/// Writes a plan for every model.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    if let Some(table) = &args.predict {
        return predict(table, &args, console);
    }
    let request = args.request()?;
    let stream = &args.stream;
    let previous = args
        .previous
        .as_deref()
        .map(|path| stream.one::<Plan>("--previous", path, "a plan", console))
        .transpose()?;
    let renewed = args
        .workload
        .as_deref()
        .map(|path| stream.one::<Workload>("--workload", path, "a workload", console))
        .transpose()?;
    let input = Input::open(&args.stream.files, "models", console)?;
    let mut output = Output::open(args.stream.output.as_deref(), args.stream.pretty)?;
    let mut exit = Exit::Done;
    let mut planner = Planner::default();
    for model in input.documents::<Model>() {
        let started = Instant::now();
        let mut model = model?;
        if let Some(workload) = &renewed {
            let renewed = model.workload.renew(workload);
            renewed.map_err(|error| Failure::Input(format!("--workload: {error}")))?;
        }
        let mut request = request.for_model(&args.asked(), &model);
        request.limits.memory = request
            .limits
            .memory
            .or_else(|| gpusim::known_memory(&model.workload.device));
        for note in notes::measurements(&model, &request) {
            console.note(&note);
        }
        let (mut plan, outside) = if args.only.is_empty() {
            let plan = planner
                .plan(model, &request, previous.as_ref())
                .map_err(|error| Failure::Input(error.to_string()))?;
            let outside = planner.outside(&plan);
            (plan, outside)
        } else {
            plan_only(model, &args.only, &request, previous.as_ref()).map_err(
                |error| match error {
                    OnlyError::Planner(_) => Failure::Input(error.to_string()),
                    _ => Failure::Usage(error.to_string()),
                },
            )?
        };
        if let Some(search) = plan.search_mut().filter(|_| args.timing) {
            search.seconds = Some(started.elapsed().as_secs_f64());
        }
        let own = console.provenance(Some(args.seed.seed), None);
        plan.provenance.push(own);
        exit = exit.worst(tell(&plan, &outside, console));
        match output.document(&plan) {
            // The reader has gone: no more plans are needed, and the exit code covers the plans so
            // far.
            Err(Failure::ClosedPipe) => return Ok(exit),
            written => written?,
        }
    }
    output.finish()?;
    Ok(exit)
}

/// Reports what users should know about a plan; returns its contribution to the exit code.
fn tell(plan: &Plan, outside: &[String], console: &Console) -> Exit {
    match &plan.answer {
        Answer::Feasible(_) => {
            let transfers = plan.workload().and_then(notes::transfers);
            let notes = transfers.into_iter().chain(report::verdict_note(plan));
            for note in notes
                .chain(notes::prediction(plan))
                .chain(notes::sizes(plan))
            {
                console.note(&note);
            }
            for reason in outside {
                console.warn(&format!(
                    "the plan lies outside what was profiled: {reason}"
                ));
            }
            Exit::Done
        }
        Answer::Infeasible(none) => {
            for line in notes::infeasible(plan.id.as_deref(), none) {
                console.error(&line);
            }
            Exit::Negative
        }
        Answer::ByHand(_) => Exit::Done,
    }
}
