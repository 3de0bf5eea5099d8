use std::io::BufRead;
use std::marker::PhantomData;

use serde::Deserialize;
use serde_json::Value;

use crate::place;
use crate::schema;
use crate::shape;
use crate::wire::Wire;
use crate::{
    Checker, Code, Document, EventKind, Failure, Fault, Faults, Frame, Frames, Header, Profile,
    ProfileEnd, ProfileRecord, ReadError, RunEvent, Sample,
};

/// The fields that identify a document; everything else is skipped.
#[derive(Deserialize)]
struct RawPeek {
    schema: Option<String>,
    record: Option<String>,
    event: Option<String>,
}

/// What a document claims to be.
pub(crate) struct Peek {
    pub(crate) schema: String,
    pub(crate) record: Option<String>,
    pub(crate) event: Option<String>,
}

impl Frame {
    /// Wraps faults that were found in this document, with the line of each.
    #[must_use]
    pub fn faults(&self, faults: Vec<Fault>) -> ReadError {
        let paths = faults.iter().map(|fault| fault.path.as_str());
        let lines = place::lines_to(&self.bytes, paths).into_iter();
        ReadError::Faults(Faults {
            source_name: self.source_name.clone(),
            line: self.line,
            lines: lines.map(|lines| self.line + lines).collect(),
            faults,
        })
    }

    pub(crate) fn one_fault(
        &self,
        code: Code,
        path: &str,
        problem: String,
        advice: String,
    ) -> ReadError {
        self.faults(vec![Fault {
            code,
            path: path.to_owned(),
            problem,
            advice,
        }])
    }

    fn syntax(&self, error: &serde_json::Error) -> ReadError {
        let line = self.line + error.line().saturating_sub(1) as u64;
        ReadError::Faults(Faults {
            source_name: self.source_name.clone(),
            line,
            lines: Vec::new(),
            faults: vec![Fault {
                code: Code::Syntax,
                path: String::new(),
                problem: format!("not JSON: {error}"),
                advice: Code::Syntax.action().to_owned(),
            }],
        })
    }

    /// Reads the fields that say what kind of document this is.
    pub(crate) fn peek(&self) -> Result<Peek, ReadError> {
        let raw: RawPeek = match serde_json::from_slice(&self.bytes) {
            Ok(raw) => raw,
            Err(error) if error.is_data() => RawPeek {
                schema: None,
                record: None,
                event: None,
            },
            Err(error) => return Err(self.syntax(&error)),
        };
        match raw.schema {
            Some(schema) => Ok(Peek {
                schema,
                record: raw.record,
                event: raw.event,
            }),
            None => Err(self.one_fault(
                Code::WrongSchema,
                "$.schema",
                "the document does not say what it is".to_owned(),
                format!("begin it with \"schema\":\"…\", one of {}", schema::names()),
            )),
        }
    }

    /// Whether the document names `D`'s schema.
    #[must_use]
    pub fn claims<D: Document>(&self) -> bool {
        self.peek().is_ok_and(|peek| peek.schema == D::Wire::SCHEMA)
    }

    /// Parses and validates the document as a `D`.
    pub fn parse<D: Document>(&self) -> Result<D, ReadError> {
        let Peek { schema, record, .. } = self.peek()?;
        if schema != D::Wire::SCHEMA {
            let (problem, advice) = schema::other(&schema, D::Wire::SCHEMA);
            return Err(self.one_fault(Code::WrongSchema, "$.schema", problem, advice));
        }
        if record.as_deref() != D::Wire::RECORD {
            return Err(self.one_fault(
                Code::WrongSchema,
                "$.record",
                format!("this is a record of kind {:?}", record.unwrap_or_default()),
                format!("give one of kind {:?}", D::Wire::RECORD.unwrap_or_default()),
            ));
        }
        self.content()
    }

