use units::Seconds;

use crate::wire::Wire;
use crate::{Checker, Code, Document, Frame, ReadError};

/// An event from another program, one per line; each may omit its schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Event<N> {
    /// Seconds on the writer's clock.
    pub time: Seconds,
    /// What happened.
    pub what: N,
    /// Whether the event names its schema; kept so that the line is written back unchanged.
    named: bool,
}

impl<N> Event<N> {
    /// Makes an event that names its schema.
    #[must_use]
    pub fn new(time: Seconds, what: N) -> Self {
        Self {
            time,
            what,
            named: true,
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
        frame.content()
    }

    /// Makes an event from the common fields; `news` reads the other fields.
    pub(crate) fn of(
        schema: Option<&str>,
        time_s: f64,
        news: impl FnOnce(&mut Checker) -> Option<N>,
        c: &mut Checker,
    ) -> Option<Self> {
        let known = <Self as Document>::Wire::SCHEMA;
        if let Some(found) = schema.filter(|s| *s != known) {
            c.field("schema", |c| {
                let problem = format_args!("this is a {found:?} document");
                let advice = format_args!("write {known:?}, or leave it out");
                c.fault(Code::WrongSchema, problem, advice);
            });
        }
        let time = c.unit("time_s", Seconds::new(time_s));
        let what = news(c);
        Some(Self {
            time: time?,
            what: what?,
            named: schema.is_some(),
        })
    }

    /// The schema to write, if the event names one.
    pub(crate) fn schema(&self) -> Option<String> {
        let schema = <Self as Document>::Wire::SCHEMA;
        self.named.then(|| schema.to_owned())
    }
}

/// An optional field of an event: its name, whether it is there, the kinds of events that may have it.
pub(crate) type Field<'a, K> = (&'a str, bool, &'a [K]);

/// Checks that every field belongs to this kind of event, and that no required one is missing.
pub(crate) fn check_fields<K: PartialEq>(
    kind: K,
    fields: &[Field<'_, K>],
    needed: &[&str],
    c: &mut Checker,
) {
    for &(name, present, may) in fields {
        c.field(name, |c| {
            if present && !may.contains(&kind) {
                let problem = "this event has no such field";
                c.fault(Code::UnknownField, problem, "leave it out");
            }
            if !present && needed.contains(&name) {
                let problem = "this event needs this field";
                c.fault(Code::MissingField, problem, "give the whole event");
            }
        });
    }
}
