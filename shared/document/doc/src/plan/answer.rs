use units::{Batch, SamplesPerSec, Share, TotalShare};

use super::target::{Target, target};
use super::verdict::{Verdict, verdict};
use super::{
    Baseline, Candidates, Constraints, GpuPlan, Marginal, ParetoPoint, breakdown, constraints,
    points,
};
use crate::checker::optional;
use crate::wire::{self, Infeasibility, Objective, PredictionError, Search};
use crate::{Checker, Code};

/// What a plan says about its tasks.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A search found these batch sizes and shares.
    Feasible(Box<Feasible>),
    /// A search found that nothing meets the constraints.
    Infeasible(Infeasible),
    /// Written by hand.
    ByHand(ByHand),
}

/// The best batch sizes and shares that a search found, and the alternatives that they are compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Feasible {
    /// Settings of each task of the plan.
    pub decisions: Vec<Decision>,
    /// Sum of the shares.
    pub rv: TotalShare,
    /// Whether sharing is worth it; absent in plans of versions that did not compute it.
    pub verdict: Option<Verdict>,
    /// When the tasks reach their targets; present if this is the objective.
    pub target: Option<Target>,
    /// Distance of the plan from its model's training data; absent if the model does not give it.
    pub prediction: Option<PredictionError>,
    /// The objective that was maximised.
    pub objective: Objective,
    /// The constraints that the plan had to meet.
    pub constraints: Constraints,
    /// Distance from the requested balance; absent if a task has no data volume.
    pub mismatch: Option<f64>,
    /// Objective value without the batch constraints; absent if there are no batch constraints, or if there are
    /// several GPUs.
    pub unconstrained_objective: Option<f64>,
    /// Simpler schemes, for comparison.
    pub baselines: Vec<Baseline>,
    /// Pareto front of mismatch against objective.
    pub pareto: Vec<ParetoPoint>,
    /// Pareto front of raw throughput against fairness.
    pub pareto_fairness: Vec<ParetoPoint>,
    /// The next best plans.
    pub alternatives: Vec<ParetoPoint>,
    /// Effect of changing the share of one task at a time.
    pub explanation: Vec<Marginal>,
    /// Results per GPU, if there are several.
    pub gpus: Vec<GpuPlan>,
    /// The best measured and the best predicted plan; absent if the model has no measured co-run that meets the
    /// constraints.
    pub candidates: Option<Candidates>,
    /// How the plan was found.
    pub search: Search,
}

/// Why nothing meets the constraints.
#[derive(Debug, Clone, PartialEq)]
pub struct Infeasible {
    /// The reasons; never empty.
    pub reasons: Vec<Infeasibility>,
    /// The constraints, if the document gives them.
    pub constraints: Option<Constraints>,
    /// How this was found, if the document says so.
    pub search: Option<Search>,
}

/// Statements in a plan written by hand.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ByHand {
    /// Settings of each task of the plan, as far as the document gives them.
    pub given: Vec<Given>,
    /// Sum of the shares.
    pub rv: Option<TotalShare>,
}

/// Settings of one task, and its predicted throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// Batch size.
    pub batch: Batch,
    /// Share.
    pub share: Share,
    /// Predicted throughput while all tasks run.
    pub throughput: Estimate,
    /// Throughput alone on the whole device, as [`Constraints::solo`] defines it.
    pub solo: SamplesPerSec,
}

/// Settings of one task in a plan written by hand.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Given {
    /// Batch size; required if the plan has a model, and for a launch.
    pub batch: Option<Batch>,
    /// Share; required if the plan has a model, and for a launch.
    pub share: Option<Share>,
    /// Throughput while all tasks run.
    pub throughput: Option<Estimate>,
    /// Throughput alone on the whole device.
    pub solo: Option<SamplesPerSec>,
}

/// A predicted throughput with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Prediction.
    pub mean: SamplesPerSec,
    /// Lower end.
    pub low: SamplesPerSec,
    /// Upper end.
    pub high: SamplesPerSec,
}

impl From<Decision> for Given {
    fn from(decision: Decision) -> Self {
        Self {
            batch: Some(decision.batch),
            share: Some(decision.share),
            throughput: Some(decision.throughput),
            solo: Some(decision.solo),
        }
    }
}

