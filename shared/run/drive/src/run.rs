//! A schedule from a command line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cli::{Console, Exit, Failure, Output};
use cluster::{document, followed};
use doc::{Schedule, Task, TaskSummary};
use host::{Host, MpsHost, MpsSetup, Processes, discovery};
use jobs::mps::MpsOptions;
use jobs::{Journal, Neighbours, RecordsError, RunDir};
use runner::opening::{environment, log_folder, open_failure, prepare, run_dir};
use runner::{Recorder, Runner, Sink as _, signal_text};

use crate::driver::{Driver, Told};
use crate::journal::{JournalError, Past, TaskJournal};
use crate::orders::Orders;
use crate::seats::Seats;
use crate::view::View;
use crate::{Agenda, KeptIn, Settings, Where};

/// Runs a schedule and writes the events of the run.
///
/// # Errors
/// [`Failure::Input`] if jobs lack a program, or GPUs lack data that the place needs; [`Failure::Environment`] if this
/// process cannot supervise others, or events could not be written.
pub fn run(
    schedule: &Schedule,
    settings: &Settings,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    check(schedule)?;
    let is_shared = !schedule.cluster.sharing.is_empty();
    if settings.attach_mps && !(is_shared && matches!(settings.place, Where::Cuda)) {
        let why =
            "--attach-mps: no jobs of this schedule share a GPU of this machine; leave it out";
        return Err(Failure::Usage(why.to_owned()));
    }
    let settings = &settings.for_place();
    let cluster = &schedule.cluster;
    let orders = Orders::open(settings.events.as_deref(), console)?;
    let (mut kept, past) = opened(settings, cluster, console)?;
    let run = run_dir(&settings.supervision, console)?;
    kept.begin(&past, run.path(), cluster).map_err(of_journal)?;
    let seats = Seats::of(cluster, &settings.place).map_err(Failure::Input)?;
    let logs = log_folder(&settings.supervision, &run)?;
    let (mut host, neighbours) = open(cluster, &seats, settings, run, console)?;
    output.queue()?;
    console.queue()?;
    let elapsed = Duration::try_from_secs_f64(past.elapsed().unwrap_or(0.0)).unwrap_or_default();
    let began = host.now();
    let journal = Journal::new(began.checked_sub(elapsed).unwrap_or(began));
    let mut driver = driver(schedule, settings, seats, kept, past, orders, began);
    driver.logs = logs;
    let follow = settings.supervision.follow;
    let mut recorder = Recorder::new(output, console, settings.metrics.as_ref(), follow);
    let device = host.fingerprint();
    let tool = console.provenance(Some(settings.seed), Some(device.name.clone()));
    recorder.event(&journal.launch(device, None, tool));
    let mut runner = Runner::new(host.as_mut(), &mut recorder, &settings.supervision, journal);
    driver.go_on(&mut runner);
    let over = runner.run(&mut driver);
    if let Some(problem) = driver.write_status(journal.time(host.now()).get()) {
        console.warn(&problem);
    }
    let tasks = driver.summaries();
    let ok = tasks.iter().all(|t| t.finished);
    let summary = journal.summary(host.now(), ok, tasks.clone());
    // No job may run any more when the summary is written.
    drop(host);
    recorder.event(&summary);
    let written = recorder.finish();
    if let Some(others) = neighbours.newcomers() {
        console.warn(&others);
    }
    if ok {
        console.note(&compared(&driver, schedule));
        // Nothing is left to resume.
        if let (KeptIn::Default(path), true) = (&settings.journal, driver.kept.is_kept()) {
            fs::remove_file(path).ok();
        }
    }
    ended(over.signal, &tasks, written, console)
}

/// The driver of a schedule at its start.
fn driver<'a>(
    schedule: &'a Schedule,
    settings: &'a Settings,
    seats: Seats,
    kept: TaskJournal,
    past: Past,
    orders: Orders,
    began: Instant,
) -> Driver<'a> {
    let problem = document::problem(&schedule.cluster);
    let gpus = seats.all.len();
    Driver {
        agenda: Agenda::new(problem, &document::schedule(schedule), settings.seed),
        cluster: &schedule.cluster,
        settings,
        seats,
        programs: schedule.cluster.jobs.iter().map(program).collect(),
        logs: PathBuf::new(),
        kept,
        past,
        next: 0,
        running: BTreeMap::new(),
        parked: BTreeMap::new(),
        jobs: schedule.cluster.jobs.iter().map(Told::of).collect(),
        pauses: vec![began; gpus],
        due: BTreeMap::new(),
        failures: vec![BTreeSet::new(); gpus],
        moved: BTreeMap::new(),
        stopped: false,
        replanned: began,
        view: View::of(schedule),
        orders,
        lost: BTreeSet::new(),
        told_status: None,
        told_unwritten: false,
    }
}

/// The program of a job's tasks in the form that hosts take.
fn program(job: &doc::ClusterJob) -> Task {
    Task {
        job: job.job.clone(),
        samples: job
            .samples
            .and_then(|samples| units::Samples::new(samples.round() as u64).ok()),
        ..Task::named(job.id.clone())
    }
}

