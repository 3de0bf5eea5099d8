//! Measurements that contradict each other, so that no model can fit them.

use std::collections::BTreeMap;

use units::Share;
use units::corun::Setting;

use crate::dataset::Dataset;

/// Rates of one configuration that differ by more than this factor contradict each other. With noise of 10 %, the
/// largest that a model should average out, two rates differ by this factor once in 300 times.
const APART: f64 = 1.5;
/// If standard errors are known, the rates must also differ by this many standard errors of the difference.
const ERRORS: f64 = 3.0;
/// If a task is faster by this factor together with others than alone, one of the two measurements is wrong: solo
/// rates repeat to a few percent.
const FASTER: f64 = 1.1;
/// Minimum number of a task's co-runs, at batch sizes with a solo run, for this check.
const LEAST: usize = 3;

/// Measurements that contradict each other.
#[derive(Debug, Clone, PartialEq)]
pub enum Contradiction {
    /// One configuration was measured several times, with very different throughputs of a task.
    Repeats {
        /// The configuration, in the order of the workload.
        active: Vec<Setting>,
        /// The task.
        task: usize,
        /// Its smallest and largest throughput, in samples per second.
        throughput: (f64, f64),
    },
    /// In most of its co-runs, a task is faster than alone on the whole device.
    FasterTogether {
        /// The task.
        task: usize,
        /// Number of co-runs in which it is faster.
        faster: usize,
        /// Number of its co-runs.
        co_runs: usize,
        /// The task with which it was probably swapped: the solo runs of each fit the co-runs of the other.
        swapped_with: Option<usize>,
    },
}

/// A throughput and its error, samples per second.
type Rate = (f64, f64);

impl Dataset {
    /// Contradictions among the measurements, in the order of the tasks.
    #[must_use]
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let mut all = self.repeats();
        all.extend(self.faster_together());
        all
    }

    fn repeats(&self) -> Vec<Contradiction> {
        let mut measured: BTreeMap<(Vec<Setting>, usize), Vec<Rate>> = BTreeMap::new();
        for s in &self.samples {
            let mut active = s.active.clone();
            active.sort_unstable();
            for (at, (a, p)) in s.active.iter().zip(&s.throughput).enumerate() {
                let error = s.stderr.as_ref().map_or(0.0, |e| e[at]);
                if *p > 0.0 {
                    let of = measured.entry((active.clone(), a.task)).or_default();
                    of.push((*p, error));
                }
            }
        }
        let told = |((active, task), mut rates): ((Vec<Setting>, usize), Vec<Rate>)| {
            rates.sort_by(|a, b| a.0.total_cmp(&b.0));
            let ((low, e), (high, f)) = (rates[0], rates[rates.len() - 1]);
            let apart = high > APART * low && high - low > ERRORS * e.hypot(f);
            apart.then_some(Contradiction::Repeats {
                active,
                task,
                throughput: (low, high),
            })
        };
        measured.into_iter().filter_map(told).collect()
    }

    /// The same measurements, with the solo runs of a task that is faster in most of its co-runs scaled to its median
    /// co-run. A solo run just after the start of a training, or on a host that has since become faster, is too slow.
    /// Without this, predictions were limited to it, and sharing looked better than it is: on an H200, where one of
    /// eight trainings was faster in most of its pairs, two and three copies of a training were predicted 12.2 % off, and
    /// 8.3 % with this. With a median above the solo run as the only condition, noise decided for others: 8.6 %.
    pub(crate) fn with_plausible_solo_runs(mut self) -> Self {
        let solo = crate::anchor::solo_steps(&self);
        let factor = |(task, solo): (usize, &BTreeMap<u32, f64>)| {
            let ratios = self.against(task, solo);
            let median = math::stats::median(&ratios).unwrap_or(1.0);
            if mostly_faster(&ratios) { median } else { 1.0 }
        };
        let factors: Vec<f64> = solo.iter().enumerate().map(factor).collect();
        for s in self.samples.iter_mut().filter(|s| s.active.len() == 1) {
            s.throughput[0] *= factors[s.active[0].task];
        }
        self
    }

    /// Throughputs of a task in its co-runs relative to solo runs, given as the step at each batch size.
    fn against(&self, task: usize, solo: &BTreeMap<u32, f64>) -> Vec<f64> {
        let co_runs = self.samples.iter().filter(|s| s.active.len() > 1);
        let all = co_runs.flat_map(|s| s.active.iter().zip(&s.throughput));
        let own = all.filter(|(a, p)| a.task == task && **p > 0.0);
        own.filter_map(|(a, p)| Some(p / a.batch.as_f64() * solo.get(&a.batch.get())?))
            .collect()
    }

    fn faster_together(&self) -> Vec<Contradiction> {
        let solo = crate::anchor::solo_steps(self);
        let fits = |task: usize, of: usize| {
            let ratios = self.against(task, &solo[of]);
            ratios.len() >= LEAST && 20 * faster(&ratios) <= ratios.len()
        };
        let mut all = Vec::new();
        for (task, own) in solo.iter().enumerate() {
            let ratios = self.against(task, own);
            if mostly_faster(&ratios) {
                let others = (0..self.tasks.len()).filter(|o| *o != task);
                let mut swapped = others.filter(|o| fits(task, *o) && fits(*o, task));
                // If several fit, none is reported.
                let first = swapped.next().filter(|_| swapped.next().is_none());
                all.push(Contradiction::FasterTogether {
                    task,
                    faster: faster(&ratios),
                    co_runs: ratios.len(),
                    swapped_with: first,
                });
            }
        }
        all
    }
}

