//! A penalty that keeps a search within the measured domain: co-runs beyond it get rates close to zero.

use units::corun::{SampleTime, Setting, Throughput};
use units::{Batch, Share};

use crate::problem::{Problem, Task};

/// Factor on the rates for every setting of a co-run outside the domain. It is so small that no sum of outside rates
/// beats a feasible co-run inside. It is not 0, so that a local search that starts outside is guided by the number of
/// such settings.
const OUTSIDE: f64 = 1e-3;

/// Rates inside the measured domain are unchanged ([`Throughput::covers`]), and those outside are close to zero. For
/// a search that uses additive interference, a setting outside takes forever.
pub(crate) struct DomainPenalty<'a, C: Throughput + ?Sized> {
    inner: &'a C,
    /// Whether a choice can lie outside. Each task's domain of shares and batch sizes is an interval, so checking two
    /// corners suffices.
    active: bool,
}

impl<'a, C: Throughput + ?Sized> DomainPenalty<'a, C> {
    /// Penalises settings outside the measured domain if a choice of `problem` can lie outside, unless `open` allows
    /// it.
    pub(crate) fn new(inner: &'a C, problem: &Problem, open: bool) -> Self {
        let corner = |least: bool| -> Vec<Setting> {
            let tasks = problem.tasks.iter().enumerate();
            let one = |(task, t): (usize, &Task)| {
                let batches = t.batches.iter().copied();
                let (batch, share) = if least {
                    (batches.min(), problem.limits.step)
                } else {
                    (batches.max(), Share::FULL)
                };
                batch.map(|batch| Setting { task, batch, share })
            };
            tasks.filter_map(one).collect()
        };
        let active = !open
            && [true, false]
                .map(corner)
                .iter()
                .any(|c| beyond(inner, c) > 0);
        Self { inner, active }
    }

    /// Whether any choice is penalised.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    fn factor(&self, active: &[Setting]) -> f64 {
        match self.active {
            true => OUTSIDE.powi(beyond(self.inner, active) as i32),
            false => 1.0,
        }
    }
}

impl<C: Throughput + ?Sized> Throughput for DomainPenalty<'_, C> {
    fn task_count(&self) -> usize {
        self.inner.task_count()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.inner.solo(task, batch)
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        self.inner.means(active, out);
        let factor = self.factor(active);
        if factor < 1.0 {
            out[..active.len()].iter_mut().for_each(|r| *r *= factor);
        }
    }

    fn means_many(&self, n: usize, active: &[Setting], out: &mut [f64]) {
        self.inner.means_many(n, active, out);
        if !self.active {
            return;
        }
        for (a, o) in active.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            let factor = self.factor(a);
            if factor < 1.0 {
                o.iter_mut().for_each(|r| *r *= factor);
            }
        }
    }

    fn means_until(
        &self,
        active: &[Setting],
        places: &[usize],
        look: &mut dyn FnMut(usize, f64) -> bool,
    ) {
        let factor = self.factor(active);
        let mut penalised = |at: usize, rate: f64| match factor < 1.0 {
            true => look(at, rate * factor),
            false => look(at, rate),
        };
        self.inner.means_until(active, places, &mut penalised);
    }

    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        self.inner.std_errors(active)
    }

    /// If nothing is penalised, everything counts as covered.
    fn covers(&self, setting: Setting, running: usize) -> bool {
        !self.active || self.inner.covers(setting, running)
    }

    fn interference(&self) -> Option<Vec<f64>> {
        self.inner.interference()
    }

    fn demand(&self, task: usize, batch: Batch, share: Share, running: usize) -> f64 {
        self.inner.demand(task, batch, share, running)
    }

    fn sample_time(&self, task: usize, batch: Batch, share: Share, running: usize) -> SampleTime {
        let setting = Setting { task, batch, share };
        if self.active && !self.inner.covers(setting, running) {
            return SampleTime::added(f64::INFINITY, 0.0);
        }
        self.inner.sample_time(task, batch, share, running)
    }
}