    /// Like [`Frame::parse`], for a document that may omit its schema.
    pub(crate) fn content<D: Document>(&self) -> Result<D, ReadError> {
        let wire = self.wire::<D::Wire>()?;
        let mut checker = Checker::default();
        match D::from_wire(&wire, &mut checker) {
            Some(document) if checker.is_clean() => Ok(document),
            _ => Err(self.faults(checker.into_faults())),
        }
    }

    pub(crate) fn wire<W: Wire>(&self) -> Result<W, ReadError> {
        // `None`: only the schema has found a fault.
        let accept = |bytes: &[u8]| {
            if !W::HAS_RANGES {
                return strict::<W>(bytes).map_err(Some);
            }
            match serde_json::from_slice::<Value>(bytes) {
                Ok(value) if shape::faults::<W>(&value).is_empty() => {
                    serde_path_to_error::deserialize(value).map_err(Some)
                }
                Ok(_) => Err(None),
                Err(_) => strict::<W>(bytes).map_err(Some),
            }
        };
        let error = match accept(&self.bytes) {
            Ok(wire) => return Ok(wire),
            Err(error) => error,
        };
        // The detailed check runs only on refused documents, so that documents of the tools, which
        // may have 64 MiB, are read once.
        if let Some(error) = &error
            && self.bytes.len() > LARGEST_BY_PEOPLE
        {
            return Err(self.first_fault(error));
        }
        let relaxed = shape::relaxed::<W>(&self.bytes);
        let (error, bytes) = match &relaxed {
            Some(bytes) => match accept(bytes) {
                Ok(wire) => return Ok(wire),
                Err(error) => (error, bytes),
            },
            None => (error, &self.bytes),
        };
        // Check the whole document whatever kind of error `serde` reports: it calls a number in place
        // of a word a syntax error.
        let found = shape::structural_faults::<W>(bytes);
        match error {
            Some(error) if found.is_empty() => Err(self.first_fault(&error)),
            _ => Err(self.faults(found)),
        }
    }

    /// The fault at which strict parsing stopped.
    fn first_fault(&self, error: &serde_path_to_error::Error<serde_json::Error>) -> ReadError {
        // The type error may come before a place where the text is not even JSON; report that
        // instead.
        if let Err(broken) = serde_json::from_slice::<serde::de::IgnoredAny>(&self.bytes) {
            return self.syntax(&broken);
        }
        let path = format!("$.{}", error.path()).replace("$.[", "$[");
        let problem = error.inner().to_string();
        self.one_fault(Code::WrongType, &path, problem, String::new())
    }
}

/// Largest document for which every deviation from its shape is reported and lenient notations are
/// accepted. Both need the document as a tree, which takes up to sixty times the size of the text
/// (for lists of lists with one value): 4.4 MB took 267 MB.
const LARGEST_BY_PEOPLE: usize = 2 << 20;

fn strict<W: Wire>(bytes: &[u8]) -> Result<W, serde_path_to_error::Error<serde_json::Error>> {
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize::<_, W>(&mut parser)
}

/// Iterates over the documents of one kind in a stream, in order. A fault ends the iteration.
#[derive(Debug)]
pub struct Documents<R, D> {
    frames: Frames<R>,
    seen: u64,
    failed: bool,
    /// Line on which the last document begins.
    line: u64,
    kind: PhantomData<fn() -> D>,
}

impl<R: BufRead, D: Document> Documents<R, D> {
    /// Reads documents from `frames`.
    pub fn new(frames: Frames<R>) -> Self {
        Self {
            frames,
            seen: 0,
            failed: false,
            line: 1,
            kind: PhantomData,
        }
    }

    /// Source name and line of the last document, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.frames.source_name(), self.line)
    }
}

pub(crate) fn empty(source_name: &str) -> ReadError {
    ReadError::Faults(Faults {
        source_name: source_name.to_owned(),
        line: 1,
        lines: Vec::new(),
        faults: vec![Fault {
            code: Code::Empty,
            path: String::new(),
            problem: "the input is empty".to_owned(),
            advice: Code::Empty.action().to_owned(),
        }],
    })
}

