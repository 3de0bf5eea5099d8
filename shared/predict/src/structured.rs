//! The structured law of a step.
//!
//! ```text
//! t_i = g0 (1 + h x_m) + g1 B phi(R_i) (1 + sum_j c_ij u_j sqrt(R_j))
//! x_m = 2 (1 - 1/m),   phi(R) = ((rho/R)^k + 1)^(1/k) / (rho^k + 1)^(1/k)
//! ```
//!
//! Step time of task i at batch `B` and share `R_i` among `m` running tasks; tasks j are the
//! others. FedMT gives the linear law in the workload, `g0 + ga f B + gb m B`; for one task
//! `ga f + gb m` is one number, its seconds per sample `g1`, and alpha and beta follow from the
//! `g1` of several tasks. What stands around it is ours, in place of a power `R^-p` and a sum of
//! the others' shares, because each part lowers the error on held-out co-runs by a third:
//!
//! - `h`: tasks share the host, so the part of a step that no share changes grows with the
//!   number of them;
//! - `phi`: below `rho` of the device a task slows down as `1/R`, above it gains nothing more,
//!   and `k` says how sharp the bend is;
//! - `u_j`: the part of its step in which task j uses the device at all, by its own law.

use math::optimise::least_squares;
use math::stats;

/// What one task met in one co-run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Meeting {
    /// Batch size.
    pub batch: f64,
    /// Own share, fraction of the device.
    pub share: f64,
    /// The others.
    pub others: Vec<Other>,
    /// Seconds per step.
    pub step: f64,
}

/// Another running task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Other {
    pub task: usize,
    pub batch: f64,
    pub share: f64,
}

impl Other {
    /// Its `u_j sqrt(R_j)` on a host crowded by `x_m`, with the task; half busy where it has no law yet.
    fn contention(&self, host_load: f64, law: Option<&Law>) -> (usize, f64) {
        let busy = law.map_or(0.5, |l| l.pace.busy(self.batch, self.share, host_load));
        (self.task, busy * self.share.sqrt())
    }
}

/// How a task behaves by itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pace {
    /// `g0`: seconds per step that no share changes.
    pub fixed: f64,
    /// `h`: growth of the fixed part with the crowding `x_m` of the host.
    pub crowding: f64,
    /// `g1`: seconds per sample on the whole device.
    pub per_sample: f64,
    /// `rho`: share beyond which more is no use.
    pub bend: f64,
    /// `k`: sharpness of the bend.
    pub sharpness: f64,
}

/// Parameters of one task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Law {
    pub pace: Pace,
    /// `c_ij`; 0 at `j = i`.
    pub slowdown: Vec<f64>,
}

/// Parameters before the slow-downs.
const OWN: usize = 5;
/// Domains of the parameters, wide enough that a bound is met only where the measurements say
/// nothing: of a task measured at one share the bend and the sharpness could be anything.
/// `h`: the host of a crowded machine, `x_m < 2`, is at most seven times as slow.
const CROWDING: (f64, f64) = (0.0, 3.0);
/// `rho`: above 1 the task gains up to the whole device and would gain from a larger one; a
/// bend below 1 % cannot be told from one at the smallest share that is measured.
const BEND: (f64, f64) = (0.01, 5.0);
/// `k`: at 12 the bend is a corner but for 6 % (`2^(1/12)`); below 0.3 it is none.
const SHARPNESS: (f64, f64) = (0.3, 12.0);
/// `c_ij`: 0, since no co-runner speeds a task up; at 20 the device part of a step takes 21 times
/// as long beside one busy co-runner of the whole device.
const SLOWDOWN: (f64, f64) = (0.0, 20.0);
/// Where the fit of `c_ij` begins, and what stands for it where no pair was measured: a co-runner
/// that is always busy on the whole device makes the device part of a step 30 % longer.
const USUAL_SLOWDOWN: f64 = 0.3;

/// `lo + (hi - lo) / (1 + e^-u)` and its derivative by `u`.
fn squash(u: f64, (lo, hi): (f64, f64)) -> (f64, f64) {
    let s = 1.0 / (1.0 + (-u.clamp(-40.0, 40.0)).exp());
    (lo + (hi - lo) * s, (hi - lo) * s * (1.0 - s))
}

