use doc::params::WorkloadLaw;
use math::stats;

use crate::Dataset;
use crate::structured::{Form, Law, Pace};

/// Seconds per sample from FLOPs and bytes: `g1 = ga f + gb m`, `ga, gb >= 0`, by relative least squares over the
/// tasks that have all three.
///
/// This is FedMT's workload `O = alpha f B + beta m B` in `t = gamma_0 + gamma_1 O`. `gamma_1
/// alpha` and `gamma_1 beta` are not separately identifiable, so `alpha + beta` is set to 1.
pub(crate) fn fit(data: &Dataset, laws: &[Option<Law>]) -> Option<WorkloadLaw> {
    let mut rows: Vec<(f64, f64, f64)> = Vec::new();
    let mut fixed = Vec::new();
    for (spec, law) in data.tasks.iter().zip(laws) {
        let (Some(law), Some(f)) = (law, spec.flops_per_sample) else {
            continue;
        };
        let m = spec.bytes_per_sample.unwrap_or(0.0);
        rows.push((f, m, law.pace.per_sample));
        fixed.push(law.pace.fixed);
    }
    let gamma0_s = stats::median(&fixed)?;
    let (ga, gb) = two_non_negative(&rows)?;
    let gamma1_s = ga + gb;
    (gamma1_s > 0.0).then(|| WorkloadLaw {
        gamma0_s,
        gamma1_s,
        alpha: ga / gamma1_s,
        beta: gb / gamma1_s,
    })
}

/// Minimises `sum ((ga f + gb m) / g - 1)^2` over `ga, gb >= 0`.
fn two_non_negative(rows: &[(f64, f64, f64)]) -> Option<(f64, f64)> {
    if rows.is_empty() {
        return None;
    }
    let mut ff = 0.0;
    let mut mm = 0.0;
    let mut fm = 0.0;
    let mut f1 = 0.0;
    let mut m1 = 0.0;
    for (f, m, g) in rows {
        let (f, m) = (f / g, m / g);
        ff += f * f;
        mm += m * m;
        fm += f * m;
        f1 += f;
        m1 += m;
    }
    let det = ff * mm - fm * fm;
    if rows.len() >= 2 && det > 1e-9 * ff * mm {
        let a = (f1 * mm - m1 * fm) / det;
        let b = (m1 * ff - f1 * fm) / det;
        if a >= 0.0 && b >= 0.0 {
            return Some((a, b));
        }
    }
    // On the boundary, one of the two is zero; take the solution with the smaller error.
    let one = |x1: f64, xx: f64| if xx > 0.0 { x1 * x1 / xx } else { 0.0 };
    if one(f1, ff) >= one(m1, mm) {
        Some((f1 / ff, 0.0))
    } else {
        Some((0.0, m1 / mm))
    }
}

/// Median of a parameter over `laws`; `otherwise` if there are none.
fn usual(laws: &[&Law], get: impl Fn(&Law) -> f64, otherwise: f64) -> f64 {
    let v: Vec<f64> = laws.iter().map(|l| get(l)).collect();
    stats::median(&v).unwrap_or(otherwise)
}

/// Completes the laws: tasks that never ran with others get the usual slow-downs, and tasks that never ran at all get a
/// law from their FLOPs and bytes. `together` marks the tasks that ran with others; `varied` marks those that ran at
/// several shares, so that their bend is known.
pub(crate) fn complete(
    data: &Dataset,
    laws: &mut [Option<Law>],
    together: &[bool],
    varied: &[bool],
    workload: Option<&WorkloadLaw>,
    form: Form,
) {
    let n = laws.len();
    let known: Vec<Law> = laws
        .iter()
        .zip(together)
        .filter(|(_, t)| **t)
        .filter_map(|(l, _)| l.clone())
        .collect();
    let known: Vec<&Law> = known.iter().collect();
    let (overlap, exponent) = form.usual();
    // The effect of the share is known for tasks that ran at several shares, alone or not. If only solo runs were
    // measured (on slices of an A100, MISO), using constants instead raised the error with 10 slices from 12 to 18 %.
    let scaled: Vec<Law> = laws
        .iter()
        .zip(together.iter().zip(varied))
        .filter(|(_, (together, varied))| **together || **varied)
        .filter_map(|(l, _)| l.clone())
        .collect();
    let scaled: Vec<&Law> = scaled.iter().collect();
    let pace = Pace {
        fixed: 0.0,
        per_sample: 0.0,
        crowding: usual(&known, |l| l.pace.crowding, 0.4),
        bend: usual(&scaled, |l| l.pace.bend, 0.4),
        sharpness: usual(&scaled, |l| l.pace.sharpness, 3.0),
        overlap: usual(&known, |l| l.pace.overlap, overlap),
        exponent: usual(&known, |l| l.pace.exponent, exponent),
    };
    let batch = |i: usize| {
        let sizes: Vec<f64> = data.tasks[i].batches.iter().map(|b| b.as_f64()).collect();
        stats::median(&sizes).unwrap_or(1.0)
    };
    let host = |(i, law): (usize, &Option<Law>)| {
        let pace = &law.as_ref().filter(|_| varied[i])?.pace;
        Some(pace.fixed / (pace.per_sample * batch(i)))
    };
    let of_host: Vec<f64> = laws.iter().enumerate().filter_map(host).collect();
    let usual_host = stats::median(&of_host).filter(|u| form == Form::Overlapping && *u > 0.0);
    // How much task j slows the others: the median of its column over the tasks that ran with it.
    let column: Vec<f64> = (0..n)
        .map(|j| usual(&known, |l| l.slowdown[j], 0.3))
        .collect();
    for (i, law) in laws.iter_mut().enumerate() {
        if together[i] {
            continue;
        }
        let (fixed, per_sample) = match (&law, workload, data.tasks[i].flops_per_sample) {
            (Some(l), ..) => (l.pace.fixed, l.pace.per_sample),
            (None, Some(w), Some(f)) => {
                let m = data.tasks[i].bytes_per_sample.unwrap_or(0.0);
                (w.gamma0_s, w.gamma1_s * (w.alpha * f + w.beta * m))
            }
            _ => continue,
        };
        // Only partial shares show how much of a step runs on the device: a step that hardly grows with the batch size
        // may still need the whole device.
        let per_sample = match usual_host {
            Some(usual) if !varied[i] => per_sample.max(fixed / (usual * batch(i))),
            _ => per_sample,
        };
        let own = law.as_ref().filter(|_| varied[i]).map(|l| &l.pace);
        *law = Some(Law {
            pace: Pace {
                fixed,
                per_sample,
                crowding: pace.crowding,
                bend: own.map_or(pace.bend, |p| p.bend),
                sharpness: own.map_or(pace.sharpness, |p| p.sharpness),
                overlap: law.as_ref().map_or(pace.overlap, |l| l.pace.overlap),
                exponent: pace.exponent,
            },
            slowdown: column.clone(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovers_both_weights_and_stays_non_negative() {
        let rows: Vec<(f64, f64, f64)> = [(1.0, 2.0), (3.0, 1.0), (2.0, 2.0)]
            .iter()
            .map(|&(f, m)| (f, m, 0.5 * f + 0.25 * m))
            .collect();
        let (a, b) = two_non_negative(&rows).unwrap();
        assert!((a - 0.5).abs() < 1e-12 && (b - 0.25).abs() < 1e-12);
        let rows = [(1.0, 2.0, 1.0), (2.0, 1.0, 2.0)];
        let (a, b) = two_non_negative(&rows).unwrap();
        assert!(a > 0.0 && b >= 0.0);
        assert_eq!(two_non_negative(&[]), None);
    }
}
