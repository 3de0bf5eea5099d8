//! Finds measurements of a real device that are implausible, or useless for planning.

use std::collections::BTreeSet;

use doc::{Measured, Sample, Workload};
use units::{Samples, SamplesPerSec, Share, TaskId};

/// Measurements so far; `alone`: those of solo runs.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    alone: Vec<Measured>,
    /// Measurements of tasks in co-runs.
    together: Vec<Measured>,
    ran: BTreeSet<TaskId>,
    /// Tasks whose different number of samples was already reported.
    told: BTreeSet<TaskId>,
}

/// Training time in seconds below which a plan gains nothing, because the start of the program dominates (an
/// interpreter starts in 0.05 s; with a framework, in 5 to 15 s).
const LITTLE_WORK_S: f64 = 1.0;

/// Minimum relative difference between values that should be equal for a message. Windows end at a standard error of
/// 1 %, and the drift of a device between two windows was mostly below 5 %.
const MUCH: f64 = 0.10;

/// A difference of more than this many standard errors is not noise (normal values exceed it once in 370 times).
const SURE: f64 = 3.0;

impl Findings {
    /// Whether a task has been measured, alone or not.
    pub(crate) fn has_run(&self, task: &TaskId) -> bool {
        self.ran.contains(task)
    }

    /// Adds a sample; returns messages about it, each kind once per task.
    pub(crate) fn add(&mut self, workload: &Workload, sample: &Sample) -> Vec<String> {
        let mut told = Vec::new();
        for task in &sample.tasks {
            self.ran.insert(task.id.clone());
            let known = workload.tasks.iter().find(|t| t.id == task.id);
            if let Some(samples) = known.and_then(|t| t.samples) {
                told.extend(self.other_samples(task, samples));
                let first = !self.alone.iter().any(|t| t.id == task.id);
                if sample.tasks.len() == 1 && first {
                    told.extend(little_work(task, samples));
                }
            }
        }
        match &sample.tasks[..] {
            [task] => self.alone.push(task.clone()),
            tasks => self.together.extend_from_slice(tasks),
        }
        told
    }

    /// A message if a complete run trained on another number of samples than the workload declares.
    fn other_samples(&mut self, task: &Measured, samples: Samples) -> Option<String> {
        let run = task.launch.run.filter(|run| run.samples != samples)?;
        self.told.insert(task.id.clone()).then(|| {
            format!(
                "task {}: a run trains {} samples, the workload says {} (`samples`), which is what \
                 plans count",
                task.id,
                run.samples.get(),
                samples.get()
            )
        })
    }

    /// Messages about contradictions between the measurements of all tasks.
    pub(crate) fn warnings(&self, workload: &Workload) -> Vec<String> {
        let mut warnings = Vec::new();
        for task in &workload.tasks {
            warnings.extend(self.less_with_more(&task.id));
            warnings.extend(self.less_alone(&task.id));
        }
        for (i, a) in workload.tasks.iter().enumerate() {
            let copies = workload.tasks[..i].iter();
            let copy = copies.rev().find(|b| is_copy(a, b));
            warnings.extend(copy.and_then(|b| self.unlike(&a.id, &b.id)));
        }
        warnings
    }

    /// A message about the largest loss of speed with a larger share.
    fn less_with_more(&self, task: &TaskId) -> Option<String> {
        let own = || self.alone.iter().filter(|t| t.id == *task);
        let pairs = own().flat_map(|a| own().map(move |b| (a, b)));
        let contrary = pairs.filter(|(small, large)| {
            small.batch == large.batch && small.share < large.share && is_faster(small, large)
        });
        let ratio = |(a, b): &(&Measured, &Measured)| a.throughput.get() / b.throughput.get();
        let (small, large) = contrary.max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        Some(format!(
            "task {task} alone: {} samples/s at {}, but {} at {}: more of the device cannot make \
             it slower, so its speed changes by more than its windows tell (another program, or the \
             host); measure again when the device is idle, or with --repeats 3",
            shown(large),
            large.share,
            shown(small),
            small.share
        ))
    }

    /// A message about the largest gain of speed in a co-run.
    fn less_alone(&self, task: &TaskId) -> Option<String> {
        let own = |all: &'_ [Measured]| -> Vec<Measured> {
            all.iter().filter(|t| t.id == *task).cloned().collect()
        };
        let rate = |t: &Measured| t.throughput.get();
        let whole = |t: &&Measured| t.share == Share::FULL;
        let together = own(&self.together);
        let fastest = together.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let alone = own(&self.alone);
        let same = alone
            .iter()
            .filter(whole)
            .filter(|t| t.batch == fastest.batch);
        let best = same.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        is_faster(fastest, best).then(|| {
            format!(
                "task {task} trains {} samples/s alone on the whole device, but {} beside others: \
                 its speed changes by more than its windows tell; measure again when the device is \
                 idle, or with --repeats 3",
                shown(best),
                shown(fastest)
            )
        })
    }

    /// A message if two tasks that run the same program have different speeds.
    fn unlike(&self, a: &TaskId, b: &TaskId) -> Option<String> {
        let of = |task: &TaskId| {
            let own = self.alone.iter().filter(|t| t.id == *task);
            own.filter(|t| t.share == Share::FULL)
                .min_by_key(|t| t.batch)
        };
        let (first, second) = (of(a)?, of(b)?);
        let (fast, slow) = match first.throughput.get() > second.throughput.get() {
            true => (first, second),
            false => (second, first),
        };
        (fast.batch == slow.batch && is_faster(fast, slow)).then(|| {
            format!(
                "tasks {} and {} have the same command, but alone one trains {} and the other \
                 {} samples/s: the device was not the same throughout, or the script does not \
                 always do the same",
                fast.id,
                slow.id,
                shown(fast),
                shown(slow)
            )
        })
    }
}

