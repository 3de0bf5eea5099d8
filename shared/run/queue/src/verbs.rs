//! The commands of `mt` that talk to a queue.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cli::{Console, Exit, Failure, Output};
use jobs::Signals;
use serde::Serialize;

use crate::args::{
    AddArgs, CancelArgs, JobArgs, LogsArgs, PauseArgs, QueueArgs, QueueDir, StartArgs, StatusArgs,
    SweepArgs, WaitArgs,
};
use crate::book::{Demand, Group, Id, QueuedJob, Wishes};
use crate::client::{ClientError, Queue, READY};
use crate::command::{Refused, TemplatedCommand, of_lines, of_words};
use crate::message::{JobStatus, LOGS, Request, Status, Word};
use crate::server::Server;
use crate::show;

/// How often a waiting client asks the server.
const LOOK: Duration = Duration::from_millis(300);

/// A failure of the queue, as the tool's.
#[must_use]
pub fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(why) => Failure::Usage(why),
        ClientError::Io { .. } | ClientError::Start(_) => Failure::Environment(error.to_string()),
    }
}

fn refused(error: &Refused) -> Failure {
    Failure::Usage(error.to_string())
}

/// The queue of the arguments.
///
/// # Errors
/// [`Failure`] if its folder cannot be used.
pub fn open(queue: &QueueDir) -> Result<Queue, Failure> {
    Queue::open(queue.folder.as_deref()).map_err(failure)
}

fn say(text: &str) -> Result<(), Failure> {
    let mut output = Output::open(None, false)?;
    output.text(text)?;
    output.finish()
}

fn say_json<T: Serialize>(what: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(what).map_err(|e| Failure::Environment(e.to_string()))?;
    say(&(text + "\n"))
}

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |d| d.as_secs_f64())
}

/// What was done to which jobs, as JSON.
#[derive(Serialize)]
struct Changed {
    jobs: Vec<Id>,
}

/// The common part of this command's jobs.
///
/// # Errors
/// [`Failure`] if this process has no folder.
pub(crate) fn group(args: &JobArgs) -> Result<Group, Failure> {
    let environment = |e: std::io::Error| Failure::Environment(e.to_string());
    let cwd = std::env::current_dir().map_err(environment)?;
    let mut token = [0; 16];
    let random = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut token));
    random.map_err(environment)?;
    let mut env = std::collections::BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        // Variables that are not text cannot be kept in the journal; those of an enclosing launch are not for these
        // jobs.
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string())
            && !name.starts_with("MT_")
        {
            env.insert(name, value);
        }
    }
    // Python writes to a pipe in blocks of 8 KiB: minutes of progress at once.
    env.entry("PYTHONUNBUFFERED".to_owned())
        .or_insert_with(|| "1".to_owned());
    let cwd = cwd.into_os_string().into_string().map_err(|path| {
        Failure::Usage(format!(
            "the path of the folder {} is not valid UTF-8; start it in another",
            path.display()
        ))
    })?;
    Ok(Group {
        token: token.iter().map(|byte| format!("{byte:02x}")).collect(),
        cwd,
        env,
        demand: Demand {
            memory: args.memory.map(units::Bytes::get),
            priority: args.priority,
            share: args.share.map(units::Share::hundredths),
            once: false,
        },
        origin: Some(Box::new(jobs::Origin::of_this_process())),
    })
}

fn job(wanted: TemplatedCommand) -> QueuedJob {
    QueuedJob {
        id: Id(0),
        template: wanted.template,
        argv: wanted.command.argv,
        set: wanted.command.env,
        process: None,
        parent: None,
    }
}

/// Adds one command, or all commands of a template.
///
/// # Errors
/// [`Failure::Usage`] for a command that cannot run.
pub fn add(args: &AddArgs) -> Result<Exit, Failure> {
    let wanted = of_words(&args.command).map_err(|e| refused(&e))?;
    let ids = send(&open(&args.queue.dir)?, &args.job, wanted)?;
    if args.queue.json {
        say_json(&Changed { jobs: ids })?;
    } else {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        say(&(ids.join("\n") + "\n"))?;
    }
    Ok(Exit::Done)
}

fn send(
    queue: &Queue,
    args: &StartArgs,
    wanted: Vec<TemplatedCommand>,
) -> Result<Vec<Id>, Failure> {
    let mut group = group(&args.job)?;
    group.demand.once = args.once;
    let jobs = wanted.into_iter().map(job).collect();
    queue.call(&Request::Add { group, jobs }).map_err(failure)
}

