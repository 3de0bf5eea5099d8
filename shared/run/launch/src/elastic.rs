//! Elastic trainings: a controller decides on which GPUs they run, and they move while they run.
//!
//! The controller is any program that reads events of trainings (`mt.training/1`) and writes allocations of GPUs
//! (`mt.allocation/1`), such as `mt-elastic`. The launcher starts each training with one process per GPU, reports
//! events to the controller, and moves a training by stopping it (SIGTERM, checkpoint) and starting it with another
//! number of processes.
//!
//! Guarantees, whatever the controller does:
//!
//! - the launcher never waits for it: events go into a bounded queue, which drops progress first;
//! - if it fails before its first decision, as on a usage error, the launch ends;
//! - if it dies later or does not answer, the last allocation stays, and trainings that would otherwise
//!   never get a GPU get free ones;
//! - if a program supports standby, its processes for the next allocation load while their predecessors still train;
//! - a decision is carried out only after the previous reconfiguration has ended, so every training
//!   makes a step between two of them; if several decisions wait, the newest counts;
//! - a decision that is not a valid allocation of this machine's GPUs changes nothing.

mod arrivals;
mod controller;
mod decide;
mod member;
mod others;
mod process_events;
mod session;
mod standby;
mod start;
mod tell;

use std::path::PathBuf;

use cli::{Console, Exit, Failure, Output};
use doc::{DeviceKind, Workload};
use host::{ControlGroups, Host, PlainProcesses};
use jobs::Neighbours;
use runner::Recorder;
use runner::opening::{log_folder, open_failure, prepare, run_dir};

use crate::open::{conclude, fits, open_gpus};
use crate::settings::LaunchSettings;
use arrivals::Arrivals;
use controller::Controller;
use session::ElasticLaunch;

pub use others::Others;

/// Options of an elastic launch besides its workload.
#[derive(Debug, Clone)]
pub struct Elastic {
    /// Program and arguments of the controller; not empty.
    pub controller: Vec<String>,
    /// File of arrivals, `-` for standard input; absent: every task of the workload arrives at the start.
    pub arrivals: Option<PathBuf>,
    /// Number of equal parts of one device, at least 1, that are allocated instead of its GPUs: a training is one
    /// process under the share of its parts.
    pub parts: Option<u32>,
    /// Policy for other processes on the GPUs, which the controller does not manage.
    pub others: Others,
}

/// Runs the tasks of a workload under a controller, on the processors of this machine divided into
/// as many parts as the workload's device has GPUs, or on its GPUs.
///
/// # Errors
/// [`Failure::Input`] if an arrival cannot be read; [`Failure::Environment`] if the device or the
/// controller cannot be used, or events could not be written.
pub fn run_elastic(
    workload: &Workload,
    settings: &LaunchSettings,
    elastic: &Elastic,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    let (kind, note) = host::resolve(workload);
    if let Some(note) = note {
        console.note(&note);
    }
    if !matches!(kind, DeviceKind::Cpu | DeviceKind::Cuda) {
        return Err(Failure::Usage(format!(
            "trainings that move need real processes, and the device is {}: give --device cpu or cuda",
            host::word(kind)
        )));
    }
    fits(kind, settings)?;
    if kind == DeviceKind::Cuda {
        elastic
            .others
            .look(workload, elastic.parts.is_some(), console)?;
    }
    let arrivals = Arrivals::open(elastic.arrivals.as_deref(), workload, console)?;
    let mut run = run_dir(&settings.supervision, console)?;
    let logs = log_folder(&settings.supervision, &run)?;
    // Must start before the host records the known children, or it would count as a stray.
    let controller = Controller::start(&elastic.controller, &mut run)?;
    let count = match elastic.parts {
        Some(_) => 1,
        None => workload.device.gpus as usize,
    };
    let (mut host, neighbours) = open(workload, kind, count, run, settings, console)?;
    output.queue()?;
    console.queue()?;
    let provenance = console.provenance(None, Some(host.fingerprint().name));
    let metrics = settings.metrics.as_ref();
    let follow = settings.supervision.follow;
    let mut recorder = Recorder::new(output, console, metrics, follow);
    let (parts, now) = (elastic.parts, host.now());
    // The session ends before the host is dropped: the host removes the control groups of the run with all processes in
    // them, but the controller may end by itself first.
    let session = ElasticLaunch::new(workload, settings, controller, arrivals, logs, parts, now);
    let (played, broken) = session.play(host.as_mut(), &mut recorder, provenance);
    let written = recorder.finish();
    if let Some(others) = neighbours.newcomers() {
        console.warn(&others);
    }
    match broken {
        Some(failure) => Err(failure),
        None => conclude(&played, written, console),
    }
}

fn open(
    workload: &Workload,
    kind: DeviceKind,
    count: usize,
    run: jobs::RunDir,
    settings: &LaunchSettings,
    console: &Console,
) -> Result<(Box<dyn Host>, Neighbours), Failure> {
    match kind {
        DeviceKind::Cuda => {
            let together = count > 1 && workload.tasks.iter().any(start::is_together);
            let mut host = open_gpus(&workload.device, count, together, settings, run)?;
            let neighbours = prepare(&mut host, &settings.supervision, console)?;
            Ok((Box::new(host), neighbours))
        }
        _ => processors(run, count, settings, console),
    }
}

/// Parts of the machine's processors: control groups if they can be written.
fn processors(
    run: jobs::RunDir,
    parts: usize,
    settings: &LaunchSettings,
    console: &Console,
) -> Result<(Box<dyn Host>, Neighbours), Failure> {
    match ControlGroups::open_divided(run, parts) {
        Ok(mut host) => {
            let neighbours = prepare(&mut host, &settings.supervision, console)?;
            Ok((Box::new(host), neighbours))
        }
        Err(host::OpenError::Environment { reason, .. }) => {
            console.warn(&format!(
                "parts of the machine are not enforced; jobs are asked to limit their threads: {reason}"
            ));
            let run = run_dir(&settings.supervision, console)?;
            let mut host = PlainProcesses::open(run, parts).map_err(open_failure)?;
            let neighbours = prepare(&mut host, &settings.supervision, console)?;
            Ok((Box::new(host), neighbours))
        }
        Err(error) => Err(open_failure(error)),
    }
}
