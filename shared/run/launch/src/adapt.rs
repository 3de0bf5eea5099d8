//! Corrects the model by measurements between rounds, and plans again.

mod noise;

use allocation::{Request, plan_by_model, time_to_target};
use doc::{Model, Plan, TaskSummary, Timeline, Workload};
use overlap::{PlanRequest, order_plan};
use predict::Predictor;
use units::corun::Setting;
use units::{Batch, SamplesPerSec, Share};

use crate::launch::Launch;
pub(crate) use noise::{Hearing, LiveNoise};

/// Iterations of the correction. Each one squares the remaining relative error, because the prediction is nearly
/// proportional to the solo times.
const REPETITIONS: usize = 8;
/// Corrections beyond this factor are attributed to a fault in the round and not to the model: to a job that stalled,
/// or that counted in other units.
const LARGEST_FACTOR: f64 = 4.0;
/// Minimum relative improvement of another plan: rates of one co-run repeat to one or two percent, so a smaller
/// difference may be chance.
const LEAST_GAIN: f64 = 0.02;

/// The model of a launch with the corrections from its rounds.
#[derive(Debug, Default)]
pub(crate) struct Correction {
    /// Noise scales reported by the rounds.
    pub(crate) noise: LiveNoise,
    /// The model with the corrections so far; absent: the model of the plan.
    model: Option<Model>,
}

/// Effect of a correction on a launch.
#[derive(Debug)]
pub(crate) enum Adapted {
    /// A new plan, and a description of the changes.
    Anew(Box<Launch>, String),
    /// The plan is kept; the reason.
    Stays(String),
}

impl Correction {
    /// Corrects the model by the throughput measured while all tasks computed and by the noise scales that the jobs
    /// report, and solves again. Only `part` of each correction (on a logarithmic scale) is applied, so that one
    /// unusual round does not overturn the plan.
    ///
    /// A plan for a time to target is kept if the new one would be faster by no more than the error of that
    /// estimate: restarting jobs with other batch sizes costs something, and may gain nothing.
    ///
    /// # Errors
    /// The reason, as a message, why no correction is possible.
    pub(crate) fn adapt(
        &mut self,
        launch: &Launch,
        measured: &[TaskSummary],
        part: f64,
    ) -> Result<Adapted, String> {
        let plan = &launch.plan;
        let known = self.model.as_ref().or(plan.model.as_ref());
        let mut model = known.ok_or("the plan carries no model to correct")?.clone();
        // Such a plan cannot be solved again: the solver gives every task of the workload a share, even one that this
        // plan leaves out.
        if plan.tasks.len() != model.workload.tasks.len() {
            return Err("the plan leaves out tasks of its workload".to_owned());
        }
        let rate = |t: &TaskSummary| {
            let rate = t.rate_together().map(SamplesPerSec::get);
            rate.filter(|r| *r > 0.0)
        };
        let rates: Option<Vec<f64>> = measured.iter().map(rate).collect();
        let moved = self.noise.correct(&mut model, part);
        if let Some(rates) = &rates {
            model = corrected(launch, &model, rates, part)?;
        } else if moved.is_empty() {
            let why = "not all tasks computed at the same time, so there is nothing to compare";
            return Err(why.to_owned());
        }
        let predictor = Predictor::from_model(&model).map_err(|e| e.to_string())?;
        let request = Request::of_plan(plan).ok_or("the plan does not say what it maximises")?;
        let mut new =
            plan_by_model(&predictor, &model.workload, &request).map_err(|e| e.to_string())?;
        if new.feasible().is_none() {
            return Err("with the corrected model no plan is feasible".to_owned());
        }
        self.model = Some(model.clone());
        if let Some(why) = no_sooner(launch, &new, &model, &predictor, &request) {
            let moved = moved.into_iter().chain([why]).collect::<Vec<_>>();
            return Ok(Adapted::Stays(moved.join("; ")));
        }
        new.provenance.clone_from(&plan.provenance);
        new.link = plan.link;
        new.model = Some(model);
        let what = changes(plan, &new, measured)
            .into_iter()
            .chain(moved)
            .collect::<Vec<_>>()
            .join("; ");
        let (plan, timeline) = ordered(launch, new, &predictor)?;
        let next = Launch::of(plan, timeline, launch.workload.clone())
            .map_err(|error| error.to_string())?;
        Ok(Adapted::Anew(Box::new(next), what))
    }
}

