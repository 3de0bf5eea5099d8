use std::collections::BTreeMap;
use std::path::Path;

use cli::{Console, Existing, Exit, Failure, Output, each_event};
use doc::{Frame, ReadError, RunEvent, TrainingEvent};
use learning::{Allocator, Refused, RunReader, Stuck};
use units::TaskId;

use crate::args::Args;
use crate::diverged::as_null;

/// Writes a decision whenever an event leads to one.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let settings = args.settings()?;
    let path = args.file.as_deref().unwrap_or(Path::new("-"));
    let existing = Existing {
        replace: args.force,
        continues: None,
    };
    let mut session = EventLoop {
        allocator: Allocator::new(settings),
        run: RunReader::default(),
        output: Output::progressive(args.output.as_deref(), existing)?,
        console,
        told: BTreeMap::new(),
    };
    let expected = "events of trainings";
    each_event(path, expected, args.strict, console, |frame| {
        let events = match session.read(frame) {
            Ok(events) => events,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let mut wrong = Vec::new();
        for event in &events {
            if let Err(refused) = session.event(event)? {
                wrong.push(format!("{}:{}: {refused}", frame.source_name, frame.line));
            }
        }
        Ok(if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong.join("; "))
        })
    })?;
    session.output.finish()?;
    Ok(Exit::Done)
}

struct EventLoop<'a> {
    allocator: Allocator,
    /// State of a run whose events are in the input.
    run: RunReader,
    output: Output,
    console: &'a Console,
    /// For each training: the last reported lack of progress, and how often its changes were reported.
    told: BTreeMap<TaskId, (Option<(Stuck, bool)>, u32)>,
}

/// Maximum number of reported changes per training: if the loss keeps going up and down, users know by then.
const TOLD: u32 = 5;

impl EventLoop<'_> {
    /// The training events of a line: the line's own event, or those that follow from a run event.
    fn read(&mut self, frame: &Frame) -> Result<Vec<TrainingEvent>, ReadError> {
        if frame.claims::<RunEvent>() {
            return Ok(self.run.events(&frame.parse::<RunEvent>()?));
        }
        Ok(vec![TrainingEvent::read(&as_null(frame))?])
    }

    /// Processes an event, and writes the decision that it leads to. The inner result says why an event was
    /// refused.
    fn event(&mut self, event: &TrainingEvent) -> Result<Result<(), Refused>, Failure> {
        let taken = self.allocator.take(event);
        self.tell_stuck();
        match taken {
            Ok(None) => Ok(Ok(())),
            Ok(Some(mut decision)) => {
                let own = self.console.provenance(None, None);
                decision.provenance.push(own);
                self.output.record(&decision).map(Ok)
            }
            Err(refused) => Ok(Err(refused)),
        }
    }
    /// Reports which trainings have stopped or resumed making progress.
    fn tell_stuck(&mut self) {
        let now: BTreeMap<&TaskId, (Stuck, bool)> = self
            .allocator
            .stuck()
            .map(|(id, why, waits)| (id, (why, waits)))
            .collect();
        for &id in now.keys() {
            self.told.entry(id.clone()).or_default();
        }
        for (id, (before, times)) in &mut self.told {
            let found = now.get(id).copied();
            if found == *before || *times >= TOLD {
                continue;
            }
            (*before, *times) = (found, *times + 1);
            self.console.warn(&match found {
                Some((why, true)) => format!("{id} {}, and waits for the others", why.words()),
                Some((why, false)) => format!("{id} {}, and comes last", why.words()),
                None => format!("{id} gets on again, or has ended"),
            });
        }
    }
}