/// A message if a task's work takes less than [`LITTLE_WORK_S`].
fn little_work(task: &Measured, samples: Samples) -> Option<String> {
    let work = samples.as_f64() / task.throughput.get();
    (work < LITTLE_WORK_S).then(|| {
        format!(
            "task {}: its {} samples (`samples`) take {work:.2} s alone, less than a program takes to \
             start; too short to plan for",
            task.id,
            samples.get()
        )
    })
}

/// A rate for users, with its uncertainty.
fn shown(task: &Measured) -> String {
    match task.throughput.get() {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate => format!("{rate:.3}"),
    }
}

/// Whether a rate is significantly above another.
fn is_faster(fast: &Measured, slow: &Measured) -> bool {
    let error = |t: &Measured| t.stderr.map_or(0.0, SamplesPerSec::get).powi(2);
    let more = fast.throughput.get() - slow.throughput.get();
    more > MUCH * slow.throughput.get() && more > SURE * (error(fast) + error(slow)).sqrt()
}

/// Whether two tasks start the same program with the same arguments.
fn is_copy(a: &doc::Task, b: &doc::Task) -> bool {
    match (&a.job, &b.job) {
        (Some(one), Some(other)) => {
            (&one.argv, &one.env, &one.cwd) == (&other.argv, &other.env, &other.cwd)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doc::{Documents, Frames, Launch, WholeRun};
    use units::{Batch, Seconds};

    fn workload() -> Workload {
        let text = r#"{"schema":"mt.workload/1","tasks":[
          {"id":"a","batch_sizes":[8],"samples":1000,"job":{"argv":["x"]}},
          {"id":"b","batch_sizes":[8],"job":{"argv":["x"]}},
          {"id":"c","batch_sizes":[8],"job":{"argv":["x","1"]}}]}"#;
        let mut documents = Documents::<_, Workload>::new(Frames::new(text.as_bytes(), "test"));
        documents.next().unwrap().unwrap()
    }

    fn solo(task: &str, share: f64, rate: f64, run: Option<(f64, u64)>) -> Sample {
        let seconds = |s| Seconds::new(s).unwrap();
        Sample {
            config: 0,
            tasks: vec![Measured {
                id: TaskId::new(task).unwrap(),
                batch: Batch::new(8).unwrap(),
                share: Share::from_percent(share).unwrap(),
                throughput: SamplesPerSec::new(rate).unwrap(),
                stderr: SamplesPerSec::new(0.01 * rate).ok(),
                gradient: None,
                launch: Launch {
                    startup: None,
                    run: run.map(|(time, samples)| WholeRun {
                        time: seconds(time),
                        samples: Samples::new(samples).unwrap(),
                    }),
                },
            }],
            window: seconds(1.0),
            repeats: 1,
            gpu: None,
        }
    }

    #[test]
    fn a_larger_share_that_is_slower_and_unlike_copies_are_told() {
        let workload = workload();
        let mut found = Findings::default();
        found.add(&workload, &solo("a", 100.0, 100.0, None));
        found.add(&workload, &solo("a", 25.0, 97.0, None));
        found.add(&workload, &solo("b", 100.0, 95.0, None));
        found.add(&workload, &solo("c", 100.0, 10.0, None));
        assert_eq!(found.warnings(&workload), [] as [String; 0]);
        found.add(&workload, &solo("a", 50.0, 150.0, None));
        found.add(&workload, &solo("b", 100.0, 60.0, None));
        let warnings = found.warnings(&workload);
        assert!(warnings[0].starts_with("task a alone: 100 samples/s at 100 %, but 150 at 50 %"));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let mut found = Findings::default();
        found.add(&workload, &solo("a", 100.0, 100.0, None));
        found.add(&workload, &solo("b", 100.0, 60.0, None));
        let warnings = found.warnings(&workload);
        assert!(
            warnings[0].starts_with("tasks a and b have the same command"),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_task_that_others_make_faster_is_told() {
        let workload = workload();
        let mut found = Findings::default();
        found.add(&workload, &solo("a", 100.0, 100.0, None));
        let mut both = solo("a", 50.0, 105.0, None);
        both.tasks.extend(solo("c", 50.0, 5.0, None).tasks);
        found.add(&workload, &both);
        assert_eq!(found.warnings(&workload), [] as [String; 0]);
        both.tasks[0].throughput = SamplesPerSec::new(140.0).unwrap();
        found.add(&workload, &both);
        let warnings = found.warnings(&workload);
        assert!(warnings[0].contains("100 samples/s alone on the whole device, but 140"));
    }

    #[test]
    fn little_work_and_other_samples_are_told_once() {
        let workload = workload();
        let mut found = Findings::default();
        let told = found.add(&workload, &solo("a", 100.0, 50_000.0, Some((2.0, 4_000))));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("trains 4000 samples"), "{told:?}");
        assert!(told[1].contains("take 0.02 s"), "{told:?}");
        let again = found.add(&workload, &solo("a", 100.0, 50_000.0, Some((2.0, 4_000))));
        assert_eq!(again, [] as [String; 0]);
        assert!(found.has_run(&TaskId::new("a").unwrap()));
    }
}
