//! Co-runs of more tasks than were measured together.
//!
//! ```text
//! s_i = a_M + (m - M) / (M - L) g_i (a_M - a_L)
//! g_i = ((M - L) / (m - M) (N_i(m) - N_i(M)) / (N_i(M) - N_i(L)))^0.85
//! N_i(k) = (k - 1) mean of Q_j(k) over j != i,  Q_j(k) = 1 - (1 - u_j) f_j / a_k(j)
//! a_M(i) = f_i (1 + u_i N_i(M))
//! ```
//!
//! The slow-down `s_i` of a task relative to running alone is extrapolated in the number of tasks. `m` tasks run, at
//! most `M` were measured together, and `L` is the largest number below `M` that was measured (1 if there is none).
//! `a_k` is the mean slow-down of the task over co-runs of `k` of the tasks, and `f` is that without contention.
//!
//! If `L > 1`, `s_i` is a mean of that with `L` and that with 1 instead of it: the latter has the weight
//! `2 (d_i a_M)^2 / (2 (d_i a_M)^2 + (b (a_M - f_i) / (M - 1))^2)`, where `d_i` is the spread of the task's model and `b`
//! is [`BEND`].
//!
//! With `g = 1` this is a line. But a task that waits for the device occupies its queue for longer: `u_j` is the part
//! of its step that task j spends on the device without contention, `Q_j` is that part in a co-run, as in a closed
//! queueing network (Bard and Schweitzer's approximation of mean value analysis), and `N_i` is the mean number of other
//! tasks in the queue. The parts `u` are those with which this queue explains the measured slow-downs; those of the law
//! of a step, which solo runs tell, explained half of them (MISO). Without the exponent, the slow-down would be a line
//! in `N`. But the device serves several tasks at once, and more efficiently the more there are. Errors in percent with
//! the exponents 0.5, 0.75, 0.85 and 1: three draws of MISO from pairs 12.4, 12.1, 12.2, 12.9; ParvaGPU from pairs 11.5,
//! 10.9, 10.6, 10.2; totals of four and eight trainings on an H200 16.8, 13.8, 12.8, 10.6. With the parts of the law and
//! an exponent of a half: 12.4, 10.9, 18.8.
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
//! The error of such an extrapolation is that of the measured co-runs that it starts from and a part of the growth that
//! nobody measured ([`Line::uncertainty`]).

use units::corun::{MAX_TASKS, Setting};

/// Maximum number of smaller co-runs that are predicted for one co-run: all pairs of 23 tasks, or all triples of 12.
/// Each costs one prediction; if there are more, the tasks' own models extrapolate.
const MOST: usize = 256;

/// Maximum number of passes of a fixed-point iteration, and the change that ends it. That of slow-downs and queues
/// converges, because a slow-down is bounded (`Q` is at most 1) and passes that start from the line only increase it;
/// ten passes reach a thousandth. That of the parts `u` is damped by geometric means and needs as many.
const PASSES: usize = 30;
const SETTLED: f64 = 1e-6;

/// Exponent of the growth of the queue.
const GROWTH: f64 = 0.85;

/// Standard deviation of the logarithm of a rate as a part of that of its growth since the largest measured co-runs. It
/// was chosen on draws of MISO and ParvaGPU, where 90 % intervals hold 89 to 94 % of the throughputs. A factor that
/// depended on the numbers of tasks alone held 93 to 96 % with intervals twice as wide, and 72 % of triples of six
/// trainings on an H200.
const UNMEASURED: f64 = 0.2;

