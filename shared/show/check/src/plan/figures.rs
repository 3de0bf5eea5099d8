//! Checks the figures of a plan: predictions, totals, constraints, GPUs.

use doc::{Chosen, Feasible, Given, Plan};
use units::corun::Setting;
use units::{Share, TaskId, TotalShare};

use super::choices::{Choices, Value};
use super::frame::Frame;
use super::proof;
use crate::judge::Judge;

/// Half width of a 95 % interval in standard errors.
const INTERVAL: f64 = 1.96;

/// Throughput, interval and solo throughput of every task.
pub fn tasks(plan: &Plan, frame: &Frame<'_>, choices: &Choices, value: &Value, j: &mut Judge) {
    for (at, task) in plan.tasks.iter().enumerate() {
        let Some(i) = frame.workload.task_index(&task.id) else {
            continue;
        };
        j.field("tasks", |j| {
            j.index(at, |j| {
                let given = plan.given(at);
                estimate(given, value.rates[i], value.errors[i], value.solo[i], j);
                not_above_solo(given, j);
                let most = frame.workload.device.gpus;
                // With several GPUs a plan from a search names the GPU of each task; a hand-written plan may omit
                // it for the first GPU.
                if task.gpu.is_none() && most > 1 && plan.feasible().is_some() {
                    j.contradiction("gpu", "nothing", format!("one of the {most} GPUs"));
                }
                if task.gpu.is_some_and(|g| g >= most) {
                    j.contradiction(
                        "gpu",
                        choices.gpu[i],
                        format!("below {most}, the number of GPUs"),
                    );
                }
            });
        });
    }
}

/// Like [`tasks`], for a hand-written plan that omits tasks of its workload, which then do not run.
pub fn some_tasks(plan: &Plan, frame: &Frame<'_>, j: &mut Judge) {
    let setting = |at: usize| {
        let given = plan.given(at);
        Some(Setting {
            task: frame.workload.task_index(&plan.tasks[at].id)?,
            batch: given.batch?,
            share: given.share?,
        })
    };
    for at in 0..plan.tasks.len() {
        let gpu = plan.tasks[at].gpu;
        let beside = (0..plan.tasks.len()).filter(|&k| plan.tasks[k].gpu == gpu);
        let running: Option<Vec<Setting>> = beside.map(setting).collect();
        let (Some(mut running), Some(own)) = (running, setting(at)) else {
            return j.contradiction(
                "tasks",
                "tasks without batch size or share",
                "both: there is a model",
            );
        };
        running.sort_by_key(|s| s.task);
        let place = running.iter().position(|s| s.task == own.task);
        let predicted = frame.predictor.predict(&running);
        let Some(own_rate) = place.map(|k| &predicted[k]) else {
            continue;
        };
        let solo = frame.predictor.solo(own.task, own.batch);
        let given = plan.given(at);
        j.field("tasks", |j| {
            j.index(at, |j| {
                estimate(given, own_rate.samples_per_s, own_rate.std_error, solo, j);
                not_above_solo(given, j);
            });
        });
    }
}

/// Judges throughput, its interval and solo throughput, if they are given.
fn estimate(given: Given, mean: f64, error: f64, solo: f64, j: &mut Judge) {
    if let Some(claimed) = given.throughput {
        let spread = INTERVAL * error;
        j.field("throughput", |j| {
            j.number("samples_per_s", claimed.mean.get(), mean);
            let low = (mean - spread).max(0.0);
            j.number_of("low_samples_per_s", claimed.low.get(), low, mean);
            j.number("high_samples_per_s", claimed.high.get(), mean + spread);
        });
    }
    if let Some(claimed) = given.solo {
        j.number("solo_samples_per_s", claimed.get(), solo);
    }
}

/// Co-runners and a smaller share cannot speed a task up: if a task is faster in a co-run than alone on the whole
/// device, the model is wrong. The rounding of converting `ln P` back is tolerated.
fn not_above_solo(given: Given, j: &mut Judge) {
    if let (Some(together), Some(solo)) = (given.throughput, given.solo)
        && together.mean.get() > solo.get() * (1.0 + 1e-9)
    {
        let truth = format!("at most {}, its throughput alone", solo.get());
        j.contradiction("throughput.samples_per_s", together.mean.get(), truth);
    }
}

