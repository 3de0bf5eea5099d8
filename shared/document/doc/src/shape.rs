//! Finds every place where a value deviates from a JSON Schema.
//!
//! `serde` stops at the first deviation, but users want all of them. Only the keywords that this crate's schemas
//! use are supported: `$ref`, `anyOf` of types, `oneOf` of constants or of tagged objects, `type`, `properties`,
//! `required`, `additionalProperties`, `unevaluatedProperties`, `propertyNames`, `items`, `pattern`, `minimum`,
//! `maximum`, `exclusiveMinimum`, `exclusiveMaximum`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use regex::Regex;
use serde_json::{Map, Value};

use crate::wire::Wire;
use crate::{Checker, Code, Fault};

/// All deviations of a document from the shape of `W`, and from its ranges as far as its schema has them.
pub(crate) fn structural_faults<W: Wire>(bytes: &[u8]) -> Vec<Fault> {
    serde_json::from_slice(bytes).map_or_else(|_| Vec::new(), |value| faults::<W>(&value))
}

/// All deviations of a value.
pub(crate) fn faults<W: Wire>(value: &Value) -> Vec<Fault> {
    let root = W::schema();
    let mut checker = Checker::default();
    Shape { root }.compare(root, value, &mut checker);
    checker.into_faults()
}

/// Used by [`relaxed`] and [`structural_faults`] to walk a document alongside its schema.
pub(crate) struct Shape<'a> {
    root: &'a Value,
}

/// The document with lenient notations replaced by those of `W` (see [`crate::relax`]); `None` if it has no
/// lenient notation.
pub(crate) fn relaxed<W: Wire>(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut value = serde_json::from_slice::<Value>(bytes).ok()?;
    let root = W::schema();
    let changed = Shape { root }.relax(root, &mut value, false);
    changed.then(|| value.to_string().into_bytes())
}

impl<'a> Shape<'a> {
    pub(crate) fn resolve(&self, schema: &'a Value) -> &'a Value {
        let name = schema.get("$ref").and_then(Value::as_str);
        name.and_then(|name| self.root.get("$defs")?.get(name.strip_prefix("#/$defs/")?))
            .unwrap_or(schema)
    }

    fn compare(&self, schema: &'a Value, value: &Value, c: &mut Checker) {
        let schema = self.resolve(schema);
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            if !value.is_null() {
                self.any_of(branches, value, c);
            }
            return;
        }
        let branches = schema.get("oneOf").and_then(Value::as_array);
        if let Some(branches) = branches {
            if schema.get("properties").is_some() {
                self.event(schema, branches, value, c);
            } else {
                self.one_of(branches, value, c);
            }
            return;
        }
        for names in [schema.get("enum"), schema.get("const")]
            .into_iter()
            .flatten()
        {
            let names = names
                .as_array()
                .map_or(std::slice::from_ref(names), Vec::as_slice);
            one_of_names(names, value, c);
        }
        if !type_fits(schema, value) {
            let is_scalar = !value.is_array() && !value.is_object();
            let hint = if value.is_string() && c.is_about("bytes") {
                ", or a size such as \"24GB\" or \"512MiB\""
            } else if types(schema).contains(&"string") && is_scalar {
                // YAML and TOML read an unquoted 0.10 as a number, which loses its last digit.
                ": put it in quotes, as it is to be read"
            } else {
                ""
            };
            c.fault_of(Code::WrongType, || {
                let expected = expectation(schema);
                let problem = format!("{} is not {expected}", shortened(value));
                (problem, format!("give {expected}{hint}"))
            });
            return;
        }
        match value {
            Value::Object(fields) => self.object(schema, fields, c),
            Value::Number(_) | Value::String(_) => in_range(schema, value, c),
            Value::Array(items) => {
                if let Some(schema) = schema.get("items") {
                    for (i, item) in items.iter().enumerate() {
                        c.index(i, |c| self.compare(schema, item, c));
                    }
                }
            }
            _ => {}
        }
    }

    /// Checks a value that may have one of several types; null was checked earlier.
    fn any_of(&self, branches: &'a [Value], value: &Value, c: &mut Checker) {
        let is_null = |b: &&Value| b.get("type").and_then(Value::as_str) == Some("null");
        let branches: Vec<&Value> = branches
            .iter()
            .map(|b| self.resolve(b))
            .filter(|b| !is_null(b))
            .collect();
        let fits = branches.iter().find(|b| type_fits(b, value));
        match (branches.as_slice(), fits) {
            (_, Some(branch)) | ([branch], None) => self.compare(branch, value, c),
            (several, None) => {
                c.fault_of(Code::WrongType, || {
                    let kinds: Vec<String> = several.iter().map(|b| expectation(b)).collect();
                    let expected = kinds.join(" or ");
                    let problem = format!("{} is not {expected}", shortened(value));
                    (problem, format!("give {expected}"))
                });
            }
        }
    }