fn unsquash(v: f64, (lo, hi): (f64, f64)) -> f64 {
    let s = ((v - lo) / (hi - lo)).clamp(1e-6, 1.0 - 1e-6);
    (s / (1.0 - s)).ln()
}

/// `x_m`: how crowded the host is with `m` running tasks, 0 alone.
pub(crate) fn host_load(m: usize) -> f64 {
    2.0 * (1.0 - 1.0 / m as f64)
}

impl Pace {
    /// `phi(R)` and the derivatives of its logarithm by `ln rho` and by `k`.
    fn stretch(&self, share: f64) -> (f64, f64, f64) {
        let (rho, k) = (self.bend, self.sharpness);
        let ratio = (rho / share).ln();
        let (a, b) = ((k * ratio).exp(), (k * rho.ln()).exp());
        let (pa, pb) = (a / (1.0 + a), b / (1.0 + b));
        let ln = (a.ln_1p() - b.ln_1p()) / k;
        (ln.exp(), pa - pb, (pa * ratio - pb * rho.ln() - ln) / k)
    }

    /// Seconds of a step on the device, undisturbed.
    pub fn device(&self, batch: f64, share: f64) -> f64 {
        self.per_sample * batch * self.stretch(share).0
    }

    /// Seconds of a step beside the device, on a host crowded by `x_m`.
    pub fn host(&self, host_load: f64) -> f64 {
        self.fixed * (1.0 + self.crowding * host_load)
    }

    /// `u`: the part of its step in which the task uses the device.
    pub fn busy(&self, batch: f64, share: f64, host_load: f64) -> f64 {
        let device = self.device(batch, share);
        device / (device + self.host(host_load))
    }
}

impl Law {
    /// Seconds per step; `contention` gives `u_j sqrt(R_j)` of the others, by task.
    pub fn step(
        &self,
        batch: f64,
        share: f64,
        host_load: f64,
        contention: impl Iterator<Item = (usize, f64)>,
    ) -> f64 {
        let p: f64 = contention.map(|(j, w)| self.slowdown[j] * w).sum();
        self.pace.host(host_load) + self.pace.device(batch, share) * (1.0 + p)
    }

    /// What this law leaves of `ln step` of one meeting, where `laws` are those of all tasks.
    pub fn gap(&self, m: &Meeting, laws: &[Law]) -> f64 {
        let host_load = host_load(m.others.len() + 1);
        let contention = m.others.iter();
        let contention = contention.map(|o| o.contention(host_load, Some(&laws[o.task])));
        (m.step / self.step(m.batch, m.share, host_load, contention)).ln()
    }

    fn theta(&self) -> Vec<f64> {
        let p = &self.pace;
        let mut u = vec![
            p.fixed.ln(),
            p.per_sample.ln(),
            unsquash(p.crowding, CROWDING),
            unsquash(p.bend, BEND),
            unsquash(p.sharpness, SHARPNESS),
        ];
        u.extend(self.slowdown.iter().map(|c| unsquash(*c, SLOWDOWN)));
        u
    }

    fn of_theta(u: &[f64]) -> Law {
        Law {
            pace: Pace {
                fixed: u[0].exp(),
                per_sample: u[1].exp(),
                crowding: squash(u[2], CROWDING).0,
                bend: squash(u[3], BEND).0,
                sharpness: squash(u[4], SHARPNESS).0,
            },
            slowdown: u[OWN..].iter().map(|v| squash(*v, SLOWDOWN).0).collect(),
        }
    }

    fn start(meetings: &[Meeting], tasks: usize) -> Law {
        let fastest = meetings
            .iter()
            .map(|m| m.step / m.batch)
            .fold(f64::INFINITY, f64::min);
        let shortest = meetings
            .iter()
            .map(|m| m.step)
            .fold(f64::INFINITY, f64::min);
        Law {
            pace: Pace {
                fixed: 0.4 * shortest,
                per_sample: 0.6 * fastest,
                crowding: 0.4,
                bend: 0.4,
                sharpness: 3.0,
            },
            slowdown: vec![USUAL_SLOWDOWN; tasks],
        }
    }
}

