//! Checks that the plan is the right choice between the best measured co-run and the model's best plan.

use doc::{
    Candidate, Candidates, Choice, Chosen, Corun, DeviceKind, Feasible, Model, ObjectiveKind, Proof,
};

use units::corun::Setting;

use super::choices::{Choices, Value};
use super::frame::Frame;
use super::round::{Ask, by_model};
use crate::judge::Judge;

/// Half width of a 95 % interval in standard errors.
const INTERVAL: f64 = 1.96;
/// Relative standard error assumed for a throughput that was measured without one; the simulator is exact.
const UNKNOWN_ERROR: f64 = 0.01;
/// Relative tolerance for the rounding of sums in another order.
const SLACK: f64 = 1e-9;
/// Fraction of its own expected value by which the model's best plan must exceed the measured co-run to be chosen: the
/// best of many predictions is biased upwards (winner's curse).
const CURSE: f64 = 0.03;

/// Mean measurement of one configuration: throughput and standard error of every task.
struct Mean {
    choices: Choices,
    settings: Vec<Setting>,
    config: u64,
    rates: Vec<f64>,
    errors: Vec<f64>,
}

/// The values against which the constraints are checked: the measured ones if the plan is a measured co-run.
pub fn held(found: &Feasible, model: &Model, choices: &Choices, value: &Value) -> Value {
    let mut held = value.clone();
    let measured = found.candidates.as_ref();
    if measured.is_some_and(|c| c.chosen == Chosen::Measured)
        && let Some(mean) = means(model).into_iter().find(|m| m.choices == *choices)
    {
        held.rates = mean.rates;
    }
    held
}

/// Judges the candidates of a plan.
pub fn judge(found: &Feasible, model: &Model, frame: &Frame<'_>, chosen: &Choices, j: &mut Judge) {
    noise(found, j);
    let Some(claimed) = &found.candidates else {
        return;
    };
    j.field("candidates", |j| {
        j.field("measured", |j| measured(&claimed.measured, model, frame, j));
        if let Some(predicted) = &claimed.predicted {
            j.field("predicted", |j| self::predicted(predicted, frame, j));
        }
        rule(claimed, frame, j);
        if claimed.chosen == Chosen::Predicted
            && let Some(predicted) = &claimed.predicted
        {
            let plan = found.objective.value;
            j.number("predicted.objective", predicted.objective, plan);
        }
        let plan = match (claimed.chosen, &claimed.predicted) {
            (Chosen::Predicted, Some(predicted)) => &predicted.tasks,
            _ => &claimed.measured.tasks,
        };
        if Choices::of_point(plan, frame.workload).as_ref() != Some(chosen) {
            j.contradiction(
                "chosen",
                doc::name_of(&claimed.chosen),
                "another: the plan's tasks differ",
            );
        }
    });
}

/// The model's best is the plan if its expected value exceeds that of the measured co-run by more than the bias of the
/// best of many predictions. If the objective is a time, which is work divided by rates, the expected time is longer
/// than the time at the mean rates.
fn rule(claimed: &Candidates, frame: &Frame<'_>, j: &mut Judge) {
    let timed = frame.kind == ObjectiveKind::Round || frame.is_to_target();
    let expected = |c: &Candidate| {
        let error = 1.0 - c.objective / low(c);
        if timed {
            c.objective * (1.0 + error * error)
        } else {
            c.objective
        }
    };
    let own = &claimed.measured;
    let least = expected(own) + (own.objective - low(own));
    let truth = match claimed.predicted.as_ref().map(expected) {
        Some(value) if value - CURSE * value.abs() > least => Chosen::Predicted,
        _ => Chosen::Measured,
    };
    j.same(
        "chosen",
        doc::name_of(&claimed.chosen),
        doc::name_of(&truth),
    );
}

/// Only a measured plan is within its noise of an optimum, and only if the bound is at most the upper end of its
/// interval.
fn noise(found: &Feasible, j: &mut Judge) {
    if found.search.proof != Proof::WithinNoise {
        return;
    }
    let measured = found
        .candidates
        .as_ref()
        .filter(|c| c.chosen == Chosen::Measured);
    let high = measured.map(|c| 2.0 * c.measured.objective - low(&c.measured));
    let within = high.zip(found.search.bound);
    if !within.is_some_and(|(high, bound)| bound <= high) {
        let truth = "not-proven: the bound is above the interval of a measured plan";
        j.contradiction("search.proof", doc::name_of(&found.search.proof), truth);
    }
}

