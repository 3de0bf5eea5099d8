//! The documents in their form in a file, field by field.
//!
//! These types accept any JSON of the right shape; converting them to the validated types of the crate checks
//! the values. Units are in the field names. The JSON Schemas in `schemas/` are generated from these types.

mod allocation;
mod cluster;
mod devices;
mod efficiency;
mod model;
mod model_params;
mod plan;
mod profile;
mod queue;
mod run;
mod schedule;
mod timeline;
mod workload;

pub use allocation::*;
pub use cluster::*;
pub use devices::*;
pub use efficiency::*;
pub use model::*;
pub use model_params::*;
pub use plan::*;
pub use profile::*;
pub use queue::*;
pub use run::*;
pub use schedule::*;
pub use timeline::*;
pub use workload::*;

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A JSON object that begins with its schema id.
pub trait Wire: Serialize + DeserializeOwned + JsonSchema {
    /// The value of the field `schema`.
    const SCHEMA: &'static str;
    /// The value of the field `record`, in documents that are a sequence of several record types.
    const RECORD: Option<&'static str>;

    /// Whether the schema has the range of every value, so that it is what documents are checked by.
    const HAS_RANGES: bool;

    /// The JSON Schema.
    fn schema() -> &'static Value;

    /// Serialises the object as JSON on one line.
    ///
    /// # Errors
    /// Never for these types: only a map with keys that are not strings has no JSON.
    fn line(&self) -> serde_json::Result<Vec<u8>>;
}

/// Implements [`Wire`] for a type, with its schema and the name of its record; `ranges` says that the schema has
/// the range of every value. The macro writes out `line` for each type so that it is compiled in this crate: a
/// default method of the trait would be compiled again in each crate that writes a document.
macro_rules! wire_form {
    ($form:ty, $schema:literal) => {
        wire_form!($form, $schema, None, false);
    };
    ($form:ty, $schema:literal, ranges) => {
        wire_form!($form, $schema, None, true);
    };
    ($form:ty, $schema:literal, $record:literal) => {
        wire_form!($form, $schema, Some($record), false);
    };
    ($form:ty, $schema:literal, $record:expr, $has_ranges:literal) => {
        impl crate::wire::Wire for $form {
            const SCHEMA: &'static str = $schema;
            const RECORD: Option<&'static str> = $record;
            const HAS_RANGES: bool = $has_ranges;

            fn schema() -> &'static serde_json::Value {
                static SCHEMA: std::sync::OnceLock<serde_json::Value> = std::sync::OnceLock::new();
                SCHEMA.get_or_init(crate::wire::schema_of::<$form>)
            }

            fn line(&self) -> serde_json::Result<Vec<u8>> {
                serde_json::to_vec(self)
            }
        }
    };
}
pub(crate) use wire_form;

/// The JSON Schema of `W`, made anew; [`Wire::schema`] keeps it.
pub(crate) fn schema_of<W: Wire>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<W>().to_value();
    if W::RECORD.is_none() {
        // A generic type has no name of its own for this document.
        schema["title"] = W::SCHEMA.into();
    }
    let fixed = |text: &str| serde_json::json!({"const": text, "type": "string"});
    if let Some(properties) = schema.get_mut("properties") {
        properties["schema"] = fixed(W::SCHEMA);
        if let Some(record) = W::RECORD {
            properties["record"] = fixed(record);
        }
    }
    schema
}

/// Maximum number of tasks that run together.
pub(crate) const MAX_TASKS: usize = 64;

/// Reads a list of tasks, but keeps only one more than [`MAX_TASKS`], which is enough to see that there are
/// too many: a million tasks, in a file of 64 MiB, took 590 MB.
pub(crate) fn tasks<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Tasks<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Tasks<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            // Same wording as serde's own for a list.
            f.write_str("a sequence")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Vec<T>, A::Error> {
            let mut kept = Vec::new();
            while kept.len() <= MAX_TASKS {
                match all.next_element()? {
                    Some(task) => kept.push(task),
                    None => return Ok(kept),
                }
            }
            while all.next_element::<IgnoredAny>()?.is_some() {}
            Ok(kept)
        }
    }
    from.deserialize_seq(Tasks(PhantomData))
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
