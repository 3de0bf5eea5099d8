//! Weight of the process for all tasks relative to the tasks' own models.

use doc::Method;
use math::stats;

use super::left::{HeldOut, by_co_run, sums};
use crate::pool::Weights;

/// Weights of the process of all tasks that are compared with 1.
const WEIGHTS: [f64; 4] = [0.0, 0.25, 0.5, 0.75];
/// Weights of the process of sums; the first, a half, is used if held-out data do not distinguish them.
const OF_SUMS: [f64; 5] = [0.5, 0.25, 0.75, 0.0, 1.0];

/// A task's own model is used in co-runs within its domain if its mean gain exceeds this many standard errors. The
/// throughputs of one co-run have correlated errors, so for pairs one standard error is really 1.4.
const SURE: f64 = 1.5;

/// The same for choices that affect all co-runs, and if whole tasks or batch sizes were left out, because their co-runs
/// have correlated errors. For tasks that never ran with others, errors were 2 to 6 % smaller than with 1.5 (Gavel,
/// three GPUs, tasks and draws that no table uses). On 540 co-runs of mixes (MISO) the error was 9.5 % with the blend
/// and 6.7 % with the process for all tasks; on other draws 12.3 and 8.5. Without a required significance, one draw
/// kept the blend.
pub(crate) const VERY_SURE: f64 = 3.0;

/// Mean reduction from the errors `others` to `errors` of the same throughputs or co-runs, if it exceeds `sure`
/// standard errors. Errors above 1 count as 1, because they are bad measurements or equally useless predictions.
pub(crate) fn sure_gain(errors: &[f64], others: &[f64], sure: f64) -> Option<f64> {
    let both = errors.iter().zip(others);
    let gains: Vec<f64> = both.map(|(a, b)| b.min(1.0) - a.min(1.0)).collect();
    let gain = stats::mean(&gains)?;
    let square: f64 = gains.iter().map(|g| (g - gain).powi(2)).sum();
    (gain > sure * square.sqrt() / gains.len() as f64).then_some(gain)
}

/// Weight of the process of all tasks: 1, unless a smaller weight reduces the error of held-out throughputs by more
/// than `sure` standard errors. `errors` returns the relative errors of the same throughputs for a given weight. With
/// few co-runs the errors do not distinguish the weights, and a task's own model has almost no data. With 20 pairs of
/// trainings on a V100 (Gavel), the error was 32 % with the weight of least held-out error, and 28 % with the process
/// alone.
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

/// The weights of the process of all tasks, from held-out single co-runs and share levels. If no held-out share was
/// new, both are the same. If nothing could be left out, the process has full weight at measured shares: with five
/// pairs of trainings (Gavel; V100, P100, K80) its errors were 36, 16 and 13 %, and those of the tasks' own models 40,
/// 21 and 24 %.
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
    if left.is_empty() && levels.is_empty() {
        return Weights {
            known: 1.0,
            far: 0.0,
        };
    }
    let known = weight(true);
    let far = weight(false).or(known).unwrap_or(0.0);
    Weights {
        known: known.unwrap_or(far),
        far,
    }
}

/// Weight of the process of sums: the one with the smallest error of held-out sums. Neighbouring weights have similar
/// errors, so a wrong choice costs little. Errors are clamped to 1, as for the process of all tasks. The weight is 1 if
/// nothing could be left out: with five pairs, errors of the rates do not depend on it, and the verdict "sharing is
/// worth it" is right most often.
pub(crate) fn sum_weight(left: &[HeldOut], method: Method) -> f64 {
    if left.is_empty() {
        return 1.0;
    }
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

/// Weight of the extrapolation to more tasks than were measured together, learnt by leaving out the largest co-runs
/// (`crowd`); 1 if none could be left out.
pub(crate) fn line_weight(crowd: &[HeldOut], method: Method) -> f64 {
    if crowd.is_empty() {
        return 1.0;
    }
    let moved = |weight: f64| crowd.iter().map(move |l| l.shifted(weight).error(method));
    sure_weight(VERY_SURE, |weight| moved(weight).collect())
}