fn faster(ratios: &[f64]) -> usize {
    ratios.iter().filter(|r| **r > FASTER).count()
}

fn mostly_faster(ratios: &[f64]) -> bool {
    ratios.len() >= LEAST && 2 * faster(ratios) > ratios.len()
}

impl Contradiction {
    /// Message for a contradiction; `name` returns the name of a task, given its position in the workload.
    #[must_use]
    pub fn reason(&self, name: impl Fn(usize) -> String) -> String {
        match self {
            Self::Repeats {
                active,
                task,
                throughput: (low, high),
            } => {
                let one = |a: &Setting| match a.share {
                    Share::FULL => format!("{} batch {}", name(a.task), a.batch),
                    share => format!("{} batch {} share {share}", name(a.task), a.batch),
                };
                let all: Vec<String> = active.iter().map(one).collect();
                format!(
                    "{} was measured at {low:.1} and at {high:.1} samples/s in one configuration ({}): remove one of them from the profile",
                    name(*task),
                    all.join(", ")
                )
            }
            Self::FasterTogether {
                task,
                faster,
                co_runs,
                swapped_with,
            } => {
                let task = name(*task);
                let cause = match swapped_with {
                    Some(other) => format!(
                        "the solo runs of {0} fit them, and those of {task} the co-runs of {0}: were the two \
                         names swapped?",
                        name(*other)
                    ),
                    None => "measure it alone again, with nothing else on the device".to_owned(),
                };
                format!(
                    "{task} is faster among others than alone in {faster} of {co_runs} co-runs: {cause}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Batch;

    use super::*;
    use crate::{Sample, TaskSpec};

    fn run(rates: &[(usize, f64)]) -> Sample {
        let one = |(task, _): &(usize, f64)| Setting {
            task: *task,
            batch: Batch::new(8).unwrap(),
            share: Share::FULL,
        };
        Sample {
            active: rates.iter().map(one).collect(),
            throughput: rates.iter().map(|(_, rate)| *rate).collect(),
            stderr: None,
        }
    }

    fn dataset(samples: Vec<Sample>) -> Dataset {
        let spec = TaskSpec {
            flops_per_sample: None,
            bytes_per_sample: None,
            batches: vec![Batch::new(8).unwrap()],
            copy_of: None,
        };
        Dataset {
            tasks: vec![spec; 3],
            samples,
        }
    }

    /// Solo rates 100, 300 and 50; every co-run halves them.
    fn sound() -> Vec<Sample> {
        let mut all = vec![run(&[(0, 100.0)]), run(&[(1, 300.0)]), run(&[(2, 50.0)])];
        for _ in 0..3 {
            all.push(run(&[(0, 50.0), (1, 150.0)]));
            all.push(run(&[(0, 52.0), (2, 25.0)]));
            all.push(run(&[(2, 26.0), (1, 140.0)]));
        }
        all
    }

    #[test]
    fn sound_measurements_contradict_nothing() {
        assert_eq!(dataset(sound()).contradictions(), []);
    }

    #[test]
    fn a_repeat_that_is_far_off_is_told_unless_its_error_explains_it() {
        let mut samples = sound();
        samples.push(run(&[(1, 40.0), (0, 51.0)]));
        let found = dataset(samples.clone()).contradictions();
        let [only] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(matches!(
            only,
            Contradiction::Repeats {
                task: 1,
                throughput: (40.0, 150.0),
                ..
            }
        ));
        let name = |task| format!("t{task}");
        assert!(only.reason(name).contains("40.0 and at 150.0 samples/s"));
        samples.last_mut().unwrap().stderr = Some(vec![60.0, 1.0]);
        assert_eq!(dataset(samples).contradictions(), []);
    }

    #[test]
    fn swapped_names_are_told() {
        let mut samples = sound();
        for s in samples.iter_mut().skip(3) {
            for a in &mut s.active {
                a.task = [1, 0, 2][a.task];
            }
        }
        let found = dataset(samples).contradictions();
        let swapped = Contradiction::FasterTogether {
            task: 0,
            faster: 6,
            co_runs: 6,
            swapped_with: Some(1),
        };
        assert_eq!(found, [swapped]);
    }

    #[test]
    fn a_solo_run_that_most_co_runs_exceed_is_raised_to_their_median() {
        let rates = |data: &Dataset| -> Vec<f64> {
            let solo = data.samples.iter().filter(|s| s.active.len() == 1);
            solo.map(|s| s.throughput[0]).collect()
        };
        let mut samples = sound();
        assert_eq!(
            rates(&dataset(samples.clone()).with_plausible_solo_runs()),
            [100.0, 300.0, 50.0]
        );
        samples[0].throughput[0] = 40.0;
        let corrected = dataset(samples).with_plausible_solo_runs();
        // Task 0 ran at 50 and 52 in three co-runs each.
        for (found, exact) in rates(&corrected).iter().zip([51.0, 300.0, 50.0]) {
            assert!((found / exact - 1.0).abs() < 1e-9, "{found} {exact}");
        }
    }
}
