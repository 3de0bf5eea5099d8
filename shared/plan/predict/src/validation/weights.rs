//! Weight of the process for all tasks relative to the tasks' own models.

use doc::Method;
use math::stats;

use super::left::{HeldOut, by_co_run, sums};
use crate::pool::Weights;

/// Weights of the process of all tasks that are tried beside 1.
const WEIGHTS: [f64; 4] = [0.0, 0.25, 0.5, 0.75];
/// Weights of the process of sums: a half wherever what was left out does not tell them apart.
const OF_SUMS: [f64; 5] = [0.5, 0.25, 0.75, 0.0, 1.0];

/// Standard errors of the mean gain from which on a task's own model counts in co-runs that it knows: the
/// throughputs of one co-run err together, so that of pairs one standard error is really 1.4.
const SURE: f64 = 1.5;

/// The same for a choice that holds for all co-runs, and where whole tasks or batch sizes were left out,
/// whose co-runs err together. For tasks that never ran with others it left 2 to 6 % less than 1.5 (Gavel,
/// three GPUs, tasks and draws that no table is made of). On 540 co-runs of mixes (MISO) the error was 9.5
/// % with the blend and 6.7 % with the process for all tasks; on other draws 12.3 and 8.5. Without
/// requiring a significant gain, one draw kept the blend.
pub(crate) const VERY_SURE: f64 = 3.0;

/// Mean reduction of these errors relative to the others of the same throughputs or co-runs, if it exceeds
/// `sure` standard errors. They count up to 1, as those beyond are bad measurements or equally useless.
pub(crate) fn sure_gain(errors: &[f64], others: &[f64], sure: f64) -> Option<f64> {
    let both = errors.iter().zip(others);
    let gains: Vec<f64> = both.map(|(a, b)| b.min(1.0) - a.min(1.0)).collect();
    let gain = stats::mean(&gains)?;
    let square: f64 = gains.iter().map(|g| (g - gain).powi(2)).sum();
    (gain > sure * square.sqrt() / gains.len() as f64).then_some(gain)
}

/// How much the process of all tasks should count: wholly, unless a smaller weight leaves a smaller error of
/// held-out throughputs by more than `sure` standard errors. `errors` gives the relative errors with a
/// weight, always of the same throughputs. From few co-runs the errors do not tell the weights apart, and a
/// task's own model has next to nothing to learn from: with 20 pairs of trainings on a V100 (Gavel) the
/// weight of the least error left 32 % where the process alone left 28.
pub(crate) fn sure_weight(sure: f64, errors: impl Fn(f64) -> Vec<f64>) -> f64 {
    let pooled = errors(1.0);
    if pooled.is_empty() {
        return 0.0;
    }
    let (mut best, mut most) = (1.0, 0.0);
    for weight in WEIGHTS {
        if let Some(gain) = sure_gain(&errors(weight), &pooled, sure)
            && gain > most
        {
            (best, most) = (weight, gain);
        }
    }
    best
}

/// The weights for what was left out, single co-runs and share levels; 0 where nothing was. Where no
/// share was new, both are one.
pub(crate) fn pool_weights(left: &[HeldOut], levels: &[HeldOut], method: Method) -> Weights {
    let weight = |has_levels: bool| {
        let all = left.iter().chain(levels);
        let like: Vec<&HeldOut> = all
            .filter(|l| l.pooled.is_some() && l.has_levels == has_levels)
            .collect();
        let errors = |weight| {
            let of = |l: &&HeldOut| HeldOut { weight, ..**l }.error(method);
            like.iter().map(of).collect()
        };
        (!like.is_empty()).then(|| sure_weight(SURE, errors))
    };
    let known = weight(true);
    let far = weight(false).or(known).unwrap_or(0.0);
    Weights {
        known: known.unwrap_or(far),
        far,
    }
}

/// How much the process of sums should count: what leaves the smallest error of held-out sums. The error
/// changes little between neighbours, so that a wrong choice costs little; errors count up to 1, as for
/// the process of all tasks.
pub(crate) fn sum_weight(left: &[HeldOut], method: Method) -> f64 {
    let all: Vec<_> = by_co_run(left).filter_map(|c| sums(c, method)).collect();
    let error = |weight: f64| -> f64 {
        let of = |(by_rates, measured, by_sums): &(f64, f64, f64)| {
            let sum = by_rates * (by_sums / by_rates).powf(weight);
            (sum / measured - 1.0).abs().min(1.0)
        };
        all.iter().map(of).sum()
    };
    let least = OF_SUMS
        .into_iter()
        .min_by(|a, b| error(*a).total_cmp(&error(*b)));
    least.filter(|_| !all.is_empty()).unwrap_or(0.0)
}

/// How much the line through measured numbers of tasks should count where more run, from the co-runs of most
/// tasks, left out whole; wholly if there are none of fewer.
pub(crate) fn line_weight(crowd: &[HeldOut], method: Method) -> f64 {
    if crowd.is_empty() {
        return 1.0;
    }
    let moved = |weight: f64| crowd.iter().map(move |l| l.shifted(weight).error(method));
    sure_weight(VERY_SURE, |weight| moved(weight).collect())
}
