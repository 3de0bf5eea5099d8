use std::path::Path;

use cli::{Console, Existing, Exit, Failure, LONGEST, Line, Lines, Output, open_reader};
use doc::{Frame, ReadError, RunEvent, TrainingEvent};
use learning::{Allocator, RunReader};

use crate::args::Args;

/// Bad lines that are told one by one; of a stream of garbage only the number of the others.
const TOLD: u64 = 5;

/// Writes a decision whenever an event leads to one.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let settings = args.settings()?;
    let path = args.file.as_deref().unwrap_or(Path::new("-"));
    let existing = Existing {
        replace: args.force,
        continues: None,
    };
    let (reader, source_name) = open_reader(path, "events of trainings", console)?;
    let mut session = Session {
        allocator: Allocator::new(settings),
        run: RunReader::default(),
        output: Output::progressive(args.output.as_deref(), existing)?,
        console,
        source_name,
        strict: args.strict,
        events: 0,
        ignored: 0,
    };
    for line in Lines::new(reader) {
        match line.map_err(|error| Failure::file(path, &error))? {
            Line::Text(text, number) => session.line(text, number)?,
            Line::TooLong(number) => {
                let problem = format!("longer than {LONGEST} bytes; an event has some hundred");
                session.ignore(&format!("{}:{number}: {problem}", session.source_name))?;
            }
        }
    }
    session.finish()
}

struct Session<'a> {
    allocator: Allocator,
    /// What a run on the input has said so far.
    run: RunReader,
    output: Output,
    console: &'a Console,
    source_name: String,
    strict: bool,
    events: u64,
    ignored: u64,
}

impl Session<'_> {
    fn line(&mut self, text: Vec<u8>, number: u64) -> Result<(), Failure> {
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        let frame = Frame {
            bytes: text,
            source_name: self.source_name.clone(),
            line: number,
        };
        match self.read(&frame) {
            Ok(events) => {
                for event in &events {
                    self.event(event, number)?;
                }
                Ok(())
            }
            Err(error) => self.ignore(&error.to_string()),
        }
    }

    /// The events of a line: one of a training, or what one of a run means for trainings.
    fn read(&mut self, frame: &Frame) -> Result<Vec<TrainingEvent>, ReadError> {
        if frame.claims::<RunEvent>() {
            return Ok(self.run.events(&frame.parse::<RunEvent>()?));
        }
        Ok(vec![TrainingEvent::read(frame)?])
    }

    fn event(&mut self, event: &TrainingEvent, number: u64) -> Result<(), Failure> {
        self.events += 1;
        match self.allocator.take(event) {
            Ok(None) => Ok(()),
            Ok(Some(mut decision)) => {
                let own = self.console.provenance(None, None);
                decision.provenance.push(own);
                self.output.record(&decision)
            }
            Err(refused) => self.ignore(&format!("{}:{number}: {refused}", self.source_name)),
        }
    }

    /// A line that is no event must not end the allocator: the trainings go on, and so does it.
    fn ignore(&mut self, problem: &str) -> Result<(), Failure> {
        if self.strict {
            return Err(Failure::Input(problem.to_owned()));
        }
        self.ignored += 1;
        if self.ignored <= TOLD {
            self.console.warn(&format!("ignored: {problem}"));
        }
        Ok(())
    }

    fn finish(self) -> Result<Exit, Failure> {
        if self.ignored > TOLD {
            self.console
                .warn(&format!("{} lines were ignored in all", self.ignored));
        }
        if self.events == 0 {
            return Err(Failure::Input(format!(
                "{}: there is no event in it; `mt-elastic --help` shows what events look like",
                self.source_name
            )));
        }
        self.output.finish()?;
        Ok(Exit::Done)
    }
}