/// The reason why a plan for a time to target is kept: according to the corrected model, the new plan is hardly faster,
/// or it is not faster at one end of the noise scales' intervals. Errors of throughputs are ignored: they come from one
/// model and affect both plans alike. `None` if the new plan is faster, or if the objective is not a time to target.
fn no_sooner(
    launch: &Launch,
    new: &Plan,
    model: &Model,
    predictor: &Predictor,
    request: &Request,
) -> Option<String> {
    let tasks = || model.workload.tasks.iter().enumerate();
    let now = tasks().map(|(i, t)| {
        let own = launch.assignments().find(|a| a.planned.id == t.id)?;
        Some(setting(i, own.batch, own.share))
    });
    let then = tasks().map(|(i, t)| {
        let given = new.given(new.task_index(&t.id)?);
        Some(setting(i, given.batch?, given.share?))
    });
    let (now, then): (Option<Vec<_>>, Option<Vec<_>>) = (now.collect(), then.collect());
    let (now, then) = (now?, then?);
    let seconds = |workload: &Workload, settings: &[Setting]| {
        time_to_target(predictor, workload, request, settings)
    };
    let (before, after) = (
        seconds(&model.workload, &now)?,
        seconds(&model.workload, &then)?,
    );
    let told = format!("the targets are {before:.1} s away with it, {after:.1} s with the best");
    if before < after * (1.0 + LEAST_GAIN) {
        return Some(told);
    }
    for end in 0..2 {
        let workload = noise::at_end(&model.workload, end);
        if seconds(&workload, &now)? <= seconds(&workload, &then)? {
            let doubt = "the noise scales are not known well enough to say which is sooner";
            return Some(format!("{told}, but {doubt}"));
        }
    }
    None
}

fn setting(task: usize, batch: Batch, share: Share) -> Setting {
    Setting { task, batch, share }
}

/// The model with the solo steps of each task scaled so that the prediction for the current plan moves by `part` of
/// the way to the measured values.
fn corrected(launch: &Launch, model: &Model, rates: &[f64], part: f64) -> Result<Model, String> {
    let mut model = model.clone();
    // The earlier measurements no longer apply, because the cause of the correction has changed them too.
    model.measured = Vec::new();
    let tasks: Vec<usize> = launch
        .assignments()
        .filter_map(|a| model.workload.task_index(&a.planned.id))
        .collect();
    let predicted = |model: &Model| -> Result<Vec<f64>, String> {
        let predictor = Predictor::from_model(model).map_err(|e| e.to_string())?;
        let all = launch.together(&predictor);
        all.filter(|all| all.len() == rates.len())
            .ok_or_else(|| "the plan and its model name different tasks".to_owned())
    };
    let before = predicted(&model)?;
    let target: Vec<f64> = before
        .iter()
        .zip(rates)
        .map(|(p, m)| {
            p * (m / p)
                .clamp(LARGEST_FACTOR.recip(), LARGEST_FACTOR)
                .powf(part)
        })
        .collect();
    for _ in 0..REPETITIONS {
        let now = predicted(&model)?;
        for (k, &index) in tasks.iter().enumerate() {
            let slower = now[k] / target[k];
            Predictor::scale_steps(&mut model, index, slower);
        }
    }
    Ok(model)
}

fn ordered(
    launch: &Launch,
    plan: Plan,
    predictor: &Predictor,
) -> Result<(Plan, Option<Timeline>), String> {
    let Some(followed) = &launch.timeline else {
        return Ok((plan, None));
    };
    let request = PlanRequest::default();
    let options = overlap::OrderOptions {
        single_order: followed.single_order,
        ..overlap::OrderOptions::default()
    };
    let timeline =
        order_plan(plan, Some(predictor), &request, &options).map_err(|error| error.to_string())?;
    Ok((timeline.plan.clone(), Some(timeline)))
}

/// The changes of the plan as text for users.
fn changes(old: &Plan, new: &Plan, measured: &[TaskSummary]) -> Vec<String> {
    let mut all = Vec::new();
    for (i, task) in old.tasks.iter().enumerate() {
        let Some(now) = new.task_index(&task.id).map(|k| new.given(k)) else {
            continue;
        };
        let before = old.given(i);
        if let (Some(p), Some(m)) = (before.throughput, measured[i].rate_together()) {
            all.push(format!(
                "{}: {:.1} samples/s of {:.1}",
                task.id,
                m.get(),
                p.mean.get()
            ));
        }
        if before.batch != now.batch
            && let (Some(a), Some(b)) = (before.batch, now.batch)
        {
            all.push(format!("{}: batch {a} to {b}", task.id));
        }
        if before.share != now.share
            && let (Some(a), Some(b)) = (before.share, now.share)
        {
            all.push(format!("{}: share {a} to {b}", task.id));
        }
    }
    all
}

#[cfg(test)]
mod tests;
