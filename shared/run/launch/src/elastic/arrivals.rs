//! Arrivals and removals of trainings.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use cli::{Console, Failure, LONGEST, Line, Lines, in_background, open_reader};
use doc::{Arrival, Frame, TrainingEvent, TrainingNews, Workload};
use units::{Seconds, TaskId};

/// Trainings that arrive, in the order of their times, and trainings that are removed.
pub(super) enum Arrivals {
    /// Known before the launch.
    Known(VecDeque<TrainingEvent>),
    /// Read from standard input while the launch runs.
    Live {
        lines: Receiver<Result<TrainingEvent, String>>,
        waiting: VecDeque<TrainingEvent>,
        open: bool,
    },
}

/// The arrivals that are due.
pub(super) enum Due {
    Arrive(Arrival),
    Leave(TaskId),
    /// A GPU, by number, is lost, or found again.
    Gpu {
        gpu: u32,
        lost: bool,
    },
    /// An invalid line; why.
    Bad(String),
}

impl Arrivals {
    /// Opens the arrivals of a file, of standard input (`-`), or of a workload: all of its tasks
    /// at once.
    ///
    /// # Errors
    /// [`Failure::Input`] for a line of a file that is no arrival.
    pub(super) fn open(
        path: Option<&Path>,
        workload: &Workload,
        console: &Console,
    ) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self::Known(of_workload(workload)));
        };
        let (reader, source) = open_reader(path, "arrivals of trainings", console)?;
        if path == Path::new("-") {
            let (sender, lines) = sync_channel(64);
            // Standard input may never end, so this thread is not waited for.
            in_background(move || {
                // A boxed reader cannot be moved to another thread; standard input can be opened there.
                let stdin = std::io::stdin().lock();
                for line in Lines::new(stdin) {
                    let parsed = line
                        .map_err(|error| error.to_string())
                        .and_then(|line| parse(line, &source));
                    if let Some(parsed) = parsed.transpose()
                        && sender.send(parsed).is_err()
                    {
                        return;
                    }
                }
            })?;
            return Ok(Self::Live {
                lines,
                waiting: VecDeque::new(),
                open: true,
            });
        }
        let mut all = Vec::new();
        for line in Lines::new(reader) {
            let line = line.map_err(|error| Failure::file(path, &error))?;
            all.extend(parse(line, &source).map_err(Failure::Input)?);
        }
        if all.is_empty() {
            return Err(Failure::Input(format!(
                "{source}: no training arrives; give lines such as \
                 {{\"event\":\"arrive\",\"time_s\":0,\"task\":\"a\"}}"
            )));
        }
        all.sort_by(|a, b| a.time.get().total_cmp(&b.time.get()));
        Ok(Self::Known(all.into()))
    }

    /// The next one that is due at `now`, in seconds since the launch.
    pub(super) fn due(&mut self, now: f64) -> Option<Due> {
        let waiting = match self {
            Self::Known(waiting) => waiting,
            Self::Live {
                lines,
                waiting,
                open,
            } => {
                loop {
                    match lines.try_recv() {
                        Ok(Ok(event)) => waiting.push_back(event),
                        Ok(Err(why)) => return Some(Due::Bad(why)),
                        Err(TryRecvError::Empty) => break,
                        Err(TryRecvError::Disconnected) => {
                            *open = false;
                            break;
                        }
                    }
                }
                waiting
            }
        };
        let at = waiting.iter().position(|e| e.time.get() <= now)?;
        let event = waiting.remove(at)?;
        Some(match event.what {
            TrainingNews::Arrive(arrival) => Due::Arrive(*arrival),
            TrainingNews::Done { task } | TrainingNews::Failed { task, .. } => Due::Leave(task),
            TrainingNews::Lost { gpu } => Due::Gpu { gpu, lost: true },
            TrainingNews::Found { gpu } => Due::Gpu { gpu, lost: false },
            _ => Due::Bad(NEITHER.to_owned()),
        })
    }

    /// Whether no further events can come.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Known(waiting) => waiting.is_empty(),
            Self::Live { waiting, open, .. } => waiting.is_empty() && !open,
        }
    }

    /// When the next one is due, if known.
    pub(super) fn next_at(&self) -> Option<f64> {
        let (Self::Known(waiting) | Self::Live { waiting, .. }) = self;
        let times = waiting.iter().map(|e| e.time.get());
        times.min_by(f64::total_cmp)
    }
}

const NEITHER: &str = "none of arrive, done, lost and found: arrivals say which training comes (arrive), which \
                       is taken away (done), and which GPU is gone (lost) or back (found)";

fn parse(line: Line, source: &str) -> Result<Option<TrainingEvent>, String> {
    let (bytes, line) = match line {
        Line::TooLong(number) => return Err(format!("{source}:{number}: longer than {LONGEST}")),
        Line::Text(text, _) if text.trim_ascii().is_empty() => return Ok(None),
        Line::Text(text, number) => (text, number),
    };
    let frame = Frame {
        bytes,
        source_name: source.to_owned(),
        line,
    };
    let event = TrainingEvent::read(&frame).map_err(|error| error.to_string())?;
    match event.what {
        TrainingNews::Arrive(_)
        | TrainingNews::Done { .. }
        | TrainingNews::Failed { .. }
        | TrainingNews::Lost { .. }
        | TrainingNews::Found { .. } => Ok(Some(event)),
        _ => Err(format!("{source}:{line}: {NEITHER}")),
    }
}

fn of_workload(workload: &Workload) -> VecDeque<TrainingEvent> {
    let arrival = |task: &doc::Task| {
        let arrival = Arrival {
            total_samples: task.samples,
            weight: task.weight,
            batch: task.batch_sizes.first().copied(),
            ..Arrival::new(task.id.clone())
        };
        TrainingEvent::new(Seconds::ZERO, TrainingNews::Arrive(Box::new(arrival)))
    };
    workload.tasks.iter().map(arrival).collect()
}
