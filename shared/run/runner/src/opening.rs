//! Opening a run: its folder, its guard, signals, the output of its jobs, the other programs on its devices.

use std::path::PathBuf;
use std::time::Duration;

use cli::{Console, Failure};
use host::{Processes, Shares};
use jobs::{Neighbours, RunDir, Signals, Supervision};

/// Minimum time between two reads of the jobs' output. A poll costs about 40 system calls for 8 jobs: at 20 ms the
/// launcher took 1.0 % of a core for 8 jobs with 100 lines a second (a test build). The end of a phase may be noticed
/// later by this time, which is negligible for rounds of seconds.
const COALESCE: Duration = Duration::from_millis(30);

/// A failure of this machine.
pub fn environment(error: impl ToString) -> Failure {
    Failure::Environment(error.to_string())
}

/// A failure to open a host.
#[must_use]
pub fn open_failure(error: host::OpenError) -> Failure {
    match error {
        host::OpenError::Workload(fault) => Failure::Input(format!("the plan's workload: {fault}")),
        host::OpenError::Environment { .. } => environment(error),
    }
}

/// Creates a run folder with its guard, which ends all processes of the run if this process is killed. Before that, it
/// ends and reports leftovers of killed runs.
///
/// # Errors
/// [`Failure::Environment`] if the folder cannot be used.
pub fn run_dir(supervision: &Supervision, console: &Console) -> Result<RunDir, Failure> {
    let begun = RunDir::begin(&supervision.runs, console.tool(), true);
    let (run, told) = begun.map_err(environment)?;
    for text in told {
        console.note(&text);
    }
    Ok(run)
}

/// Sets the variables for jobs on a host, and prepares its supervisor for signals and output. Reports other programs
/// that already use the device.
///
/// # Errors
/// [`Failure::Environment`] if signals cannot be received, or this program cannot be registered for the device.
pub fn prepare<S: Shares>(
    host: &mut Processes<S>,
    supervision: &Supervision,
    console: &Console,
) -> Result<Neighbours, Failure> {
    host.pass(supervision.passing.clone());
    if let Some(left_out) = supervision.passing.left_out() {
        console.note(&left_out);
    }
    let supervisor = host.supervisor();
    supervisor.listen(Signals::install(&cli::ending_signals()).map_err(environment)?);
    supervisor.coalesce(COALESCE);
    supervisor.sweep_strays();
    if supervision.follow {
        let console = console.clone();
        supervisor.follow(move |task, line| {
            let line = cli::job_line(&String::from_utf8_lossy(line));
            console.say(&format!("{task} | {line}"));
        });
    }
    let (neighbours, others) = host.neighbours(console.tool()).map_err(environment)?;
    if let Some(others) = others {
        console.warn(&others);
    }
    Ok(neighbours)
}

/// Folder for the logs of a run, created if it does not exist: the requested one, or the run folder, which is removed
/// at the end of the run.
///
/// # Errors
/// [`Failure::Environment`] if it cannot be created.
pub fn log_folder(supervision: &Supervision, run: &RunDir) -> Result<PathBuf, Failure> {
    let logs = supervision.logs.as_deref().unwrap_or(run.path()).to_owned();
    std::fs::create_dir_all(&logs)
        .map_err(|error| Failure::Environment(format!("{}: {error}", logs.display())))?;
    Ok(logs)
}
