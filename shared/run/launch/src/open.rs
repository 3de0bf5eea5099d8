//! Opens the host of a launch, and runs the launch on it for a command line.

use std::ops::Range;
use std::time::Duration;

use cli::{Console, Exit, Failure, Output};
use doc::{DeviceKind, DeviceSpec};
use host::{ControlGroups, Host, MpsHost, MpsSetup, SimHost, discovery};
use jobs::RunDir;
use jobs::mps::MpsOptions;
use overlap::plan_instance;
use runner::opening::{environment, log_folder, open_failure, prepare, run_dir};
use runner::{Recorder, signal_text};
use units::TaskId;

use crate::launch::Launch;
use crate::learn::Course;
use crate::session::{Played, Rounds, log_name};
use crate::settings::LaunchSettings;

/// Launches `rounds` of one plan or timeline as its workload says: on a device of this machine, or on the simulator,
/// whose jitter depends on `seed`. With a course, the results of each round change the shares of the next.
///
/// # Errors
/// [`Failure::Environment`] if the device cannot be used or events could not be written;
/// [`Failure::Input`] if the plan lacks something that the device needs.
pub fn run(
    launch: &Launch,
    settings: &LaunchSettings,
    rounds: Range<u32>,
    seed: u64,
    course: Option<Course>,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    let (kind, note) = host::resolve(&launch.workload);
    if let Some(note) = note {
        console.note(&note);
    }
    fits(kind, settings)?;
    match kind {
        DeviceKind::Cpu | DeviceKind::Cuda => {
            real(launch, kind, settings, rounds, course, output, console)
        }
        DeviceKind::Sim | DeviceKind::Auto => {
            simulated(launch, settings, rounds, seed, course, output, console)
        }
        DeviceKind::Replay => Err(environment(
            "the replay device runs no jobs; use cpu, cuda or sim",
        )),
    }
}

/// Refuses options that need a GPU on a device without one.
pub(crate) fn fits(kind: DeviceKind, settings: &LaunchSettings) -> Result<(), Failure> {
    let unfit = host::unfit(kind, settings.attach_mps, &settings.cpus);
    unfit.map_or(Ok(()), |why| Err(Failure::Usage(why)))
}

/// A launch on virtual time.
fn simulated(
    launch: &Launch,
    settings: &LaunchSettings,
    rounds: Range<u32>,
    seed: u64,
    course: Option<Course>,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    let input = |error: &dyn std::fmt::Display| Failure::Input(error.to_string());
    let link = launch.plan.link.or(launch.workload.link);
    // Virtual time needs to know how long everything takes.
    plan_instance(&launch.plan, link.map(|l| l.duplex)).map_err(|e| input(&e))?;
    let mut workload = host::complete(&launch.workload, DeviceKind::Sim).map_err(open_failure)?;
    for (task, known) in workload.tasks.iter_mut().zip(&launch.workload.tasks) {
        // Restores the update sizes of the original workload, for which the round was ordered. If they are unknown, the
        // sizes from the catalogue would add transfers that no timeline has.
        task.update_bytes = known.update_bytes;
    }
    let host = SimHost::open(&workload, link, seed).map_err(open_failure)?;
    let settings = LaunchSettings {
        // A simulated job is ready at once and never stalls. It reports its progress whenever the set of computing
        // jobs changes; between two changes nothing else happens.
        ready: None,
        stall: None,
        progress_every: Duration::ZERO,
        // A simulated job always reports its samples, even if the real program would not.
        no_progress: false,
        ..settings.clone()
    };
    let provenance = console.provenance(Some(seed), Some(host.fingerprint().name));
    let mut launch = launch.clone();
    launch.workload = workload;
    let mut recorder = Recorder::new(output, console, settings.metrics.as_ref(), false);
    let session = Rounds {
        cpus: vec![Vec::new(); launch.plan.tasks.len()],
        launch,
        settings: &settings,
        host: Box::new(host),
        logs: std::path::PathBuf::new(),
        course,
    };
    let played = session.play(rounds, provenance, &mut recorder);
    recorder.finish()?;
    Ok(if played.ok {
        Exit::Done
    } else {
        Exit::Negative
    })
}

