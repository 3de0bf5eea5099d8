use std::path::Path;
use std::time::Instant;

use allocation::{Request, plan_workload};
use cli::{Console, Exit, Failure, Input, Output, provenance};
use corun::Setting;
use doc::{
    Answer, ConstraintKind, Decision, Feasible, GpuSpec, Infeasible, Model, Plan, WorkKind,
    Workload,
};
use predict::Predictor;
use units::Bytes;

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
    let mut solver = Solver { last: None };
    for model in input.documents::<Model>() {
        let started = Instant::now();
        let mut model = model?;
        if let Some(workload) = &renewed {
            renew(&mut model.workload, workload)?;
        }
        let request = args.request_for(&model, &request);
        report_aim(&model, &request, console);
        let mut plan = solver.plan(model, &request, previous.as_ref())?;
        if args.timing {
            set_seconds(&mut plan, started.elapsed().as_secs_f64());
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
                report_outside(&plan, found, &solver, console);
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

fn set_seconds(plan: &mut Plan, seconds: f64) {
    let search = match &mut plan.answer {
        Answer::Feasible(found) => Some(&mut found.search),
        Answer::Infeasible(none) => none.search.as_mut(),
        Answer::ByHand(_) => None,
    };
    if let Some(search) = search {
        search.seconds = Some(seconds);
    }
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

/// Says what of the plan the model answers without measurements nearby.
fn report_outside(plan: &Plan, found: &Feasible, solver: &Solver, console: &Console) {
    let Some(solved) = &solver.last else {
        return;
    };
    let mut gpus: std::collections::BTreeMap<u32, Vec<Setting>> = Default::default();
    for (task, chosen) in found.decisions.iter().enumerate() {
        let Decision { batch, share, .. } = *chosen;
        let on = gpus.entry(plan.tasks[task].gpu.unwrap_or(0)).or_default();
        on.push(Setting { task, batch, share });
    }
    let name = |i: usize| plan.tasks.get(i).map_or("", |t| t.id.as_str()).to_owned();
    for reason in gpus.values().flat_map(|s| solved.predictor.outside(s)) {
        console.warn(&format!(
            "the plan lies outside what was profiled: {}",
            reason.reason(name)
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
        console.error(&format!(
            "{}: {} is asked for, {} can be had; {}",
            doc::name_of(&reason.constraint),
            reason.limit,
            reason.best,
            reason.advice
        ));
    }
}

/// Plans models one after another. One whose parameters are those of the model before needs no
/// new predictor, and one that differs in its name and link alone no new search: a federation of
/// like devices is planned as fast as it is read.
struct Solver {
    last: Option<Solved>,
}

struct Solved {
    model: Model,
    predictor: Predictor,
    /// The plan of the model, which it does not hold.
    plan: Plan,
}

impl Solver {
    fn plan(
        &mut self,
        model: Model,
        request: &Request,
        previous: Option<&Plan>,
    ) -> Result<Plan, Failure> {
        let same = self.last.take().filter(|last| {
            last.model.predictor == model.predictor
                && same_tasks(&last.model.workload, &model.workload)
        });
        let solved = match same {
            Some(last) if same_problem(&last.model.workload, &model.workload) => Solved {
                plan: Plan {
                    id: model.workload.id.clone(),
                    link: model.workload.link,
                    ..last.plan
                },
                model,
                predictor: last.predictor,
            },
            Some(last) => solved(model, last.predictor, request, previous)?,
            None => {
                let predictor =
                    Predictor::from_model(&model).map_err(|e| Failure::Input(e.to_string()))?;
                solved(model, predictor, request, previous)?
            }
        };
        let mut plan = solved.plan.clone();
        plan.provenance.clone_from(&solved.model.provenance);
        plan.model = Some(solved.model.clone());
        self.last = Some(solved);
        Ok(plan)
    }
}

fn solved(
    model: Model,
    predictor: Predictor,
    request: &Request,
    previous: Option<&Plan>,
) -> Result<Solved, Failure> {
    let mut request = request.clone();
    if request.limits.memory.is_none() {
        request.limits.memory = known_memory(&model.workload);
    }
    let plan = plan_workload(&predictor, &model.workload, &request, previous)
        .map_err(|e| Failure::Input(e.to_string()))?;
    Ok(Solved {
        model,
        predictor,
        plan,
    })
}

/// Whether two workloads differ in name, link and origin at most, none of which a plan depends on.
fn same_problem(a: &Workload, b: &Workload) -> bool {
    a.device == b.device && a.tasks == b.tasks
}

/// Whether a predictor of one workload serves the other.
fn same_tasks(a: &Workload, b: &Workload) -> bool {
    let key = |w: &Workload| -> Vec<_> {
        let of = |t: &doc::Task| (t.id.clone(), t.batch_sizes.clone());
        w.tasks.iter().map(of).collect()
    };
    key(a) == key(b)
}

/// Memory of the workload's GPU, where a document or the catalogue says it.
fn known_memory(workload: &Workload) -> Option<Bytes> {
    let device = &workload.device;
    device.memory.or_else(|| {
        let bytes = match device.gpu.as_ref()? {
            GpuSpec::Named(name) => gpusim::Gpu::built_in(name).ok()?.memory_bytes()?,
            GpuSpec::Described(d) => d.memory_bytes?,
        };
        Bytes::new(bytes).ok()
    })
}