fn measured(claimed: &Candidate, model: &Model, frame: &Frame<'_>, j: &mut Judge) {
    let all = means(model);
    let Some(choices) = of(&claimed.tasks, frame, j) else {
        return;
    };
    let Some(mean) = all.iter().find(|m| m.choices == choices) else {
        return j.contradiction("tasks", "a co-run", "none that the model has measured");
    };
    j.same_option("config", claimed.config, Some(mean.config));
    let own = worth(mean, frame);
    if let Some(fault) = frame.broken(&mean.choices, &own, true) {
        j.contradiction("tasks", "within the constraints", fault);
    }
    if frame.kind == ObjectiveKind::Round || frame.is_to_target() {
        return measured_round(claimed, &choices, &all, frame, j);
    }
    let (value, low) = interval(frame, &own);
    j.number("objective", claimed.objective, value);
    judge_low(claimed, low, value, j);
    let total = |m: &Mean| m.choices.share.iter().map(|s| s.percent()).sum::<f64>();
    let rv = frame.constraints.and_then(|c| c.rv).map(|rv| rv.percent());
    for other in &all {
        if other.rates.len() != choices.batch.len() {
            continue;
        }
        let own = worth(other, frame);
        let kept = frame.broken(&other.choices, &own, true).is_none()
            && rv.is_none_or(|rv| (total(other) - rv).abs() < 1e-6);
        let (value, _) = interval(frame, &own);
        if kept && value > claimed.objective + SLACK * value.abs() {
            let truth = format!("at least {value}, of configuration {}", other.config);
            return j.contradiction("objective", claimed.objective, truth);
        }
    }
}

fn predicted(claimed: &Candidate, frame: &Frame<'_>, j: &mut Judge) {
    let Some(choices) = of(&claimed.tasks, frame, j) else {
        return;
    };
    let (value, low) = interval(frame, &frame.evaluate(&choices));
    // Finding the best order of a round needs a search. The claim is checked against a lower bound and the time of a
    // simple order instead.
    frame.judge_objective("objective", claimed.objective, &choices, value, j);
    if frame.kind == ObjectiveKind::Round || frame.is_to_target() {
        return length(claimed, &by_model(frame.predictor), &choices, frame, j);
    }
    judge_low(claimed, low, value, j);
}

/// Judges a measured co-run if the objective is a round. Rates come from the measurements of each set of tasks.
fn measured_round(
    claimed: &Candidate,
    choices: &Choices,
    means: &[Mean],
    frame: &Frame<'_>,
    j: &mut Judge,
) {
    let ask = |running: &[Setting]| {
        let known = means.iter().find(|m| m.settings == running);
        known.map_or_else(
            || by_model(frame.predictor)(running),
            |m| {
                m.rates
                    .iter()
                    .copied()
                    .zip(m.errors.iter().copied())
                    .collect()
            },
        )
    };
    if let Some(round) = frame.round.as_ref().filter(|_| !frame.is_to_target()) {
        match round.together_measured(&ask, choices) {
            Some(range) => range.judge("objective", -claimed.objective, j),
            None => j.contradiction(
                "objective",
                claimed.objective,
                "nothing: a task does not advance",
            ),
        }
    }
    length(claimed, &ask, choices, frame, j);
}

/// Judges the lower end of a round or of a time to target. For a round it is the same order with every rate one
/// standard error lower. A time to target spans several rounds, whose lengths the candidate does not give, so it is
/// checked only whether the time ends at all at such rates.
fn length(claimed: &Candidate, ask: Ask<'_>, choices: &Choices, frame: &Frame<'_>, j: &mut Judge) {
    let told = claimed.low.is_none() || !frame.is_to_target();
    match frame.round.as_ref().filter(|_| told) {
        Some(round) => {
            let end = round.end(ask, choices, -claimed.objective, -1.0);
            end.judge("low_objective", claimed.low.map(|low| -low), j);
        }
        None if low(claimed) > claimed.objective => {
            j.contradiction("low_objective", low(claimed), "at most objective");
        }
        None => j.unjudged(
            "low_objective",
            "depends on the order, which mt-overlap gives",
        ),
    }
}

