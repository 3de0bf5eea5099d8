//! Redraws every second until a key or a signal ends it.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::verbs::args::QueueDir;
use clap::ValueHint;
use cli::{Exit, Failure, Output};
use doc::{Documents, Frames, ReadError, RunEvent};
use jobs::Signals;
use queue::client::Queue;
use queue::show;

use crate::verbs::speak;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use super::busy::Busy;
use super::launched::Launched;
use super::queued::queued;
use super::screen::{Screen, Scroll, draw, text};

/// Time between two updates.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum delay until a signal is noticed.
const NOTICE: Duration = Duration::from_millis(250);
/// A run that writes nothing for this long is reported as silent: training jobs report progress at least every ten
/// seconds.
const SILENCE: Duration = Duration::from_secs(30);
/// Width in columns of output that is not a terminal.
const PRINTED: u16 = 120;

/// Arguments of `top`.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// Which queue
    #[command(flatten)]
    pub queue: QueueDir,
    /// Events of a launched run (mt-launch -o RUN), also while they are written; default: the queue
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath, conflicts_with = "folder")]
    pub run: Option<PathBuf>,
}

/// What is shown.
enum Source {
    Queue(Queue),
    Run(Box<Followed>),
}

/// A run; a thread reads its events as they are written.
struct Followed {
    path: PathBuf,
    events: Receiver<Result<RunEvent, ReadError>>,
    run: Launched,
}

/// A file that is still being written: at its end the reader waits for more data.
struct Growing(File);

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(into)? {
                0 => thread::sleep(NOTICE),
                read => return Ok(read),
            }
        }
    }
}

impl Followed {
    fn open(path: &Path, live: bool) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
        let name = path.display().to_string();
        let (sender, events) = channel();
        let source = name.clone();
        let read = move |input: Box<dyn Read + Send>| {
            // A killed launch may leave its last record cut in two; the earlier records remain valid.
            let frames = Frames::new(BufReader::new(input), source).without_cut_record(|_| {});
            for event in Documents::new(frames) {
                if sender.send(event).is_err() {
                    return;
                }
            }
        };
        if live {
            thread::spawn(move || read(Box::new(Growing(file))));
        } else {
            read(Box::new(file));
        }
        Ok(Self {
            path: path.to_owned(),
            events,
            run: Launched::new(&name),
        })
    }

    /// Applies the events that were written since the last call.
    fn look(&mut self) -> Result<(), Failure> {
        loop {
            match self.events.try_recv() {
                Ok(Ok(event)) => self.run.take(&event),
                Ok(Err(error)) => return Err(Failure::Input(error.to_string())),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    /// A note if nothing was written for a long time although the run has not ended.
    fn silence(&self) -> Option<String> {
        let written = self.path.metadata().and_then(|found| found.modified());
        let silent = written.ok()?.elapsed().ok()?;
        let told = silent > SILENCE && !self.run.is_over();
        told.then(|| {
            let silent = show::clock(silent.as_secs_f64());
            format!("no event for {silent}: it is busy with something long, or was killed")
        })
    }
}

impl Source {
    fn open(args: &TopArgs, live: bool) -> Result<Self, Failure> {
        match &args.run {
            Some(path) => Followed::open(path, live).map(|followed| Self::Run(Box::new(followed))),
            None => speak::open(&args.queue).map(Self::Queue),
        }
    }

    fn screen(&mut self) -> Result<Screen, Failure> {
        match self {
            Self::Queue(queue) => {
                let status = queue.status(&[]).map_err(speak::failure)?;
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                Ok(queued(&status, since.map_or(0.0, |d| d.as_secs_f64())))
            }
            Self::Run(followed) => {
                followed.look()?;
                let mut screen = followed.run.screen();
                screen.notes.extend(followed.silence());
                Ok(screen)
            }
        }
    }

    /// Whether the observed jobs use a device of this machine.
    fn is_here(&self) -> bool {
        match self {
            Self::Queue(_) => true,
            Self::Run(followed) => {
                let device = followed.run.device.as_ref();
                !followed.run.is_over() && device.is_some_and(|device| !device.simulated)
            }
        }
    }
}

/// Shows the queue or a run until a key or a signal ends it. If standard output is not a terminal, prints it once.
///
/// # Errors
/// [`Failure::Input`] for a file without a run, [`Failure::Environment`] for a terminal that cannot be used.
pub fn run(args: &TopArgs) -> Result<Exit, Failure> {
    let live = io::stdout().is_terminal() && io::stdin().is_terminal();
    let mut source = Source::open(args, live)?;
    if !live {
        let mut output = Output::open(None, false)?;
        let width = output.width().unwrap_or(PRINTED);
        output.text(&text(&source.screen()?, width))?;
        output.finish()?;
        return Ok(Exit::Done);
    }
    let mut signals = Signals::install(&cli::ending_signals()).map_err(|e| environment(&e))?;
    let mut terminal = ratatui::try_init().map_err(|e| environment(&e))?;
    let ended = watch(&mut source, &mut terminal, &mut signals);
    ratatui::restore();
    ended
}

fn environment(error: &io::Error) -> Failure {
    Failure::Environment(format!("the terminal: {error}"))
}

fn watch(
    source: &mut Source,
    terminal: &mut DefaultTerminal,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let mut busy = Busy::of_machine();
    let mut place = Scroll::default();
    loop {
        let mut screen = source.screen()?;
        let told = busy.now().filter(|_| source.is_here());
        if let Some(told) = told {
            screen.notes.insert(0, told);
        }
        let next = Instant::now() + LOOK;
        draw_on(terminal, &screen, place)?;
        while Instant::now() < next {
            if let Some(signal) = signals.arrived().first {
                return Err(Failure::Signal(u8::try_from(signal).unwrap_or(u8::MAX)));
            }
            let left = next.saturating_duration_since(Instant::now());
            if !event::poll(left.min(NOTICE)).map_err(|e| environment(&e))? {
                continue;
            }
            let event = event::read().map_err(|e| environment(&e))?;
            let height = terminal.size().map_err(|e| environment(&e))?.height;
            match moved(&event, place, height) {
                None => return Ok(Exit::Done),
                Some(wanted) => place = screen.settle(wanted, height),
            }
            draw_on(terminal, &screen, place)?;
        }
    }
}

fn draw_on(terminal: &mut DefaultTerminal, screen: &Screen, place: Scroll) -> Result<(), Failure> {
    let drawn = terminal.draw(|frame| draw(frame, screen, place));
    drawn.map(drop).map_err(|e| environment(&e))
}

/// The position after a key press; `None` to quit.
fn moved(event: &Event, place: Scroll, height: u16) -> Option<Scroll> {
    let Event::Key(key) = event else {
        return Some(place);
    };
    if key.kind != KeyEventKind::Press {
        return Some(place);
    }
    // In raw mode the terminal does not turn Ctrl-C into a signal.
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return None;
    }
    let page = usize::from(height / 2).max(1);
    let above = match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return None,
        KeyCode::Char('e') => {
            let ended = !place.ended;
            return Some(Scroll { ended, ..place });
        }
        KeyCode::Up | KeyCode::Char('k') => place.above.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => place.above + 1,
        KeyCode::PageUp => place.above.saturating_sub(page),
        KeyCode::PageDown | KeyCode::Char(' ') => place.above + page,
        KeyCode::Home => 0,
        KeyCode::End => usize::MAX,
        _ => place.above,
    };
    Some(Scroll { above, ..place })
}
