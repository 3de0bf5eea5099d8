//! Judges a change of two tasks from the effect of each change alone on the rates, without predicting both
//! together.
//!
//! To first order two changes multiply: `ln P(a, b) = ln P + (ln P(a) - ln P) + (ln P(b) - ln P)`. The 240 moves of
//! share between two of 16 tasks then need only 32 predictions: one for each task that gives share and one for each
//! that takes it.

use std::collections::HashMap;

use units::corun::Throughput;

use crate::problem::round::Guide;
use crate::search::instance::Instance;
use crate::search::point::Point;

/// Number of tasks that are tested for whether a minimum over tasks is below the cutoff, starting with the tasks
/// that were below it last. Each test may take three predictions of one task; the exact evaluation that follows
/// tests the others.
const ASKED: usize = 2;

/// A task, and its batch size and level before and after.
type Change = (usize, (u8, u16), (u8, u16));

/// Effects of changes of single tasks on the logarithms of rates. Effects that were predicted at one point are
/// reused at others until they are forgotten, because changes of other tasks affect them little.
#[derive(Default)]
pub(crate) struct Effects {
    here: Option<Point>,
    /// Logarithms of the rates at `here`: of all tasks, or of single tasks.
    all_here: Option<Vec<f64>>,
    one_here: HashMap<usize, f64>,
    /// What a change adds to these logarithms.
    on_all: HashMap<Change, Vec<f64>>,
    on_one: HashMap<(Change, usize), f64>,
}

impl Effects {
    /// Forgets all effects, so that they are predicted again.
    pub fn forget(&mut self) {
        self.on_all.clear();
        self.on_one.clear();
    }

    /// Whether the value of `next` seems to be below `cutoff`. Always `false` unless `next` differs from `here` in
    /// exactly two tasks.
    pub fn fall_short<C: Throughput + ?Sized>(
        &mut self,
        inst: &Instance<'_, C>,
        here: &Point,
        next: &Point,
        cutoff: f64,
        guide: &Guide,
        worst: &[usize],
    ) -> bool {
        if !cutoff.is_finite() {
            return false;
        }
        let place = |p: &Point, i: usize| (p.batch[i], p.level[i]);
        let mut changed = (0..inst.n).filter(|&i| place(here, i) != place(next, i));
        let (Some(a), Some(b), None) = (changed.next(), changed.next(), changed.next()) else {
            return false;
        };
        if self.here.as_ref() != Some(here) {
            self.here = Some(here.clone());
            self.all_here = None;
            self.one_here.clear();
        }
        let two = [a, b].map(|i| (i, place(here, i), place(next, i)));
        if inst.is_least() {
            let short = |i: &usize| {
                let ln = self.one(inst, here, two, *i);
                inst.gain(*i, usize::from(next.batch[*i]), ln.exp()) < cutoff
            };
            return worst.iter().take(ASKED).any(short);
        }
        let rates = self.all(inst, here, two);
        inst.seems_below(next, &rates, cutoff, guide)
    }

    /// Rates of all tasks after two changes.
    fn all<C: Throughput + ?Sized>(
        &mut self,
        inst: &Instance<'_, C>,
        here: &Point,
        two: [Change; 2],
    ) -> Vec<f64> {
        let base = self.all_here.get_or_insert_with(|| ln_rates(inst, here));
        let mut ln = base.clone();
        for change in two {
            let on_all = self.on_all.entry(change).or_insert_with(|| {
                let after = ln_rates(inst, &with(here, change));
                after.iter().zip(&*base).map(|(a, b)| a - b).collect()
            });
            ln.iter_mut().zip(on_all).for_each(|(ln, on)| *ln += *on);
        }
        ln.into_iter().map(f64::exp).collect()
    }

