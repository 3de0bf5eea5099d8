use std::collections::VecDeque;

use crate::curve::{Point, REACHED_REPORTS, WINDOW_STEPS};
use crate::stuck::{self, Stuck};

/// Maximum number of groups of a curve. Beyond this, neighbours are averaged, so a training of any length takes the
/// same memory; a fit uses 64 points anyway.
const MOST_GROUPS: usize = 512;
/// Maximum number of reports that are kept individually.
const MOST_RECENT: usize = 128;
/// Maximum number of reports in each of the three means with which a sudden drop is detected. Fewer detect a drop
/// sooner; more are more certain.
const DROP_REPORTS: usize = 16;

/// Fewest reports from which a decrease is computed. When windows with fewer than four reports gave
/// no decrease, their trainings counted as the youngest: on more GPUs a window has fewer reports,
/// so a training that was given GPUs lost them again.
const LEAST_REPORTS: usize = 4;
/// 1.4826 / sqrt 2: from the median absolute difference of neighbours to sigma.
const SIGMA_OF_JUMP: f64 = 1.048;

/// Decrease of the loss over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fall {
    /// The decrease, in units of the loss; negative if the loss rises.
    pub loss: f64,
    /// Its standard error, estimated from the noise of the reports.
    pub error: f64,
}

/// Reported losses of a task.
#[derive(Debug, Clone, Default)]
pub struct History {
    groups: Vec<Group>,
    /// Reports of a full group; doubled when groups are merged.
    group_size: u32,
    recent: VecDeque<Point>,
    first_step: Option<u64>,
    last_step: Option<u64>,
    /// The step at which the currently fitted curve began.
    fit_from: f64,
    drops: u32,
    /// Number of reports since the last one with a finite loss.
    without: u32,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    steps: f64,
    losses: f64,
    count: u32,
}

/// Result of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Noted {
    /// It continues from the last report.
    Next,
    /// Its step is not after the last one: the training went back to a checkpoint.
    WentBack,
    /// It has no finite loss; only its step counts.
    NoLoss,
    /// The loss has suddenly fallen, for example because the learning rate was cut; the fit starts over.
    Dropped,
}

impl History {
    /// Adds a report. Reports of repeated steps replace the earlier ones.
    pub fn push(&mut self, step: u64, loss: Option<f64>) -> Noted {
        let back = self.last_step.is_some_and(|last| step <= last);
        if back {
            self.forget_from(step);
        }
        self.first_step.get_or_insert(step);
        self.last_step = Some(step);
        let Some(loss) = loss.filter(|l| l.is_finite()) else {
            self.without = self.without.saturating_add(1);
            return Noted::NoLoss;
        };
        self.without = 0;
        let point = Point {
            step: step as f64,
            loss,
        };
        self.append(point);
        self.recent.push_back(point);
        if self.recent.len() > MOST_RECENT {
            self.recent.pop_front();
        }
        if back {
            return Noted::WentBack;
        }
        match self.drop_start() {
            Some(start) => {
                self.fit_from = start;
                self.drops += 1;
                self.recent.retain(|p| p.step >= start);
                Noted::Dropped
            }
            None => Noted::Next,
        }
    }

    fn forget_from(&mut self, step: u64) {
        let step = step as f64;
        self.groups.retain(|g| g.steps / f64::from(g.count) < step);
        self.recent.retain(|p| p.step < step);
        if self.fit_from >= step {
            self.fit_from = 0.0;
        }
    }

    fn append(&mut self, point: Point) {
        self.group_size = self.group_size.max(1);
        match self.groups.last_mut() {
            Some(group) if group.count < self.group_size => {
                group.steps += point.step;
                group.losses += point.loss;
                group.count += 1;
            }
            _ => self.groups.push(Group {
                steps: point.step,
                losses: point.loss,
                count: 1,
            }),
        }
        if self.groups.len() > MOST_GROUPS {
            let merged = self.groups.chunks(2).map(|pair| Group {
                steps: pair.iter().map(|g| g.steps).sum(),
                losses: pair.iter().map(|g| g.losses).sum(),
                count: pair.iter().map(|g| g.count).sum(),
            });
            self.groups = merged.collect();
            self.group_size = self.group_size.saturating_mul(2);
        }
    }

