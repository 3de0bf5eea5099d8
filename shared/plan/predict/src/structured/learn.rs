//! Fits the constants of the law to the measured co-runs by robust least squares, alternating over the tasks.

use math::optimise::least_squares;
use math::{in_parallel, stats};

use super::{Interference, Law, Meeting, Other, Pace, ROOT, host_load, power};

/// Which constants are fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Host and device times add up (`q = 1`), and interference grows with the root of the share (`e
    /// = 1/2`). This saves two constants that cannot be identified from co-runs at one share and
    /// solo runs on the whole device.
    Added,
    /// `q` and `e` are fitted, and the law is relative to the solo runs at (batch, share).
    Overlapping,
}

/// Number of parameters before the slow-downs.
const OWN: usize = 7;
/// Ranges of the parameters. They are so wide that a bound is active only if the measurements are uninformative: for a
/// task measured at one share, any bend and sharpness would fit. `h`: on a crowded machine (`x_m < 2`) the host part is
/// at most seven times as slow.
const CROWDING: (f64, f64) = (0.0, 3.0);
/// `rho`: above 1, the task gains from more share up to the whole device, and would gain from a larger device; a bend
/// below 1 % cannot be distinguished from one at the smallest measured share.
const BEND: (f64, f64) = (0.01, 5.0);
/// `k`: at 12 the bend is a corner to within 6 % (`2^(1/12)`); below 0.3 there is no visible bend.
const SHARPNESS: (f64, f64) = (0.3, 12.0);
/// `c_ij`: at least 0, since no co-runner speeds a task up; at 20 the device part of a step takes
/// 21 times as long beside one busy co-runner with the whole device.
const SLOWDOWN: (f64, f64) = (0.0, 20.0);
/// `q`: at 8 the smooth maximum is within a tenth of the maximum.
const OVERLAP: (f64, f64) = (1.0, 8.0);
/// `e`: from interference that hardly depends on the share to interference by large shares only.
const EXPONENT: (f64, f64) = (0.2, 3.0);
/// Initial `c_ij`, also used where a pair was not measured: a co-runner that is always busy on the
/// whole device makes the device part of a step 30 % longer.
const USUAL_SLOWDOWN: f64 = 0.3;
/// Launches are asynchronous, so host and device mostly overlap; if several batch sizes or shares
/// were measured alone, the measurements decide.
const USUAL_OVERLAP: f64 = 2.0;
/// Interference proportional to the share, unless measurements show otherwise.
const USUAL_EXPONENT: f64 = 1.0;

impl Form {
    /// Initial overlap and exponent, also used for tasks without measurements that determine them.
    pub fn usual(self) -> (f64, f64) {
        match self {
            Form::Added => (OVERLAP.0, ROOT),
            Form::Overlapping => (USUAL_OVERLAP, USUAL_EXPONENT),
        }
    }
}

/// `lo + (hi - lo) / (1 + e^-u)` and its derivative by `u`.
fn squash(u: f64, (lo, hi): (f64, f64)) -> (f64, f64) {
    let s = 1.0 / (1.0 + (-u.clamp(-40.0, 40.0)).exp());
    (lo + (hi - lo) * s, (hi - lo) * s * (1.0 - s))
}

fn unsquash(v: f64, (lo, hi): (f64, f64)) -> f64 {
    if v == lo {
        // The derivative of `squash` is 0 here, so the search leaves a value at this bound.
        return -40.0;
    }
    let s = ((v - lo) / (hi - lo)).clamp(1e-6, 1.0 - 1e-6);
    (s / (1.0 - s)).ln()
}

impl Law {
    fn theta(&self) -> Vec<f64> {
        let p = &self.pace;
        let mut u = vec![
            p.fixed.ln(),
            p.per_sample.ln(),
            unsquash(p.crowding, CROWDING),
            unsquash(p.bend, BEND),
            unsquash(p.sharpness, SHARPNESS),
            unsquash(p.overlap, OVERLAP),
            unsquash(p.exponent, EXPONENT),
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
                overlap: squash(u[5], OVERLAP).0,
                exponent: squash(u[6], EXPONENT).0,
            },
            slowdown: u[OWN..].iter().map(|v| squash(*v, SLOWDOWN).0).collect(),
        }
    }

    fn start(meetings: &[Meeting], tasks: usize, form: Form) -> Law {
        let (overlap, exponent) = form.usual();
        let fastest = meetings
            .iter()
            .map(|m| m.step / m.batch)
            .fold(f64::INFINITY, f64::min);
        let shortest = meetings
            .iter()
            .map(|m| m.step)
            .fold(f64::INFINITY, f64::min);
        // Start from a training that spends 40 % of its shortest step on the host and 60 % of its fastest time per
        // sample on the device. Fitted parameters must start inside their ranges, because on a bound the derivative is
        // 0 and they would stay there. The values were chosen by hand and hardly matter: starting from half of both, or
        // from 80 and 90 %, gave the same held-out error to within 0.01 %, on six simulated mixes at 10, 40 and 80
        // co-runs.
        Law {
            pace: Pace {
                fixed: 0.4 * shortest,
                per_sample: 0.6 * fastest,
                crowding: 0.4,
                bend: 0.4,
                sharpness: 3.0,
                overlap,
                exponent,
            },
            slowdown: vec![USUAL_SLOWDOWN; tasks],
        }
    }
}

