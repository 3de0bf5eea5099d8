use std::io::BufRead;

use crate::read::empty;
use crate::wire::{self, Wire};
use crate::{
    Allocation, Cluster, ClusterStatus, Code, Frame, Frames, Model, Plan, Profile, ProfileRecord,
    ReadError, RunEvent, Schedule, Timeline, Workload, schema,
};

/// A document of any kind. All records of a profile form one document, and so do all events of a
/// run.
#[derive(Debug, Clone, PartialEq)]
pub enum Any {
    /// `mt.workload/1`.
    Workload(Box<Workload>),
    /// `mt.profile/1`, all its records.
    Profile(Box<Profile>),
    /// `mt.model/1`.
    Model(Box<Model>),
    /// `mt.plan/1`.
    Plan(Box<Plan>),
    /// `mt.timeline/1`.
    Timeline(Box<Timeline>),
    /// `mt.run/1`: all events of a run, beginning with its launch.
    Run(Vec<RunEvent>),
    /// A sequence of `mt.allocation/1` documents.
    Allocations(Vec<Allocation>),
    /// `mt.cluster/1`.
    Cluster(Box<Cluster>),
    /// `mt.schedule/1`.
    Schedule(Box<Schedule>),
    /// `mt.status/1`.
    Status(Box<ClusterStatus>),
}

/// Iterates over the documents of a stream, of any kinds, in order. A fault ends the iteration.
#[derive(Debug)]
pub struct AnyDocuments<R: BufRead> {
    frames: std::iter::Peekable<Frames<R>>,
    source_name: String,
    seen: bool,
    failed: bool,
}

impl<R: BufRead> AnyDocuments<R> {
    /// Reads documents from `frames`.
    pub fn new(frames: Frames<R>) -> Self {
        Self {
            source_name: frames.source_name().to_owned(),
            frames: frames.peekable(),
            seen: false,
            failed: false,
        }
    }

    /// Takes the next frame if it belongs to the current profile or run.
    fn continuation(&mut self, schema: &str) -> Option<Frame> {
        let goes_on = |frame: &Result<Frame, ReadError>| {
            let peek = frame.as_ref().ok().and_then(|frame| frame.peek().ok());
            peek.is_some_and(|peek| {
                peek.schema == schema
                    && peek.record.as_deref() != Some("header")
                    && peek.event.as_deref() != Some("launch")
            })
        };
        self.frames.next_if(goes_on).and_then(Result::ok)
    }

    fn one(&mut self, frame: &Frame) -> Result<Any, ReadError> {
        match frame.peek()?.schema.as_str() {
            wire::Workload::SCHEMA => Ok(Any::Workload(Box::new(frame.parse()?))),
            wire::Model::SCHEMA => Ok(Any::Model(Box::new(frame.parse()?))),
            wire::Plan::SCHEMA => Ok(Any::Plan(Box::new(frame.parse()?))),
            wire::Timeline::SCHEMA => Ok(Any::Timeline(Box::new(frame.parse()?))),
            wire::Cluster::SCHEMA => Ok(Any::Cluster(Box::new(frame.parse()?))),
            wire::Schedule::SCHEMA => Ok(Any::Schedule(Box::new(frame.parse()?))),
            wire::ClusterStatus::SCHEMA => Ok(Any::Status(Box::new(frame.parse()?))),
            wire::ProfileHeader::SCHEMA => self.profile(frame).map(Any::Profile),
            wire::RunEvent::SCHEMA => self.run(frame).map(Any::Run),
            wire::Allocation::SCHEMA => self.allocations(frame),
            found => {
                let (problem, advice) = schema::unknown(found);
                Err(frame.one_fault(Code::WrongSchema, "$.schema", problem, advice))
            }
        }
    }

    /// Reads the profile that begins with `frame`.
    pub(crate) fn profile(&mut self, frame: &Frame) -> Result<Box<Profile>, ReadError> {
        let ProfileRecord::Header(header) = ProfileRecord::parse(frame)? else {
            let problem = "a profile begins with its header record".to_owned();
            return Err(out_of_order(frame, "$.record", problem));
        };
        let mut profile = Profile::empty(*header);
        while let Some(frame) = self.continuation(wire::ProfileHeader::SCHEMA) {
            profile.push(ProfileRecord::parse(&frame)?, &frame)?;
        }
        Ok(Box::new(profile))
    }

    fn allocations(&mut self, frame: &Frame) -> Result<Any, ReadError> {
        let mut all: Vec<Allocation> = vec![frame.parse()?];
        while let Some(frame) = self.continuation(wire::Allocation::SCHEMA) {
            all.push(frame.parse()?);
        }
        Ok(Any::Allocations(all))
    }

    /// Reads the run that begins with `frame`.
    pub(crate) fn run(&mut self, frame: &Frame) -> Result<Vec<RunEvent>, ReadError> {
        let launch: RunEvent = frame.parse()?;
        if launch.kind() != wire::EventKind::Launch {
            let problem = "a run begins with its launch event".to_owned();
            return Err(out_of_order(frame, "$.event", problem));
        }
        let mut events = vec![launch];
        while let Some(frame) = self.continuation(wire::RunEvent::SCHEMA) {
            events.push(frame.parse()?);
        }
        Ok(events)
    }

    /// Takes the next frame if it cannot be read or its schema is not in `known`.
    pub(crate) fn stranger(&mut self, known: &[&str]) -> Option<Result<Frame, ReadError>> {
        self.frames.next_if(|frame| {
            let peek = frame.as_ref().ok().and_then(|frame| frame.peek().ok());
            !peek.is_some_and(|peek| known.contains(&peek.schema.as_str()))
        })
    }

    /// Reads the next document: passes its first frame to `one`.
    pub(crate) fn step<T>(
        &mut self,
        one: impl FnOnce(&mut Self, &Frame) -> Result<T, ReadError>,
    ) -> Option<Result<T, ReadError>> {
        if self.failed {
            return None;
        }
        let item = match self.frames.next() {
            None if !self.seen => Err(empty(&self.source_name)),
            None => return None,
            Some(frame) => frame.and_then(|frame| one(self, &frame)),
        };
        self.seen = true;
        self.failed = item.is_err();
        Some(item)
    }
}

fn out_of_order(frame: &Frame, path: &str, problem: String) -> ReadError {
    let advice = Code::OutOfOrder.action().to_owned();
    frame.one_fault(Code::OutOfOrder, path, problem, advice)
}

impl<R: BufRead> Iterator for AnyDocuments<R> {
    type Item = Result<Any, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Self::one)
    }
}
