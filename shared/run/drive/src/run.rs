//! A schedule from a command line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use cli::{Console, Exit, Failure, Output};
use cluster::document;
use doc::{DeviceFingerprint, DeviceKind, Schedule};
use jobs::cgroup::Enclosures;
use jobs::{Journal, Neighbours, RecordsError, RunDir, Signals, Supervisor};

use crate::driver::{Driver, Told};
use crate::journal::{JournalError, Past, TaskJournal};
use crate::merged;
use crate::orders::Orders;
use crate::seats::Seats;
use crate::view::View;
use crate::{Agenda, KeptIn, Settings, Where};

/// Runs a schedule and writes the events of the run.
///
/// # Errors
/// [`Failure::Input`] if jobs lack a program or GPUs what the place needs;
/// [`Failure::Environment`] if this process cannot look after others, or events could not be written.
pub fn run(
    schedule: &Schedule,
    settings: &Settings,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    let environment = |error: &dyn std::fmt::Display| Failure::Environment(error.to_string());
    check(schedule)?;
    let settings = &settings.for_place();
    let cluster = &schedule.cluster;
    let orders = Orders::open(settings.events.as_deref(), console)?;
    let (mut kept, past) = opened(settings, cluster, console)?;
    let (mut run, cleaned) =
        RunDir::create(&settings.supervision.runs, console.tool()).map_err(|e| environment(&e))?;
    for dead in &cleaned {
        console.note(&format!("cleaned up after {}, which was killed", dead.tool));
    }
    run.guard().map_err(|e| environment(&e))?;
    kept.begin(&past, run.path(), cluster).map_err(of_journal)?;
    let (seats, note) =
        Seats::open(&schedule.cluster, &settings.place, &mut run).map_err(Failure::Input)?;
    if let Some(note) = note {
        console.warn(&note);
    }
    let mut supervisor = Supervisor::new(run.token()).map_err(|e| environment(&e))?;
    supervisor.listen(Signals::install(&cli::ending_signals()).map_err(|e| environment(&e))?);
    supervisor.sweep_strays();
    // A prefix may start what several jobs share: a daemon by `mt-launch exec` goes with its last
    // client and not with the job that needed it first.
    if !matches!(settings.place, Where::Via(_)) {
        supervisor.contain(Enclosures::create(&mut run));
    }
    let (neighbours, others) = Neighbours::join(
        &settings.supervision.runs,
        &devices(&settings.place, &seats),
        console.tool(),
    )
    .map_err(|e| environment(&e))?;
    if let Some(others) = others {
        console.warn(&others);
    }
    if let Some(left_out) = settings.supervision.passing.left_out() {
        console.note(&left_out);
    }
    if settings.supervision.follow {
        let console = console.clone();
        supervisor.follow(move |task, line| {
            let line = cli::job_line(&String::from_utf8_lossy(line));
            console.say(&format!("{task} | {line}"));
        });
    }
    let logs = settings
        .supervision
        .logs
        .clone()
        .unwrap_or_else(|| run.path().to_owned());
    std::fs::create_dir_all(&logs)
        .map_err(|error| Failure::Environment(format!("{}: {error}", logs.display())))?;
    output.queue()?;
    console.queue()?;
    let problem = document::problem(&schedule.cluster);
    let planned = document::schedule(schedule);
    let gpus = seats.all.len();
    let began = Instant::now();
    let elapsed = Duration::try_from_secs_f64(past.elapsed().unwrap_or(0.0)).unwrap_or_default();
    let launched = began.checked_sub(elapsed).unwrap_or(began);
    let mut driver = Driver {
        agenda: Agenda::new(problem, &planned, settings.seed),
        cluster: &schedule.cluster,
        settings,
        seats,
        supervisor,
        output,
        console,
        logs,
        journal: Journal::new(launched),
        kept,
        running: BTreeMap::new(),
        parked: BTreeMap::new(),
        jobs: schedule.cluster.jobs.iter().map(Told::of).collect(),
        pauses: vec![began; gpus],
        failures: vec![BTreeSet::new(); gpus],
        moved: BTreeMap::new(),
        written: Ok(()),
        stopped: None,
        replanned: began,
        view: View::of(schedule, began),
        orders,
        lost: BTreeSet::new(),
        told_status: None,
        told_unwritten: false,
        past,
    };
    let device = fingerprint(settings, gpus);
    let tool = console.provenance(Some(settings.seed), Some(device.name.clone()));
    driver.record(&driver.journal.launch(device, None, tool));
    driver.go_on();
    let signal = driver.drive();
    driver.write_status();
    console.settle();
    let exit = finish(driver, schedule, signal);
    if let Some(others) = neighbours.newcomers() {
        console.warn(&others);
    }
    // The control groups are gone with the driver; now the directory with its guard.
    drop(run);
    exit
}

