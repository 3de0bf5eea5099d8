use std::io::BufRead;

use crate::read::empty;
use crate::wire::{self, EventKind, Wire};
use crate::{Code, Frame, Frames, Profile, ProfileRecord, ReadError, RunEvent};

/// A document that holds measurements.
#[derive(Debug, Clone, PartialEq)]
pub enum Measurement {
    /// `mt.profile/1`, all its records.
    Profile(Box<Profile>),
    /// `mt.run/1`, all its events, the first of which is a launch.
    Run(Vec<RunEvent>),
}

/// The profiles and runs of a stream, in order; a fault ends it. Anything else is refused as no profile.
#[derive(Debug)]
pub struct Measurements<R> {
    frames: Frames<R>,
    /// The first frame of the next one.
    next: Option<Frame>,
    seen: bool,
    failed: bool,
}

impl<R: BufRead> Measurements<R> {
    /// Reads profiles and runs from `frames`.
    pub fn new(frames: Frames<R>) -> Self {
        Self {
            frames,
            next: None,
            seen: false,
            failed: false,
        }
    }

    fn one(&mut self) -> Result<Option<Measurement>, ReadError> {
        let first = match self.next.take() {
            Some(frame) => frame,
            None => match self.frames.next() {
                Some(frame) => frame?,
                None if self.seen => return Ok(None),
                None => return Err(empty(self.frames.source_name())),
            },
        };
        self.seen = true;
        match first.peek()?.schema.as_str() {
            wire::RunEvent::SCHEMA => self.run(&first).map(Some),
            _ => self.profile(&first).map(Some),
        }
    }

    fn run(&mut self, first: &Frame) -> Result<Measurement, ReadError> {
        let launch: RunEvent = first.parse()?;
        if launch.kind() != EventKind::Launch {
            let problem = "a run begins with its launch event";
            return Err(out_of_order(first, "$.event", problem));
        }
        let mut events = vec![launch];
        for frame in self.frames.by_ref() {
            let frame = frame?;
            let peek = frame.peek()?;
            if peek.schema != wire::RunEvent::SCHEMA || peek.event.as_deref() == Some("launch") {
                self.next = Some(frame);
                break;
            }
            events.push(frame.parse()?);
        }
        Ok(Measurement::Run(events))
    }

    fn profile(&mut self, first: &Frame) -> Result<Measurement, ReadError> {
        let ProfileRecord::Header(header) = ProfileRecord::parse(first)? else {
            let problem = "a profile begins with its header record";
            return Err(out_of_order(first, "$.record", problem));
        };
        let mut profile = Profile::empty(*header);
        for frame in self.frames.by_ref() {
            let frame = frame?;
            let peek = frame.peek()?;
            let run = peek.schema == wire::RunEvent::SCHEMA;
            if run || peek.record.as_deref() == Some("header") {
                self.next = Some(frame);
                break;
            }
            profile.push(ProfileRecord::parse(&frame)?, &frame)?;
        }
        Ok(Measurement::Profile(Box::new(profile)))
    }
}

fn out_of_order(frame: &Frame, path: &str, problem: &str) -> ReadError {
    let advice = Code::OutOfOrder.action().to_owned();
    frame.one_fault(Code::OutOfOrder, path, problem.to_owned(), advice)
}

impl<R: BufRead> Iterator for Measurements<R> {
    type Item = Result<Measurement, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.one();
        self.failed = item.is_err();
        item.transpose()
    }
}
