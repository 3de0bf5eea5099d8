use crate::wire::{self, Wire};
use crate::{Checker, Code, Fault};

/// A validated document and its form in a file.
pub trait Document: Sized {
    /// The form in a file.
    type Wire: Wire;

    /// Validates; records every fault in `c`. `None` only if a fault was recorded.
    fn from_wire(wire: &Self::Wire, c: &mut Checker) -> Option<Self>;

    /// The form in a file.
    fn to_wire(&self) -> Self::Wire;

    /// What a reader would find wrong with a document that was made from something else than
    /// a document: a table can hold two jobs of one name.
    fn faults(&self) -> Vec<Fault> {
        let mut checker = Checker::default();
        Self::from_wire(&self.to_wire(), &mut checker);
        checker.into_faults()
    }

    /// As [`Document::from_wire`] for a document inside another, whose `schema` has not been
    /// looked at yet.
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

/// A wire type that may stand inside another and says which schema it claims to be.
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
