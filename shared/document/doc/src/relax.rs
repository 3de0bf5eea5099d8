//! Accepts notations that people write but the wire forms lack: `1e5` for a whole number, `"24GB"`
//! for a number of bytes, `$schema` for an editor.

use serde_json::{Map, Value};
use units::Bytes;

use crate::shape::{Shape, branch_of};

/// Whole numbers up to this limit are exact as a double.
const MOST: f64 = (1u64 << 53) as f64;

impl<'a> Shape<'a> {
    /// Converts lenient notations to those of the schema, and returns whether it changed anything.
    /// `bytes`: a field name on the path says that the value is a number of bytes.
    pub(crate) fn relax(&self, schema: &'a Value, value: &mut Value, bytes: bool) -> bool {
        let schema = self.resolve(schema);
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            return branches
                .iter()
                .any(|branch| self.relax(branch, value, bytes));
        }
        if let Some(kinds) = schema.get("oneOf").and_then(Value::as_array)
            && let Value::Object(fields) = value
            && schema.get("properties").is_some()
        {
            let event = fields.get("event");
            let kind = event.and_then(|event| branch_of(kinds, "event", event));
            return [Some(schema), kind]
                .into_iter()
                .flatten()
                .fold(false, |any, part| {
                    self.relax_object(part, fields, bytes) | any
                });
        }
        if let Some(branches) = schema.get("oneOf").and_then(Value::as_array) {
            let kind = value.get("kind");
            return kind
                .and_then(|kind| branch_of(branches, "kind", kind))
                .is_some_and(|branch| self.relax(branch, value, bytes));
        }
        match value {
            Value::Object(fields) => self.relax_object(schema, fields, bytes),
            Value::Array(items) => schema.get("items").is_some_and(|schema| {
                // `fold`, not `any`: every item must be converted, also after the first change.
                items
                    .iter_mut()
                    .fold(false, |any, item| self.relax(schema, item, bytes) | any)
            }),
            _ => match relaxed(schema, value, bytes) {
                Some(better) => {
                    *value = better;
                    true
                }
                None => false,
            },
        }
    }

    fn relax_object(
        &self,
        schema: &'a Value,
        fields: &mut Map<String, Value>,
        bytes: bool,
    ) -> bool {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").filter(|o| o.is_object());
        let mut any = false;
        if known.is_some_and(|k| k.contains_key("schema")) {
            any |= fields.remove("$schema").is_some();
        }
        for (name, value) in fields {
            if let Some(inner) = known.and_then(|k| k.get(name)).or(others) {
                any |= self.relax(inner, value, bytes || name.contains("bytes"));
            }
        }
        any
    }
}

fn relaxed(schema: &Value, value: &Value, bytes: bool) -> Option<Value> {
    let has = |name: &str| match schema.get("type") {
        Some(Value::String(found)) => found == name,
        Some(Value::Array(found)) => found.iter().any(|f| f == name),
        _ => false,
    };
    match value {
        Value::String(text) if bytes && (has("integer") || has("number")) && !has("string") => {
            Bytes::parse(text).ok().map(|size| size.get().into())
        }
        Value::Number(number) if has("integer") && !has("number") && !number.is_u64() => {
            let whole = number
                .as_f64()
                .filter(|v| v.fract() == 0.0 && (0.0..=MOST).contains(v));
            whole.map(|v| Value::from(v as u64))
        }
        _ => None,
    }
}