    fn one_of(&self, branches: &'a [Value], value: &Value, c: &mut Checker) {
        let constant = |b: &'a Value| b.get("const");
        if let Some(names) = branches.iter().map(constant).collect::<Option<Vec<_>>>() {
            let names: Vec<Value> = names.into_iter().cloned().collect();
            one_of_names(&names, value, c);
            return;
        }
        if let Some(branch) = tagged(branches, "kind", value, c) {
            self.compare(branch, value, c);
        }
    }

    /// Checks an event: fields of every event, and those of the kind that the field `event` names.
    fn event(&self, schema: &'a Value, kinds: &'a [Value], value: &Value, c: &mut Checker) {
        let Value::Object(fields) = value else {
            c.fault(
                Code::WrongType,
                format_args!("{} is not an object", shortened(value)),
                "give an object",
            );
            return;
        };
        let kind = if fields.contains_key("event") {
            tagged(kinds, "event", value, c)
        } else {
            c.fault(
                Code::MissingField,
                "the field \"event\" is missing",
                "add it",
            );
            None
        };
        let properties = |part: &'a Value| part.get("properties").and_then(Value::as_object);
        for (name, value) in fields.iter().filter(|(name, _)| *name != "event") {
            let has = |part: &'a Value| properties(part).and_then(|known| known.get(name));
            c.field(name, |c| match has(schema).or_else(|| kind.and_then(has)) {
                Some(inner) => self.compare(inner, value, c),
                None if kinds.iter().any(|kind| has(kind).is_some()) => {
                    if kind.is_some() {
                        c.fault(
                            Code::UnknownField,
                            "this event has no such field",
                            "leave it out",
                        );
                    }
                }
                None => {
                    let known = [Some(schema), kind]
                        .into_iter()
                        .flatten()
                        .filter_map(properties);
                    let problem = "this field is not known";
                    c.fault(Code::UnknownField, problem, unknown_advice(name, known));
                }
            });
        }
        missing(schema, fields, c);
        for name in kind
            .into_iter()
            .flat_map(required)
            .filter(|name| !fields.contains_key(*name))
        {
            c.field(name, |c| {
                c.fault(
                    Code::MissingField,
                    "this event needs this field",
                    "give the whole event",
                );
            });
        }
    }

    fn object(&self, schema: &'a Value, fields: &Map<String, Value>, c: &mut Checker) {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let names = schema.get("propertyNames");
        for (name, value) in fields {
            if let Some(names) = names {
                c.field(name, |c| in_range(names, &Value::from(name.as_str()), c));
            }
            let inner = known.and_then(|k| k.get(name));
            match (inner, others) {
                (Some(inner), _) => c.field(name, |c| self.compare(inner, value, c)),
                (None, Some(Value::Bool(false))) => c.field(name, |c| {
                    c.fault_of(Code::UnknownField, || {
                        let problem = "this field is not known".to_owned();
                        (problem, unknown_advice(name, known.into_iter()))
                    });
                }),
                (None, Some(inner)) => c.field(name, |c| self.compare(inner, value, c)),
                (None, None) => {}
            }
        }
        missing(schema, fields, c);
    }
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

fn missing(schema: &Value, fields: &Map<String, Value>, c: &mut Checker) {
    for name in required(schema).filter(|name| !fields.contains_key(*name)) {
        let problem = format_args!("the field {name:?} is missing");
        c.fault(Code::MissingField, problem, "add it");
    }
}

/// The branch whose field `tag` has the same constant as that of the value; a fault if there is none.
fn tagged<'a>(
    branches: &'a [Value],
    tag: &str,
    value: &Value,
    c: &mut Checker,
) -> Option<&'a Value> {
    let given = value.get(tag);
    let found = given.and_then(|given| branch_of(branches, tag, given));
    if found.is_none() {
        let names: Vec<Value> = branches
            .iter()
            .filter_map(|b| constant(b, tag))
            .cloned()
            .collect();
        c.field(tag, |c| {
            one_of_names(&names, given.unwrap_or(&Value::Null), c)
        });
    }
    found
}

/// The branch whose field `tag` has the constant `given`.
pub(crate) fn branch_of<'a>(branches: &'a [Value], tag: &str, given: &Value) -> Option<&'a Value> {
    branches.iter().find(|b| constant(b, tag) == Some(given))
}

fn constant<'a>(branch: &'a Value, tag: &str) -> Option<&'a Value> {
    branch.get("properties")?.get(tag)?.get("const")
}