    /// Logarithm of the rate of one task after two changes.
    fn one<C: Throughput + ?Sized>(
        &mut self,
        inst: &Instance<'_, C>,
        here: &Point,
        two: [Change; 2],
        task: usize,
    ) -> f64 {
        let base = *self
            .one_here
            .entry(task)
            .or_insert_with(|| ln_rate(inst, here, task));
        two.into_iter().fold(base, |ln, change| {
            let on_one = self.on_one.entry((change, task));
            ln + *on_one.or_insert_with(|| ln_rate(inst, &with(here, change), task) - base)
        })
    }
}

fn with(here: &Point, (task, _, (batch, level)): Change) -> Point {
    let mut point = here.clone();
    point.batch[task] = batch;
    point.level[task] = level;
    point
}

fn ln_rates<C: Throughput + ?Sized>(inst: &Instance<'_, C>, point: &Point) -> Vec<f64> {
    let mut rates = vec![0.0; inst.n];
    inst.rates.means(&inst.settings(point), &mut rates);
    rates.into_iter().map(f64::ln).collect()
}

fn ln_rate<C: Throughput + ?Sized>(inst: &Instance<'_, C>, point: &Point, task: usize) -> f64 {
    let mut ln = f64::NAN;
    let mut look = |_, rate: f64| {
        ln = rate.ln();
        false
    };
    inst.rates
        .means_until(&inst.settings(point), &[task], &mut look);
    ln
}

#[cfg(test)]
mod tests {
    use doc::ObjectiveKind;
    use units::corun::Setting;
    use units::{Batch, Weight};

    use super::*;
    use crate::problem::{Limits, Problem, Task};

    /// Each task slows every other by a factor that depends on its share, so that the effects of two changes
    /// multiply exactly.
    struct Factors;

    impl Throughput for Factors {
        fn task_count(&self) -> usize {
            4
        }
        fn solo(&self, _: usize, _: Batch) -> f64 {
            100.0
        }
        fn means(&self, active: &[Setting], out: &mut [f64]) {
            for (a, out) in active.iter().zip(out) {
                let others = active.iter().filter(|b| b.task != a.task);
                let slow = others.map(|b| 1.0 - 0.1 * (1 + b.task) as f64 * b.share.fraction());
                *out = 100.0 * a.share.fraction().sqrt() * slow.product::<f64>();
            }
        }
        fn covers(&self, _: Setting, _: usize) -> bool {
            true
        }
    }

    #[test]
    fn changes_that_multiply_are_judged_as_by_a_prediction_of_both() {
        let task = || Task {
            id: units::TaskId::new("a").unwrap(),
            batches: vec![Batch::new(32).unwrap()],
            samples: None,
            weight: Weight::new(1.0).unwrap(),
            memory: None,
            work_per_sample: None,
            progress: crate::TaskProgress::default(),
        };
        for objective in [ObjectiveKind::MaxMin, ObjectiveKind::Fairness] {
            let problem = Problem {
                tasks: (0..4).map(|_| task()).collect(),
                objective,
                limits: Limits::default(),
                round: None,
            };
            let inst = Instance::new(&Factors, &problem).unwrap();
            let here = Point {
                batch: vec![0; 4],
                level: vec![5, 9, 7, 12],
            };
            let value = |p: &Point| inst.look(p).1.value;
            let mut effects = Effects::default();
            let guide = Guide::default();
            for (i, j, by) in (0..4).flat_map(|i| (0..4).flat_map(move |j| [(i, j, 1), (i, j, 3)]))
            {
                let mut next = here.clone();
                next.level[i] -= by;
                next.level[j] += by;
                let mut worst = [0, 1, 2, 3];
                let gain = |k: usize| inst.gain(k, 0, inst.look(&next).0[k]);
                worst.sort_by(|&a, &b| gain(a).total_cmp(&gain(b)));
                for margin in [-1e-6, 1e-6] {
                    let cutoff = value(&next) + margin;
                    let short = effects.fall_short(&inst, &here, &next, cutoff, &guide, &worst);
                    assert_eq!(short, margin > 0.0 && i != j, "{objective:?} {i} {j} {by}");
                }
            }
        }
    }
}
