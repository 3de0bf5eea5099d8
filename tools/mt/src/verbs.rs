//! The commands of `mt` that talk to a queue.

pub mod args;
mod exec;
pub mod numbers;
pub mod speak;
mod submit;
mod wait;

pub use exec::exec;
pub use submit::{add, sweep};
pub use wait::wait;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cli::{Console, Exit, Failure, Output};
use jobs::Signals;
use serde::Serialize;

use args::{CancelArgs, LogsArgs, PauseArgs, QueueArgs, ResultsArgs, RetryArgs, StatusArgs};
use queue::book::{Id, On, Wishes};
use queue::client::{Queue, READY};
use queue::logs::{self, Follower};
use queue::message::{JobStatus, Request};
use queue::results::{self, Row};
use queue::server::Server;
use queue::show;
use speak::{failure, open, report, say, say_json, unknown};

/// Polling interval of a log that is followed.
const LOOK: Duration = Duration::from_millis(200);

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |d| d.as_secs_f64())
}

/// Prints the state of the queue.
///
/// # Errors
/// [`Failure`] of the queue.
pub fn status(args: &StatusArgs) -> Result<Exit, Failure> {
    let ids = args.ids.ids();
    let queue = open(&args.queue.dir)?;
    if args.why {
        let lines = queue.why(&ids).map_err(failure)?;
        match args.queue.json {
            true => say_json(&lines)?,
            false => say(&lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>())?,
        }
        return Ok(Exit::Done);
    }
    let status = match (ids.is_empty(), args.all || args.queue.json) {
        (true, true) => queue.everything(),
        (true, false) => queue.overview(),
        (false, _) => queue.status(&ids),
    };
    let status = status.map_err(failure)?;
    if args.queue.json {
        say_json(&status)?;
    } else {
        let mut output = Output::open(None, false)?;
        let all = args.all || !ids.is_empty();
        output.text(&show::table(&status, all, output.width(), now_s()))?;
        output.finish()?;
    }
    match status.unknown.is_empty() {
        true => Ok(Exit::Done),
        false => Err(unknown(&status.unknown)),
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
        let status = queue.everything().map_err(failure)?;
        let open = |job: &&JobStatus| !job.state.is_ended();
        ids = status.jobs.iter().filter(open).map(|job| job.id).collect();
    }
    if ids.is_empty() && !args.all {
        return Err(Failure::Usage("name jobs (3, 5-9), or --all".to_owned()));
    }
    let grace_ms = args.grace.map(millis);
    let changed = queue
        .call(&Request::Cancel { ids, grace_ms })
        .map_err(failure)?;
    report(args.queue.json, &changed, "cancelled", console)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Makes ended jobs wait to run again.
///
/// # Errors
/// [`Failure`] of the queue.
pub fn retry(args: &RetryArgs, console: &Console) -> Result<Exit, Failure> {
    let queue = open(&args.queue.dir)?;
    let mut ids = args.ids.ids();
    if ids.is_empty() {
        let status = queue.everything().map_err(failure)?;
        let bad = status.jobs.iter().filter(|job| job.state.is_bad());
        ids = bad.map(|job| job.id).collect();
    }
    let changed = match ids.is_empty() {
        true => ids,
        false => queue.call(&Request::Retry(ids)).map_err(failure)?,
    };
    report(args.queue.json, &changed, "started again", console)
}

/// Prints the results of jobs.
///
/// # Errors
/// [`Failure`] of the queue.
pub fn results(args: &ResultsArgs) -> Result<Exit, Failure> {
    let queue = open(&args.queue.dir)?;
    let mut status = queue.everything().map_err(failure)?;
    let (sweeps, ranges) = args.ids.single_and_ranges();
    // Ranges may name a hundred thousand jobs.
    let known: BTreeMap<Id, &JobStatus> = status.jobs.iter().map(|job| (job.id, job)).collect();
    let find = |id: &Id| known.get(id).copied();
    let is_missing = |id: &&Id| find(id).is_none();
    let missing: Vec<Id> = args.ids.ids().iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        return Err(unknown(&missing));
    }
    let sweep = |job: &JobStatus| job.sweep.unwrap_or(job.id);
    let sweeps: BTreeSet<Id> = sweeps.iter().filter_map(find).map(sweep).collect();
    let ranges: BTreeSet<Id> = ranges.into_iter().collect();
    if !sweeps.is_empty() || !ranges.is_empty() {
        let wanted = |job: &JobStatus| sweeps.contains(&sweep(job)) || ranges.contains(&job.id);
        status.jobs.retain(wanted);
    }
    let rows: Vec<Row> = (status.jobs.iter())
        .map(|job| Row::of(job, queue.folder()))
        .collect();
    match (args.queue.json, args.csv) {
        (true, _) => say_json(&rows)?,
        (false, true) => say(&results::csv(&rows))?,
        (false, false) if rows.is_empty() => say("no jobs\n")?,
        (false, false) => say(&results::table(&rows))?,
    }
    Ok(Exit::Done)
}

