use std::fmt::Debug;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Seconds;

use crate::wire::Wire;
use crate::{Checker, Code, Document, Frame, ReadError};

/// An event from another program, one per line; each may omit its schema.
///
/// An event has one form, in memory as in a file. Its JSON Schema is what its shape and its ranges are checked by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "", extend("unevaluatedProperties" = false))]
pub struct Event<N> {
    /// Name and version of the format; may be absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    /// Time of the event in seconds, on a clock of the writer's choice.
    #[serde(rename = "time_s")]
    pub time: Seconds,
    /// What happened.
    #[serde(flatten)]
    pub what: N,
}

/// What an event tells, besides its time.
pub(crate) trait News: Clone + Debug {
    /// Checks what a schema cannot say: how the fields of this event agree with each other.
    fn check(&self, c: &mut Checker);
}

impl<N> Event<N>
where
    Self: Wire,
{
    /// Makes an event that names its schema.
    #[must_use]
    pub fn new(time: Seconds, what: N) -> Self {
        Self {
            schema: Some(Self::SCHEMA.to_owned()),
            time,
            what,
        }
    }
}

impl<N> Event<N>
where
    Self: Document,
{
    /// Reads an event, which may omit its schema.
    ///
    /// # Errors
    /// [`ReadError::Faults`] with every fault of the event.
    pub fn read(frame: &Frame) -> Result<Self, ReadError> {
        let known = <Self as Document>::Wire::SCHEMA;
        if let Ok(peek) = frame.peek()
            && peek.schema != known
        {
            let problem = format!("this is a {:?} document", peek.schema);
            let advice = format!("write {known:?}, or leave it out");
            return Err(frame.one_fault(Code::WrongSchema, "$.schema", problem, advice));
        }
        frame.content()
    }
}

impl<N: News> Document for Event<N>
where
    Self: Wire,
{
    type Wire = Self;

    fn from_wire(wire: &Self, c: &mut Checker) -> Option<Self> {
        wire.what.check(c);
        c.is_clean().then(|| wire.clone())
    }

    fn to_wire(&self) -> Self {
        self.clone()
    }
}
