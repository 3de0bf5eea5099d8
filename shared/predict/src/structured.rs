//! The structured law: `t_i = g0 + (ga f_i B + gb m_i B) / R_i^p (1 + sum_j c_ij R_j)`.
//!
//! Step time of task i at batch `B` and share `R_i` beside tasks j at shares `R_j`. FedMT gives
//! the linear law in the workload `O = alpha f B + beta m B`; the share exponent and the
//! interference factors are ours. For one task `ga f + gb m` is one number, its seconds per
//! sample `g1`; `alpha` and `beta` follow from the `g1` of several tasks.

use math::optimise::least_squares;
use math::stats;

/// What one task met in one co-run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Meeting {
    /// Batch size.
    pub batch: f64,
    /// Own share, fraction of the device.
    pub share: f64,
    /// `(task, share)` of the others.
    pub others: Vec<(usize, f64)>,
    /// Seconds per step.
    pub step: f64,
}

/// Parameters of one task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Law {
    /// Seconds per step that no share changes.
    pub fixed: f64,
    /// Seconds per sample on the whole device.
    pub per_sample: f64,
    /// Exponent of the share, in [`EXPONENT`].
    pub exponent: f64,
    /// `c_ij`: slow-down per unit share of task j, 0 to [`MOST_SLOWDOWN`]; 0 at `j = i`.
    pub slowdown: Vec<f64>,
}

/// Range of the share exponent.
const EXPONENT: (f64, f64) = (0.02, 1.5);
/// Largest interference factor.
const MOST_SLOWDOWN: f64 = 20.0;

/// `lo + (hi - lo) / (1 + e^-u)` and its derivative by `u`.
fn squash(u: f64, (lo, hi): (f64, f64)) -> (f64, f64) {
    let s = 1.0 / (1.0 + (-u.clamp(-40.0, 40.0)).exp());
    (lo + (hi - lo) * s, (hi - lo) * s * (1.0 - s))
}

fn unsquash(v: f64, (lo, hi): (f64, f64)) -> f64 {
    let s = ((v - lo) / (hi - lo)).clamp(1e-6, 1.0 - 1e-6);
    (s / (1.0 - s)).ln()
}

impl Law {
    /// Seconds per step.
    pub fn step(&self, batch: f64, share: f64, others: impl Iterator<Item = (usize, f64)>) -> f64 {
        let pressure: f64 = others.map(|(j, r)| self.slowdown[j] * r).sum();
        self.fixed + self.per_sample * batch * share.powf(-self.exponent) * (1.0 + pressure)
    }

    /// Robust least squares on `ln step` (Huber weights at 2 robust standard deviations, three
    /// rounds) with weak pulls towards `p = 0.7` and `c = 0.3`, for tasks that met few others.
    pub fn fit(meetings: &[Meeting], tasks: usize) -> Law {
        let start = Law::start(meetings, tasks);
        let mut theta = start.theta();
        let mut weight = vec![1.0; meetings.len()];
        for _ in 0..3 {
            let m = meetings.len();
            let found = least_squares(
                |u, r, j| residuals(meetings, &weight, u, r, j),
                &theta,
                m + theta.len(),
                60,
            );
            theta = found.x;
            let law = Law::of_theta(&theta);
            let e: Vec<f64> = meetings.iter().map(|v| law.error(v)).collect();
            let sigma = stats::mad_sigma(&e, 0.0).unwrap_or(0.0).max(1e-3);
            let next: Vec<f64> = e
                .iter()
                .map(|v| (2.0 * sigma / v.abs().max(1e-12)).min(1.0).sqrt())
                .collect();
            if next.iter().zip(&weight).all(|(a, b)| (a - b).abs() < 1e-3) {
                break;
            }
            weight = next;
        }
        Law::of_theta(&theta)
    }

    /// `ln(measured step / law)`.
    pub fn error(&self, m: &Meeting) -> f64 {
        (m.step / self.step(m.batch, m.share, m.others.iter().copied())).ln()
    }

    fn start(meetings: &[Meeting], tasks: usize) -> Law {
        // Half of the shortest step is fixed: a middle that the search leaves at once.
        let per: Vec<f64> = meetings.iter().map(|m| m.step / m.batch).collect();
        let fastest = per.iter().copied().fold(f64::INFINITY, f64::min);
        let shortest = meetings
            .iter()
            .map(|m| m.step)
            .fold(f64::INFINITY, f64::min);
        Law {
            fixed: (0.4 * shortest).max(1e-9),
            per_sample: (0.6 * fastest).max(1e-12),
            exponent: 0.7,
            slowdown: vec![0.3; tasks],
        }
    }

