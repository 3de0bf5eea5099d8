//! Adding jobs: `mt add` and `mt sweep`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::{Console, Exit, Failure, shell_word};

use super::args::{AddArgs, JobArgs, StartArgs, Stray, SweepArgs};
use super::speak::{Changed, failure, open, ranges, say, say_json};
use super::wait::wait_for;
use queue::book::{Demand, Group, Id, QueuedJob};
use queue::client::Queue;
use queue::command::{Refused, TemplatedCommand, of_lines, of_words};
use queue::message::Request;
use queue::results;

/// Maximum bytes of the jobs in one request; the server reads at most 512 MiB, which must also hold the environment.
const MOST_BYTES: usize = 60 << 20;
/// Priority of the command at the end of a sweep: it is short, and somebody waits for it.
const NOTIFIES: i32 = 1000;

fn refused(error: &Refused) -> Failure {
    Failure::Usage(error.to_string())
}

/// The common part of this command's jobs.
///
/// # Errors
/// [`Failure`] if the working directory of this process does not exist.
pub(crate) fn group(args: &JobArgs) -> Result<Group, Failure> {
    let environment = |e: std::io::Error| Failure::Environment(e.to_string());
    let cwd = std::env::current_dir().map_err(environment)?;
    let mut token = [0; 16];
    let random = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut token));
    random.map_err(environment)?;
    let mut env = std::collections::BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        // The journal cannot hold variables that are not UTF-8; variables of an enclosing launch must not reach these
        // jobs.
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string())
            && !name.starts_with("MT_")
        {
            env.insert(name, value);
        }
    }
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
            gpus: args.gpus.map(|gpus| gpus as usize),
            at_most_slower: args.at_most_slower,
            group: args.group.clone(),
            ..Demand::default()
        },
        first: None,
        origin: Some(Box::new(jobs::Origin::of_this_process())),
    })
}

fn job(wanted: TemplatedCommand) -> QueuedJob {
    QueuedJob {
        id: Id(0),
        template: wanted.template,
        argv: wanted.command.argv,
        set: wanted.command.env,
        values: wanted.values,
        process: None,
        parent: None,
    }
}

/// Adds one command, or all commands of a template.
///
/// # Errors
/// [`Failure::Usage`] for a command that cannot run.
pub fn add(args: &AddArgs, console: &Console) -> Result<Exit, Failure> {
    stray("add", &args.stray)?;
    let queue = open(&args.queue.dir)?;
    enter(&args.job)?;
    let wanted = of_words(&args.command).map_err(|e| refused(&e))?;
    if args.job.dry_run {
        return show(&wanted, args.queue.json);
    }
    let ids = send(&queue, &args.job, wanted, console)?;
    if args.queue.json {
        say_json(&Changed { jobs: ids })?;
    } else {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        say(&(ids.join("\n") + "\n"))?;
    }
    Ok(Exit::Done)
}

/// Refuses a command without `--` before it.
fn stray(verb: &str, stray: &Stray) -> Result<(), Failure> {
    let Some(first) = stray.words.first() else {
        return Ok(());
    };
    if first.starts_with('-') {
        return Err(Failure::Usage(format!(
            "unexpected argument {first}; mt {verb} --help lists the options"
        )));
    }
    let words: Vec<_> = stray.words.iter().map(|word| shell_word(word)).collect();
    Err(Failure::Usage(format!(
        "-- is missing between the options and the command; write: mt {verb} -- {}",
        words.join(" ")
    )))
}

/// Changes to the working directory of the jobs, so that relative paths of scripts are found.
fn enter(args: &StartArgs) -> Result<(), Failure> {
    let Some(folder) = &args.cwd else {
        return Ok(());
    };
    std::env::set_current_dir(folder).map_err(|error| {
        let folder = folder.display();
        Failure::Usage(format!(
            "--cwd {folder}: {error}; name a folder that exists"
        ))
    })
}