/// Standard deviation of the growth by the last further task relative to the mean growth by each task. From triples, the
/// difference between two predicted slow-downs is multiplied by up to four, and so is its error. Errors in percent with
/// 0.12, 0.05, 0.02 and 0.01, and with the last difference alone: a draw of MISO from triples 13.8, 13.4, 13.0, 12.9 and
/// 14.7; ParvaGPU, whose scatter is small, 7.1, 7.0, 7.0, 7.0 and 7.1. Without the last difference: 12.8 and 7.5.
const BEND: f64 = 0.02;

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
    /// Rates in a co-run of a measured number of tasks; they may exceed the rates alone.
    pub together: &'a dyn Fn(&[Setting], &mut [f64]),
    /// Standard deviation of the logarithm of a task's rates in these co-runs.
    pub spread: &'a dyn Fn(&Setting) -> f64,
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

    /// Standard deviations of the logarithm of each rate, given the predicted rates and what is predicted for the
    /// largest measured co-runs of these tasks: rates with their relative standard deviations. Each is at least what
    /// the task's model says of itself (`own`).
    pub fn uncertainty(
        self,
        active: &[Setting],
        rates: &[f64],
        own: &[f64],
        together: impl Fn(&[Setting]) -> Vec<(f64, f64)>,
    ) -> Vec<f64> {
        let mut step = [0.0; MAX_TASKS];
        let mut variance = [0.0; MAX_TASKS];
        of_each_subset(self.most, active, |some, of| {
            for (i, (rate, deviation)) in of.iter().zip(together(some)) {
                step[*i] += 1.0 / rate;
                variance[*i] += deviation * deviation;
            }
        });
        let each = subsets_with(active.len(), self.most);
        let one = |((i, rate), own): ((usize, &f64), &f64)| {
            let growth = -(rate * step[i] / each).ln();
            let measured = own.max((variance[i] / each).sqrt());
            measured.hypot(UNMEASURED * growth.max(0.0))
        };
        rates.iter().enumerate().zip(own).map(one).collect()
    }

    /// Rates of all tasks alone, and their slow-downs relative to these.
    fn slow_downs(self, active: &[Setting], measured: &Measured<'_>) -> (Each, Each) {
        let m = active.len();
        let mut alone = [1.0; MAX_TASKS];
        for (alone, a) in alone.iter_mut().zip(active) {
            *alone = (measured.alone)(a);
        }
        let of = |k: usize| slow_down_among(k, active, &alone, measured.together);
        let (last, least) = of(self.most);
        // Some trainings are faster in co-runs than in their solo runs, which were measured just after their start (on
        // an H200 by up to 30 %). Then the slow-down must be relative to their fastest co-run.
        let free = least.map(|s| s.min(1.0));
        let since_alone = grown((1, &free), (self.most, &last), m, &free);
        if self.less == 1 {
            return (alone, since_alone);
        }
        let mut slow_down = grown((self.less, &of(self.less).0), (self.most, &last), m, &free);
        for (i, a) in active.iter().enumerate() {
            let noise = 2.0 * ((measured.spread)(a) * last[i]).powi(2);
            let each = (last[i] - free[i]) / (self.most - 1) as f64;
            let weight = noise / (noise + (BEND * each).powi(2));
            // Without noise and growth, both lines are flat.
            if weight.is_finite() {
                slow_down[i] += weight * (since_alone[i] - slow_down[i]);
            }
        }
        (alone, slow_down)
    }
}