    /// Detects a sudden drop: the mean of the last reports is below that of the previous ones by six standard errors
    /// (one false alarm in 10^9 for normal noise), by four times the previous decrease between two means (a young
    /// training falls fast, but evenly), and by a twentieth of the loss (smaller drops do not change a forecast).
    fn drop_start(&self) -> Option<f64> {
        let m = (self.recent.len() / 3).min(DROP_REPORTS);
        if m < 4 {
            return None;
        }
        let tail: Vec<Point> = self
            .recent
            .iter()
            .skip(self.recent.len() - 3 * m)
            .copied()
            .collect();
        let mean = |part: &[Point]| part.iter().map(|p| p.loss).sum::<f64>() / m as f64;
        let (a, b, c) = (
            mean(&tail[..m]),
            mean(&tail[m..2 * m]),
            mean(&tail[2 * m..]),
        );
        let mut steps: Vec<f64> = tail
            .windows(2)
            .map(|w| (w[1].loss - w[0].loss).abs())
            .collect();
        steps.sort_by(f64::total_cmp);
        let sigma = SIGMA_OF_JUMP * steps[steps.len() / 2];
        let (fell, before) = (b - c, (a - b).max(0.0));
        let sudden = fell > 6.0 * sigma * (2.0 / m as f64).sqrt()
            && fell > 4.0 * before
            && fell > 0.05 * b.abs();
        let fall = |w: &[Point]| w[0].loss - w[1].loss;
        let edge = tail[m..]
            .windows(2)
            .max_by(|a, b| fall(a).total_cmp(&fall(b)))?;
        sudden.then_some(edge[1].step)
    }

    /// The curve since its last sudden drop, steps counted from there.
    #[must_use]
    pub fn curve(&self) -> Vec<Point> {
        let points = self.groups.iter().map(|g| Point {
            step: g.steps / f64::from(g.count) - self.fit_from,
            loss: g.losses / f64::from(g.count),
        });
        points.filter(|p| p.step >= 0.0).collect()
    }

    /// The last step reported.
    #[must_use]
    pub fn last_step(&self) -> Option<u64> {
        self.last_step
    }

    /// Why the training makes no progress, if so. A series of non-numeric reports counts if losses were reported
    /// before, or if `unknown` says that nothing else shows the length of the training; a few of them are steps
    /// skipped by a gradient scaler.
    #[must_use]
    pub fn stuck(&self, target: Option<f64>, unknown: bool) -> Option<Stuck> {
        let told = !self.groups.is_empty();
        if self.without as usize >= REACHED_REPORTS && (told || unknown) {
            return Some(Stuck::NoNumber);
        }
        stuck::trend(&self.curve(), target)
    }

    /// Number of sudden drops seen.
    #[must_use]
    pub fn drops(&self) -> u32 {
        self.drops
    }

    /// Number of whole windows since the curve began or dropped.
    #[must_use]
    pub fn windows(&self) -> u64 {
        let from = self.first_step.map_or(0.0, |s| s as f64).max(self.fit_from);
        let made = self.last_step.map_or(0.0, |s| s as f64) - from;
        (made.max(0.0) / WINDOW_STEPS as f64) as u64
    }

    /// Mean loss of the last [`REACHED_REPORTS`] reports; `None` if there are fewer.
    #[must_use]
    pub fn recent_mean(&self) -> Option<f64> {
        let skip = self.recent.len().checked_sub(REACHED_REPORTS)?;
        let last = self.recent.iter().skip(skip);
        Some(last.map(|p| p.loss).sum::<f64>() / REACHED_REPORTS as f64)
    }

