use crate::wire::{self, Wire};
use crate::{Checker, Code, Fault};

/// A validated document and its form in a file.
pub trait Document: Sized {
    /// The form in a file.
    type Wire: Wire;

    /// Validates the wire form and records every fault in `c`. Returns `None` only if a fault was
    /// recorded.
    fn from_wire(wire: &Self::Wire, c: &mut Checker) -> Option<Self>;

    /// Converts the document to its form in a file.
    fn to_wire(&self) -> Self::Wire;

    /// Faults that a reader would find in this document. For documents that were not read from a
    /// file but made from other data, such as a table with two jobs of the same name.
    fn faults(&self) -> Vec<Fault> {
        let mut checker = Checker::default();
        Self::from_wire(&self.to_wire(), &mut checker);
        checker.into_faults()
    }

    /// Like [`Document::from_wire`], for an embedded document whose `schema` has not been checked
    /// yet.
    fn from_nested(wire: &Self::Wire, c: &mut Checker) -> Option<Self>
    where
        Self::Wire: NestedSchema,
    {
        let found = wire.schema();
        if found != Self::Wire::SCHEMA {
            c.field("schema", |c| {
                let problem = format_args!("{found:?} is not the schema of this part");
                let advice = format_args!("write {:?}", Self::Wire::SCHEMA);
                c.fault(Code::WrongSchema, problem, advice);
            });
        }
        Self::from_wire(wire, c)
    }
}

/// A wire type that may be embedded in another, and names its schema.
pub trait NestedSchema {
    /// The value of the field `schema`.
    fn schema(&self) -> &str;
}

macro_rules! nested {
    ($($name:ident),*) => {
        $(impl NestedSchema for wire::$name {
            fn schema(&self) -> &str {
                &self.schema
            }
        })*
    };
}
nested!(Workload, Model, Plan, Timeline, Cluster);
