//! The commands of a trial as a workload, for the tools that measure shares and batch sizes.

use doc::{DeviceKind, DeviceSpec, HostCost, Job, Progress, Task, Workload};
use units::{Batch, Samples};

use crate::answer::Alone;
use crate::detect::LINES;
use crate::{Command, Track, Trial};

/// Seconds that define the work of a task of unknown length: its work alone in this time.
const MINUTE: f64 = 60.0;

/// The commands as tasks, with the expression that reads their progress. The unit of work is the counted unit, so the
/// batch size is one unit, except with the worker protocol.
#[must_use]
pub fn workload(trial: &Trial, kind: DeviceKind) -> Workload {
    let tasks = trial.commands.iter().zip(&trial.alone);
    Workload {
        id: None,
        device: DeviceSpec {
            kind,
            gpu: None,
            memory: None,
            gpus: 1,
            gpu_names: Vec::new(),
        },
        link: None,
        tasks: tasks
            .map(|(command, (alone, track))| task(command, alone, track))
            .collect(),
        provenance: Vec::new(),
    }
}

fn task(command: &Command, alone: &Alone, track: &Track) -> Task {
    let step = track.detector.step().and_then(|n| Batch::new(n).ok());
    let form = track.detector.best().map(|best| best.form);
    let regex = form.map(|form| form.regex.to_owned());
    let none = form.is_none_or(|form| form == LINES);
    let work = alone.total.unwrap_or(MINUTE * alone.rate.per_s);
    Task {
        id: command.id.clone(),
        model: None,
        input_pixels: None,
        layers: Vec::new(),
        flops_per_sample: None,
        bytes_per_sample: None,
        batch_sizes: step.or(Batch::new(1).ok()).into_iter().collect(),
        batch: None,
        efficiency: None,
        rounds_to_target: None,
        samples: Samples::new((work.round() as u64).max(1)).ok(),
        update_bytes: None,
        weight: None,
        memory: None,
        host: HostCost::default(),
        job: Some(Job {
            progress: Progress {
                regex: regex.filter(|text| !text.is_empty()),
                none,
            },
            ..command.job()
        }),
    }
}
