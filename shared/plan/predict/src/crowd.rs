//! Co-runs of more tasks than were measured together.
//!
//! ```text
//! s_i = a_M + (m - M) / (M - L) g_i (a_M - a_L)
//! g_i^2 = (M - L) / (m - M) (N_i(m) - N_i(M)) / (N_i(M) - N_i(L))
//! N_i(k) = (k - 1) mean of Q_j(k) over j != i,  Q_j(k) = 1 - (1 - u_j) f_j / a_k(j)
//! ```
//!
//! The slow-down `s_i` of a task relative to running alone is extrapolated in the number of tasks. `m` tasks run, at
//! most `M` were measured together, and `L` is the largest number below `M` that was measured (1 if there is none).
//! `a_k` is the mean slow-down of the task over co-runs of `k` of the tasks, and `f` is that without contention.
//!
//! With `g = 1` this is a line. But a task that waits for the device occupies its queue for longer: `u_j` is the part
//! of its step that task j spends on the device when it runs alone, `Q_j` is that part in a co-run, as in a closed
//! queueing network, and `N_i` is the mean number of other tasks in the queue. A line in `N` would be right if the
//! device served one task at a time; but it serves several at once, and more efficiently the more there are. The
//! geometric mean of both lines has less error than either.
//!
//! Under share limits, two tasks hardly contend while many tasks do: two at 50 % fit on the device, seven do not. So
//! each task takes at least
//!
//! ```text
//! t_i = T_i (1 + (S_i - 1) mean of sqrt(R_j / W_j) over j != i)
//! ```
//!
//! where `W_j` is the largest share at which a task ran with others, and `T_i` and `S_i` are its solo step and
//! slow-down if all have these shares. The square root is also the exponent of the law of a step if the exponent is not
//! fitted.
//!
//! Errors in percent of the line, of this method, and of ridge regression: 3 to 5 processes on slices of an A100
//! (ParvaGPU), extrapolated from 2: 12.7, 10.9, 67.7; from 3: 7.7, 7.3, 28.2. 3 to 7 trainings at shares of 100 and
//! 50 % (MISO), extrapolated from pairs: 33.1, 13.0, 29.1; from up to three: 21.2, 14.6, 26.5. Totals of four and eight
//! trainings on an H200, extrapolated from pairs: 49.9, 18.4, 52.1.

use units::corun::{MAX_TASKS, Setting};

/// Maximum number of smaller co-runs that are predicted for one co-run: all pairs of 23 tasks, or all triples of 12.
/// Each costs one prediction; if there are more, the tasks' own models extrapolate.
const MOST: usize = 256;

/// Maximum number of passes of the fixed-point iteration of slow-downs and queues, and the change that ends it. It
/// converges, because a slow-down is bounded (`Q` is at most 1) and passes that start from the line only increase it;
/// ten passes reach a thousandth.
const PASSES: usize = 30;
const SETTLED: f64 = 1e-6;

/// An extrapolation in the number of tasks, from two measured numbers `most` and `less`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    most: usize,
    less: usize,
}

/// Predictions for measured numbers of tasks, on which the extrapolation is based.
pub(crate) struct Measured<'a> {
    /// Rate of a task alone at its share.
    pub alone: &'a dyn Fn(&Setting) -> f64,
    /// The part of its step that a task alone spends on the device.
    pub busy: &'a dyn Fn(&Setting) -> f64,
    /// Rates in a co-run of a measured number of tasks; they may exceed the rates alone.
    pub together: &'a dyn Fn(&[Setting], &mut [f64]),
}

/// One number for each task of a co-run.
type Each = [f64; MAX_TASKS];

impl Line {
    /// The extrapolation to `running` tasks from `crowds`, the numbers of tasks that were measured together, ascending.
    /// `None` if one of these is at least `running`, or if too many co-runs would have to be predicted.
    pub fn to(running: usize, crowds: &[usize]) -> Option<Self> {
        let (&most, fewer) = crowds.split_last()?;
        let less = fewer.last().copied().unwrap_or(1);
        let few = |k: usize| k < running && subsets(running, k) <= MOST;
        (few(most) && few(less)).then_some(Self { most, less })
    }

    /// Rates of all tasks of a co-run; `widest` are the same tasks, each at the largest share at which it ran with
    /// others. It does not allocate.
    pub fn rates(self, active: &[Setting], widest: &[Setting], measured: &Measured<'_>) -> Each {
        let (alone, slow_down) = self.slow_downs(active, measured);
        let mut rates = alone;
        for (rate, s) in rates.iter_mut().zip(slow_down) {
            *rate /= s;
        }
        if active == widest {
            return rates;
        }
        let (alone, slow_down) = self.slow_downs(widest, measured);
        let mut root = [0.0; MAX_TASKS];
        for ((root, a), w) in root.iter_mut().zip(active).zip(widest) {
            *root = (a.share.fraction() / w.share.fraction()).sqrt();
        }
        for i in 0..active.len() {
            let contention = (slow_down[i] - 1.0) * mean_of_others(i, &root[..active.len()]);
            rates[i] = rates[i].min(alone[i] / (1.0 + contention));
        }
        rates
    }