/// Slow-downs of `m` tasks by their growth from those of `less` to those of `most` tasks; `free` are those without
/// contention.
fn grown(
    (less, before): (usize, &Each),
    (most, last): (usize, &Each),
    m: usize,
    free: &Each,
) -> Each {
    let relative_to_free = |s: &Each| -> Each { std::array::from_fn(|i| s[i] / free[i]) };
    let busy = busy_parts(&relative_to_free(last)[..m], most);
    let queue = |k: usize, slow_down: &Each| {
        others_in_queue(k, &busy[..m], &relative_to_free(slow_down)[..m])
    };
    let fewest = queue(less, before);
    let now = queue(most, last);
    let steps = (m - most) as f64 / (most - less) as f64;
    // A further task never makes the others faster.
    let slope: Each = std::array::from_fn(|i| steps * (last[i] - before[i]).max(0.0));
    let mut slow_down: Each = std::array::from_fn(|i| last[i] + slope[i]);
    for _ in 0..PASSES {
        let all = queue(m, &slow_down);
        let mut change = 0.0_f64;
        for i in 0..m {
            let by_queue = (all[i] - now[i]) / (steps * (now[i] - fewest[i]));
            // No task queues, so only the line is known.
            let growth = if by_queue.is_finite() {
                by_queue.max(1.0).powf(GROWTH)
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
    slow_down
}

/// `N_i(k)` from the parts `u` and the slow-downs relative to those without contention.
fn others_in_queue(k: usize, busy: &[f64], relative: &[f64]) -> Each {
    let mut queued = [0.0; MAX_TASKS];
    for (j, queued) in queued[..busy.len()].iter_mut().enumerate() {
        *queued = 1.0 - (1.0 - busy[j]) / relative[j].max(1.0);
    }
    let mut others = [0.0; MAX_TASKS];
    for (i, others) in others[..busy.len()].iter_mut().enumerate() {
        *others = (k - 1) as f64 * mean_of_others(i, &queued[..busy.len()]);
    }
    others
}

/// The part `u` of its step that each task spends on the device, at most 1, from the slow-downs in co-runs of `most`
/// tasks relative to those without contention.
fn busy_parts(relative: &[f64], most: usize) -> Each {
    let excess = |i: usize| (relative[i] - 1.0).max(0.0);
    let mut busy = [0.0; MAX_TASKS];
    // In a queue of alike tasks that is nearly empty, the slow-down is `1 + (k - 1) u^2`.
    for (i, busy) in busy[..relative.len()].iter_mut().enumerate() {
        *busy = (excess(i) / (most - 1) as f64).sqrt().min(1.0);
    }
    for _ in 0..PASSES {
        let others = others_in_queue(most, &busy[..relative.len()], relative);
        let mut change = 0.0_f64;
        for (i, busy) in busy[..relative.len()].iter_mut().enumerate() {
            // Nobody queues, so a slow-down has another cause.
            let explained = if others[i] > 0.0 {
                (excess(i) / others[i]).min(1.0)
            } else {
                0.0
            };
            let next = (*busy * explained).sqrt();
            change = change.max((next - *busy).abs());
            *busy = next;
        }
        if change < SETTLED {
            break;
        }
    }
    busy
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
    let mut sum = [0.0; MAX_TASKS];
    let mut least = [f64::INFINITY; MAX_TASKS];
    let mut rates = [0.0; MAX_TASKS];
    of_each_subset(k, active, |some, of| {
        predict(some, &mut rates[..k]);
        for (i, rate) in of.iter().zip(&rates) {
            let slow_down = alone[*i] / rate;
            sum[*i] += slow_down;
            least[*i] = least[*i].min(slow_down);
        }
    });
    let each = subsets_with(active.len(), k);
    (sum.map(|s| s / each), least)
}

/// Calls `visit` with every co-run of `k` of the tasks, and with their positions in `active`.
fn of_each_subset(k: usize, active: &[Setting], mut visit: impl FnMut(&[Setting], &[usize])) {
    let m = active.len();
    let mut of = [0; MAX_TASKS];
    let mut some = [active[0]; MAX_TASKS];
    let mut set = (1_u64 << k) - 1;
    for _ in 0..subsets(m, k) {
        let members = (0..m).filter(|i| set & (1 << i) != 0);
        for ((of, setting), i) in of.iter_mut().zip(&mut some).zip(members) {
            (*of, *setting) = (i, active[i]);
        }
        visit(&some[..k], &of[..k]);
        // The next larger number with the same number of set bits.
        let low = set & set.wrapping_neg();
        let carried = set + low;
        set = carried | (((set ^ carried) / low) >> 2);
    }
}

/// Number of the subsets of size `k` of `m` tasks that contain a given task.
fn subsets_with(m: usize, k: usize) -> f64 {
    (subsets(m, k) * k / m) as f64
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

    /// Tasks that always need the device take turns on it.
    fn turns(active: &[Setting], out: &mut [f64]) {
        out.fill(100.0 / active.len() as f64);
    }

    /// Rates by `line` if every task runs at 100 alone, at any share.
    fn rates(
        line: Line,
        active: &[Setting],
        together: &dyn Fn(&[Setting], &mut [f64]),
    ) -> Vec<f64> {
        let measured = Measured {
            alone: &|_| 100.0,
            together,
            spread: &|_| 0.0,
        };
        let widest = settings(active.len(), 100.0);
        line.rates(active, &widest, &measured)[..active.len()].to_vec()
    }

    #[test]
    fn tasks_that_take_turns_do_so_in_any_number() {
        for (n, crowds) in [
            (3, vec![2]),
            (4, vec![2]),
            (6, vec![2, 3]),
            (7, vec![5]),
            (8, vec![2, 4]),
        ] {
            let active = settings(n, 100.0);
            let line = Line::to(n, &crowds).unwrap();
            for found in rates(line, &active, &turns) {
                let exact = 100.0 / n as f64;
                assert!(
                    (found / exact - 1.0).abs() < 1e-4,
                    "{n} {crowds:?}: {exact} {found}"
                );
            }
        }
        assert_eq!(Line::to(3, &[2, 3]), None);
        assert_eq!(Line::to(3, &[]), None);
        assert_eq!(Line::to(64, &[2]), None, "too many pairs");
    }

    #[test]
    fn the_uncertainty_is_that_of_the_measured_and_a_part_of_the_growth_since() {
        let (active, line) = (settings(6, 100.0), Line::to(6, &[3]).unwrap());
        let together = |few: &[Setting]| vec![(100.0 / 3.0, 0.03); few.len()];
        let of =
            |rate: f64, own: f64| line.uncertainty(&active, &[rate; 6], &[own; 6], together)[5];
        let growth = UNMEASURED * 2.0_f64.ln();
        assert!((of(100.0 / 6.0, 0.01) - 0.03_f64.hypot(growth)).abs() < 1e-9);
        assert!((of(100.0 / 6.0, 0.04) - 0.04_f64.hypot(growth)).abs() < 1e-9);
        assert!((of(50.0, 0.01) - 0.03).abs() < 1e-9, "no growth");
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
        let found = rates(Line::to(8, &[2]).unwrap(), &active, &queueing)[0];
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
        let found = rates(Line::to(7, &[2]).unwrap(), &active, &capped)[0];
        let expected = 100.0 / (1.0 + 6.0 * 0.5_f64.sqrt());
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn an_uncertain_last_difference_counts_little() {
        // The slow-down of triples is 2.5 instead of 2.
        let noisy = |active: &[Setting], out: &mut [f64]| {
            out.fill([100.0, 100.0 / 1.5, 40.0][active.len() - 1]);
        };
        let active = settings(6, 100.0);
        let of = |crowds: &[usize], spread: f64| {
            let measured = Measured {
                alone: &|_| 100.0,
                together: &noisy,
                spread: &|_| spread,
            };
            let line = Line::to(6, crowds).unwrap();
            line.rates(&active, &active, &measured)[0]
        };
        let since_alone = of(&[3], 0.0);
        assert!(of(&[2, 3], 0.0) < 0.95 * since_alone);
        assert!((of(&[2, 3], 0.1) / since_alone - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_solo_run_slower_than_co_runs_does_not_hide_contention() {
        // Every task is faster beside task 0 than alone, and slower beside the others.
        let warm = |active: &[Setting], out: &mut [f64]| {
            let slow = !active.iter().any(|a| a.task == 0);
            out.fill(if slow { 80.0 } else { 120.0 });
        };
        let active = settings(3, 100.0);
        let found = rates(Line::to(3, &[2]).unwrap(), &active, &warm);
        // By a line, the slow-down grows from that of 120 to the mean of those of 80 and 120, and then by the same
        // amount again; a queue grows faster.
        let mean = f64::midpoint(100.0 / 80.0, 100.0 / 120.0);
        let by_line = 100.0 / (2.0 * mean - 100.0 / 120.0);
        assert!(
            (0.95 * by_line..by_line).contains(&found[1]),
            "{found:?} {by_line}"
        );
    }
}