/// Judges the kind of prediction (how far the plan is from the measurements), and the model's error for that kind.
pub fn prediction(found: &Feasible, frame: &Frame<'_>, choices: &Choices, j: &mut Judge) {
    let setting = |task: usize| Setting {
        task,
        batch: choices.batch[task],
        share: choices.share[task],
    };
    let on = |gpu: u32| choices.on(gpu).into_iter().map(setting).collect();
    let co_runs: Vec<Vec<Setting>> = choices.gpus().into_iter().map(on).collect();
    let truth = frame.predictor.prediction_error(&co_runs);
    let (claimed, truth) = match (found.prediction, truth) {
        (Some(claimed), Some(truth)) => (claimed, truth),
        (Some(claimed), None) => {
            return j.contradiction("prediction", doc::name_of(&claimed.kind), "nothing");
        }
        // A model without errors by kind may come from an older version, and so may its plan.
        (None, Some(truth)) if truth.error_percent.is_some() => {
            return j.contradiction("prediction", "nothing", doc::name_of(&truth.kind));
        }
        (None, _) => return,
    };
    j.field("prediction", |j| {
        j.same(
            "kind",
            doc::name_of(&claimed.kind),
            doc::name_of(&truth.kind),
        );
        j.same_option("error_percent", claimed.error_percent, truth.error_percent);
        j.same("cases", claimed.cases, truth.cases);
        j.same("parts", claimed.parts, truth.parts);
    });
}

/// Judges objective, mismatch, and the search's claims about them.
pub fn totals(plan: &Feasible, frame: &Frame<'_>, choices: &Choices, value: &Value, j: &mut Judge) {
    let by_gpu = choices.gpus();
    let each = by_gpu.iter().map(|&g| choices.on(g));
    let mut objective = frame.join(each.map(|tasks| frame.objective(value, &tasks)));
    let claimed = plan.objective.value;
    j.field("objective", |j| {
        frame.judge_objective("value", claimed, choices, objective, j);
    });
    if frame.round_of_objective().is_some() {
        // The claim is only known to lie within bounds, which was just checked; what follows is checked against the
        // claim itself.
        objective = claimed;
    }
    let known = frame.workload.tasks.iter().all(|t| t.samples.is_some());
    let mismatch = by_gpu
        .iter()
        .map(|&g| frame.mismatch(choices, value, &choices.on(g)))
        .fold(0.0, f64::max);
    if let Some(claimed) = plan.mismatch {
        j.number_of("mismatch", claimed, mismatch, 1.0);
    } else if known {
        j.contradiction("mismatch", "nothing", mismatch);
    }
    let room = 1e-9 * objective.abs();
    if let Some(open) = plan.unconstrained_objective {
        if open < objective - room {
            let truth = format!("at least {objective}, which the plan reaches");
            j.contradiction("unconstrained_objective", open, truth);
        }
        match of_all(plan, frame, choices) {
            Some(all) => {
                // A search sums in another order, so compare with a tolerance.
                let reached = |value: &f64| (value - open).abs() <= 1e-6 * open.abs();
                if (open - objective).abs() > room && !all.iter().any(reached) {
                    let best = all.into_iter().fold(f64::NEG_INFINITY, f64::max);
                    let truth = format!("what a plan reaches, at most {best}, as of all plans");
                    j.contradiction("unconstrained_objective", open, truth);
                }
            }
            None => j.unjudged("unconstrained_objective", "would need a search of its own"),
        }
    }
    if let Some(bound) = plan.search.bound {
        let proven = plan.search.proof.is_proven();
        if bound < objective - room {
            let truth = format!("at least {objective}, which the plan reaches");
            j.contradiction("search.bound", bound, truth);
        } else if proven && bound > objective + room {
            let truth = format!("{objective}, since the plan is proven to be the best");
            j.contradiction("search.bound", bound, truth);
        } else if !proven {
            j.unjudged("search.bound", "would need a search of its own");
        }
    }
}