/// Prints the logs of jobs.
///
/// # Errors
/// [`Failure::Usage`] if there is no such job, or it has no log.
pub fn logs(args: &LogsArgs, console: &Console) -> Result<Exit, Failure> {
    let queue = open(&args.queue.dir)?;
    let ids = args.ids.ids();
    if ids.is_empty() {
        return Err(Failure::Usage("name jobs (3, 5-9)".to_owned()));
    }
    let status = queue.status(&ids).map_err(failure)?;
    if !status.unknown.is_empty() {
        return Err(unknown(&status.unknown));
    }
    if args.follow {
        return follow(&queue, &status.jobs);
    }
    for job in &status.jobs {
        let path = logs::path(queue.folder(), job.id);
        let (text, is_cut) = match logs::whole(&path) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound && job.starts == 0 => {
                return Err(Failure::Usage(format!(
                    "job {} has not been started",
                    job.id
                )));
            }
            Err(error) => return Err(Failure::file(&path, &error)),
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        if is_cut {
            console.note(&format!(
                "job {}: what it printed before is not kept, only the last three parts of 16 MiB",
                job.id
            ));
        }
        if args.queue.json {
            #[derive(Serialize)]
            struct Log {
                id: Id,
                path: PathBuf,
                text: String,
            }
            let id = job.id;
            say_json(&Log { id, path, text })?;
        } else {
            say(&(title(job, status.jobs.len()) + &text))?;
        }
    }
    Ok(Exit::Done)
}

/// The heading above the output of one job among several, as tail(1) prints it.
fn title(job: &JobStatus, of: usize) -> String {
    match of {
        1 => String::new(),
        _ => format!("==> {}: {} <==\n", job.id, cli::one_line(&job.command)),
    }
}

/// Prints logs as they grow, until all jobs have ended.
fn follow(queue: &Queue, jobs: &[JobStatus]) -> Result<Exit, Failure> {
    let ids: Vec<Id> = jobs.iter().map(|job| job.id).collect();
    let path = |job: &JobStatus| logs::path(queue.folder(), job.id);
    let mut all: Vec<Follower> = jobs.iter().map(|job| Follower::new(path(job))).collect();
    let mut last = None;
    loop {
        // Reads the status before the logs, so that the last output of an ended job is not missed.
        let status = queue.served_status(&ids).map_err(failure)?;
        for (job, follower) in jobs.iter().zip(&mut all) {
            let text = follower.more().map_err(|e| Failure::file(&path(job), &e))?;
            if text.is_empty() {
                continue;
            }
            if last != Some(job.id) {
                say(&title(job, jobs.len()))?;
            }
            last = Some(job.id);
            say(&String::from_utf8_lossy(&text))?;
        }
        if status.jobs.iter().all(|job| job.state.is_ended()) {
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK);
    }
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
    let most = args.most.map(|most| most as usize);
    let wishes = Wishes {
        most: most.filter(|_| args.group.is_none()),
        memory: args.memory.map(units::Bytes::get),
        device: args.device.map(On::from),
        grace_ms: args.grace.map(millis),
        groups: args.group.clone().zip(most).into_iter().collect(),
    };
    if wishes != Wishes::default() {
        queue.call(&Request::Wishes(wishes)).map_err(failure)?;
    } else {
        queue.call(&Request::Status(vec![Id(0)])).map_err(failure)?;
    }
    let status = queue.overview().map_err(failure)?;
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
    // Starts its own session, which no terminal ends. This must come before the first thread.
    nix::unistd::daemon(false, true).map_err(|e| environment(&e))?;
    let signals = Signals::install(&cli::ending_signals()).map_err(|e| environment(&e))?;
    let server = Server::open(folder, signals).map_err(|e| environment(&e))?;
    cli::last_word(READY).map_err(|e| environment(&e))?;
    if let Some(server) = server {
        server.serve();
    }
    Ok(Exit::Done)
}
