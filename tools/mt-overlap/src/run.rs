use std::time::Instant;

use cli::{Console, Exit, Failure, Input, Output, provenance};
use doc::{Model, Plan, Timeline};
use overlap::{Options, PlanError, PlanRequest, order_plan};
use predict::Predictor;

use crate::args::Args;

/// Writes a timeline for every plan.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let request = args.request()?;
    let options = args.options()?;
    let input = Input::open(&args.stream.files, "plans", console)?;
    let mut output = Output::open(args.stream.output.as_deref(), args.stream.pretty)?;
    let mut predictors = Predictors::default();
    for plan in input.documents::<Plan>() {
        let started = Instant::now();
        let mut timeline = order(plan?, &request, &options, &mut predictors)?;
        if args.timing {
            timeline.search.seconds = Some(started.elapsed().as_secs_f64());
        }
        let own = provenance(
            console.tool(),
            env!("CARGO_PKG_VERSION"),
            Some(args.seed.seed),
            None,
        );
        timeline.provenance.push(own);
        output.document(&timeline)?;
    }
    output.finish()?;
    Ok(Exit::Done)
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