/// Checks a number or a text against the range of its schema. The schema of a quantity has the name of the quantity
/// as its title, and the range in words as its description; other advice is a comment of the schema.
fn in_range(schema: &Value, value: &Value, c: &mut Checker) {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let least = bound("minimum");
    let above = bound("exclusiveMinimum");
    let most = bound("maximum");
    let below = bound("exclusiveMaximum");
    let fits = match value {
        Value::String(text) => schema
            .get("pattern")
            .and_then(Value::as_str)
            .is_none_or(|pattern| matches(pattern, text)),
        _ => value.as_f64().is_none_or(|v| {
            least.is_none_or(|least| v >= least)
                && above.is_none_or(|above| v > above)
                && most.is_none_or(|most| v <= most)
                && below.is_none_or(|below| v < below)
        }),
    };
    if fits {
        return;
    }
    c.fault_of(Code::OutOfRange, || {
        let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
        let value = match value.as_f64() {
            Some(number) if !value.is_u64() => units::shown(number),
            _ => shortened(value),
        };
        if let (Some(quantity), Some(range)) = (text("title"), text("description")) {
            return (
                format!("{value} is not a {quantity}"),
                format!("give {range}"),
            );
        }
        let ranges = [
            least.map(|v| format!("at least {v}")),
            above.map(|v| format!("above {v}")),
            most.map(|v| format!("at most {v}")),
            below.map(|v| format!("below {v}")),
        ];
        let range: Vec<String> = ranges.into_iter().flatten().collect();
        (
            format!("{value} is out of range"),
            text("$comment").map_or_else(
                || format!("give a number that is {}", range.join(" and ")),
                str::to_owned,
            ),
        )
    });
}

/// Whether a text matches a pattern of a schema. A pattern is compiled once: compiling takes longer than reading an
/// event.
fn matches(pattern: &str, text: &str) -> bool {
    static COMPILED: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = compiled.get(pattern) {
        return regex.is_match(text);
    }
    // Every pattern is one of this program's own.
    Regex::new(pattern).is_ok_and(|regex| {
        let fits = regex.is_match(text);
        compiled.insert(pattern.to_owned(), regex);
        fits
    })
}

/// Similarity (Jaro-Winkler) above which a known name is suggested. At 0.8, `batch_size`, `sample`,
/// `weigth` and `flops_per_samples` find their fields, and `epochs` and `name` find none.
const ALIKE: f64 = 0.8;

/// Advises the known field that was probably meant, or lists all known fields, so that a misspelt name can be
/// corrected at once.
fn unknown_advice<'a>(name: &str, known: impl Iterator<Item = &'a Map<String, Value>>) -> String {
    let known: Vec<&str> = known.flat_map(|k| k.keys().map(String::as_str)).collect();
    let likeness = |k: &str| strsim::jaro_winkler(k, name);
    let nearest = known
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    if let Some(meant) = nearest.filter(|meant| likeness(meant) >= ALIKE) {
        return format!("did you mean {meant:?}?");
    }
    format!("remove {name:?}, or use one of {}", known.join(", "))
}

fn one_of_names(names: &[Value], value: &Value, c: &mut Checker) {
    if names.contains(value) {
        return;
    }
    c.fault_of(Code::WrongType, || {
        let names: Vec<String> = names.iter().map(Value::to_string).collect();
        let problem = format!("{} is not known here", shortened(value));
        (problem, format!("give one of {}", names.join(", ")))
    });
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn type_fits(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    types.is_empty()
        || types.iter().any(|name| match *name {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "integer" => integer_fits(schema, value),
            _ => value.is_number(),
        })
}

fn integer_fits(schema: &Value, value: &Value) -> bool {
    match schema.get("format").and_then(Value::as_str) {
        Some("uint32") => value.as_u64().is_some_and(|v| u32::try_from(v).is_ok()),
        Some("int32") => value.as_i64().is_some_and(|v| i32::try_from(v).is_ok()),
        _ => value.is_u64(),
    }
}

fn expectation(schema: &Value) -> String {
    let words: Vec<&str> = types(schema)
        .into_iter()
        .filter(|name| *name != "null")
        .map(|name| match name {
            "array" => "a list",
            "object" => "an object",
            "string" => "a string",
            "boolean" => "true or false",
            "integer" if schema.get("format").and_then(Value::as_str) == Some("int32") => {
                "a whole number"
            }
            "integer" => "a whole number, 0 or more",
            _ => "a number",
        })
        .collect();
    words.join(" or ")
}

/// The start of a value as text: the value may be a whole document.
fn shortened(value: &Value) -> String {
    const KEEP: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(KEEP) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}
