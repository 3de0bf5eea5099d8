//! The controller program, and its communication with the launcher.

use std::io::{BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use cli::{Failure, Line, Lines, Spool, Worth};
use doc::{Allocation, Frame, TrainingEvent, TrainingNews, write_line};
use jobs::{Helper, RunDir};

/// Size in bytes of the queue of events for a controller that does not read: some thousand events. Beyond half of it,
/// progress is dropped, so that arrivals and ends have room.
const ROOM: usize = 1 << 20;
/// Maximum number of waiting decisions. Further ones stay in the pipe, which slows down a controller that writes too
/// many.
const WAITING: usize = 64;
/// Number of invalid lines after which a controller is ignored: a banner or a stack trace is tolerated, an endless
/// log is not.
const MOST_BAD_LINES: usize = 1000;
/// Maximum time for a controller to end after its input has ended.
const LEAVE: Duration = Duration::from_secs(1);

/// A controller that was started.
pub(super) struct Controller {
    program: Helper,
    events: Spool,
    answers: Receiver<ControllerMessage>,
    alive: bool,
    /// Whether it has made any decision.
    decided: bool,
    /// The reason why it is ignored from now on, and the time until which its exit status is awaited.
    ending: Option<(String, Instant)>,
    /// Whether it was already reported that an event could not be delivered.
    told_deaf: bool,
}

/// Message from a controller.
pub(super) enum ControllerMessage {
    /// A decision.
    Decision(Box<Allocation>),
    /// Its first invalid line.
    Bad(String),
    /// It has ended, or is ignored from now on; the reason.
    Ended(String),
    /// It failed before its first decision, which means wrong arguments or input.
    Failed(String),
}

impl Controller {
    /// Starts the program.
    ///
    /// # Errors
    /// [`Failure::Usage`] if it cannot be started.
    pub(super) fn start(argv: &[String], run: &mut RunDir) -> Result<Self, Failure> {
        let program = argv.first().map_or("", String::as_str);
        let refused = |error: std::io::Error| {
            Failure::Usage(format!("--controller: cannot start {program:?}: {error}"))
        };
        let mut command = Command::new(program);
        command.args(&argv[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // The helper has its own process group, so Ctrl-C reaches only the launcher, which ends the controller after
        // the jobs have ended.
        let mut helper = Helper::start(command, run).map_err(refused)?;
        let child = helper.child();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let (sender, answers) = sync_channel(WAITING);
        if let Some(stdout) = stdout {
            let listen = move || listen(stdout, &sender);
            thread::Builder::new().spawn(listen).map_err(refused)?;
        }
        let mut stdin = stdin;
        let events = Spool::start(ROOM, move |line| write(&mut stdin, line)).map_err(refused)?;
        Ok(Self {
            program: helper,
            events,
            answers,
            alive: true,
            decided: false,
            ending: None,
            told_deaf: false,
        })
    }

    /// Whether it may still decide.
    pub(super) fn is_alive(&self) -> bool {
        self.alive
    }

    /// Sends an event; returns a warning for the user, once.
    pub(super) fn tell(&mut self, event: &TrainingEvent) -> Option<String> {
        let mut line = Vec::new();
        // Writing to memory does not fail.
        write_line(&mut line, event).ok()?;
        let worth = match event.what {
            TrainingNews::Progress { .. } => Worth::Minor,
            _ => Worth::Major,
        };
        let pushed = self.events.push(line, worth);
        match pushed {
            Err(error) if self.alive && !self.told_deaf => {
                self.told_deaf = true;
                Some(format!("the controller does not take an event: {error}"))
            }
            _ => None,
        }
    }

    /// New messages since the last call.
    pub(super) fn answer(&mut self) -> Option<ControllerMessage> {
        match self.answers.try_recv() {
            Ok(ControllerMessage::Ended(why)) => {
                self.ending = Some((why, Instant::now() + LEAVE));
            }
            Ok(answer) => {
                self.decided |= matches!(answer, ControllerMessage::Decision(_));
                return Some(answer);
            }
            Err(TryRecvError::Disconnected) if self.alive && self.ending.is_none() => {
                let why = "it says nothing any more".to_owned();
                self.ending = Some((why, Instant::now() + LEAVE));
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        self.end()
    }

    /// The message about its end, once its exit status is known, which is a moment after its output has ended.
    fn end(&mut self) -> Option<ControllerMessage> {
        let (why, until) = self.ending.as_ref()?;
        let status = match self.program.child().try_wait() {
            Ok(Some(status)) => Some(status),
            _ if Instant::now() < *until => return None,
            _ => None,
        };
        let why = why.clone();
        (self.alive, self.ending) = (false, None);
        Some(match status.filter(|s| !s.success() && !self.decided) {
            Some(status) => ControllerMessage::Failed(status.to_string()),
            None => ControllerMessage::Ended(why),
        })
    }

    /// Whether its exit status is still awaited.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // An empty line closes its standard input, after all waiting events.
        self.events.push(Vec::new(), Worth::Major).ok();
        let deadline = Instant::now() + LEAVE;
        let child = self.program.child();
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn write(stdin: &mut Option<ChildStdin>, line: &[u8]) -> std::io::Result<()> {
    if line.is_empty() {
        stdin.take();
    }
    match stdin {
        Some(stdin) => stdin.write_all(line).and_then(|()| stdin.flush()),
        None => Ok(()),
    }
}

/// Reads the controller's output until it ends or has printed too many invalid lines.
fn listen(stdout: ChildStdout, sender: &SyncSender<ControllerMessage>) {
    let mut bad = 0;
    let mut ended = "it has ended".to_owned();
    for line in Lines::new(BufReader::new(stdout)) {
        let answer = match line {
            Ok(Line::Text(text, _)) if text.trim_ascii().is_empty() => continue,
            Ok(Line::Text(text, number)) => decision(text, number),
            Ok(Line::TooLong(number)) => Err(format!("line {number} is too long")),
            Err(error) => {
                ended = error.to_string();
                break;
            }
        };
        let answer = match answer {
            Ok(decision) => ControllerMessage::Decision(Box::new(decision)),
            Err(why) => {
                bad += 1;
                if bad > MOST_BAD_LINES {
                    ended = format!("{bad} of its lines were not allocations");
                    break;
                }
                if bad > 1 {
                    continue;
                }
                ControllerMessage::Bad(why)
            }
        };
        if sender.send(answer).is_err() {
            return;
        }
    }
    // There may be no receiver any more.
    sender.send(ControllerMessage::Ended(ended)).ok();
}

fn decision(bytes: Vec<u8>, line: u64) -> Result<Allocation, String> {
    let frame = Frame {
        bytes,
        source_name: "<controller>".to_owned(),
        line,
    };
    frame
        .parse::<Allocation>()
        .map_err(|error| error.to_string())
}