/// Reads the kind of a plan: infeasible if it gives reasons, found by a search if it has a field that only a
/// search can fill, and hand-written otherwise.
pub(super) fn answer(wire: &wire::Plan, c: &mut Checker) -> Option<Answer> {
    if !wire.infeasible.is_empty() {
        return infeasible(wire, c).map(Answer::Infeasible);
    }
    if wire.tasks.is_empty() {
        c.field("tasks", |c| {
            c.fault(Code::NothingToDo, "no task", "add at least one task");
        });
    }
    let given = c.list("tasks", &wire.tasks, given);
    if was_searched(wire) {
        feasible(wire, given, c).map(|found| Answer::Feasible(Box::new(found)))
    } else {
        let rv = c.optional_unit("rv_percent", wire.rv_percent, TotalShare::from_percent);
        let (given, rv) = (given?, rv?);
        Some(Answer::ByHand(ByHand { given, rv }))
    }
}

/// Fields that only a plan from a search has, and whether this plan has them.
fn results(wire: &wire::Plan) -> [(&'static str, bool); 13] {
    [
        ("objective", wire.objective.is_some()),
        ("verdict", wire.verdict.is_some()),
        ("target", wire.target.is_some()),
        ("prediction", wire.prediction.is_some()),
        ("mismatch", wire.mismatch.is_some()),
        (
            "unconstrained_objective",
            wire.unconstrained_objective.is_some(),
        ),
        ("baselines", !wire.baselines.is_empty()),
        ("pareto", !wire.pareto.is_empty()),
        ("pareto_fairness", !wire.pareto_fairness.is_empty()),
        ("alternatives", !wire.alternatives.is_empty()),
        ("explanation", !wire.explanation.is_empty()),
        ("gpus", !wire.gpus.is_empty()),
        ("candidates", wire.candidates.is_some()),
    ]
}

fn was_searched(wire: &wire::Plan) -> bool {
    let result = results(wire).into_iter().any(|(_, is_there)| is_there);
    result || wire.constraints.is_some() || wire.search.is_some()
}

fn infeasible(wire: &wire::Plan, c: &mut Checker) -> Option<Infeasible> {
    let of_tasks = [
        ("tasks", !wire.tasks.is_empty()),
        ("rv_percent", wire.rv_percent.is_some()),
    ];
    let found = of_tasks.into_iter().chain(results(wire));
    for (name, _) in found.filter(|(_, is_there)| *is_there) {
        c.field(name, |c| {
            let advice = "remove it, or the reasons in `infeasible`";
            c.fault(Code::Conflict, "the plan is infeasible", advice);
        });
    }
    let read = constraints::constraints;
    let constraints = optional(c, "constraints", wire.constraints.as_ref(), read)?;
    Some(Infeasible {
        reasons: wire.infeasible.clone(),
        constraints,
        search: wire.search.clone(),
    })
}

fn feasible(wire: &wire::Plan, given: Option<Vec<Given>>, c: &mut Checker) -> Option<Feasible> {
    let verdict = optional(c, "verdict", wire.verdict.as_ref(), verdict);
    let target = optional(c, "target", wire.target.as_ref(), target);
    let baselines = c.list("baselines", &wire.baselines, points::baseline);
    let pareto = c.list("pareto", &wire.pareto, points::point);
    let fair = c.list("pareto_fairness", &wire.pareto_fairness, points::point);
    let alternatives = c.list("alternatives", &wire.alternatives, points::point);
    let explanation = c.list("explanation", &wire.explanation, breakdown::marginal);
    let gpus = c.list("gpus", &wire.gpus, breakdown::gpu_plan);
    let candidates = optional(
        c,
        "candidates",
        wire.candidates.as_ref(),
        points::candidates,
    );
    let rv = c.optional_unit("rv_percent", wire.rv_percent, TotalShare::from_percent);
    let read = constraints::constraints;
    let constraints = optional(c, "constraints", wire.constraints.as_ref(), read);
    let rv = rv.and_then(|rv| needed(rv, "rv_percent", c));
    let constraints = constraints.and_then(|held| needed(held, "constraints", c));
    let objective = needed(wire.objective, "objective", c);
    let search = needed(wire.search.clone(), "search", c);
    let decisions = given.and_then(|given| c.list("tasks", &given, decision));
    Some(Feasible {
        decisions: decisions?,
        rv: rv?,
        verdict: verdict?,
        target: target?,
        prediction: wire.prediction,
        objective: objective?,
        constraints: constraints?,
        mismatch: wire.mismatch,
        unconstrained_objective: wire.unconstrained_objective,
        baselines: baselines?,
        pareto: pareto?,
        pareto_fairness: fair?,
        alternatives: alternatives?,
        explanation: explanation?,
        gpus: gpus?,
        candidates: candidates?,
        search: search?,
    })
}

/// Reads a field that every plan from a search must have, although a hand-written plan may omit it.
fn needed<T>(value: Option<T>, name: &str, c: &mut Checker) -> Option<T> {
    if value.is_none() {
        c.field(name, |c| {
            c.fault(
                Code::MissingField,
                "absent, though the plan has results of a search",
                "give it, or remove those results (objective, constraints, search, baselines, ...)",
            );
        });
    }
    value
}

fn decision(given: &Given, c: &mut Checker) -> Option<Decision> {
    let batch = needed(given.batch, "batch", c);
    let share = needed(given.share, "share_percent", c);
    let throughput = needed(given.throughput, "throughput", c);
    let solo = needed(given.solo, "solo_samples_per_s", c);
    Some(Decision {
        batch: batch?,
        share: share?,
        throughput: throughput?,
        solo: solo?,
    })
}

fn given(wire: &wire::PlanTask, c: &mut Checker) -> Option<Given> {
    let batch = c.optional_unit("batch", wire.batch, Batch::new);
    let share = c.optional_unit("share_percent", wire.share_percent, Share::from_percent);
    let throughput = optional(c, "throughput", wire.throughput.as_ref(), estimate);
    let solo = c.optional_unit(
        "solo_samples_per_s",
        wire.solo_samples_per_s,
        SamplesPerSec::new,
    );
    Some(Given {
        batch: batch?,
        share: share?,
        throughput: throughput?,
        solo: solo?,
    })
}

fn estimate(wire: &wire::Estimate, c: &mut Checker) -> Option<Estimate> {
    let mean = c.unit("samples_per_s", SamplesPerSec::new(wire.samples_per_s));
    let low = c.unit(
        "low_samples_per_s",
        SamplesPerSec::new(wire.low_samples_per_s),
    );
    let high = c.unit(
        "high_samples_per_s",
        SamplesPerSec::new(wire.high_samples_per_s),
    );
    Some(Estimate {
        mean: mean?,
        low: low?,
        high: high?,
    })
}

impl Estimate {
    pub(super) fn to_wire(self) -> wire::Estimate {
        wire::Estimate {
            samples_per_s: self.mean.get(),
            low_samples_per_s: self.low.get(),
            high_samples_per_s: self.high.get(),
        }
    }
}

impl Answer {
    /// Writes all fields except those of the tasks.
    pub(super) fn write(&self, wire: &mut wire::Plan) {
        match self {
            Self::Feasible(found) => found.write(wire),
            Self::Infeasible(none) => {
                wire.constraints = none.constraints.as_ref().map(Constraints::to_wire);
                wire.search.clone_from(&none.search);
                wire.infeasible.clone_from(&none.reasons);
            }
            Self::ByHand(by_hand) => wire.rv_percent = by_hand.rv.map(TotalShare::percent),
        }
    }
}

impl Feasible {
    /// Predicted total throughput of all tasks, in samples per second.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.decisions.iter().map(|d| d.throughput.mean.get()).sum()
    }

    /// Predicted sum of `P_i / S_i`: each task's throughput relative to its throughput alone.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        let relative = |d: &Decision| d.throughput.mean.get() / d.solo.get();
        self.decisions.iter().map(relative).sum()
    }

    fn write(&self, wire: &mut wire::Plan) {
        let points = |points: &[ParetoPoint]| points.iter().map(ParetoPoint::to_wire).collect();
        wire.rv_percent = Some(self.rv.percent());
        wire.verdict = self.verdict.as_ref().map(Verdict::to_wire);
        wire.target = self.target.as_ref().map(Target::to_wire);
        wire.prediction = self.prediction;
        wire.objective = Some(self.objective);
        wire.constraints = Some(self.constraints.to_wire());
        wire.mismatch = self.mismatch;
        wire.unconstrained_objective = self.unconstrained_objective;
        wire.baselines = self.baselines.iter().map(Baseline::to_wire).collect();
        wire.pareto = points(&self.pareto);
        wire.pareto_fairness = points(&self.pareto_fairness);
        wire.alternatives = points(&self.alternatives);
        wire.explanation = self.explanation.iter().map(Marginal::to_wire).collect();
        wire.gpus = self.gpus.iter().map(GpuPlan::to_wire).collect();
        wire.candidates = self.candidates.as_ref().map(Candidates::to_wire);
        wire.search = Some(self.search.clone());
    }
}
