//! Launching for real: jobs under shares, round after round.

mod adapt;
mod enforce;
mod round;
mod task;
mod turns;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use cli::{Console, Exit, Failure, Output, provenance};
use doc::{EventPayload, TaskSummary};
use jobs::{RunDir, Signals, Supervisor};
use units::TaskId;

use crate::guard::Guard;
use crate::journal::{Journal, as_seconds};
use crate::launch::Launch;
use crate::settings::Settings;
use enforce::Enforcer;
use round::Round;
use watch::Watch;

/// Output of jobs is read this often: often enough for people, seldom enough to cost nothing.
const COALESCE: Duration = Duration::from_millis(20);

/// What lasts over the rounds of a launch.
pub(crate) struct Live<'a> {
    pub(crate) launch: Launch,
    pub(crate) settings: &'a Settings,
    pub(crate) console: &'a Console,
    pub(crate) journal: Journal<'a>,
    // Dropped in this order: jobs, control groups or daemon, run directory, guard.
    pub(crate) supervisor: Supervisor,
    pub(crate) enforcer: Enforcer,
    pub(crate) run: RunDir,
    _guard: Guard,
    pub(crate) logs: PathBuf,
    /// The signal that ends the run.
    pub(crate) signal: Option<i32>,
    watch: Watch,
}

/// Launches one plan or timeline.
///
/// # Errors
/// [`Failure::Environment`] if the device cannot be used or events could not be written.
pub fn run(
    launch: &Launch,
    settings: &Settings,
    rounds: u32,
    output: &mut Output,
    console: &Console,
) -> Result<Exit, Failure> {
    let mut live = Live::open(launch, settings, output, console)?;
    live.begin();
    let mut totals: Vec<TaskSummary> = Vec::new();
    let mut ok = true;
    for number in 0..rounds {
        let outcome = Round::new(&mut live, number).play();
        ok &= outcome.ok;
        if number + 1 < rounds && outcome.ok {
            live.adapt(number, &outcome.tasks);
        }
        add(&mut totals, outcome.tasks);
        if live.is_ending() {
            ok &= number + 1 == rounds && live.signal.is_none();
            break;
        }
    }
    live.end(ok, totals)
}

/// Name of a task's log.
pub(crate) fn log_name(task: &TaskId) -> String {
    format!("{task}.log")
}

fn add(totals: &mut Vec<TaskSummary>, round: Vec<TaskSummary>) {
    if totals.is_empty() {
        *totals = round;
        return;
    }
    for task in round {
        // A plan that was solved anew may have the tasks in another order.
        let Some(total) = totals.iter_mut().find(|t| t.id == task.id) else {
            totals.push(task);
            continue;
        };
        total.finished &= task.finished;
        total.samples += task.samples;
        total.restarts += task.restarts;
        total.rate = task.rate.or(total.rate);
        total.predicted = task.predicted;
        total.first_loss = total.first_loss.or(task.first_loss);
        total.last_loss = task.last_loss.or(total.last_loss);
        total.end = task.end;
    }
}