    /// Rates of all tasks alone, and their slow-downs relative to these.
    fn slow_downs(self, active: &[Setting], measured: &Measured<'_>) -> (Each, Each) {
        let m = active.len();
        let (mut alone, mut busy) = ([1.0; MAX_TASKS], [0.0; MAX_TASKS]);
        for (i, a) in active.iter().enumerate() {
            (alone[i], busy[i]) = ((measured.alone)(a), (measured.busy)(a));
        }
        let of = |k: usize| slow_down_among(k, active, &alone, measured.together);
        let (last, least) = of(self.most);
        // Some trainings are faster in co-runs than in their solo runs, which were measured just after their start (on
        // an H200 by up to 30 %). Then the slow-down must be relative to their fastest co-run.
        let free = least.map(|s| s.min(1.0));
        let before = if self.less > 1 { of(self.less).0 } else { free };
        let queue = |k: usize, slow_down: &Each| {
            let mut queued = [0.0; MAX_TASKS];
            for j in 0..m {
                queued[j] = 1.0 - (1.0 - busy[j]) * (free[j] / slow_down[j]).min(1.0);
            }
            let mut others = [0.0; MAX_TASKS];
            for (i, others) in others[..m].iter_mut().enumerate() {
                *others = (k - 1) as f64 * mean_of_others(i, &queued[..m]);
            }
            others
        };
        let (fewest, most) = (queue(self.less, &before), queue(self.most, &last));
        let steps = (m - self.most) as f64 / (self.most - self.less) as f64;
        // A further task never makes the others faster.
        let slope: Each = std::array::from_fn(|i| steps * (last[i] - before[i]).max(0.0));
        let mut slow_down: Each = std::array::from_fn(|i| last[i] + slope[i]);
        for _ in 0..PASSES {
            let all = queue(m, &slow_down);
            let mut change = 0.0_f64;
            for i in 0..m {
                let by_queue = (all[i] - most[i]) / (steps * (most[i] - fewest[i]));
                // No task queues, so only the line is known.
                let growth = if by_queue.is_finite() {
                    by_queue.max(1.0).sqrt()
                } else {
                    1.0
                };
                let next = last[i] + growth * slope[i];
                change = change.max((next - slow_down[i]).abs());
                slow_down[i] = next;
            }
            if change < SETTLED {
                break;
            }
        }
        (alone, slow_down)
    }
}

/// Mean of all numbers except that at `i`.
fn mean_of_others(i: usize, each: &[f64]) -> f64 {
    let others = each.iter().enumerate().filter(|(j, _)| *j != i);
    others.map(|(_, v)| v).sum::<f64>() / (each.len() - 1) as f64
}

/// Mean and minimum slow-down of each task over all co-runs of `k` of the tasks.
fn slow_down_among(
    k: usize,
    active: &[Setting],
    alone: &Each,
    predict: &dyn Fn(&[Setting], &mut [f64]),
) -> (Each, Each) {
    let m = active.len();
    let (mut sum, mut least) = ([0.0; MAX_TASKS], [f64::INFINITY; MAX_TASKS]);
    let (mut of, mut some, mut rates) = ([0; MAX_TASKS], [active[0]; MAX_TASKS], [0.0; MAX_TASKS]);
    let mut set = (1_u64 << k) - 1;
    for _ in 0..subsets(m, k) {
        let members = (0..m).filter(|i| set & (1 << i) != 0);
        for ((of, setting), i) in of.iter_mut().zip(&mut some).zip(members) {
            (*of, *setting) = (i, active[i]);
        }
        predict(&some[..k], &mut rates[..k]);
        for (i, rate) in of[..k].iter().zip(&rates) {
            let slow_down = alone[*i] / rate;
            sum[*i] += slow_down;
            least[*i] = least[*i].min(slow_down);
        }
        // The next larger number with the same number of set bits.
        let low = set & set.wrapping_neg();
        let carried = set + low;
        set = carried | (((set ^ carried) / low) >> 2);
    }
    // Each task is in the same number of subsets.
    let each = (subsets(m, k) * k / m) as f64;
    (sum.map(|s| s / each), least)
}

/// The binomial coefficient `m` over `k`, cut off above [`MOST`].
fn subsets(m: usize, k: usize) -> usize {
    (0..k.min(m - k)).fold(1_usize, |n, i| n.saturating_mul(m - i) / (i + 1))
}