    fn theta(&self) -> Vec<f64> {
        let mut u = vec![
            self.fixed.ln(),
            self.per_sample.ln(),
            unsquash(self.exponent, EXPONENT),
        ];
        u.extend(
            self.slowdown
                .iter()
                .map(|c| unsquash(*c, (0.0, MOST_SLOWDOWN))),
        );
        u
    }

    fn of_theta(u: &[f64]) -> Law {
        Law {
            fixed: u[0].exp(),
            per_sample: u[1].exp(),
            exponent: squash(u[2], EXPONENT).0,
            slowdown: u[3..]
                .iter()
                .map(|v| squash(*v, (0.0, MOST_SLOWDOWN)).0)
                .collect(),
        }
    }
}

/// Weighted residuals `ln(law) - ln(step)`, then the pulls on the parameters, and the Jacobian.
fn residuals(meetings: &[Meeting], weight: &[f64], u: &[f64], r: &mut [f64], jac: &mut [f64]) {
    let p = u.len();
    let law = Law::of_theta(u);
    let d_exponent = squash(u[2], EXPONENT).1;
    jac.fill(0.0);
    for (k, (m, w)) in meetings.iter().zip(weight).enumerate() {
        let pressure: f64 = m.others.iter().map(|&(j, s)| law.slowdown[j] * s).sum();
        let alone = law.per_sample * m.batch * m.share.powf(-law.exponent);
        let variable = alone * (1.0 + pressure);
        let step = law.fixed + variable;
        r[k] = w * (step.ln() - m.step.ln());
        let row = &mut jac[k * p..(k + 1) * p];
        row[0] = w * law.fixed / step;
        row[1] = w * variable / step;
        row[2] = -w * variable / step * m.share.ln() * d_exponent;
        for &(j, s) in &m.others {
            row[3 + j] += w * alone * s / step * squash(u[3 + j], (0.0, MOST_SLOWDOWN)).1;
        }
    }
    // Standard deviation 0.02 of a residual against prior widths in units of u.
    let n = meetings.len();
    for (k, (v, centre, pull)) in [
        (u[0], u[0], 0.0),
        (u[1], u[1], 0.0),
        (u[2], unsquash(0.7, EXPONENT), 0.01),
    ]
    .into_iter()
    .chain(
        u[3..]
            .iter()
            .map(|v| (*v, unsquash(0.3, (0.0, MOST_SLOWDOWN)), 0.01)),
    )
    .enumerate()
    {
        r[n + k] = pull * (v - centre);
        jac[(n + k) * p + k] = pull;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth() -> Law {
        Law {
            fixed: 0.010,
            per_sample: 2e-4,
            exponent: 0.85,
            slowdown: vec![0.0, 0.5, 0.2],
        }
    }

    fn meetings() -> Vec<Meeting> {
        let mut v = Vec::new();
        for batch in [32.0, 64.0, 128.0] {
            for share in [0.2, 0.5, 1.0] {
                for (a, b) in [(0.0, 0.0), (0.5, 0.3), (1.0, 0.2), (0.3, 1.0)] {
                    let others = vec![(1, a), (2, b)];
                    let step = truth().step(batch, share, others.iter().copied());
                    v.push(Meeting {
                        batch,
                        share,
                        others,
                        step,
                    });
                }
            }
        }
        v
    }

    #[test]
    fn jacobian_agrees_with_differences() {
        let v = meetings();
        let w = vec![0.9; v.len()];
        let u = [-4.0, -8.0, 0.3, -3.0, -2.0, -4.0];
        let (m, p) = (v.len() + u.len(), u.len());
        let (mut r, mut j) = (vec![0.0; m], vec![0.0; m * p]);
        residuals(&v, &w, &u, &mut r, &mut j);
        for k in 0..p {
            let mut at = |h: f64| {
                let mut u = u;
                u[k] += h;
                let mut r = vec![0.0; m];
                residuals(&v, &w, &u, &mut r, &mut vec![0.0; m * p]);
                r
            };
            let (hi, lo) = (at(1e-6), at(-1e-6));
            for i in 0..v.len() {
                let d = (hi[i] - lo[i]) / 2e-6;
                assert!((d - j[i * p + k]).abs() < 1e-6, "{i} {k}");
            }
        }
    }

    #[test]
    fn recovers_its_own_law_from_clean_data() {
        let law = Law::fit(&meetings(), 3);
        for m in meetings() {
            assert!(law.error(&m).abs() < 0.01, "{law:?}");
        }
        assert!((law.exponent - 0.85).abs() < 0.03, "{law:?}");
    }

    #[test]
    fn one_outlier_in_twenty_hardly_moves_it() {
        let mut v = meetings();
        v[7].step *= 3.0;
        v[22].step *= 0.2;
        let law = Law::fit(&v, 3);
        let worst = meetings()
            .iter()
            .map(|m| law.error(m).abs())
            .fold(0.0, f64::max);
        assert!(worst < 0.05, "{worst} {law:?}");
    }
}