/// Number of settings of a co-run that lie outside the measured domain.
pub(crate) fn beyond<C: Throughput + ?Sized>(rates: &C, active: &[Setting]) -> usize {
    let outside = |s: &&Setting| !rates.covers(**s, active.len());
    active.iter().filter(outside).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::law::{InterferenceLaw, TaskLaw};

    /// Covers only shares of 40 % or more. The flag says whether interference is reported as additive.
    struct Measured(InterferenceLaw, bool);

    impl Throughput for Measured {
        fn task_count(&self) -> usize {
            self.0.task_count()
        }
        fn solo(&self, task: usize, batch: Batch) -> f64 {
            self.0.solo(task, batch)
        }
        fn means(&self, active: &[Setting], out: &mut [f64]) {
            self.0.means(active, out);
        }
        fn covers(&self, setting: Setting, _running: usize) -> bool {
            setting.share.percent() >= 40.0
        }
        fn interference(&self) -> Option<Vec<f64>> {
            self.0.interference().filter(|_| self.1)
        }
        fn demand(&self, task: usize, batch: Batch, share: Share, running: usize) -> f64 {
            self.0.demand(task, batch, share, running)
        }
        fn sample_time(&self, t: usize, batch: Batch, share: Share, running: usize) -> SampleTime {
            self.0.sample_time(t, batch, share, running)
        }
    }

    /// A round of two tasks whose transfers of 8 s dwarf their compute.
    fn round() -> crate::Round {
        let task = |id: &str| {
            format!(
                r#"{{"id":"{id}","model":"vgg16","batch_sizes":[32],"samples":100,
                    "update_bytes":{{"down":100000000,"up":100000000}}}}"#
            )
        };
        let text = format!(
            r#"{{"schema":"mt.workload/1","device":{{"kind":"cpu"}},
                "link":{{"down_bps":1e8,"up_bps":1e8}},"tasks":[{},{}]}}"#,
            task("a"),
            task("b")
        );
        let frames = doc::Frames::new(text.as_bytes(), "test");
        let workload = doc::Documents::new(frames).next().unwrap().unwrap();
        crate::Round::of_workload(&workload).unwrap()
    }

    #[test]
    fn every_search_stays_inside_unless_it_may_leave() {
        let law = TaskLaw {
            step_s: 0.01,
            sample_s: 1e-3,
            exponent: 0.1,
        };
        let law = InterferenceLaw {
            tasks: vec![law; 2],
            coupling: vec![0.0, 5.0, 5.0, 0.0],
            busy: false,
        };
        let one = Task {
            id: units::TaskId::new("a").unwrap(),
            batches: vec![Batch::new(32).unwrap()],
            samples: Some(units::Samples::new(100).unwrap()),
            weight: units::Weight::new(1.0).unwrap(),
            memory: None,
            work_per_sample: None,
            progress: crate::TaskProgress::default(),
        };
        let problem = Problem {
            tasks: vec![one; 2],
            objective: doc::ObjectiveKind::Raw,
            limits: Limits {
                step: Share::from_percent(20.0).unwrap(),
                ..Limits::default()
            },
            round: None,
        };
        let played = Problem {
            objective: doc::ObjectiveKind::Round,
            round: Some(round()),
            ..problem.clone()
        };
        for adds_up in [false, true] {
            let rates = Measured(law.clone(), adds_up);
            let best = |problem: &Problem, open: bool| {
                let penalised = DomainPenalty::new(&rates, problem, open);
                let options = crate::SearchOptions::default();
                let found = crate::solve(&penalised, problem, &options).unwrap();
                beyond(&rates, &found.solutions[0].settings)
            };
            assert_eq!(best(&problem, false), 0);
            assert!(best(&problem, true) > 0, "the law is better outside");
            // The tasks of this round need not run together, so all shares are equally good, and those inside the
            // domain must win.
            assert_eq!(best(&played, false), 0);
        }
    }
}