/// One row of the regression: a meeting with the contention by the others worked out.
struct Row<'a> {
    meeting: &'a Meeting,
    host_load: f64,
    contention: Vec<(usize, f64)>,
    weight: f64,
}

fn rows<'a>(meetings: &'a [Meeting], laws: Option<&[Option<Law>]>) -> Vec<Row<'a>> {
    meetings
        .iter()
        .map(|m| {
            let host_load = host_load(m.others.len() + 1);
            let law = |o: &Other| laws.and_then(|l| l[o.task].as_ref());
            let contention = m.others.iter().map(|o| o.contention(host_load, law(o)));
            Row {
                host_load,
                contention: contention.collect(),
                meeting: m,
                weight: 1.0,
            }
        })
        .collect()
}

impl Row<'_> {
    fn error(&self, law: &Law) -> f64 {
        let m = self.meeting;
        (m.step
            / law.step(
                m.batch,
                m.share,
                self.host_load,
                self.contention.iter().copied(),
            ))
        .ln()
    }
}

/// Laws of all tasks by robust least squares on `ln step`; `None` where a task was never measured.
///
/// The contention that a task causes needs its law, so the laws are fitted in turns: first
/// with half-busy others, then twice with what the last turn says.
pub(crate) fn fit_all(meetings: &[Vec<Meeting>]) -> Vec<Option<Law>> {
    let tasks = meetings.len();
    let mut laws: Option<Vec<Option<Law>>> = None;
    let met = met(meetings);
    for _ in 0..3 {
        let usual = laws.as_deref().map(|l| usual_slowdowns(l, &met));
        let next = meetings.iter().enumerate().map(|(i, m)| {
            if m.is_empty() {
                return None;
            }
            let start = match &laws {
                Some(l) => l[i].clone(),
                None => None,
            };
            let start = start.unwrap_or_else(|| Law::start(m, tasks));
            let usual = usual.as_ref().map(|u| u[i].as_slice());
            let mut law = fit_one(rows(m, laws.as_deref()), start, usual);
            law.slowdown[i] = 0.0;
            Some(law)
        });
        laws = Some(next.collect());
    }
    laws.unwrap_or_default()
}

/// Which tasks each task met.
fn met(meetings: &[Vec<Meeting>]) -> Vec<Vec<bool>> {
    let mut met = vec![vec![false; meetings.len()]; meetings.len()];
    for (row, m) in met.iter_mut().zip(meetings) {
        for o in m.iter().flat_map(|m| &m.others) {
            row[o.task] = true;
        }
    }
    met
}

/// Added to a slow-down before its logarithm is taken: smaller ones are all alike.
const SLIGHT: f64 = 0.03;

/// What to expect of every `c_ij`: how easily task i is slowed times how much task j slows,
/// `ln c_ij = mu + a_i + b_j`, from the pairs that met; effects of few pairs are drawn to 0.
fn usual_slowdowns(laws: &[Option<Law>], met: &[Vec<bool>]) -> Vec<Vec<f64>> {
    let n = laws.len();
    let ln = |i: usize, j: usize| match &laws[i] {
        Some(l) if met[i][j] => Some((l.slowdown[j] + SLIGHT).ln()),
        _ => None,
    };
    let all: Vec<f64> = (0..n)
        .flat_map(|i| (0..n).filter_map(move |j| ln(i, j)))
        .collect();
    let mu = stats::median(&all).unwrap_or(USUAL_SLOWDOWN.ln());
    let (mut a, mut b) = (vec![0.0; n], vec![0.0; n]);
    for _ in 0..10 {
        let shrunk = |v: Vec<f64>| v.iter().sum::<f64>() / (v.len() as f64 + 1.0);
        a = (0..n)
            .map(|i| shrunk((0..n).filter_map(|j| Some(ln(i, j)? - mu - b[j])).collect()))
            .collect();
        b = (0..n)
            .map(|j| shrunk((0..n).filter_map(|i| Some(ln(i, j)? - mu - a[i])).collect()))
            .collect();
    }
    let one = |i: usize, j: usize| ((mu + a[i] + b[j]).exp() - SLIGHT).clamp(0.01, 10.0);
    (0..n)
        .map(|i| (0..n).map(|j| one(i, j)).collect())
        .collect()
}