/// Judges the lower end of an objective that needs no order of transfers.
fn judge_low(claimed: &Candidate, low: f64, value: f64, j: &mut Judge) {
    match claimed.low {
        Some(claimed) => j.number_of("low_objective", claimed, low, value),
        None => j.contradiction("low_objective", "nothing", low),
    }
}

/// Lower end of the candidate's objective; minus infinity if there is none, because the seconds have no limit.
fn low(candidate: &Candidate) -> f64 {
    candidate.low.unwrap_or(f64::NEG_INFINITY)
}

fn of(tasks: &[Choice], frame: &Frame<'_>, j: &mut Judge) -> Option<Choices> {
    let choices = Choices::of_point(tasks, frame.workload);
    if choices.is_none() {
        j.contradiction("tasks", tasks.len(), "every task of the workload once");
    }
    choices
}

/// Value of a measured configuration: the measured rates and errors replace the predicted ones.
fn worth(mean: &Mean, frame: &Frame<'_>) -> Value {
    let predicted = frame.evaluate(&mean.choices);
    Value {
        rates: mean.rates.clone(),
        errors: mean.errors.clone(),
        ..predicted
    }
}

/// Objective and the lower end of its interval; the errors of the rates are taken as independent.
fn interval(frame: &Frame<'_>, value: &Value) -> (f64, f64) {
    let tasks: Vec<usize> = (0..value.rates.len()).collect();
    let objective = frame.objective(value, &tasks);
    let mut variance = 0.0;
    for &i in &tasks {
        let mut less = value.clone();
        less.rates[i] -= value.errors[i];
        variance += (objective - frame.objective(&less, &tasks)).powi(2);
    }
    (objective, objective - INTERVAL * variance.sqrt())
}

/// Measured co-runs of a model by configuration, each with the mean of its repeated measurements.
fn means(model: &Model) -> Vec<Mean> {
    let exact = model.workload.device.kind == DeviceKind::Sim;
    let same = |a: &Corun, b: &Corun| {
        let run = |c: &Corun| -> Vec<_> {
            let each = c.tasks.iter().map(|t| (t.id.clone(), t.batch, t.share));
            each.collect()
        };
        run(a) == run(b)
    };
    let mut groups: Vec<Vec<&Corun>> = Vec::new();
    for corun in &model.measured {
        match groups.iter_mut().find(|g| same(g[0], corun)) {
            Some(group) => group.push(corun),
            None => groups.push(vec![corun]),
        }
    }
    let setting = |t: &doc::Measured| {
        Some(Setting {
            task: model.workload.task_index(&t.id)?,
            batch: t.batch,
            share: t.share,
        })
    };
    let mean = |group: Vec<&Corun>| {
        let tasks = &group[0].tasks;
        let n = group.len() as f64;
        let rate = |i: usize| group.iter().map(move |c| c.tasks[i].throughput.get());
        let error = |i: usize| {
            group.iter().map(move |c| {
                let task = &c.tasks[i];
                let unknown = if exact { 0.0 } else { UNKNOWN_ERROR };
                let error = task.stderr.map(units::SamplesPerSec::get);
                error.unwrap_or(unknown * task.throughput.get())
            })
        };
        let all = 0..tasks.len();
        Mean {
            config: group[0].config,
            settings: tasks.iter().filter_map(setting).collect(),
            rates: all.clone().map(|i| rate(i).sum::<f64>() / n).collect(),
            errors: all
                .map(|i| error(i).map(|e| e * e).sum::<f64>().sqrt() / n)
                .collect(),
            choices: Choices {
                batch: tasks.iter().map(|t| t.batch).collect(),
                share: tasks.iter().map(|t| t.share).collect(),
                gpu: vec![0; tasks.len()],
            },
        }
    };
    groups.into_iter().map(mean).collect()
}
