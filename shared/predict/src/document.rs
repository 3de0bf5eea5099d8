use corun::Setting;

use crate::dataset::{Dataset, Sample, TaskSpec};

impl Dataset {
    /// The measurements of a profile. Tasks that the workload does not have are left out;
    /// `doc` refuses such profiles when it reads them.
    #[must_use]
    pub fn from_profile(profile: &doc::Profile) -> Dataset {
        let workload = &profile.header.workload;
        let tasks = workload.tasks.iter().map(|t| TaskSpec {
            flops_per_sample: t.flops_per_sample.map(units::Flops::get),
            bytes_per_sample: t.bytes_per_sample,
            batches: t.batch_sizes.clone(),
        });
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
            tasks: tasks.collect(),
            samples: samples.filter(|s| !s.active.is_empty()).collect(),
        }
    }
}