/// Adds the commands of a template, a file or standard input, and waits for all of them.
///
/// # Errors
/// [`Failure::Usage`] for commands that cannot run; nothing was added then.
pub fn sweep(args: &SweepArgs, console: &Console) -> Result<Exit, Failure> {
    let wanted = match (&args.jobs, args.command.is_empty()) {
        (None, false) => of_words(&args.command).map_err(|e| refused(&e))?,
        (file, true) => {
            let path = file.clone().unwrap_or_else(|| PathBuf::from("-"));
            commands_of(&path, console)?
        }
        (Some(file), false) => {
            return Err(Failure::Usage(format!(
                "--jobs {}: the commands come from the file, or from the command line; not both",
                file.display()
            )));
        }
    };
    let queue = open(&args.queue.dir)?;
    let ids = send(&queue, &args.job, wanted)?;
    let (first, last) = (ids[0], ids[ids.len() - 1]);
    if !args.queue.json {
        console.note(&format!(
            "{} jobs, {first} to {last}; Ctrl-C leaves them running: mt status, mt wait, mt cancel {first}-{last}",
            ids.len()
        ));
    }
    if args.no_wait {
        if args.queue.json {
            say_json(&Changed { jobs: ids })?;
        }
        return Ok(Exit::Done);
    }
    wait_for(&queue, &ids, args.queue.json, console)
}

fn commands_of(path: &Path, console: &Console) -> Result<Vec<TemplatedCommand>, Failure> {
    let mut text = Vec::new();
    let (mut reader, name) = cli::open_reader(path, "commands, one on each line", console)?;
    let read = reader.read_to_end(&mut text);
    read.map_err(|error| Failure::file(path, &error))?;
    let text = String::from_utf8_lossy(&text);
    of_lines(&name, &text).map_err(|refused| {
        let lines: Vec<String> = refused.iter().map(ToString::to_string).collect();
        Failure::Input(lines.join("\n"))
    })
}

/// Waits until jobs have ended, and reports each.
fn wait_for(queue: &Queue, ids: &[Id], json: bool, console: &Console) -> Result<Exit, Failure> {
    let mut signals = Signals::install(&cli::ending_signals())
        .map_err(|error| Failure::Environment(error.to_string()))?;
    let mut told = BTreeSet::new();
    let mut good = true;
    loop {
        let status = queue.served_status(ids).map_err(failure)?;
        if let Some(id) = status.unknown.first() {
            return Err(Failure::Usage(format!(
                "there is no job {id}; `mt status` lists them"
            )));
        }
        for job in status.jobs.iter().filter(|job| job.state.is_ended()) {
            if told.insert(job.id) {
                good &= job.state.is_good();
                match json {
                    true => say_json(job)?,
                    false if job.state.is_good() => console.say(&show::ended(job)),
                    false => console.warn(&show::ended(job)),
                }
            }
        }
        if told.len() == status.jobs.len() {
            return Ok(if good { Exit::Done } else { Exit::Negative });
        }
        if console.can_redraw() && !json {
            console.redraw(&far(&status, console));
        }
        if let Some(signal) = signals.arrived().first {
            return Err(Failure::Signal(u8::try_from(signal).unwrap_or(u8::MAX)));
        }
        std::thread::sleep(LOOK);
    }
}

/// Progress of jobs, in one line.
fn far(status: &Status, console: &Console) -> String {
    let count = |word| status.jobs.iter().filter(|job| job.state == word).count();
    let (running, waiting) = (count(Word::Running), count(Word::Waiting));
    let ended = status.jobs.len() - running - waiting;
    let line = format!(
        "{ended} of {} ended, {running} running, {waiting} waiting",
        status.jobs.len()
    );
    console.cut(&line)
}

/// Waits for jobs.
///
/// # Errors
/// [`Failure`] of the queue.
pub fn wait(args: &WaitArgs, console: &Console) -> Result<Exit, Failure> {
    let queue = open(&args.queue.dir)?;
    let mut ids = args.ids.ids();
    if ids.is_empty() {
        let status = queue.status(&[]).map_err(failure)?;
        ids = status
            .jobs
            .iter()
            .filter(|j| !j.state.is_ended())
            .map(|j| j.id)
            .collect();
    }
    if ids.is_empty() {
        return Ok(Exit::Done);
    }
    wait_for(&queue, &ids, args.queue.json, console)
}

/// Prints the state of the queue.
///
/// # Errors
/// [`Failure`] of the queue.
pub fn status(args: &StatusArgs) -> Result<Exit, Failure> {
    let ids = args.ids.ids();
    let status = open(&args.queue.dir)?.status(&ids).map_err(failure)?;
    if args.queue.json {
        say_json(&status)?;
    } else {
        let mut output = Output::open(None, false)?;
        let all = args.all || !ids.is_empty();
        output.text(&show::table(&status, all, output.width(), now_s()))?;
        output.finish()?;
    }
    let unknown: Vec<String> = status.unknown.iter().map(ToString::to_string).collect();
    match unknown.is_empty() {
        true => Ok(Exit::Done),
        false => Err(Failure::Usage(format!(
            "there is no job {}",
            unknown.join(", ")
        ))),
    }
}

/// Cancels jobs.
///
/// # Errors
/// [`Failure`] of the queue.
pub fn cancel(args: &CancelArgs, console: &Console) -> Result<Exit, Failure> {
    let queue = open(&args.queue.dir)?;
    let mut ids = args.ids.ids();
    if args.all {
        let status = queue.status(&[]).map_err(failure)?;
        let open = |job: &&JobStatus| !job.state.is_ended();
        ids = status.jobs.iter().filter(open).map(|job| job.id).collect();
    }
    if ids.is_empty() && !args.all {
        return Err(Failure::Usage("name jobs (3, 5-9), or --all".to_owned()));
    }
    let changed = queue.call(&Request::Cancel(ids)).map_err(failure)?;
    report(args.queue.json, &changed, "cancelled", console)
}