/// A launch of real processes.
fn real(
    launch: &Launch,
    kind: DeviceKind,
    settings: &LaunchSettings,
    rounds: Range<u32>,
    course: Option<Course>,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    launch.check_jobs()?;
    let run = run_dir(&settings.supervision, console)?;
    let logs = log_folder(&settings.supervision, &run)?;
    for task in &launch.plan.tasks {
        cli::may_append(&logs.join(log_name(&task.id)))?;
    }
    let tasks = launch.plan.tasks.len();
    let (host, neighbours, cpus): (Box<dyn Host>, _, _) = if kind == DeviceKind::Cuda {
        let mut host = cuda(launch, settings, run)?;
        let neighbours = prepare(&mut host, &settings.supervision, console)?;
        (Box::new(host), neighbours, settings.cpus.divide(tasks))
    } else {
        let mut host = processors(launch, run)?;
        let neighbours = prepare(&mut host, &settings.supervision, console)?;
        (Box::new(host), neighbours, vec![Vec::new(); tasks])
    };
    // Output goes through queues, so that jobs are supervised even if a reader of events or notes stalls.
    output.queue()?;
    console.queue()?;
    let provenance = console.provenance(None, Some(host.fingerprint().name));
    let session = Rounds {
        launch: launch.clone(),
        settings,
        host,
        cpus,
        logs,
        course,
    };
    let mut recorder = Recorder::new(
        output,
        console,
        settings.metrics.as_ref(),
        settings.supervision.follow,
    );
    let played = session.play(rounds, provenance, &mut recorder);
    let written = recorder.finish();
    if let Some(others) = neighbours.newcomers() {
        console.warn(&others);
    }
    conclude(&played, written, console)
}

/// Reports failures, and returns the exit of the tool; `written` is the result of writing the events.
pub(crate) fn conclude(
    played: &Played,
    written: Result<(), Failure>,
    console: &Console,
) -> Result<Exit, Failure> {
    if let Some(signal) = played.signal {
        let names = list(&played.interrupted);
        let signal_text = signal_text(signal);
        console.error(&match names.as_str() {
            "" => format!("interrupted by {signal_text}: every task had ended"),
            names => format!("interrupted by {signal_text}: {names} had not ended"),
        });
        if let Err(failure) = written {
            console.error(&failure.to_string());
        }
        return Ok(Exit::Signal(u8::try_from(signal).unwrap_or(u8::MAX)));
    }
    if !played.failed.is_empty() {
        let failed = list(&played.failed);
        console.error(&format!("{failed} did not finish; the events say why"));
    }
    match written {
        // Its jobs were stopped in the middle of their training, so it did not succeed.
        Err(Failure::ClosedPipe) if !played.ok => {
            console.error("the reader of the events has gone, so the jobs were stopped");
            return Ok(Exit::Negative);
        }
        written => written?,
    }
    Ok(if played.ok {
        Exit::Done
    } else {
        Exit::Negative
    })
}

fn list(tasks: &[TaskId]) -> String {
    let names: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
    names.join(", ")
}

/// Number of GPUs that the plan needs.
fn gpus(launch: &Launch) -> usize {
    let last = launch.plan.tasks.iter().filter_map(|t| t.gpu).max();
    last.map_or(1, |last| last.saturating_add(1) as usize)
}

fn processors(launch: &Launch, run: RunDir) -> Result<ControlGroups, Failure> {
    let used = gpus(launch);
    if used > 1 {
        return Err(Failure::Environment(format!(
            "the cpu device is one device and the plan spreads over {used}; make the plan with \
             one, or launch it with --device cuda or sim"
        )));
    }
    // The error about a group that cannot be created already says what to do.
    ControlGroups::open(run).map_err(open_failure)
}

fn cuda(launch: &Launch, settings: &LaunchSettings, run: RunDir) -> Result<MpsHost, Failure> {
    let device = &launch.workload.device;
    let count = gpus(launch).max(device.gpus as usize);
    open_gpus(device, count, false, settings, run)
}

/// The first `count` GPUs of this machine that MPS can share; `together`: whether a job may be granted several of
/// them.
pub(crate) fn open_gpus(
    device: &DeviceSpec,
    count: usize,
    together: bool,
    settings: &LaunchSettings,
    run: RunDir,
) -> Result<MpsHost, Failure> {
    let mut found = discovery::shareable(&device.gpu_names, count).map_err(|error| {
        Failure::Environment(format!(
            "the launch needs {count} of this machine's GPUs (\"gpus\" of the workload's device), \
             but there is {error}"
        ))
    })?;
    found.truncate(count);
    let options = MpsOptions::from_environment().map_err(environment)?;
    let mut setup = MpsSetup::new(found, options);
    setup.together = together;
    setup.attach = settings.attach_mps;
    MpsHost::open(setup, run).map_err(open_failure)
}