/// One row of the regression: a measured co-run of the task, with the interference of its
/// co-runners precomputed.
struct Row<'a> {
    meeting: &'a Meeting,
    crowd: f64,
    /// `ln` of the measured step.
    ln_step: f64,
    /// Index of its share among the distinct shares.
    level: usize,
    /// The co-runners, each with the index of its share.
    others: Vec<(Interference, usize)>,
    weight: f64,
}

/// The distinct shares of all rows, ascending. There are few, so terms of the law that depend on the
/// share alone are computed once for all rows.
fn levels(rows: &mut [Row<'_>]) -> Vec<f64> {
    let all = rows.iter().flat_map(|r| {
        let others = r.others.iter().map(|(o, _)| o.share);
        others.chain([r.meeting.share])
    });
    let mut levels: Vec<f64> = all.collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let level = |share: f64| levels.partition_point(|l| *l < share);
    for r in rows {
        r.level = level(r.meeting.share);
        for (o, of) in &mut r.others {
            *of = level(o.share);
        }
    }
    levels
}

/// Terms of the law that depend on the share alone.
struct Level {
    /// [`Pace::stretch`].
    stretch: (f64, f64, f64),
    /// `R^e`.
    power: f64,
    ln: f64,
}

impl Level {
    fn of(pace: &Pace, share: f64) -> Self {
        Self {
            stretch: pace.stretch(share),
            power: power(share, pace.exponent),
            ln: share.ln(),
        }
    }
}

fn rows<'a>(meetings: &'a [Meeting], laws: Option<&[Option<Law>]>) -> Vec<Row<'a>> {
    meetings
        .iter()
        .map(|m| {
            let crowd = host_load(m.others.len() + 1);
            let law = |o: &Other| laws.and_then(|l| l[o.task].as_ref());
            let others = m.others.iter().map(|o| (o.interference(crowd, law(o)), 0));
            Row {
                crowd,
                ln_step: m.step.ln(),
                level: 0,
                others: others.collect(),
                meeting: m,
                weight: 1.0,
            }
        })
        .collect()
}

impl Row<'_> {
    /// Residual of `ln step`; the task's own exponent is applied to all co-runners.
    fn error(&self, law: &Law) -> f64 {
        let m = self.meeting;
        let weights = self
            .others
            .iter()
            .map(|(o, _)| (o.task, o.weight(law.pace.exponent)));
        (m.step / law.step(m.batch, m.share, self.crowd, weights)).ln()
    }
}

/// Fits the laws of all tasks by robust least squares on `ln step`; `None` for a task that was
/// never measured.
///
/// A co-runner's interference depends on its own law, so the laws are fitted alternately: first
/// assuming that co-runners are busy half the time, then twice with the laws of the previous pass.
/// In the first pass every task has its own exponent, if the form fits one; later passes fix it at
/// the median of the tasks that had co-runners.
pub(crate) fn fit_all(meetings: &[Vec<Meeting>], form: Form, copies: &[bool]) -> Vec<Option<Law>> {
    refit(meetings, None, form, 3, copies)
}

