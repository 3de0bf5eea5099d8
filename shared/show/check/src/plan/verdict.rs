//! Checks whether the plan's verdict on sharing is right.

use doc::{Feasible, ObjectiveKind, Scheme, Verdict, WorkKind};
use units::{Samples, Seconds};

use super::baselines::share_of;
use super::choices::{Choices, Value, last_end};
use super::frame::Frame;
use super::round::{Range, Round, by_model};
use crate::judge::Judge;

/// Half width of a 95 % interval in standard errors.
const INTERVAL: f64 = 1.96;

/// Judges the verdict of a plan with a model.
pub fn judge(plan: &Feasible, frame: &Frame<'_>, chosen: &Choices, value: &Value, j: &mut Judge) {
    let Some(claimed) = &plan.verdict else {
        return j.unjudged(
            "verdict",
            "the plan does not say whether sharing is worth it",
        );
    };
    j.field("verdict", |j| {
        let volumes = frame.workload.tasks.iter().all(|t| t.samples.is_some());
        let truth = if volumes {
            WorkKind::Round
        } else {
            WorkKind::Mixture
        };
        if claimed.work != truth {
            let name = |kind| doc::name_of(&kind);
            return j.contradiction("work", name(claimed.work), name(truth));
        }
        let work: Vec<f64> = (0..chosen.batch.len())
            .map(|i| match frame.workload.tasks[i].samples {
                Some(samples) if volumes => Samples::as_f64(samples),
                _ => value.rates[i],
            })
            .collect();
        let round = frame.round.as_ref().filter(|_| volumes);
        alone(claimed, frame, chosen, &work, round, j);
        match round {
            Some(round) => ordered(plan, claimed, frame, chosen, round, j),
            None => together(claimed, frame, chosen, &work, j),
        }
        let share = claimed.together < claimed.one_after_another;
        j.same("share", claimed.share, share);
    });
}

/// Judges the round with its transfers, and the best scheme with equal shares.
fn ordered(
    plan: &Feasible,
    claimed: &Verdict,
    frame: &Frame<'_>,
    chosen: &Choices,
    round: &Round,
    j: &mut Judge,
) {
    let said = claimed.together.get();
    match round.together(frame.predictor, chosen) {
        Some(range) => range.judge("together_s", said, j),
        None => j.contradiction("together_s", said, "nothing: a task does not advance"),
    }
    if frame.kind == ObjectiveKind::Round {
        j.number("together_s", said, -plan.objective.value);
    }
    let ask = by_model(frame.predictor);
    let end = |errors| round.end(&ask, chosen, said, errors);
    end(INTERVAL).judge("together_low_s", Some(claimed.together_low.get()), j);
    let high = claimed.together_high.map(Seconds::get);
    end(-INTERVAL).judge("together_high_s", high, j);
    let of_schemes = Scheme::ALL.into_iter().filter(|s| *s != Scheme::Temporal);
    let equal = |scheme: Scheme| {
        let mut choices = chosen.clone();
        choices.share.fill(share_of(scheme, choices.batch.len()));
        round.together(frame.predictor, &choices)
    };
    let Some((named, seconds)) = claimed.best_static else {
        if of_schemes.filter_map(equal).next().is_some() {
            j.contradiction("best_static", "nothing", "the best scheme of equal shares");
        }
        return;
    };
    j.field("best_static", |j| {
        if let Some(range) = equal(named) {
            range.judge("seconds", seconds.get(), j);
        }
        // The best scheme is no slower than a simple order of any scheme.
        for range in of_schemes.filter_map(equal) {
            Range { low: 0.0, ..range }.judge("seconds", seconds.get(), j);
        }
    });
}

/// Judges the work of each task, and the time of running them one after another, each at its best batch size.
fn alone(
    claimed: &Verdict,
    frame: &Frame<'_>,
    chosen: &Choices,
    work: &[f64],
    round: Option<&Round>,
    j: &mut Judge,
) {
    let mut fastest = vec![0.0; work.len()];
    let mut serial = vec![0.0; work.len()];
    if claimed.tasks.len() != work.len() {
        j.contradiction("tasks", claimed.tasks.len(), work.len());
    }
    for (i, task) in frame.workload.tasks.iter().enumerate() {
        let rate = |b| frame.predictor.solo(i, b);
        let sizes = frame.sizes(i);
        let best = sizes.iter().map(|&b| rate(b)).fold(0.0, f64::max);
        serial[i] = work[i] / best;
        fastest[i] = best;
        let at = claimed.tasks.iter().position(|t| t.id == task.id);
        let Some(at) = at else {
            j.contradiction("tasks", format!("nothing of {}", task.id), "its work");
            continue;
        };
        let one = &claimed.tasks[at];
        j.field("tasks", |j| {
            j.index(at, |j| {
                j.number("samples", one.samples, work[i]);
                j.number("solo_samples_per_s", one.solo.get(), best);
                // If several sizes are equally fast alone, any may be named.
                let known = sizes.contains(&one.batch);
                if !known || rate(one.batch) < best * (1.0 - 1e-9) {
                    j.contradiction("batch", one.batch, "the batch size that is fastest alone");
                }
            });
        });
    }
    if let Some(round) = round {
        let said = claimed.one_after_another.get();
        return round
            .one_after_another(&fastest)
            .judge("one_after_another_s", said, j);
    }
    let sums = chosen
        .gpus()
        .into_iter()
        .map(|gpu| chosen.on(gpu).into_iter().map(|i| serial[i]).sum::<f64>());
    let longest = sums.fold(0.0, f64::max);
    let said = claimed.one_after_another.get();
    j.number("one_after_another_s", said, longest);
}

/// Judges the time together with its interval, and the best scheme with equal shares.
fn together(claimed: &Verdict, frame: &Frame<'_>, chosen: &Choices, work: &[f64], j: &mut Judge) {
    let time = |choices: &Choices, errors: f64| -> Option<f64> {
        let each = choices.gpus().into_iter().map(|gpu| {
            last_end(
                frame.predictor,
                choices,
                choices.on(gpu),
                work.to_vec(),
                errors,
            )
        });
        each.collect::<Option<Vec<f64>>>()
            .map(|times| times.into_iter().fold(0.0, f64::max))
    };
    if let Some(mean) = time(chosen, 0.0) {
        j.number("together_s", claimed.together.get(), mean);
        // At other rates other tasks, which may be slower, may remain at the end, so the result can lie on
        // the wrong side: an interval contains its mean.
        let low = time(chosen, INTERVAL).unwrap_or(mean).min(mean);
        j.number("together_low_s", claimed.together_low.get(), low);
        let high = time(chosen, -INTERVAL).map(|high| high.max(mean));
        let said = claimed.together_high.map(Seconds::get);
        j.optional_number("together_high_s", said, high);
    }
    let equal = |scheme: Scheme| {
        let mut choices = chosen.clone();
        for gpu in chosen.gpus() {
            let tasks = chosen.on(gpu);
            for &i in &tasks {
                choices.share[i] = share_of(scheme, tasks.len());
            }
        }
        time(&choices, 0.0)
    };
    let of_schemes = Scheme::ALL.into_iter().filter(|s| *s != Scheme::Temporal);
    let best = of_schemes
        .filter_map(equal)
        .min_by(f64::total_cmp)
        .filter(|_| !work.is_empty());
    let said = claimed.best_static;
    j.field("best_static", |j| {
        j.optional_number("seconds", said.map(|(_, s)| s.get()), best);
        // Several schemes may have the same shares, so check the time of the named one.
        if let Some((scheme, time)) = said {
            j.optional_number("name", Some(time.get()), equal(scheme));
        }
    });
}