/// Holds jobs, or releases them.
///
/// # Errors
/// [`Failure`] of the queue.
pub fn pause(args: &PauseArgs, console: &Console) -> Result<Exit, Failure> {
    let (ids, on) = (args.ids.ids(), !args.off);
    let whole = ids.is_empty();
    let request = Request::Pause { ids, on };
    let changed = open(&args.queue.dir)?.call(&request).map_err(failure)?;
    if whole && !args.queue.json {
        console.say(match on {
            true => "no job starts until mt pause --off; running jobs continue",
            false => "jobs are started again",
        });
        return Ok(Exit::Done);
    }
    report(
        args.queue.json,
        &changed,
        if on { "held" } else { "let go" },
        console,
    )
}

fn report(json: bool, changed: &[Id], what: &str, console: &Console) -> Result<Exit, Failure> {
    if json {
        say_json(&Changed {
            jobs: changed.to_vec(),
        })?;
    } else {
        // As `mt cancel` reads them, so that 300 jobs are a few words.
        let ranges = changed.chunk_by(|a, b| a.0 + 1 == b.0);
        let ranges = ranges.map(|range| match range {
            [first, .., last] => format!("{first}-{last}"),
            [id] => id.to_string(),
            [] => String::new(),
        });
        console.say(&match changed.is_empty() {
            true => format!("no job was {what}"),
            false => format!("{what}: {}", ranges.collect::<Vec<_>>().join(" ")),
        });
    }
    Ok(Exit::Done)
}

/// Prints the log of a job.
///
/// # Errors
/// [`Failure::Usage`] if there is no such job, or it has no log.
pub fn logs(args: &LogsArgs) -> Result<Exit, Failure> {
    let queue = open(&args.queue.dir)?;
    let status = queue.status(&[args.id]).map_err(failure)?;
    let Some(job) = status.jobs.first() else {
        return Err(Failure::Usage(format!(
            "there is no job {}; `mt status` lists them",
            args.id
        )));
    };
    let path = queue.folder().join(LOGS).join(format!("{}.log", args.id));
    let text = match fs::read(&path) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && job.starts == 0 => {
            return Err(Failure::Usage(format!(
                "job {} has not been started",
                args.id
            )));
        }
        Err(error) => return Err(Failure::file(&path, &error)),
    };
    if args.queue.json {
        #[derive(Serialize)]
        struct Log {
            id: Id,
            path: PathBuf,
            text: String,
        }
        let id = args.id;
        say_json(&Log { id, path, text })?;
    } else {
        say(&text)?;
    }
    Ok(Exit::Done)
}

/// Starts the server, changes settings, or ends it.
///
/// # Errors
/// [`Failure`] of the queue.
pub fn queue(args: &QueueArgs, console: &Console) -> Result<Exit, Failure> {
    let queue = open(&args.queue.dir)?;
    if args.stop {
        let was = queue.stop().map_err(failure)?;
        console.say(match was {
            true => "the server has ended; jobs that were running start again with the next one",
            false => "no server runs",
        });
        return Ok(Exit::Done);
    }
    if args.most.is_some() || args.memory.is_some() || args.device.is_some() {
        let wishes = Wishes {
            most: args.most.map(|most| most as usize),
            memory: args.memory.map(units::Bytes::get),
            device: args.device,
        };
        queue.call(&Request::Wishes(wishes)).map_err(failure)?;
    } else {
        queue.call(&Request::Status(vec![Id(0)])).map_err(failure)?;
    }
    let status = queue.status(&[]).map_err(failure)?;
    if args.queue.json {
        return say_json(&status.server).map(|()| Exit::Done);
    }
    let Some(server) = &status.server else {
        return Err(Failure::Environment(
            "the server has ended again".to_owned(),
        ));
    };
    say(&format!(
        "the queue of {} serves {}: at most {} jobs at once, {:.1} GB of memory\n",
        queue.folder().display(),
        server.device,
        server.most,
        server.memory as f64 * 1e-9
    ))?;
    Ok(Exit::Done)
}

/// Runs the server of the queue in a folder.
///
/// # Errors
/// [`Failure::Environment`] if the queue or the device cannot be used.
pub fn serve(folder: &Path) -> Result<Exit, Failure> {
    let environment = |error: &dyn std::fmt::Display| Failure::Environment(error.to_string());
    // Before the first thread: its own session, which no terminal ends.
    nix::unistd::daemon(false, true).map_err(|e| environment(&e))?;
    let signals = Signals::install(&cli::ending_signals()).map_err(|e| environment(&e))?;
    let server = Server::open(folder, signals).map_err(|e| environment(&e))?;
    cli::last_word(READY).map_err(|e| environment(&e))?;
    if let Some(server) = server {
        server.serve();
    }
    Ok(Exit::Done)
}
