//! The structured law of a step.
//!
//! ```text
//! t_i = (H_i^q + D_i^q)^(1/q)
//! H_i = g0 (1 + h x_m),   x_m = 2 (1 - 1/m)
//! D_i = g1 B phi(R_i) (1 + sum_j c_ij u_j R_j^e)
//! phi(R) = ((rho/R)^k + 1)^(1/k) / (rho^k + 1)^(1/k)
//! ```
//!
//! Step time of task i at batch `B` and share `R_i` among `m` running tasks; tasks j are the others. FedMT
//! gives the law that is linear in the workload, `g0 + ga f B + gb m B`. For one task, `ga f + gb m` is a
//! single number, its seconds per sample `g1`; alpha and beta follow from the `g1` of several tasks. The other
//! terms are our own; FedMT has a power `R^-p` and a sum of the others' shares instead. Each term lowers the
//! error on held-out co-runs by a third:
//!
//! - `q`: overlap of host and device work in the program: 1 adds their times, a large `q` takes the longer one
//!   (a smooth maximum);
//! - `h`: tasks share the host, so the part of a step that does not depend on the share grows with
//!   their number;
//! - `phi`: below a share of `rho`, a task slows down as `1/R`; above it, more share gains nothing; `k` is the
//!   sharpness of the bend;
//! - `u_j`: the fraction of its step in which task j uses the device, by its own law;
//! - `e`: how the interference of a task grows with its share, one number for all tasks. It cannot be
//!   identified from co-runs whose shares add up to 100 %; for 4 to 7 trainings at equal shares of an A100
//!   (MISO), the error with the square root was twice that with a fitted exponent of 1.44.

mod learn;

use units::corun::Setting;

use crate::dataset::Dataset;

pub(crate) use learn::{Form, fit_all, refit};

/// One task in one co-run, with its co-runners.
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
    /// Its `u_j` with host crowding `x_m`, and its share; assumed busy half the time if it has no law yet.
    fn interference(&self, crowd: f64, law: Option<&Law>) -> Interference {
        Interference {
            task: self.task,
            busy: law.map_or(0.5, |l| l.pace.busy(self.batch, self.share, crowd)),
            share: self.share,
        }
    }
}

/// The runs of every task, in co-runs and alone, in the order of the samples, without throughputs of zero.
pub(crate) fn meetings(data: &Dataset) -> Vec<Vec<Meeting>> {
    let mut all = vec![Vec::new(); data.tasks.len()];
    for s in &data.samples {
        for (at, (a, &p)) in s.active.iter().zip(&s.throughput).enumerate() {
            if p > 0.0 {
                all[a.task].push(Meeting {
                    batch: a.batch.as_f64(),
                    share: a.share.fraction(),
                    others: others(&s.active, at),
                    step: a.batch.as_f64() / p,
                });
            }
        }
    }
    all
}

fn others(active: &[Setting], at: usize) -> Vec<Other> {
    active
        .iter()
        .enumerate()
        .filter(|(k, _)| *k != at)
        .map(|(_, a)| Other {
            task: a.task,
            batch: a.batch.as_f64(),
            share: a.share.fraction(),
        })
        .collect()
}

/// Weight of another task: `w_j = u_j R_j^e`.
#[derive(Debug, Clone, Copy)]
struct Interference {
    task: usize,
    busy: f64,
    share: f64,
}

impl Interference {
    fn weight(&self, exponent: f64) -> f64 {
        self.busy * power(self.share, exponent)
    }
}

/// Parameters of a task that do not refer to other tasks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pace {
    /// `g0`: seconds per step that do not depend on the share.
    pub fixed: f64,
    /// `h`: growth of the fixed part with the crowding `x_m` of the host.
    pub crowding: f64,
    /// `g1`: seconds per sample on the whole device.
    pub per_sample: f64,
    /// `rho`: share beyond which a larger one does not help.
    pub bend: f64,
    /// `k`: sharpness of the bend.
    pub sharpness: f64,
    /// `q`: overlap of host and device work, 1 (none) or more.
    pub overlap: f64,
    /// `e`: exponent with which interference grows with the share of a task.
    pub exponent: f64,
}

/// Parameters of one task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Law {
    pub pace: Pace,
    /// `c_ij`; 0 at `j = i`.
    pub slowdown: Vec<f64>,
}

/// The exponent `e` if it is not fitted.
const ROOT: f64 = 0.5;

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

    /// Device seconds of a step without contention.
    pub fn device(&self, batch: f64, share: f64) -> f64 {
        self.per_sample * batch * self.stretch(share).0
    }

    /// Seconds of a step on the host, with crowding `x_m`.
    pub fn host(&self, crowd: f64) -> f64 {
        self.fixed * (1.0 + self.crowding * crowd)
    }

    /// Seconds of a step with these times on the host and on the device.
    pub fn join(&self, host: f64, device: f64) -> f64 {
        smooth_maximum(host, device, self.overlap)
    }

    /// Seconds of a step alone.
    pub fn alone(&self, batch: f64, share: f64) -> f64 {
        self.join(self.host(0.0), self.device(batch, share))
    }

    /// `u`: the fraction of its step in which the task uses the device.
    pub fn busy(&self, batch: f64, share: f64, crowd: f64) -> f64 {
        let device = self.device(batch, share);
        device / self.join(self.host(crowd), device)
    }
}

/// `R^e`, with a fast path for the square root.
pub(crate) fn power(share: f64, exponent: f64) -> f64 {
    if exponent == ROOT {
        share.sqrt()
    } else {
        share.powf(exponent)
    }
}

/// `(a^q + b^q)^(1/q)`: the sum for `q = 1`, nearly the larger one for large `q`.
pub(crate) fn smooth_maximum(a: f64, b: f64, q: f64) -> f64 {
    if q == 1.0 {
        return a + b;
    }
    let (less, more) = if a < b { (a, b) } else { (b, a) };
    more * (1.0 + (less / more).powf(q)).powf(1.0 / q)
}

impl Law {
    /// Seconds per step; `weights` gives `u_j R_j^e` of the others, by task.
    pub fn step(
        &self,
        batch: f64,
        share: f64,
        crowd: f64,
        weights: impl Iterator<Item = (usize, f64)>,
    ) -> f64 {
        let p: f64 = weights.map(|(j, w)| self.slowdown[j] * w).sum();
        let device = self.pace.device(batch, share) * (1.0 + p);
        self.pace.join(self.pace.host(crowd), device)
    }

    /// Residual of `ln step` of one co-run under this law, where `laws` are those of all tasks.
    pub fn gap(&self, m: &Meeting, laws: &[Law]) -> f64 {
        let crowd = host_load(m.others.len() + 1);
        let weights = m.others.iter().map(|o| {
            let law = &laws[o.task];
            let i = o.interference(crowd, Some(law));
            (i.task, i.weight(law.pace.exponent))
        });
        (m.step / self.step(m.batch, m.share, crowd, weights)).ln()
    }
}