    /// Loss decrease over the last window: the sum of the decreases of its steps, which equals the
    /// first loss minus the last. Both ends are means of a quarter of the reports, to reduce noise.
    /// The decrease is large early in a training. If a window has fewer than `LEAST_REPORTS`
    /// reports, the last `LEAST_REPORTS` reports are used instead. `None` before the first whole
    /// window, or with fewer reports.
    #[must_use]
    pub fn fall(&self) -> Option<Fall> {
        let last = self.last_step? as f64;
        if last - (self.first_step? as f64) < WINDOW_STEPS as f64 - 1.0 {
            return None;
        }
        let from = last - WINDOW_STEPS as f64;
        let begin = self
            .recent
            .iter()
            .position(|p| p.step >= from)?
            .min(self.recent.len().checked_sub(LEAST_REPORTS)?);
        let window: Vec<Point> = self.recent.iter().skip(begin).copied().collect();
        let quarter = window.len() / 4;
        let sum = |part: &[Point]| part.iter().map(|p| p.loss).sum::<f64>();
        let ends = (&window[..quarter], &window[window.len() - quarter..]);
        let fall = (sum(ends.0) - sum(ends.1)) / quarter as f64;
        // A stretch that is longer than a window is scaled down to one.
        let steps = last - window[0].step;
        let part = (WINDOW_STEPS as f64 / steps).min(1.0);
        let mut jumps: Vec<f64> = window
            .windows(2)
            .map(|w| (w[1].loss - w[0].loss).abs())
            .collect();
        jumps.sort_by(f64::total_cmp);
        let sigma = SIGMA_OF_JUMP * jumps[jumps.len() / 2];
        Some(Fall {
            loss: part * fall,
            error: part * sigma * (2.0 / quarter as f64).sqrt(),
        })
    }

    /// Loss decrease over the last window, without its error.
    #[must_use]
    pub fn delta(&self) -> Option<f64> {
        Some(self.fall()?.loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(n: u64, of: impl Fn(f64) -> f64) -> History {
        let mut history = History::default();
        for k in 1..=n {
            let _ = history.push(k, Some(of(k as f64)));
        }
        history
    }

    /// Deterministic noise, uniform in -1..1.
    fn noise(k: f64) -> f64 {
        2.0 * (k * 12.9898).sin().fract()
    }

    #[test]
    fn memory_is_bounded() {
        let history = filled(100_000, |k| 1.0 / k);
        assert!(history.curve().len() <= MOST_GROUPS);
        assert!(history.recent.len() <= MOST_RECENT);
        assert_eq!(history.last_step(), Some(100_000));
    }

    #[test]
    fn a_cut_learning_rate_begins_the_fit_anew_and_noise_does_not() {
        let law = |k: f64| {
            let level = if k < 300.0 { 2.0 } else { 1.2 };
            level - 0.0005 * k + 0.02 * noise(k)
        };
        let history = filled(400, law);
        assert_eq!(history.drops(), 1);
        let begins = 400.0 - history.curve().last().unwrap().step;
        assert!((295.0..=305.0).contains(&begins), "{begins}");
        assert_eq!(
            filled(400, |k| 2.0 - 0.0005 * k + 0.3 * noise(k)).drops(),
            0
        );
        assert_eq!(filled(400, |k| 5.0 / (1.0 + 0.02 * k)).drops(), 0);
    }

    #[test]
    fn steps_made_again_replace_what_was_known() {
        let mut history = filled(100, |_| 5.0);
        assert_eq!(history.push(51, Some(1.0)), Noted::WentBack);
        assert_eq!(history.last_step(), Some(51));
        assert!(history.curve().iter().all(|p| p.step <= 51.0));
    }

    #[test]
    fn a_loss_that_is_no_number_counts_as_a_step_only() {
        let mut history = filled(20, |_| 1.0);
        assert_eq!(history.push(21, Some(f64::NAN)), Noted::NoLoss);
        assert_eq!(history.push(22, None), Noted::NoLoss);
        assert_eq!((history.last_step(), history.curve().len()), (Some(22), 20));
    }

    #[test]
    fn delta_is_larger_in_a_younger_training() {
        let law = |k: f64| 5.0 / (1.0 + 0.02 * k) + 0.001 * noise(k);
        let deltas: Vec<f64> = [120, 300, 900]
            .map(|n| filled(n, law).delta().unwrap())
            .to_vec();
        assert!(deltas[0] > deltas[1] && deltas[1] > deltas[2], "{deltas:?}");
        assert_eq!(filled(50, law).delta(), None);
    }
}
