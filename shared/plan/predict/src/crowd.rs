//! Co-runs of more tasks than were measured together.
//!
//! ```text
//! s_i = a_M + (m - M) / (M - L) (a_M - a_L)
//! ```
//!
//! The slow-down `s_i` of a task relative to running alone is extrapolated linearly in the number of tasks. `m` tasks
//! run, at most `M` were measured together, and `L` is the largest number below `M` that was measured (1 if there is
//! none). `a_k` is the mean slow-down of the task over co-runs of `k` of the tasks. For equal processes on slices of
//! an A100 (ParvaGPU), the error was 5.7 % when predicting three from two and 5.2 % for four from three. Laws and
//! processes learnt from fewer tasks had 9.3 and 10.6 %; always using `L = 1` gave 6.0 % for the latter.

use units::corun::{MAX_TASKS, Setting};

/// Maximum number of smaller co-runs that are predicted: pairs of 23 tasks, triples of 12. Each costs as much as a
/// prediction; if there are more, the models of the tasks extrapolate on their own.
const MOST: usize = 256;

/// The line through two measured numbers of tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    most: usize,
    less: usize,
}

impl Line {
    /// For `running` tasks, from the numbers of tasks that were measured together, ascending. `None` if all of these
    /// are at least `running`, or if too many co-runs would have to be predicted.
    pub fn to(running: usize, crowds: &[usize]) -> Option<Self> {
        let (&most, fewer) = crowds.split_last()?;
        let less = fewer.last().copied().unwrap_or(1);
        let few = |k: usize| k < running && subsets(running, k) <= MOST;
        (few(most) && few(less)).then_some(Self { most, less })
    }

    /// Rates of all tasks of a co-run, given their solo rates and a function that predicts rates of measured numbers
    /// of tasks. It does not allocate.
    pub fn rates(
        self,
        active: &[Setting],
        alone: &[f64],
        predict: impl Fn(&[Setting], &mut [f64]),
        out: &mut [f64],
    ) {
        let m = active.len();
        let mean = |k: usize| mean_slow_down(k, active, alone, &predict);
        let last = mean(self.most);
        let before = if self.less > 1 {
            mean(self.less)
        } else {
            [1.0; MAX_TASKS]
        };
        let steps = (m - self.most) as f64 / (self.most - self.less) as f64;
        for i in 0..m {
            // A further task never makes the others faster.
            let slow_down = last[i] + steps * (last[i] - before[i]).max(0.0);
            out[i] = alone[i] / slow_down;
        }
    }
}

/// Mean slow-down of each task over all co-runs of `k` of them.
fn mean_slow_down(
    k: usize,
    active: &[Setting],
    alone: &[f64],
    predict: &impl Fn(&[Setting], &mut [f64]),
) -> [f64; MAX_TASKS] {
    let m = active.len();
    let mut sum = [0.0; MAX_TASKS];
    let (mut of, mut some, mut rates) = ([0; MAX_TASKS], [active[0]; MAX_TASKS], [0.0; MAX_TASKS]);
    let mut set = (1_u64 << k) - 1;
    for _ in 0..subsets(m, k) {
        let members = (0..m).filter(|i| set & (1 << i) != 0);
        for ((of, setting), i) in of.iter_mut().zip(&mut some).zip(members) {
            (*of, *setting) = (i, active[i]);
        }
        predict(&some[..k], &mut rates[..k]);
        for (i, rate) in of[..k].iter().zip(&rates) {
            sum[*i] += alone[*i] / rate;
        }
        // The next larger number with the same number of set bits.
        let low = set & set.wrapping_neg();
        let carried = set + low;
        set = carried | (((set ^ carried) / low) >> 2);
    }
    // Each task is in the same number of them.
    let each = (subsets(m, k) * k / m) as f64;
    sum.map(|s| s / each)
}

/// The binomial coefficient `m` over `k`, cut off above [`MOST`].
fn subsets(m: usize, k: usize) -> usize {
    (0..k.min(m - k)).fold(1_usize, |n, i| n.saturating_mul(m - i) / (i + 1))
}

#[cfg(test)]
mod tests {
    use units::{Batch, Share};

    use super::*;

    fn settings(n: usize) -> Vec<Setting> {
        let one = |task| Setting {
            task,
            batch: Batch::new(8).unwrap(),
            share: Share::FULL,
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

    #[test]
    fn what_adds_up_is_continued_from_any_numbers_of_tasks_in_any_order() {
        for (n, crowds) in [
            (3, vec![2]),
            (4, vec![2]),
            (6, vec![2, 3]),
            (7, vec![5]),
            (8, vec![2, 4]),
        ] {
            let mut active = settings(n);
            active.rotate_left(2);
            let (mut exact, mut found) = (vec![0.0; n], vec![0.0; n]);
            additive(&active, &mut exact);
            let line = Line::to(n, &crowds).unwrap();
            line.rates(&active, &vec![100.0; n], additive, &mut found);
            for (a, b) in exact.iter().zip(&found) {
                assert!((a / b - 1.0).abs() < 1e-9, "{n} {crowds:?}: {a} {b}");
            }
        }
        assert_eq!(Line::to(3, &[2, 3]), None);
        assert_eq!(Line::to(3, &[]), None);
        assert_eq!(Line::to(64, &[2]), None, "too many pairs");
    }
}