/// Prints commands quoted for a shell; as JSON an array of them.
fn show(wanted: &[TemplatedCommand], json: bool) -> Result<Exit, Failure> {
    let line = |wanted: &TemplatedCommand| {
        let set = wanted
            .command
            .env
            .iter()
            .map(|(name, value)| format!("{name}={}", shell_word(value)));
        let argv = wanted.command.argv.iter();
        let words = set.chain(argv.map(|word| shell_word(word).into_owned()));
        words.collect::<Vec<_>>().join(" ")
    };
    let lines: Vec<String> = wanted.iter().map(line).collect();
    match json {
        true => say_json(&lines)?,
        false => say(&(lines.join("\n") + "\n"))?,
    }
    Ok(Exit::Done)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn send(
    queue: &Queue,
    args: &StartArgs,
    wanted: Vec<TemplatedCommand>,
    console: &Console,
) -> Result<Vec<Id>, Failure> {
    let mut group = group(&args.job)?;
    note_left_out(args, console);
    group.env.extend(args.env.iter().cloned());
    let demand = &mut group.demand;
    demand.once = args.once;
    demand.timeout_ms = args.timeout.map(millis);
    demand.grace_ms = args.grace.map(millis);
    demand.after = args.after();
    demand.keep_going = args.keep_going;
    let jobs: Vec<QueuedJob> = wanted.into_iter().map(job).collect();
    let bytes = serde_json::to_vec(&jobs).map_or(0, |text| text.len());
    if bytes > MOST_BYTES {
        return Err(Failure::Usage(format!(
            "the commands take {} MB, and a request holds {} MB; add them in parts",
            bytes >> 20,
            MOST_BYTES >> 20
        )));
    }
    let request = Request::Add { group, jobs };
    let ids = queue.call(&request).map_err(failure)?;
    if let (Some(line), Request::Add { group, .. }) = (&args.on_end, request) {
        notify(queue, line, group, &ids)?;
    }
    Ok(ids)
}

/// Adds the command that runs once the jobs have ended. It is a job itself, so that it runs even when the terminal is
/// closed.
fn notify(queue: &Queue, line: &str, jobs_of: Group, ids: &[Id]) -> Result<(), Failure> {
    let words = ["sh", "-c", line].map(str::to_owned).to_vec();
    let set = BTreeMap::from([("MT_JOBS".to_owned(), ranges(ids))]);
    let fresh = JobArgs {
        memory: None,
        priority: NOTIFIES,
        share: None,
        gpus: None,
        at_most_slower: None,
        group: None,
    };
    let mut group = Group {
        env: jobs_of.env,
        ..group(&fresh)?
    };
    group.demand.after = ids.to_vec();
    group.demand.after_any = true;
    group.demand.keep_going = true;
    let job = QueuedJob {
        id: Id(0),
        template: words.join(" "),
        argv: words,
        set,
        values: Vec::new(),
        process: None,
        parent: None,
    };
    let jobs = vec![job];
    queue.call(&Request::Add { group, jobs }).map_err(failure)?;
    Ok(())
}

/// Tells the user which variables are not passed on.
fn note_left_out(args: &StartArgs, console: &Console) {
    // Inside a job of mt, the variables belong to that job and not to the user.
    if std::env::var_os(jobs::MARK).is_some() {
        return;
    }
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let is_given = |name: &String| args.env.iter().any(|(given, _)| given == name);
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with("MT_") && name != "MT_QUEUE" && !is_given(name))
        .collect();
    names.sort();
    if let Some(first) = names.first() {
        console.note(&format!(
            "the jobs do not get {}: MT_* are mt's own; --env {first}=VALUE passes one on",
            names.join(", ")
        ));
    }
}

/// Adds the commands of a template, a file or standard input, and waits for all of them.
///
/// # Errors
/// [`Failure::Usage`] for commands that cannot run; then no job was added.
pub fn sweep(args: &SweepArgs, console: &Console) -> Result<Exit, Failure> {
    stray("sweep", &args.stray)?;
    let queue = open(&args.queue.dir)?;
    let results = match &args.results {
        Some(folder) => Some(std::path::absolute(folder).map_err(|e| Failure::file(folder, &e))?),
        None => None,
    };
    let wanted = wanted(args, console)?;
    if args.job.dry_run {
        return show(&wanted, args.queue.json);
    }
    if let Some(folder) = &results {
        fs::create_dir_all(folder).map_err(|error| {
            let folder = folder.display();
            Failure::Usage(format!(
                "--results {folder}: {error}; name a folder that exists or can be created"
            ))
        })?;
    }
    let ids = send(&queue, &args.job, wanted, console)?;
    if !args.queue.json {
        console.note(&format!(
            "{} jobs, {}; Ctrl-C leaves them running: mt status, mt wait, mt results {}, mt cancel {}",
            ids.len(),
            ranges(&ids).replace('-', " to "),
            ids[0],
            ranges(&ids)
        ));
    }
    if args.no_wait {
        if args.queue.json {
            say_json(&Changed { jobs: ids })?;
        }
        return Ok(Exit::Done);
    }
    let keep = |job: &_| match &results {
        Some(folder) => {
            let kept = results::write(job, queue.folder(), folder);
            kept.map_err(|error| Failure::file(folder, &error))
        }
        None => Ok(()),
    };
    wait_for(&queue, &ids, args.queue.json, console, keep)
}

fn wanted(args: &SweepArgs, console: &Console) -> Result<Vec<TemplatedCommand>, Failure> {
    match (&args.jobs, args.command.is_empty()) {
        (None, false) => {
            enter(&args.job)?;
            of_words(&args.command).map_err(|e| refused(&e))
        }
        (file, true) => {
            let path = file.clone().unwrap_or_else(|| PathBuf::from("-"));
            let (name, text) = read(&path, console)?;
            enter(&args.job)?;
            of_lines(&name, &text).map_err(|refused| {
                let lines: Vec<String> = refused.iter().map(ToString::to_string).collect();
                Failure::Input(lines.join("\n"))
            })
        }
        (Some(file), false) => Err(Failure::Usage(format!(
            "--jobs {}: the commands come from the file, or from the command line; not both",
            file.display()
        ))),
    }
}

fn read(path: &Path, console: &Console) -> Result<(String, String), Failure> {
    let mut text = Vec::new();
    let (mut reader, name) = cli::open_reader(path, "commands, one on each line", console)?;
    let read = reader.read_to_end(&mut text);
    read.map_err(|error| Failure::file(path, &error))?;
    match String::from_utf8(text) {
        Ok(text) => Ok((name, text)),
        Err(error) => {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            Err(Failure::Input(format!(
                "{name}:{line}: it is not UTF-8; save the file as UTF-8, or put a command with such a name into a script and give 'sh FILE'"
            )))
        }
    }
}
