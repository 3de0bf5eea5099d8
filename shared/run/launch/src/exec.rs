//! One program under the share of a task, for engines that start processes themselves.
//!
//! [`exec`] puts this process under the share and then becomes the program, as nice(1) and taskset(1) do, so that an
//! engine (a scheduler, a federated-learning server, a shell) keeps the process that it started. [`Placement`]
//! describes the share; for engines that start containers, `mt-launch env` prints its variables alone.

mod log;
mod place;
mod placement;

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use cli::{Console, Exit, Failure};
use jobs::attend::Attended;

pub use place::is_mps_client;
pub use placement::{Placement, Wanted, Which};

use log::Record;
use place::{Enforcement, environment};

/// A program to become.
#[derive(Debug, Clone)]
pub struct Program {
    /// Program and arguments; not empty.
    pub argv: Vec<OsString>,
    /// File to which a line with the result is appended.
    pub log: Option<PathBuf>,
    /// Folder of run directories.
    pub runs: PathBuf,
}

/// Puts this process under the share and becomes the program. Returns only if that fails, or if there is a log: then
/// this process stays the program's parent, forwards signals, and returns the program's exit status. `attendant` are
/// the arguments that make this tool an attendant ([`jobs::attend`]).
///
/// # Errors
/// [`Failure::Environment`] with advice if the share cannot be applied.
pub fn exec(
    placement: &Placement,
    program: &Program,
    attendant: impl Fn(&Attended) -> Vec<OsString>,
    console: &Console,
) -> Result<Exit, Failure> {
    // Reports an unwritable log now, and not after a day of training.
    let mut record = match &program.log {
        Some(path) => Some(Record::open(path, placement, &program.argv)?),
        None => None,
    };
    let place = Enforcement::take(placement, &program.runs, console)?;
    let attended = Attended::this(place.run(), place.shared_daemon()).map_err(environment)?;
    attended.start(&attendant(&attended)).map_err(environment)?;
    place.enter()?;
    // If the brand is refused, the mark remains, which the program gets as a variable.
    jobs::bear_sign(place.token()).ok();
    let mut command = command(placement, program, &place);
    let Some(record) = &mut record else {
        let error = command.exec();
        return Ok(refused(program, &error, place, console));
    };
    match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => {
            let exit = watch(child, record, &place, console);
            // The program's exit status is more important than its line in the log: a full disk must not turn a day of
            // training into a failure. This function must also not return before the control group is handed over,
            // because dropping it would kill this process, which is inside.
            if let Err(failure) = record.write() {
                console.warn(&format!("--log has no line of this program: {failure}"));
            }
            place.leave_to_the_attendant();
            exit
        }
        Err(error) => Ok(refused(program, &error, place, console)),
    }
}

fn command(placement: &Placement, program: &Program, place: &Enforcement) -> Command {
    let mut command = Command::new(&program.argv[0]);
    command.args(&program.argv[1..]);
    // Settings in our environment belong to another daemon and must not reach this client.
    command.env_remove("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    command.envs(jobs::defaults(|name| std::env::var_os(name).is_some()));
    command.envs(placement.variables());
    command.envs(place.variables());
    command.env(jobs::MARK, format!("{}.0", place.token()));
    command
}

/// The program could not be started: 127 if it does not exist, otherwise 126, as for env(1) and nice(1).
fn refused(
    program: &Program,
    error: &std::io::Error,
    place: Enforcement,
    console: &Console,
) -> Exit {
    let name = program.argv[0].to_string_lossy();
    console.error(&format!("cannot run {name}: {error}"));
    // This process is already inside the control group, so removing the group would kill it.
    place.leave_to_the_attendant();
    Exit::Program(match error.kind() {
        std::io::ErrorKind::NotFound => 127,
        _ => 126,
    })
}

/// Time for output to arrive after the program's end if a leftover process keeps the stream open; the attendant kills
/// that process as soon as this one has ended.
const LATE_OUTPUT: Duration = Duration::from_millis(500);
/// How often to check whether the program has ended while it prints nothing: 50 system calls per second, and a delay
/// that users do not notice.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for the end of the program, and reads its output for the log.
fn watch(
    mut child: Child,
    record: &mut Record,
    place: &Enforcement,
    console: &Console,
) -> Result<Exit, Failure> {
    let relayed = jobs::relay(child.id().cast_signed()).map_err(environment);
    let output = relayed
        .and_then(|()| copy(&mut child, console))
        .inspect_err(|_| {
            // The program has done nothing yet.
            child.kill().and_then(|()| child.wait().map(drop)).ok();
        })?;
    let mut take = |bytes: &[u8]| {
        if !record.take(bytes) {
            return;
        }
        match place.is_client() {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => {
                record.attached = Some(false);
                console.warn("the program trains and is no client of the MPS daemon");
            }
            Some(Err(error)) => console.warn(&format!(
                "whether the program is a client of the MPS daemon is not known: {error}"
            )),
        }
    };
    let status = loop {
        match output.recv_timeout(LOOK) {
            Ok(bytes) => take(&bytes),
            Err(RecvTimeoutError::Disconnected) => break child.wait().map_err(environment)?,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait().map_err(environment)? {
                    break status;
                }
            }
        }
    };
    let deadline = Instant::now() + LATE_OUTPUT;
    while let Ok(bytes) = output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        take(&bytes);
    }
    record.ended(status);
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Program(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, signal) => Exit::Signal(u8::try_from(signal.unwrap_or(0)).unwrap_or(u8::MAX)),
    })
}

/// Copies the program's standard output to ours in its own thread, and sends it through the channel, which closes
/// with the stream. The channel is bounded, so a slow reader slows the program down and not this process.
fn copy(child: &mut Child, console: &Console) -> Result<Receiver<Vec<u8>>, Failure> {
    let (sender, receiver) = sync_channel(64);
    let console = console.clone();
    if let Some(stdout) = child.stdout.take() {
        let copy = move || {
            let copied = cli::pass_through(stdout, |bytes| {
                // Fails after the program has ended, when nothing reads the channel.
                sender.send(bytes.to_vec()).ok();
            });
            match copied {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    console.warn(&format!("the program's output: {error}"));
                }
                _ => {}
            }
        };
        let started = std::thread::Builder::new().spawn(copy);
        started.map_err(|error| environment(format!("no thread: {error}")))?;
    }
    Ok(receiver)
}
