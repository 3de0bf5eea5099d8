use std::time::Instant;

use cli::{Console, Exit, Failure, Input, Output};
use doc::{Model, Plan, Timeline};
use overlap::{Federation, Options, PlanError, PlanRequest, order_plan};
use predict::Predictor;

use crate::args::Args;

/// Writes a timeline for every plan.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let mut request = args.request()?;
    if let Some(path) = args.workload.as_deref() {
        let workload = args.stream.one("--workload", path, "a workload", console);
        request.workload = Some(workload?);
    }
    let options = args.options()?;
    let input = Input::open(&args.stream.files, "plans", console)?;
    let mut output = Output::open(args.stream.output.as_deref(), args.stream.pretty)?;
    // Opened now, so that one that cannot be written is told before the work.
    let table = args.federation.as_deref();
    let table = table.map(|path| Output::open(Some(path), false));
    let table = table.transpose()?;
    let mut predictors = Predictors::default();
    let mut federation = Federation::default();
    for plan in input.documents::<Plan>() {
        let started = Instant::now();
        let mut timeline = order(plan?, &request, &options, &mut predictors)?;
        if args.timing {
            timeline.search.seconds = Some(started.elapsed().as_secs_f64());
        }
        let own = console.provenance(Some(args.seed.seed), None);
        timeline.provenance.push(own);
        if args.federation.is_some() {
            federation.add(&timeline);
        }
        output.document(&timeline)?;
    }
    output.finish()?;
    if let Some(table) = table {
        report(&federation, table, console)?;
    }
    Ok(Exit::Done)
}

/// Writes the table of devices, and says how the round ends.
fn report(federation: &Federation, mut output: Output, console: &Console) -> Result<(), Failure> {
    let mut table = csv::Writer::from_writer(Vec::new());
    let failed = |e: csv::Error| Failure::Environment(format!("cannot write the table: {e}"));
    table
        .write_record(["device", "makespan_s", "waiting_s", "compute_idle_s"])
        .map_err(failed)?;
    for device in federation.devices() {
        let waiting = federation.waiting_s(device);
        table
            .write_record([
                device.name.as_str(),
                &device.makespan_s.to_string(),
                &waiting.to_string(),
                &device.compute_idle_s.to_string(),
            ])
            .map_err(failed)?;
    }
    let bytes = table
        .into_inner()
        .map_err(|e| failed(e.into_error().into()))?;
    output.text(&String::from_utf8_lossy(&bytes))?;
    output.finish()?;
    if let Some(straggler) = federation.straggler() {
        let count = federation.devices().len();
        let waiting: f64 = federation
            .devices()
            .iter()
            .map(|d| federation.waiting_s(d))
            .sum();
        console.note(&format!(
            "the round of {count} devices ends after {:.3} s with {}; the others wait {:.3} s on average",
            straggler.makespan_s,
            straggler.name,
            waiting / (count.max(2) - 1) as f64
        ));
    }
    Ok(())
}

fn order(
    plan: Plan,
    request: &PlanRequest,
    options: &Options,
    predictors: &mut Predictors,
) -> Result<Timeline, Failure> {
    let name = plan.id.clone();
    let predictor = match &plan.model {
        Some(model) => Some(predictors.of(model)?),
        None => None,
    };
    order_plan(plan, predictor, request, options).map_err(|error| {
        let text = name.map_or_else(|| error.to_string(), |name| format!("plan {name}: {error}"));
        match error {
            PlanError::Infeasible => Failure::Negative(text),
            _ => Failure::Input(text),
        }
    })
}

/// The predictor of the last model; a stream of plans often shares one.
#[derive(Default)]
struct Predictors {
    last: Option<(Model, Predictor)>,
}

impl Predictors {
    fn of(&mut self, model: &Model) -> Result<&Predictor, Failure> {
        let same = self.last.take().filter(|(before, _)| {
            before.predictor == model.predictor && before.workload.tasks == model.workload.tasks
        });
        let known = match same {
            Some(known) => known,
            None => {
                let predictor =
                    Predictor::from_model(model).map_err(|e| Failure::Input(e.to_string()))?;
                (model.clone(), predictor)
            }
        };
        Ok(&self.last.insert(known).1)
    }
}
