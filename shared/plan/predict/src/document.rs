use units::corun::Setting;

use crate::dataset::{Dataset, Sample, TaskSpec};

impl TaskSpec {
    /// The descriptions of a workload's tasks.
    #[must_use]
    pub fn all(workload: &doc::Workload) -> Vec<TaskSpec> {
        let tasks = &workload.tasks;
        let one = |(k, t): (usize, &doc::Task)| TaskSpec {
            flops_per_sample: t.flops_per_sample.map(units::Flops::get),
            bytes_per_sample: t.bytes_per_sample,
            batches: t.batch_sizes.clone(),
            copy_of: tasks[..k].iter().position(|other| alike(other, t)),
        };
        tasks.iter().enumerate().map(one).collect()
    }
}

/// Whether two tasks are described as the same model. Their batch sizes, data and programs may differ, as in
/// hyper-parameter searches. A task without a description is like no other.
fn alike(a: &doc::Task, b: &doc::Task) -> bool {
    let described = a.model.is_some() || !a.layers.is_empty() || a.flops_per_sample.is_some();
    described
        && (&a.model, a.input_pixels, &a.layers) == (&b.model, b.input_pixels, &b.layers)
        && (a.flops_per_sample, a.bytes_per_sample) == (b.flops_per_sample, b.bytes_per_sample)
        && (a.memory, a.host) == (b.memory, b.host)
}

impl Dataset {
    /// The measurements of a profile. Tasks that are not in the workload are ignored; `doc` rejects such profiles on
    /// reading.
    #[must_use]
    pub fn from_profile(profile: &doc::Profile) -> Dataset {
        let workload = &profile.header.workload;
        let samples = profile.samples.iter().map(|s| {
            let known: Vec<(usize, &doc::Measured)> = s
                .tasks
                .iter()
                .filter_map(|m| Some((workload.task_index(&m.id)?, m)))
                .collect();
            let all = known.iter().all(|(_, m)| m.stderr.is_some());
            let error = |m: &doc::Measured| m.stderr.map_or(0.0, units::SamplesPerSec::get);
            Sample {
                active: known
                    .iter()
                    .map(|(task, m)| Setting {
                        task: *task,
                        batch: m.batch,
                        share: m.share,
                    })
                    .collect(),
                throughput: known.iter().map(|(_, m)| m.throughput.get()).collect(),
                stderr: all.then(|| known.iter().map(|(_, m)| error(m)).collect()),
            }
        });
        Dataset {
            tasks: TaskSpec::all(workload),
            samples: samples.filter(|s| !s.active.is_empty()).collect(),
        }
    }
}
