use std::time::Instant;

use allocation::{Decided, Targets, Way, Worth, replan, ways};
use cli::{Console, Exit, Failure, Input, Output};
use doc::{Model, Plan, Timeline};
use overlap::{
    Federation, OrderOptions, PlanError, PlanRequest, Replanned, Shortened, order_plan, shorten,
};
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
    // Open the output before the work, so that an unwritable file is reported at once.
    let table = args
        .federation
        .as_deref()
        .map(|path| Output::open(Some(path), false))
        .transpose()?;
    let mut predictors = Predictors::default();
    let mut federation = Federation::default();
    let deadline = args.deadline()?;
    // With a deadline, late devices are decided on by the value of their samples, as long as every plan gives it.
    let mut targets = deadline.map(|_| Targets::default());
    for plan in input.documents::<Plan>() {
        let started = Instant::now();
        let plan = plan?;
        let kept = deadline.map(|_| plan.clone());
        let mut timeline = predictors.order(plan, &request, &options)?;
        if args.timing {
            timeline.search.seconds = Some(started.elapsed().as_secs_f64());
        }
        let own = console.provenance(Some(args.seed.seed), None);
        timeline.provenance.push(own);
        if args.federation.is_some() {
            let kept = deadline.zip(kept);
            let worth = kept.as_ref().and_then(|(_, plan)| {
                let known = Worth::of(plan, request.workload.as_ref());
                known.filter(|_| targets.is_some())
            });
            let late = kept.filter(|(by, _)| timeline.makespan.get() > *by);
            if let Some((worth, targets)) = worth.zip(targets.as_mut()) {
                let end = timeline.makespan.get();
                let whole = worth.way(None, &timeline.batches, None, end);
                let ways = match late {
                    Some((by, plan)) => predictors.ways(&plan, &worth, &request, &options, by)?,
                    None => Vec::new(),
                };
                let own = ways.first().and_then(|way| way.shortened);
                federation.add(&timeline, None, own);
                targets.add(&worth, whole, ways);
            } else {
                targets = None;
                let (replanned, shortened) = match late {
                    Some((by, plan)) => {
                        predictors.hurry(plan, &timeline, &request, &options, by)?
                    }
                    None => (None, None),
                };
                federation.add(&timeline, replanned, shortened);
            }
        }
        output.document(&timeline)?;
    }
    output.finish()?;
    let decided = targets
        .filter(|_| !federation.devices().is_empty())
        .map(|targets| targets.decide());
    if let Some(decided) = &decided {
        take(&mut federation, decided);
    }
    if let Some(mut table) = table {
        let mut rows = Vec::new();
        let written = federation.write_csv(deadline, &mut rows);
        written.map_err(|e| Failure::Environment(format!("cannot write the table: {e}")))?;
        table.text(&String::from_utf8_lossy(&rows))?;
        table.finish()?;
        for remark in federation.remarks(deadline) {
            console.note(&remark);
        }
        for remark in decided.iter().filter_map(Decided::remark) {
            console.note(&remark);
        }
    }
    Ok(Exit::Done)
}

/// Records the decision about each device.
fn take(federation: &mut Federation, decided: &Decided) {
    let each = decided.ways.iter().zip(&decided.kept).enumerate();
    for (device, (way, kept)) in each {
        let replanned = way.replanned.clone();
        let shortened = way.shortened;
        federation.decide(device, replanned, shortened, kept.clone());
    }
}

/// Caches the predictor of the last model; the plans of a stream often share one.
#[derive(Default)]
struct Predictors {
    last: Option<(Model, Predictor)>,
}

impl Predictors {
    /// Orders the transfers and compute of a plan.
    fn order(
        &mut self,
        plan: Plan,
        request: &PlanRequest,
        options: &OrderOptions,
    ) -> Result<Timeline, Failure> {
        let name = plan.id.clone();
        let predictor = self.of_plan(&plan)?;
        order_plan(plan, predictor, request, options).map_err(|error| not_ordered(name, &error))
    }

    /// Lets a late device meet a deadline: by a new plan if that ends sooner, and with fewer samples if that is not
    /// enough.
    fn hurry(
        &mut self,
        mut plan: Plan,
        before: &Timeline,
        request: &PlanRequest,
        options: &OrderOptions,
        deadline_s: f64,
    ) -> Result<(Option<Replanned>, Option<Shortened>), Failure> {
        let name = plan.id.clone();
        let predictor = self.of_plan(&plan)?;
        let mut another = replan(&plan, predictor, request, options)
            .map_err(|error| Failure::Input(named(name.clone(), error)))?;
        another = another.filter(|t| t.makespan < before.makespan);
        let replanned = another.as_ref().map(Replanned::of);
        let mut request = request.clone();
        if let Some(timeline) = another {
            if timeline.makespan.get() <= deadline_s {
                return Ok((replanned, None));
            }
            // The new plan already has the volumes of the round.
            (plan, request.workload) = (timeline.plan, None);
        }
        let shortened = shorten(&plan, predictor, &request, options, deadline_s)
            .map_err(|error| not_ordered(name, &error))?;
        Ok((replanned, Some(shortened)))
    }

    /// The ways in which a late device with a plan for progress can meet the deadline.
    fn ways(
        &mut self,
        plan: &Plan,
        worth: &Worth,
        request: &PlanRequest,
        options: &OrderOptions,
        deadline_s: f64,
    ) -> Result<Vec<Way>, Failure> {
        let predictor = self.of_plan(plan)?;
        let found = ways(plan, worth, predictor, request, options, deadline_s);
        found.map_err(|error| Failure::Input(named(plan.id.clone(), error)))
    }

    fn of_plan(&mut self, plan: &Plan) -> Result<Option<&Predictor>, Failure> {
        plan.model.as_ref().map(|model| self.of(model)).transpose()
    }

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

fn not_ordered(name: Option<String>, error: &PlanError) -> Failure {
    match error {
        PlanError::Infeasible => Failure::Negative(named(name, error)),
        _ => Failure::Input(named(name, error)),
    }
}

/// Prefixes an error with the name of its plan.
fn named(name: Option<String>, error: impl std::fmt::Display) -> String {
    name.map_or_else(|| error.to_string(), |name| format!("plan {name}: {error}"))
}