impl<'a> Live<'a> {
    fn open(
        launch: &Launch,
        settings: &'a Settings,
        output: &'a mut Output,
        console: &'a Console,
    ) -> Result<Self, Failure> {
        let environment = |error: &dyn std::fmt::Display| Failure::Environment(error.to_string());
        launch.check_jobs()?;
        let (mut run, cleaned) =
            RunDir::create(&settings.runs, console.tool()).map_err(|e| environment(&e))?;
        for dead in cleaned {
            let pid = dead.pid.map_or_else(String::new, |pid| format!(" {pid}"));
            console.note(&format!(
                "cleaned up after {}{pid}, which was killed: {} processes, {} control groups",
                dead.tool, dead.processes, dead.cgroups
            ));
            for left in &dead.left {
                console.warn(&format!("left where it is: {left}"));
            }
        }
        let guard = Guard::start(run.path()).map_err(|e| environment(&e))?;
        let enforcer = Enforcer::open(launch, &settings.cpus, &mut run)?;
        let mut supervisor = Supervisor::new(run.token()).map_err(|e| environment(&e))?;
        supervisor.listen(Signals::install(&cli::ending_signals()).map_err(|e| environment(&e))?);
        supervisor.coalesce(COALESCE);
        supervisor.sweep_strays();
        if settings.follow {
            let console = console.clone();
            supervisor.follow(move |task, line| {
                let line = cli::job_line(&String::from_utf8_lossy(line));
                console.say(&format!("{task} | {line}"));
            });
        }
        // Whoever reads events or notes may stall; the jobs are looked after all the same.
        output.queue()?;
        console.queue()?;
        let logs = settings
            .logs
            .clone()
            .unwrap_or_else(|| run.path().to_owned());
        std::fs::create_dir_all(&logs)
            .map_err(|error| Failure::Environment(format!("{}: {error}", logs.display())))?;
        for task in &launch.plan.tasks {
            cli::may_append(&logs.join(log_name(&task.id)))?;
        }
        Ok(Self {
            launch: launch.clone(),
            settings,
            console,
            journal: Journal::new(output),
            supervisor,
            enforcer,
            run,
            _guard: guard,
            logs,
            signal: None,
            watch: Watch::default(),
        })
    }

    fn begin(&mut self) {
        let device = self.enforcer.fingerprint();
        let provenance = provenance(
            self.console.tool(),
            env!("CARGO_PKG_VERSION"),
            None,
            Some(device.name.clone()),
        );
        self.journal.write(EventPayload::Launch {
            device,
            planned: Some(self.launch.planned()),
            provenance: vec![provenance],
        });
    }

    /// Corrects model and plan by what a round has measured, if that is asked for.
    fn adapt(&mut self, round: u32, measured: &[TaskSummary]) {
        let Some(part) = self.settings.adapt else {
            return;
        };
        let (launch, what) = match adapt::adapted(&self.launch, measured, part) {
            Ok(adapted) => adapted,
            Err(why) => {
                self.console
                    .note(&format!("the plan stays as it is: {why}"));
                return;
            }
        };
        self.journal.write(EventPayload::Replan {
            round: Some(round + 1),
            reason: what,
            planned: Some(launch.planned()),
        });
        self.launch = launch;
    }

    /// Whether no further round may begin.
    fn is_ending(&self) -> bool {
        self.signal.is_some() || self.journal.is_closed()
    }

    fn end(self, ok: bool, totals: Vec<TaskSummary>) -> Result<Exit, Failure> {
        let Self {
            mut journal,
            supervisor,
            enforcer,
            run,
            _guard: guard,
            console,
            signal,
            ..
        } = self;
        // Nothing is left running before the summary says so.
        drop(supervisor);
        drop(enforcer);
        let failed: Vec<&str> = totals
            .iter()
            .filter(|t| !t.finished)
            .map(|t| t.id.as_str())
            .collect();
        if !failed.is_empty() && signal.is_none() {
            console.error(&format!(
                "{} did not finish; the events say why",
                failed.join(", ")
            ));
        }
        let makespan = as_seconds(journal.elapsed());
        journal.write(EventPayload::Summary {
            ok,
            makespan,
            tasks: totals,
        });
        drop(run);
        drop(guard);
        let written = journal.finish();
        if let Some(signal) = signal {
            if let Err(failure) = written {
                console.error(&failure.to_string());
            }
            return Ok(Exit::Signal(u8::try_from(signal).unwrap_or(u8::MAX)));
        }
        match written {
            // Its jobs were stopped in the middle of their training: that is no success.
            Err(Failure::ClosedPipe) if !ok => {
                console.error("the reader of the events has gone, so the jobs were stopped");
                return Ok(Exit::Negative);
            }
            written => written?,
        }
        Ok(if ok { Exit::Done } else { Exit::Negative })
    }
}