impl<R: BufRead, D: Document> Iterator for Documents<R, D> {
    type Item = Result<D, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = match self.frames.next() {
            None if self.seen == 0 => Err(empty(self.frames.source_name())),
            None => return None,
            Some(frame) => frame.and_then(|f| {
                self.line = f.line;
                f.parse::<D>()
            }),
        };
        self.seen += 1;
        self.failed = item.is_err();
        Some(item)
    }
}

impl ProfileRecord {
    /// Parses one record of a profile.
    pub fn parse(frame: &Frame) -> Result<Self, ReadError> {
        Ok(match frame.peek()?.record.as_deref() {
            Some("sample") => Self::Sample(frame.parse::<Sample>()?),
            Some("failure") => Self::Failure(frame.parse::<Failure>()?),
            Some("end") => Self::End(frame.parse::<ProfileEnd>()?),
            _ => Self::Header(Box::new(frame.parse::<Header>()?)),
        })
    }
}

impl Profile {
    /// Makes a profile that has only its header so far.
    #[must_use]
    pub fn empty(header: Header) -> Self {
        Self {
            header,
            samples: Vec::new(),
            failures: Vec::new(),
            end: None,
        }
    }

    pub(crate) fn push(&mut self, record: ProfileRecord, frame: &Frame) -> Result<(), ReadError> {
        if self.end.is_some() {
            return Err(frame.one_fault(
                Code::OutOfOrder,
                "$.record",
                "a record after the end record".to_owned(),
                Code::OutOfOrder.action().to_owned(),
            ));
        }
        let names = |ids: Vec<&units::TaskId>| {
            let unknown = ids
                .iter()
                .position(|id| self.header.workload.task_index(id).is_none());
            unknown.map_or(Ok(()), |i| {
                let known: Vec<_> = self
                    .header
                    .workload
                    .tasks
                    .iter()
                    .map(|t| t.id.as_str())
                    .collect();
                Err(frame.one_fault(
                    Code::UnknownName,
                    &format!("$.tasks[{i}].id"),
                    format!("no task of the workload is called {}", ids[i]),
                    format!("the workload has {}", known.join(", ")),
                ))
            })
        };
        match record {
            ProfileRecord::Sample(sample) => {
                names(sample.tasks.iter().map(|t| &t.id).collect())?;
                self.samples.push(sample);
            }
            ProfileRecord::Failure(failure) => {
                names(failure.tasks.iter().map(|t| &t.id).collect())?;
                self.failures.push(failure);
            }
            ProfileRecord::End(end) => self.end = Some(end),
            ProfileRecord::Header(_) => {}
        }
        Ok(())
    }
}

/// Iterates over the events of a stream of runs, and checks that each comes after a `launch` event.
#[derive(Debug)]
pub struct Records<R> {
    events: Documents<R, RunEvent>,
    launched: bool,
    failed: bool,
}

impl<R: BufRead> Records<R> {
    /// Reads events from `frames`.
    pub fn new(frames: Frames<R>) -> Self {
        Self {
            events: Documents::new(frames),
            launched: false,
            failed: false,
        }
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<RunEvent, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let event = self.events.next()?;
        self.launched |= matches!(&event, Ok(e) if e.kind() == EventKind::Launch);
        if event.is_ok() && !self.launched {
            self.failed = true;
            return Some(Err(ReadError::Faults(Faults {
                source_name: self.events.frames.source_name().to_owned(),
                line: 1,
                lines: Vec::new(),
                faults: vec![Fault {
                    code: Code::OutOfOrder,
                    path: "$.event".to_owned(),
                    problem: "a run begins with its launch event".to_owned(),
                    advice: Code::OutOfOrder.action().to_owned(),
                }],
            })));
        }
        Some(event)
    }
}
