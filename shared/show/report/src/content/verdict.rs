//! The first line of a report: whether sharing is worth it, and by how much.

use doc::{
    Answer, BatchPolicy, Feasible, Objective, ObjectiveKind, Plan, Scheme, Target, Verdict,
    WorkKind,
};
use units::Batch;

use crate::number::{change, plain};

/// Legend of a plan's tables: words and symbols with their meaning.
pub const LEGEND: [(&str, &str); 10] = [
    (
        "temporal",
        "one task at a time on the whole GPU, equal work of each",
    ),
    ("isolated", "equal parts: 100/n % each, together 100 %"),
    ("sharing", "no limit: 100 % each, the hardware decides"),
    (
        "nvidia",
        "NVIDIA's static advice: 100/(0.5 n) % each, at most 100 %",
    ),
    ("moderate, aggressive", "60 % and 80 % each (FedMT)"),
    (
        "P, S",
        "throughput in the co-run, and alone on the whole GPU at the same batch size",
    ),
    (
        "fairness",
        "sum of P/S over the tasks; n if no task is slowed down",
    ),
    ("R_v", "sum of the shares; above 100 % the tasks compete"),
    (
        "mismatch",
        "sum over pairs of tasks of | D_a/D_b - B_a/B_b |: how far batch sizes B are from the \
         data volumes D",
    ),
    (
        "95 %",
        "interval that holds the true throughput in 95 of 100 cases",
    ),
];

/// The verdict of a plan in one line; empty if the plan has none.
pub fn headline(plan: &Plan) -> String {
    let verdict = match &plan.answer {
        Answer::Infeasible(_) => return "No plan meets the constraints.".to_owned(),
        Answer::Feasible(found) => match &found.target {
            Some(target) => return of_target(found, target),
            None => by_rate(found).or_else(|| Some(of_verdict(found, found.verdict.as_ref()?))),
        },
        Answer::ByHand(_) => None,
    };
    verdict.unwrap_or_default()
}

/// The verdict of a new plan, preceded by its name; `None` for a single task, or if nothing is
/// feasible.
pub fn verdict_note(plan: &Plan) -> Option<String> {
    let found = plan.feasible().filter(|_| plan.tasks.len() > 1)?;
    let progress = match &found.target {
        Some(target) => Some(of_target(found, target)),
        None => by_rate(found),
    };
    let verdict = found.verdict.as_ref().map_or_else(
        || {
            "no verdict: the model predicts zero throughput for a task, alone or beside some of the others"
                .to_owned()
        },
        |verdict| of_verdict(found, verdict),
    );
    let name = plan.id.as_deref().map(|id| format!("{id}: "));
    Some(name.unwrap_or_default() + &progress.unwrap_or(verdict))
}

/// When the targets are reached with the plan and with the alternatives, and the batch sizes of
/// each.
fn of_target(found: &Feasible, t: &Target) -> String {
    let together = t.together.get();
    let alone = t.one_after_another.get();
    let advice = if t.share { "Share" } else { "Do not share" };
    let doubt = if is_certain(t) {
        ""
    } else {
        " (within the error of the prediction)"
    };
    let gain = t.gain_interval.map_or_else(String::new, |[low, high]| {
        format!("; 95 %: {} to {}", change(low), change(high))
    });
    let which = match found.objective.kind {
        ObjectiveKind::ProgressLast => "last",
        _ => "mean",
    };
    let high = t.together_high.map_or_else(
        || " and more".to_owned(),
        |high| format!(" to {}", plain(high.get())),
    );
    let fastest = t.fastest_samples.as_ref().map_or_else(String::new, |f| {
        let sizes = sizes(f.tasks.iter().map(|c| c.batch));
        let seconds = plain(f.seconds.get());
        format!(" The shortest round ({sizes}) would be there in {seconds} s.")
    });
    format!(
        "{advice}{doubt} at {}: target ({which} of the tasks) in {} s (95 %: {}{high}); one after \
         another in {} s, at its best {} ({}{gain}).{fastest}",
        sizes(found.decisions.iter().map(|d| d.batch)),
        plain(together),
        plain(t.together_low.get()),
        plain(alone),
        sizes(t.tasks.iter().map(|t| t.alone_batch)),
        change(alone / together),
    )
}

/// Whether the answer holds within the errors; the interval of the gain leaves out those that both times share.
fn is_certain(t: &Target) -> bool {
    let alone = t.one_after_another.get();
    match (t.gain_interval, t.share) {
        (Some([low, _]), true) => low > 1.0,
        (Some([_, high]), false) => high <= 1.0,
        (None, true) => t.together_high.is_some_and(|high| high.get() < alone),
        (None, false) => t.together_low.get() >= alone,
    }
}

