//! What a person is told of a plan besides the plan.

use doc::{ConstraintKind, Feasible, Infeasible, Model, WorkKind, Workload};

use crate::{Request, Round};

/// Where the plan is for something else than what was measured.
#[must_use]
pub fn aim(model: &Model, request: &Request) -> Option<String> {
    let aim = model.aim?;
    (aim.objective != request.objective).then(|| {
        format!(
            "the co-runs were chosen for the objective {}, the plan is for {}: profile with \
             --objective {1} for a better one",
            doc::name_of(&aim.objective),
            doc::name_of(&request.objective)
        )
    })
}

/// Where the samples of a round are planned by compute alone although its transfers take time.
#[must_use]
pub fn transfers(workload: &Workload) -> Option<String> {
    let link = workload.link?;
    let moves = |t: &doc::Task| {
        let bytes = t.update_bytes.unwrap_or_default();
        bytes.down.transfer_seconds(link.down) + bytes.up.transfer_seconds(link.up) > 0.0
    };
    let volumes = workload.tasks.iter().all(|t| t.samples.is_some());
    let reason = Round::of_workload(workload).err()?;
    (volumes && workload.tasks.iter().any(moves))
        .then(|| format!("the times of the plan are of compute alone, without transfers: {reason}"))
}

/// Where a simpler way does the user's own volumes sooner, or cannot be compared with.
#[must_use]
pub fn verdict(found: &Feasible) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(verdict) = &found.verdict else {
        notes.push(
            "whether sharing is worth it is not said: by the model a task that is left alone, or \
             with some of the others, does not advance"
                .to_owned(),
        );
        return notes;
    };
    if verdict.work != WorkKind::Round {
        return notes;
    }
    let together = verdict.together.get();
    // Times that are equal but for rounding are no reason to advise anything.
    if together > verdict.one_after_another.get() * (1.0 + 1e-9) {
        notes.push(format!(
            "do not share: one task after another ends after {:.3} s, this plan after {together:.3} s",
            verdict.one_after_another.get()
        ));
    }
    if let Some((scheme, seconds)) = verdict.best_static
        && seconds.get() < together * (1.0 - 1e-9)
    {
        notes.push(format!(
            "for these samples the scheme {} ends after {:.3} s, this plan after {together:.3} s",
            doc::name_of(&scheme),
            seconds.get()
        ));
    }
    notes
}

/// Which constraints stand in the way of every plan, and what would make one feasible; a line
/// for each. `id`: the name of the workload.
#[must_use]
pub fn infeasible(id: Option<&str>, none: &Infeasible) -> Vec<String> {
    let mut lines = vec![format!(
        "no plan of {} is feasible",
        id.unwrap_or("the workload")
    )];
    for reason in &none.reasons {
        if reason.constraint == ConstraintKind::Domain {
            // The domain is no quantity that could be had in another amount.
            lines.push(reason.advice.clone());
            continue;
        }
        lines.push(format!(
            "{}: {} is asked for, {} can be had; {}",
            doc::name_of(&reason.constraint),
            reason.limit,
            reason.best,
            reason.advice
        ));
    }
    lines
}
