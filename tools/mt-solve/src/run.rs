use std::path::Path;
use std::time::Instant;

use allocation::{Planner, Request};
use cli::{Console, Exit, Failure, Input, Output, provenance};
use doc::{Answer, ConstraintKind, Feasible, Infeasible, Model, Plan, WorkKind, Workload};

use crate::args::Args;

/// Writes a plan for every model.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let request = args.request()?;
    let previous = args
        .previous
        .as_deref()
        .map(|path| read_plan(path, console))
        .transpose()?;
    let renewed = args
        .workload
        .as_deref()
        .map(|path| read_workload(path, console))
        .transpose()?;
    let input = Input::open(&args.stream.files, "models", console)?;
    let mut output = Output::open(args.stream.output.as_deref(), args.stream.pretty)?;
    let mut exit = Exit::Done;
    let mut planner = Planner::default();
    for model in input.documents::<Model>() {
        let started = Instant::now();
        let mut model = model?;
        if let Some(workload) = &renewed {
            renew(&mut model.workload, workload)?;
        }
        let mut request = args.request_for(&model, &request);
        request.limits.memory = request
            .limits
            .memory
            .or_else(|| gpusim::known_memory(&model.workload.device));
        report_aim(&model, &request, console);
        let mut plan = planner
            .plan(model, &request, previous.as_ref())
            .map_err(|error| Failure::Input(error.to_string()))?;
        if let Some(search) = plan.search_mut().filter(|_| args.timing) {
            search.seconds = Some(started.elapsed().as_secs_f64());
        }
        let own = provenance(
            console.tool(),
            env!("CARGO_PKG_VERSION"),
            Some(args.seed.seed),
            None,
        );
        plan.provenance.push(own);
        match &plan.answer {
            Answer::Feasible(found) => {
                for reason in planner.outside(&plan, &found.decisions) {
                    console.warn(&format!(
                        "the plan lies outside what was profiled: {reason}"
                    ));
                }
                report_verdict(found, console);
            }
            Answer::Infeasible(none) => {
                exit = exit.worst(Exit::Negative);
                report_infeasible(plan.id.as_deref(), none, console);
            }
            Answer::ByHand(_) => {}
        }
        match output.document(&plan) {
            // A reader that has gone wants no more plans; what was found so far stays the answer.
            Err(Failure::ClosedPipe) => return Ok(exit),
            written => written?,
        }
    }
    output.finish()?;
    Ok(exit)
}

fn read_plan(path: &Path, console: &Console) -> Result<Plan, Failure> {
    let input = Input::open(&[path.to_owned()], "a plan", console)?;
    let mut plans = input.documents::<Plan>();
    let Some(plan) = plans.next() else {
        let text = format!("{}: holds no plan", path.display());
        return Err(Failure::Input(text));
    };
    plan
}

fn read_workload(path: &Path, console: &Console) -> Result<Workload, Failure> {
    let input = Input::open(&[path.to_owned()], "a workload", console)?;
    let mut workloads = input.documents::<Workload>();
    match (workloads.next().transpose()?, workloads.next()) {
        (Some(workload), None) => Ok(workload),
        _ => Err(Failure::Usage(
            "--workload: give a file with one workload".to_owned(),
        )),
    }
}

/// Takes what changes from round to round from `now`. Batch sizes and device stay: the model knows
/// those that were measured.
fn renew(known: &mut Workload, now: &Workload) -> Result<(), Failure> {
    let names = |w: &Workload| {
        let mut names: Vec<_> = w.tasks.iter().map(|t| t.id.to_string()).collect();
        names.sort();
        names.join(", ")
    };
    if names(known) != names(now) {
        return Err(Failure::Input(format!(
            "--workload: it has the tasks {}, the model has {}; give the same names",
            names(now),
            names(known)
        )));
    }
    for task in &mut known.tasks {
        if let Some(i) = now.task_index(&task.id) {
            let new = &now.tasks[i];
            task.samples = new.samples;
            task.update_bytes = new.update_bytes;
            task.weight = new.weight;
            task.memory = new.memory;
        }
    }
    known.link = now.link;
    if now.id.is_some() {
        known.id.clone_from(&now.id);
    }
    Ok(())
}

/// Says where the plan is for something else than what was measured.
fn report_aim(model: &Model, request: &Request, console: &Console) {
    if let Some(aim) = model.aim
        && aim.objective != request.objective
    {
        console.note(&format!(
            "the co-runs were chosen for the objective {}, the plan is for {}: profile with \
             --objective {1} for a better one",
            doc::name_of(&aim.objective),
            doc::name_of(&request.objective)
        ));
    }
}

/// Says where a simpler way does the user's own volumes sooner.
fn report_verdict(found: &Feasible, console: &Console) {
    let Some(verdict) = found.verdict.as_ref().filter(|v| v.work == WorkKind::Round) else {
        return;
    };
    let together = verdict.together.get();
    if together > verdict.one_after_another.get() * (1.0 + 1e-9) {
        console.note(&format!(
            "do not share: one task after another ends after {:.3} s, this plan after {together:.3} s",
            verdict.one_after_another.get()
        ));
    }
    if let Some((scheme, seconds)) = verdict.best_static
        && seconds.get() < together * (1.0 - 1e-9)
    {
        console.note(&format!(
            "for these samples the scheme {} ends after {:.3} s, this plan after {together:.3} s",
            doc::name_of(&scheme),
            seconds.get()
        ));
    }
}

fn report_infeasible(id: Option<&str>, none: &Infeasible, console: &Console) {
    let name = id.unwrap_or("the workload");
    console.error(&format!("no plan of {name} is feasible"));
    for reason in &none.reasons {
        if reason.constraint == ConstraintKind::Domain {
            console.error(&reason.advice);
            continue;
        }
        if reason.constraint == ConstraintKind::Domain {
            console.error(&reason.advice);
            continue;
        }
        console.error(&format!(
            "{}: {} is asked for, {} can be had; {}",
            doc::name_of(&reason.constraint),
            reason.limit,
            reason.best,
            reason.advice
        ));
    }
}