/// The journal of the run, and how far it was.
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
    // Nobody named this file, so it must not block a run that starts over.
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

/// Obstacles to resuming are reported before anything is started.
fn of_journal(error: JournalError) -> Failure {
    match error {
        JournalError::Left(_) | JournalError::Records(RecordsError::Io { .. }) => {
            Failure::Environment(error.to_string())
        }
        _ => Failure::Input(error.to_string()),
    }
}

/// The devices of this machine that a schedule runs on.
fn devices(place: &Where, seats: &Seats) -> Vec<String> {
    match place {
        Where::Processors => vec!["cpu".to_owned()],
        Where::Cuda => seats.all.iter().filter_map(|s| s.uuid.clone()).collect(),
        // Whatever the prefix finds.
        Where::Via(_) => Vec::new(),
    }
}

/// Writes the summary, and says what it came to.
fn finish(
    mut driver: Driver<'_>,
    schedule: &Schedule,
    signal: Option<i32>,
) -> Result<Exit, Failure> {
    let tasks = driver.summaries();
    let ok = tasks.iter().all(|t| t.finished);
    let open = tasks.iter().filter(|t| t.interrupted);
    let open: Vec<&str> = open.map(|t| t.id.as_str()).collect();
    let open = open.join(", ");
    let summary = driver.journal.summary(Instant::now(), ok, tasks);
    driver.supervisor.stop_all(Duration::ZERO);
    driver.record(&summary);
    if ok {
        driver.console.note(&compared(&driver, schedule));
        // Nothing is left to resume.
        if let (KeptIn::Default(path), true) = (&driver.settings.journal, driver.kept.is_kept()) {
            fs::remove_file(path).ok();
        }
    }
    if let Some(signal) = signal {
        driver.console.error(&format!(
            "interrupted by signal {signal}: {open} had not ended"
        ));
        return Ok(Exit::Signal(u8::try_from(signal).unwrap_or(u8::MAX)));
    }
    match driver.written {
        Err(Failure::ClosedPipe) if !ok => Ok(Exit::Negative),
        Err(failure) => Err(failure),
        Ok(()) if ok => Ok(Exit::Done),
        Ok(()) => Ok(Exit::Negative),
    }
}

/// Measured against planned values.
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

/// Every job needs a program, and every task of it a place.
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
    let ordered = match schedule.is_merged() {
        true => merged::followed(problem, &planned),
        false => Agenda::new(problem, &planned, 0).plays_out(),
    };
    ordered.map_err(|stuck| {
        Failure::Input(format!(
            "the schedule cannot be followed: {stuck}; `mt-check` says what is wrong with it"
        ))
    })
}

fn fingerprint(settings: &Settings, gpus: usize) -> DeviceFingerprint {
    let (kind, name) = match &settings.place {
        Where::Processors => (
            DeviceKind::Cpu,
            format!("{gpus} parts of this machine's processors"),
        ),
        Where::Cuda => (DeviceKind::Cuda, format!("{gpus} GPUs of this machine")),
        Where::Via(words) => (
            DeviceKind::Cuda,
            format!("{gpus} GPUs via {}", words.join(" ")),
        ),
    };
    DeviceFingerprint {
        kind,
        name,
        simulated: false,
        units: u32::try_from(gpus).ok(),
        detail: None,
        noise_percent: None,
    }
}