/// Like [`fit_all`], but starts from the `laws` of an earlier fit and makes `turns` passes.
pub(crate) fn refit(
    meetings: &[Vec<Meeting>],
    mut laws: Option<Vec<Option<Law>>>,
    form: Form,
    turns: usize,
    copies: &[bool],
) -> Vec<Option<Law>> {
    let tasks = meetings.len();
    let met = met(meetings);
    // The laws depend on each other only through how busy the co-runners are, which changes little between
    // passes. So each law is fitted with the others fixed; a joint fit would have a number of parameters that
    // grows with the square of the tasks.
    for _ in 0..turns {
        let usual = laws.as_deref().map(|l| usual_slowdowns(l, &met));
        let each: Vec<(usize, &Vec<Meeting>)> = meetings.iter().enumerate().collect();
        let mut next = in_parallel(&each, |&(i, m)| {
            if m.is_empty() {
                return None;
            }
            let start = match &laws {
                Some(l) => l[i].clone(),
                None => None,
            };
            let start = start.unwrap_or_else(|| Law::start(m, tasks, form));
            let usual = usual.as_ref().map(|u| u[i].as_slice());
            let free_exponent = form == Form::Overlapping && laws.is_none();
            let pulls = Pulls {
                slowdown: usual,
                form,
                free_exponent,
            };
            let mut law = fit_one(rows(m, laws.as_deref()), start, &pulls);
            // A task runs beside itself only if it has copies; otherwise no row informs this parameter, and
            // only the pull would remain.
            if !copies[i] {
                law.slowdown[i] = 0.0;
            }
            Some(law)
        });
        if laws.is_none() && form == Form::Overlapping {
            one_exponent(&mut next, &met);
        }
        laws = Some(next);
    }
    laws.unwrap_or_default()
}

/// Gives all laws the median exponent of the tasks that had co-runners.
fn one_exponent(laws: &mut [Option<Law>], met: &[Vec<bool>]) {
    let own: Vec<f64> = laws
        .iter()
        .zip(met)
        .filter(|(_, m)| m.contains(&true))
        .filter_map(|(l, _)| Some(l.as_ref()?.pace.exponent))
        .collect();
    let usual = stats::median(&own).unwrap_or(USUAL_EXPONENT);
    for law in laws.iter_mut().flatten() {
        law.pace.exponent = usual;
    }
}

/// For each task, whether it ran with each other task.
fn met(meetings: &[Vec<Meeting>]) -> Vec<Vec<bool>> {
    let mut met = vec![vec![false; meetings.len()]; meetings.len()];
    for (row, m) in met.iter_mut().zip(meetings) {
        for o in m.iter().flat_map(|m| &m.others) {
            row[o.task] = true;
        }
    }
    met
}

/// Added to a slow-down before taking its logarithm, so that tiny slow-downs do not differ by large
/// factors.
const SLIGHT: f64 = 0.03;

/// Prior mean of every `c_ij`: the sensitivity of task i times the pressure of task j, `ln c_ij = mu + a_i + b_j`,
/// fitted to the pairs that ran together; effects with few pairs are shrunk towards 0.
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
    // Fit the effects alternately, each as the shrunken mean of the residuals of the other. Ten passes were chosen by
    // hand: the result is only a prior, and need not be exact.
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

/// Weak regularisation ("pulls") of one law: without it, parameters that no row informs would be arbitrary.
struct Pulls<'a> {
    /// Prior slow-downs by the co-runners, from an earlier pass.
    slowdown: Option<&'a [f64]>,
    form: Form,
    /// Whether the exponent is fitted.
    free_exponent: bool,
}

/// Fits one law with Huber weights beyond 2 robust standard deviations, a usual value: squared errors up to there count
/// in full, larger errors only in proportion to their size, so one broken run cannot bend the law. Makes at most three
/// fits with new weights. For tasks with few co-runs, the weak pulls towards the usual values decide.
fn fit_one(mut rows: Vec<Row<'_>>, start: Law, pulls: &Pulls<'_>) -> Law {
    let usual = usual_theta(&start, pulls);
    let free_exponent = pulls.free_exponent;
    let mut theta = start.theta();
    let shares = levels(&mut rows);
    for _ in 0..3 {
        let found = least_squares(
            |u, r, j| residuals(&rows, &shares, &usual, free_exponent, u, r, j),
            &theta,
            rows.len() + theta.len(),
            evaluations(theta.len() - OWN),
        );
        theta = found.x;
        let law = Law::of_theta(&theta);
        let e: Vec<f64> = rows.iter().map(|r| r.error(&law)).collect();
        // At least 0.1 %, below the repeatability of measurements: if a law fits its few rows almost exactly,
        // rounding must not make one an outlier.
        let sigma = stats::mad_sigma(&e, 0.0).unwrap_or(0.0).max(1e-3);
        let mut change = 0.0_f64;
        for (row, e) in rows.iter_mut().zip(e) {
            let w = (2.0 * sigma / e.abs().max(1e-12)).min(1.0).sqrt();
            change = change.max((w - row.weight).abs());
            row.weight = w;
        }
        // The weights have converged, so another fit would give the same result. 0.05 was chosen by hand.
        if change < 0.05 {
            break;
        }
    }
    Law::of_theta(&theta)
}