/// Huber weights at 2 robust standard deviations, at most three rounds; weak pulls towards the
/// usual values for tasks that met few others.
fn fit_one(mut rows: Vec<Row<'_>>, start: Law, usual: Option<&[f64]>) -> Law {
    let usual = usual_theta(&start, usual);
    let mut theta = start.theta();
    for _ in 0..3 {
        let found = least_squares(
            |u, r, j| residuals(&rows, &usual, u, r, j),
            &theta,
            rows.len() + theta.len(),
            40,
        );
        theta = found.x;
        let law = Law::of_theta(&theta);
        let e: Vec<f64> = rows.iter().map(|r| r.error(&law)).collect();
        let sigma = stats::mad_sigma(&e, 0.0).unwrap_or(0.0).max(1e-3);
        let mut change = 0.0_f64;
        for (row, e) in rows.iter_mut().zip(e) {
            let w = (2.0 * sigma / e.abs().max(1e-12)).min(1.0).sqrt();
            change = change.max((w - row.weight).abs());
            row.weight = w;
        }
        if change < 0.05 {
            break;
        }
    }
    Law::of_theta(&theta)
}

/// Where the weak pulls draw the parameters; the first two are not drawn.
fn usual_theta(law: &Law, slowdown: Option<&[f64]>) -> Vec<f64> {
    let mut u = law.theta();
    u[2] = unsquash(0.4, CROWDING);
    u[3] = unsquash(0.4, BEND);
    u[4] = unsquash(3.0, SHARPNESS);
    for (j, v) in u[OWN..].iter_mut().enumerate() {
        *v = unsquash(slowdown.map_or(USUAL_SLOWDOWN, |s| s[j]), SLOWDOWN);
    }
    u
}

/// Weighted residuals `ln(law) - ln(step)`, then the pulls on the parameters, and the Jacobian.
fn residuals(rows: &[Row<'_>], usual: &[f64], u: &[f64], r: &mut [f64], jac: &mut [f64]) {
    let p = u.len();
    let law = Law::of_theta(u);
    let d_crowding = squash(u[2], CROWDING).1;
    let d_bend = squash(u[3], BEND).1 / law.pace.bend;
    let d_sharpness = squash(u[4], SHARPNESS).1;
    let d_slowdown: Vec<f64> = u[OWN..].iter().map(|v| squash(*v, SLOWDOWN).1).collect();
    jac.fill(0.0);
    for (k, row) in rows.iter().enumerate() {
        let (m, w) = (row.meeting, row.weight);
        let contention: f64 = row
            .contention
            .iter()
            .map(|&(j, v)| law.slowdown[j] * v)
            .sum();
        let (stretch, by_bend, by_sharpness) = law.pace.stretch(m.share);
        let alone = law.pace.per_sample * m.batch * stretch;
        let device = alone * (1.0 + contention);
        let host = law.pace.host(row.host_load);
        let step = host + device;
        r[k] = w * (step.ln() - m.step.ln());
        let (a, b) = (w / step, &mut jac[k * p..(k + 1) * p]);
        b[0] = a * host;
        b[1] = a * device;
        b[2] = a * law.pace.fixed * row.host_load * d_crowding;
        b[3] = a * device * by_bend * d_bend;
        b[4] = a * device * by_sharpness * d_sharpness;
        for &(j, v) in &row.contention {
            b[OWN + j] += a * alone * v * d_slowdown[j];
        }
    }
    let n = rows.len();
    for k in 0..p {
        let pull = if k < 2 { 0.0 } else { 0.01 };
        r[n + k] = pull * (u[k] - usual[k]);
        jac[(n + k) * p + k] = pull;
    }
}

#[cfg(test)]
mod tests;