/// Objective of every plan with any batch sizes, if there are few plans. Includes plans that a search leaves out
/// because nothing similar was profiled. `None` for a round with transfers, whose best order would need a search.
fn of_all(plan: &Feasible, frame: &Frame<'_>, choices: &Choices) -> Option<Vec<f64>> {
    if frame.round_of_objective().is_some() || choices.gpus().len() != 1 {
        return None;
    }
    let step = plan.constraints.share_step.hundredths();
    let total = plan.constraints.rv.map(TotalShare::percent);
    let all = proof::all_plans(frame, step, total, choices)?;
    let every: Vec<usize> = (0..choices.batch.len()).collect();
    let each = all
        .iter()
        .map(|c| frame.objective(&frame.evaluate(c), &every));
    Some(each.collect())
}

/// Checks that the plan meets its constraints.
pub fn constraints(
    found: &Feasible,
    frame: &Frame<'_>,
    choices: &Choices,
    value: &Value,
    j: &mut Judge,
) {
    let constraints = &found.constraints;
    let candidates = found.candidates.as_ref();
    let measured = candidates.is_some_and(|c| c.chosen == Chosen::Measured);
    j.field("constraints", |j| {
        // The shares of a measured co-run need not be multiples of the search's step.
        if !measured {
            steps(constraints.share_step, choices, j);
        }
        for gpu in choices.gpus() {
            let tasks = choices.on(gpu);
            let sum: TotalShare = tasks.iter().map(|&i| choices.share[i]).sum();
            if let Some(rv) = constraints.rv.map(TotalShare::percent) {
                let most = 100.0 * tasks.len() as f64;
                let several = choices.gpus().len() > 1;
                let wanted = if several { rv.min(most) } else { rv };
                if (sum.percent() - wanted).abs() > 1e-6 {
                    j.contradiction(
                        "rv_percent",
                        rv,
                        format!("{}, the sum of the shares", sum.percent()),
                    );
                }
            }
        }
        if let (Some(asked), Some(device)) = (constraints.memory, frame.workload.device.memory)
            && asked != device
        {
            j.doubt(
                "memory_bytes",
                format!("the device of the workload has {}", device.get()),
            );
        }
    });
    if let Some(fault) = frame.broken(choices, value, true) {
        j.contradiction("constraints", "kept", fault);
    }
}

fn steps(step: Share, choices: &Choices, j: &mut Judge) {
    for share in &choices.share {
        if share.hundredths() % step.hundredths() != 0 {
            let truth = format!("a step of which {} is a multiple", share.percent());
            j.contradiction("share_step_percent", step.percent(), truth);
        }
    }
}

/// Judges the figures of every GPU, if there are several.
pub fn gpus(plan: &Feasible, frame: &Frame<'_>, choices: &Choices, value: &Value, j: &mut Judge) {
    for gpu in choices
        .gpus()
        .into_iter()
        .filter(|_| choices.gpus().len() > 1)
    {
        let told = plan.gpus.iter().filter(|g| g.gpu == gpu).count();
        if told != 1 {
            let claimed = format!("GPU {gpu} {told} times");
            j.contradiction("gpus", claimed, "every GPU in use once");
        }
    }
    for (at, claimed) in plan.gpus.iter().enumerate() {
        let tasks = choices.on(claimed.gpu);
        let mut names: Vec<&str> = claimed.tasks.iter().map(TaskId::as_str).collect();
        names.sort_unstable();
        let mut truth: Vec<&str> = tasks
            .iter()
            .map(|&i| frame.workload.tasks[i].id.as_str())
            .collect();
        truth.sort_unstable();
        let share: TotalShare = tasks.iter().map(|&i| choices.share[i]).sum();
        let (raw, fair) = Frame::totals(value, &tasks);
        j.field("gpus", |j| {
            j.index(at, |j| {
                j.same("tasks", names.join(", "), truth.join(", "));
                j.number("rv_percent", claimed.rv.percent(), share.percent());
                j.number("total_samples_per_s", claimed.total_samples_per_s, raw);
                j.number("fairness", claimed.fairness, fair);
                j.number(
                    "objective",
                    claimed.objective,
                    frame.objective(value, &tasks),
                );
            });
        });
    }
}