/// Progress per second relative to each task's maximum alone, if the plan maximises progress.
fn by_rate(found: &Feasible) -> Option<String> {
    let Objective { kind, value } = found.objective;
    let which = match kind {
        ObjectiveKind::Progress => "mean",
        ObjectiveKind::ProgressLast => "least",
        _ => return None,
    };
    let serial = found
        .baselines
        .iter()
        .find(|b| b.name == Scheme::Temporal)?;
    let advice = if value > serial.objective {
        "Share"
    } else {
        "Do not share"
    };
    Some(format!(
        "{advice} at {}: {:.0} % of the progress that a task makes alone ({which} of the tasks); one after \
         another {:.0} %, at its best {} ({}).",
        sizes(found.decisions.iter().map(|d| d.batch)),
        100.0 * value,
        100.0 * serial.objective,
        sizes(serial.tasks.iter().map(|c| c.batch)),
        change(value / serial.objective),
    ))
}

/// Batch sizes of all tasks; a single number if they are equal.
fn sizes(all: impl Iterator<Item = Batch>) -> String {
    let all: Vec<Batch> = all.collect();
    match all.first() {
        Some(first) if all.iter().all(|b| b == first) => format!("batch size {first}"),
        _ => {
            let each: Vec<String> = all.iter().map(ToString::to_string).collect();
            format!("batch sizes {}", each.join(", "))
        }
    }
}

fn of_verdict(found: &Feasible, v: &Verdict) -> String {
    let together = v.together.get();
    let alone = v.one_after_another.get();
    let advice = if v.share { "Share" } else { "Do not share" };
    let certain = if v.share {
        v.together_high.is_some_and(|high| high.get() < alone)
    } else {
        v.together_low.get() >= alone
    };
    let doubt = if certain {
        ""
    } else {
        " (within the error of the prediction)"
    };
    let samples: f64 = v.tasks.iter().map(|t| t.samples).sum();
    let show = |seconds: f64| match v.work {
        WorkKind::Round => format!("{} s", plain(seconds)),
        WorkKind::Mixture => format!("{} samples/s", plain(samples / seconds)),
    };
    let low = v.together_low.get();
    let high = v.together_high.map(|h| h.get());
    let interval = match (v.work, high) {
        (WorkKind::Round, Some(high)) => format!("95 %: {} to {}", plain(low), plain(high)),
        (WorkKind::Round, None) => format!("95 %: {} and more", plain(low)),
        (WorkKind::Mixture, Some(high)) => {
            format!(
                "95 %: {} to {}",
                plain(samples / high),
                plain(samples / low)
            )
        }
        (WorkKind::Mixture, None) => format!("95 %: up to {}", plain(samples / low)),
    };
    let mixture = match v.work {
        WorkKind::Round => String::new(),
        WorkKind::Mixture => {
            let part =
                |t: &doc::WorkAlone| format!("{} {:.0} %", t.id, 100.0 * t.samples / samples);
            let parts: Vec<String> = v.tasks.iter().map(part).collect();
            format!(", of a mixture of {}", parts.join(", "))
        }
    };
    let size = match found.constraints.batch {
        BatchPolicy::Reference => "reference",
        _ => "best",
    };
    format!(
        "{advice}{doubt}: together {} ({interval}), one after another {}, each at its {size} batch \
         size{mixture} ({}).{}",
        show(together),
        show(alone),
        change(alone / together),
        beaten(v, &show),
    )
}

/// Names the best scheme with equal shares, and says so if it does the work sooner than the plan.
fn beaten(v: &Verdict, show: &dyn Fn(f64) -> String) -> String {
    let Some((scheme, time)) = v.best_static else {
        return String::new();
    };
    let shares = match scheme {
        Scheme::Temporal | Scheme::Sharing => "100 % each",
        Scheme::Isolated => "100/n % each",
        Scheme::Nvidia => "100/(0.5 n) % each",
        Scheme::Moderate => "60 % each",
        Scheme::Aggressive => "80 % each",
    };
    let (name, said) = (scheme.name(), show(time.get()));
    // Ignore a difference that is too small to be displayed.
    if time < v.together && said != show(v.together.get()) {
        format!(" For this work {name} ({shares}) is better than the plan: {said}.")
    } else {
        format!(" Best equal shares: {name} ({shares}), {said}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Seconds;

    #[test]
    fn an_error_that_both_times_share_makes_no_doubt() {
        let seconds = |s| Seconds::new(s).unwrap();
        let target = |together, gain_interval| Target {
            share: together < 100.0,
            together: seconds(together),
            together_low: seconds(together / 2.0),
            together_high: Some(seconds(together * 2.0)),
            one_after_another: seconds(100.0),
            gain_interval,
            fastest_samples: None,
            tasks: Vec::new(),
        };
        assert!(!is_certain(&target(80.0, None)));
        assert!(is_certain(&target(80.0, Some([1.1, 1.4]))));
        assert!(!is_certain(&target(80.0, Some([0.9, 1.7]))));
        assert!(!is_certain(&target(120.0, None)));
        assert!(is_certain(&target(120.0, Some([0.7, 0.9]))));
        assert!(!is_certain(&target(120.0, Some([0.7, 1.1]))));
    }
}