/// The host of a schedule. GPUs on which several jobs train at once run under MPS, since without it the jobs would take
/// turns.
fn open(
    cluster: &doc::Cluster,
    seats: &Seats,
    settings: &Settings,
    run: RunDir,
    console: &Console,
) -> Result<(Box<dyn Host>, Neighbours), Failure> {
    let shared = !cluster.sharing.is_empty();
    let supervision = &settings.supervision;
    match &settings.place {
        Where::Cuda if shared => {
            let gpus = discovery::shareable(&seats.uuids(), seats.all.len()).map_err(|error| {
                Failure::Environment(format!(
                    "the schedule lets jobs share GPUs, which needs MPS, but there is {error}"
                ))
            })?;
            let options = MpsOptions::from_environment().map_err(environment)?;
            let mut setup = MpsSetup::new(gpus, options);
            setup.attach = settings.attach_mps;
            let mut host = MpsHost::open(setup, run).map_err(open_failure)?;
            let neighbours = prepare(&mut host, supervision, console)?;
            Ok((Box::new(host), neighbours))
        }
        place => {
            let (opened, note) = match place {
                Where::Processors => {
                    Processes::parts(seats.parts(), shared, run).map_err(open_failure)?
                }
                Where::Cuda => {
                    let host = Processes::whole(seats.uuids(), run).map_err(open_failure)?;
                    (host, None)
                }
                Where::Via(words) => {
                    let host = Processes::behind(&words.join(" "), seats.all.len(), run);
                    (host.map_err(open_failure)?, None)
                }
            };
            if let Some(note) = note {
                console.warn(&note);
            }
            let mut host = opened;
            let neighbours = prepare(&mut host, supervision, console)?;
            Ok((Box::new(host), neighbours))
        }
    }
}

/// The journal of the run, and the progress in it.
fn opened(
    settings: &Settings,
    cluster: &doc::Cluster,
    console: &Console,
) -> Result<(TaskJournal, Past), Failure> {
    let path = settings.journal.path();
    let runs = &settings.supervision.runs;
    if path.parent() == Some(runs.as_path()) {
        jobs::open_private_dir(runs).map_err(|error| Failure::file(runs, &error))?;
    }
    let error = match TaskJournal::open(path, settings.resume, cluster) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    // The user did not name this file, so it must not prevent a new run.
    let asked = settings.resume || matches!(settings.journal, KeptIn::File(_));
    match error {
        JournalError::Records(RecordsError::InUse { .. }) if !asked => {
            console.note("another run of this schedule is active, so this one keeps no journal");
            Ok((TaskJournal::default(), Past::default()))
        }
        JournalError::Begun { .. }
        | JournalError::OtherJobs(_)
        | JournalError::Records(RecordsError::Line { .. })
            if !asked =>
        {
            console.note(&format!("{error}; this run starts from the beginning"));
            fs::remove_file(path).map_err(|error| Failure::file(path, &error))?;
            TaskJournal::open(path, false, cluster).map_err(of_journal)
        }
        error => Err(of_journal(error)),
    }
}

/// Converts an error of the journal; it is reported before anything is started.
fn of_journal(error: JournalError) -> Failure {
    match error {
        JournalError::Left(_) | JournalError::Records(RecordsError::Io { .. }) => {
            Failure::Environment(error.to_string())
        }
        _ => Failure::Input(error.to_string()),
    }
}

/// Reports unfinished work, and returns the exit of the tool; `written` is the result of writing the events.
fn ended(
    signal: Option<i32>,
    tasks: &[TaskSummary],
    written: Result<(), Failure>,
    console: &Console,
) -> Result<Exit, Failure> {
    let ok = tasks.iter().all(|t| t.finished);
    if let Some(signal) = signal {
        let open: Vec<&str> = tasks
            .iter()
            .filter(|t| t.interrupted)
            .map(|t| t.id.as_str())
            .collect();
        console.error(&format!(
            "interrupted by {}: {} had not ended",
            signal_text(signal),
            open.join(", ")
        ));
        return Ok(Exit::Signal(u8::try_from(signal).unwrap_or(u8::MAX)));
    }
    match written {
        Err(Failure::ClosedPipe) if !ok => Ok(Exit::Negative),
        Err(failure) => Err(failure),
        Ok(()) if ok => Ok(Exit::Done),
        Ok(()) => Ok(Exit::Negative),
    }
}

/// Compares measured with planned values, as a message.
fn compared(driver: &Driver<'_>, schedule: &Schedule) -> String {
    let jobs = schedule.cluster.jobs.iter();
    let measured: f64 = jobs
        .zip(driver.agenda.completions())
        .filter_map(|(job, at)| Some(job.weight.get() * at?))
        .sum();
    format!(
        "weighted completion {measured:.2} measured, {:.2} planned ({:+.1} %)",
        schedule.cost,
        100.0 * (measured / schedule.cost - 1.0)
    )
}

/// Checks that every job has a program, and every task of it a place.
fn check(schedule: &Schedule) -> Result<(), Failure> {
    let jobs = schedule.cluster.jobs.iter();
    let without: Vec<&str> = jobs
        .filter(|j| j.job.is_none())
        .map(|j| j.id.as_str())
        .collect();
    if !without.is_empty() {
        return Err(Failure::Input(format!(
            "jobs without a program: {}; give each a `job` with `argv`",
            without.join(", ")
        )));
    }
    let problem = document::problem(&schedule.cluster);
    if schedule.tasks() != schedule.cluster.volume() {
        return Err(Failure::Input(format!(
            "the schedule has {} of the jobs' {} tasks; `mt-check` says which are missing",
            schedule.tasks(),
            schedule.cluster.volume()
        )));
    }
    let planned = document::schedule(schedule);
    followed(problem, &planned).map_err(|stuck| {
        Failure::Input(format!(
            "the schedule cannot be followed: {stuck}; `mt-check` says what is wrong with it"
        ))
    })
}
