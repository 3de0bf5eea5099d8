//! Quantities as values of documents: JSON numbers and strings, whose JSON Schema has the range.

/// Implements reading, writing and the JSON Schema of a quantity. The schema's title is the name of the quantity,
/// and its description the valid range in words, so that a fault found by the schema reads like a
/// [`crate::UnitError`].
macro_rules! document_value {
    ($name:ident, $raw:ty, $new:expr, $get:ident, $label:expr, $expected:expr, $schema:tt) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                self.$get().serialize(to)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let new: fn($raw) -> Result<Self, crate::UnitError> = $new;
                new(<$raw>::deserialize(from)?).map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut schema = schemars::json_schema!($schema);
                schema.insert("title".to_owned(), $label.into());
                schema.insert("description".to_owned(), $expected.into());
                schema
            }
        }
    };
}
pub(crate) use document_value;