#[cfg(test)]
mod tests {
    use units::{Batch, Share};

    use super::*;

    fn settings(n: usize, share: f64) -> Vec<Setting> {
        let one = |task| Setting {
            task,
            batch: Batch::new(8).unwrap(),
            share: Share::from_percent(share).unwrap(),
        };
        (0..n).map(one).collect()
    }

    /// Every other task slows task `i` by `0.1 (i + j)`.
    fn additive(active: &[Setting], out: &mut [f64]) {
        for (i, out) in active.iter().zip(out) {
            let others = active.iter().filter(|j| j.task != i.task);
            let slow: f64 = others.map(|j| 0.1 * (i.task + j.task) as f64).sum();
            *out = 100.0 / (1.0 + slow);
        }
    }

    /// Rates by `line` if every task runs at 100 alone, at any share, and spends the part `busy` of its step on the
    /// device.
    fn rates(
        line: Line,
        active: &[Setting],
        busy: f64,
        together: &dyn Fn(&[Setting], &mut [f64]),
    ) -> Vec<f64> {
        let measured = Measured {
            alone: &|_| 100.0,
            busy: &|_| busy,
            together,
        };
        let widest = settings(active.len(), 100.0);
        line.rates(active, &widest, &measured)[..active.len()].to_vec()
    }

    #[test]
    fn what_adds_up_on_a_busy_device_is_continued_from_any_numbers_of_tasks() {
        for (n, crowds) in [
            (3, vec![2]),
            (4, vec![2]),
            (6, vec![2, 3]),
            (7, vec![5]),
            (8, vec![2, 4]),
        ] {
            let active = settings(n, 100.0);
            let mut exact = vec![0.0; n];
            additive(&active, &mut exact);
            let line = Line::to(n, &crowds).unwrap();
            let found = rates(line, &active, 1.0, &additive);
            for (a, b) in exact.iter().zip(&found) {
                assert!((a / b - 1.0).abs() < 1e-9, "{n} {crowds:?}: {a} {b}");
            }
        }
        assert_eq!(Line::to(3, &[2, 3]), None);
        assert_eq!(Line::to(3, &[]), None);
        assert_eq!(Line::to(64, &[2]), None, "too many pairs");
    }

    /// Tasks of 20 % device and 80 % host as a closed queueing network, by mean value analysis.
    fn queueing(active: &[Setting], out: &mut [f64]) {
        let mut queue = 0.0;
        for k in 1..=active.len() {
            let wait = 0.2 * (1.0 + queue);
            queue = k as f64 * wait / (0.8 + wait);
            out.fill(100.0 / (0.8 + wait));
        }
    }

    #[test]
    fn a_queue_that_grows_is_foreseen_better_than_by_the_line() {
        let active = settings(8, 100.0);
        let (mut exact, mut pair) = (vec![0.0; 8], [0.0; 2]);
        queueing(&active, &mut exact);
        queueing(&active[..2], &mut pair);
        let by_line = 100.0 / (1.0 + 7.0 * (100.0 / pair[0] - 1.0));
        let found = rates(Line::to(8, &[2]).unwrap(), &active, 0.2, &queueing)[0];
        assert!(
            exact[0] < found && found < by_line,
            "{} {found} {by_line}",
            exact[0]
        );
    }

    #[test]
    fn tasks_that_do_not_meet_in_capped_pairs_do_in_crowds() {
        let capped = |active: &[Setting], out: &mut [f64]| {
            let total: f64 = active.iter().map(|a| a.share.fraction()).sum();
            out.fill(100.0 / total.max(1.0));
        };
        let active = settings(7, 50.0);
        let found = rates(Line::to(7, &[2]).unwrap(), &active, 1.0, &capped)[0];
        let expected = 100.0 / (1.0 + 6.0 * 0.5_f64.sqrt());
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn a_solo_run_slower_than_co_runs_does_not_hide_contention() {
        // Every task is faster beside task 0 than alone, and slower beside the others.
        let warm = |active: &[Setting], out: &mut [f64]| {
            let slow = !active.iter().any(|a| a.task == 0);
            out.fill(if slow { 80.0 } else { 120.0 });
        };
        let active = settings(3, 100.0);
        let found = rates(Line::to(3, &[2]).unwrap(), &active, 1.0, &warm);
        // The slow-down grows from that of 120 to the mean of those of 80 and 120, and then by the same amount again.
        let mean = f64::midpoint(100.0 / 80.0, 100.0 / 120.0);
        let expected = 100.0 / (2.0 * mean - 100.0 / 120.0);
        assert!(
            (found[1] / expected - 1.0).abs() < 1e-9,
            "{found:?} {expected}"
        );
    }
}
