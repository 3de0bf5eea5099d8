//! Admission of programs that another program starts: they wait until the queue has room.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use cli::{Console, Exit, Failure};
use jobs::process::{Identity, this_program};
use units::Share;

use super::args::ExecArgs;
use super::speak::{failure, open};
use super::submit::group;
use queue::book::{Id, QueuedJob};
use queue::choice::{ORDER, VISIBLE};
use queue::client::Queue;
use queue::command::template_of;
use queue::message::{Request, Word};
use queue::others::{JOB, mark, own_job};

/// Polling interval: short compared with the start-up of a training, and a hundred waiting programs still cost the
/// server only a hundredth of a core.
const LOOK: Duration = Duration::from_millis(100);

/// The name of the variable from which MPS reads the share of a client.
const MPS_SHARE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/// Waits until the queue has room for this process, then becomes the program, which counts as running until it has
/// gone. If this process is killed while it waits, it leaves the queue.
///
/// # Errors
/// [`Failure`] of the queue; [`Failure::Negative`] if it was cancelled.
pub fn exec(args: &ExecArgs, console: &Console) -> Result<Exit, Failure> {
    let queue = open(&args.queue)?;
    let (id, lent) = admit(args, &queue, console)?;
    let share = args.job.share.unwrap_or(Share::FULL);
    let gpu = lent.contains_key(VISIBLE) || lent.contains_key(MPS_SHARE);
    let percent = share.percent().to_string();
    let mut program;
    // A share of the processors needs a control group, which is created and removed as for any other program.
    if !gpu && share < Share::FULL {
        program = this_program("mt-launch");
        program.args(["exec", "--device", "cpu", "--share", &percent, "--"]);
        program.args(&args.command);
    } else {
        program = Command::new(&args.command[0]);
        program.args(&args.command[1..]);
    }
    program.envs(jobs::defaults(|name| std::env::var_os(name).is_some()));
    let error = program.envs(lent).env(JOB, mark(queue.folder(), id)).exec();
    let name = args.command[0].to_string_lossy();
    console.error(&format!("cannot run {name}: {error}"));
    // The same exit statuses as env(1) and nice(1).
    Ok(Exit::Program(match error.kind() {
        std::io::ErrorKind::NotFound => 127,
        _ => 126,
    }))
}

/// The parent, whose end also ends this process. `None` if SIGHUP is ignored (nohup(1) ignores it so that a program
/// outlives its terminal), or if the parent has already gone.
fn parent(process: Identity) -> Option<Identity> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"))?;
    let ignored = u64::from_str_radix(mask.trim(), 16).ok()?;
    // SIGHUP is the first signal.
    let parent = process.parent().filter(|&pid| pid > 1 && ignored & 1 == 0);
    Identity::of(parent?)
}

/// The running job of this queue that contains this process, if there is one. Such a process already has a place; if it
/// waited for another one, it would wait for itself.
fn inside(queue: &Queue) -> Result<Option<Id>, Failure> {
    let Some(id) = own_job(queue.folder()) else {
        return Ok(None);
    };
    let status = queue.status(&[id]).map_err(failure)?;
    let runs = status.jobs.iter().any(|job| job.state == Word::Running);
    Ok(Some(id).filter(|_| runs && status.server.is_some()))
}

/// Waits; returns the variables that the server lends the program.
fn admit(
    args: &ExecArgs,
    queue: &Queue,
    console: &Console,
) -> Result<(Id, BTreeMap<String, String>), Failure> {
    if let Some(id) = inside(queue)? {
        // If the job is an MPS client, this program shares its MPS settings, and may request a smaller share.
        let share = args
            .job
            .share
            .filter(|_| std::env::var_os(MPS_SHARE).is_some());
        let lent = share.map(|share| (MPS_SHARE.to_owned(), share.percent().to_string()));
        return Ok((id, lent.into_iter().collect()));
    }
    let process = Identity::own();
    let process =
        process.ok_or_else(|| Failure::Environment("/proc does not show us".to_owned()))?;
    let words = args
        .command
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let nothing = || Failure::Usage("no program is named; write mt exec -- CMD".to_owned());
    let command = trial::Command::of(words.collect()).ok_or_else(nothing)?;
    let job = QueuedJob {
        id: Id(0),
        template: template_of(&command),
        argv: command.argv,
        set: command.env,
        values: Vec::new(),
        process: Some(process),
        parent: parent(process),
    };
    let mut group = group(&args.job)?;
    // The server does not start this process from the journal, so the journal does not need its environment, except for
    // its choice of GPUs.
    group.env.retain(|name, _| name == VISIBLE || name == ORDER);
    group.origin = None;
    let jobs = vec![job];
    let ids = queue.call(&Request::Add { group, jobs }).map_err(failure)?;
    let mut told = false;
    loop {
        let status = queue.served_status(&ids).map_err(failure)?;
        match status.jobs.into_iter().next() {
            Some(job) if job.state == Word::Running => return Ok((job.id, job.env)),
            Some(job) if job.state == Word::Waiting => {
                if !told {
                    told = true;
                    let id = job.id;
                    console.note(&format!("waiting for a place in the queue, as job {id}"));
                }
            }
            _ => {
                return Err(Failure::Negative(
                    "it was taken out of the queue".to_owned(),
                ));
            }
        }
        std::thread::sleep(LOOK);
    }
}