/// Evaluations per fit; each costs the square of the number of tasks. 40 for up to 8 tasks, then fewer, down to 10.
/// They are Gauss-Newton steps, and up to nine fits follow one another, each starting where the last one ended. Not
/// tuned: with 40, `mt-fit` took 15 CPU seconds for 32 tasks.
fn evaluations(tasks: usize) -> usize {
    (40 * 8 / tasks.max(8)).max(10)
}

/// Targets of the weak pulls: the starting values of [`Law::start`]. The first two parameters have no pull.
fn usual_theta(law: &Law, pulls: &Pulls<'_>) -> Vec<f64> {
    let (overlap, exponent) = pulls.form.usual();
    let mut u = law.theta();
    u[2] = unsquash(0.4, CROWDING);
    u[3] = unsquash(0.4, BEND);
    u[4] = unsquash(3.0, SHARPNESS);
    u[5] = unsquash(overlap, OVERLAP);
    if pulls.free_exponent {
        u[6] = unsquash(exponent, EXPONENT);
    }
    for (j, v) in u[OWN..].iter_mut().enumerate() {
        *v = unsquash(pulls.slowdown.map_or(USUAL_SLOWDOWN, |s| s[j]), SLOWDOWN);
    }
    u
}

/// Weighted residuals `ln(law) - ln(step)`, followed by the pulls on the parameters, and the Jacobian. If the exponent
/// is not free, its pull fixes it.
fn residuals(
    rows: &[Row<'_>],
    shares: &[f64],
    usual: &[f64],
    free_exponent: bool,
    u: &[f64],
    r: &mut [f64],
    jac: &mut [f64],
) {
    let p = u.len();
    let law = Law::of_theta(u);
    let d_crowding = squash(u[2], CROWDING).1;
    let d_bend = squash(u[3], BEND).1 / law.pace.bend;
    let d_sharpness = squash(u[4], SHARPNESS).1;
    let d_overlap = squash(u[5], OVERLAP).1;
    let d_exponent = squash(u[6], EXPONENT).1 * f64::from(u8::from(free_exponent));
    let d_slowdown: Vec<f64> = u[OWN..].iter().map(|v| squash(*v, SLOWDOWN).1).collect();
    let q = law.pace.overlap;
    let levels: Vec<Level> = shares.iter().map(|s| Level::of(&law.pace, *s)).collect();
    jac.fill(0.0);
    for (k, row) in rows.iter().enumerate() {
        let (m, w) = (row.meeting, row.weight);
        let b = &mut jac[k * p..(k + 1) * p];
        let (stretch, by_bend, by_sharpness) = levels[row.level].stretch;
        let alone = law.pace.per_sample * m.batch * stretch;
        let (mut sum, mut by_exponent) = (0.0, 0.0);
        for (o, level) in &row.others {
            let level = &levels[*level];
            let weight = o.busy * level.power;
            sum += law.slowdown[o.task] * weight;
            by_exponent += law.slowdown[o.task] * weight * level.ln;
            // Scaled below, once the device's part of the step is known.
            b[OWN + o.task] += weight * d_slowdown[o.task];
        }
        let device = alone * (1.0 + sum);
        let host = law.pace.host(row.crowd);
        let step = law.pace.join(host, device);
        let ln_step = step.ln();
        r[k] = w * (ln_step - row.ln_step);
        // d ln step = of_host d ln host + of_device d ln device, which add up to 1.
        let of_host = w * (host / step).powf(q);
        let of_device = w - of_host;
        b[0] = of_host;
        b[1] = of_device;
        b[2] = of_host * row.crowd / (1.0 + law.pace.crowding * row.crowd) * d_crowding;
        b[3] = of_device * by_bend * d_bend;
        b[4] = of_device * by_sharpness * d_sharpness;
        let mixed = of_host * (host / step).ln() + of_device * (device / step).ln();
        b[5] = mixed / q * d_overlap;
        b[6] = of_device * by_exponent / (1.0 + sum) * d_exponent;
        for c in &mut b[OWN..] {
            *c *= of_device / (1.0 + sum);
        }
    }
    // Fixed and per-sample time are measured in every row and need no pull. The others get a pull of 0.01, as strong
    // at distance 1 as one measurement with an error of 1 %: negligible beside a few rows, and decisive where no row
    // is informative. On six simulated mixes the held-out error was 4.9 % with 10 co-runs, 5.1 with half the pull,
    // 4.8 with twice; with 40 and 80 co-runs it did not change.
    let n = rows.len();
    for k in 0..p {
        let pull = if k < 2 { 0.0 } else { 0.01 };
        r[n + k] = pull * (u[k] - usual[k]);
        jac[(n + k) * p + k] = pull;
    }
}

#[cfg(test)]
mod tests;
